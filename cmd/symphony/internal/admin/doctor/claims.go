package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// unheard is after how much time without a renewal of any of its claims a machine is named, or after
// its longest term if that is longer. Half a term passes between two renewals.
const unheard = 24 * time.Hour

// checkClaims tries whether the remote takes the claims of a team, and looks for machines that are gone
// and for another machine with the name of this one.
func checkClaims(ctx context.Context, e *environment) (list []finding) {
	if !e.config.Repository.Claims.On || e.lacks(ctx, "git") {
		return nil
	}
	t, err := wiring.OpenTeam(ctx, e.p)
	if err != nil {
		return failWith(err)
	}
	defer func() {
		if err := t.Close(ctx); err != nil {
			list = append(list, failWith(err)...)
		}
	}()
	if err := t.Try(ctx); err != nil {
		return failWith(err)
	}
	rows, err := claims.RowsOf(ctx, t)
	if err != nil {
		return failWith(err)
	}
	list = slices.Concat(unheardMachines(rows, t.Now()), namesakes(rows, t), foreignContents(rows))
	if list == nil {
		return ok("the remote takes them; this machine is %s there", t.Name())
	}
	return list
}

// unheardMachines names the machines that have renewed none of their claims for a day.
func unheardMachines(rows []claims.TeamRow, now time.Time) (list []finding) {
	for _, holder := range holders(rows) {
		var last time.Time
		quiet := unheard
		var issues []string
		for _, r := range rows {
			if r.Status == claims.Unreadable || r.IsFree() || r.Holder() != holder {
				continue
			}
			issues = append(issues, r.Name())
			quiet = max(quiet, time.Duration(r.TermMS)*time.Millisecond)
			if r.RenewedAt != nil && r.RenewedAt.After(last) {
				last = *r.RenewedAt
			}
		}
		if now.Sub(last) < quiet {
			continue
		}
		list = append(list, warn(
			fmt.Sprintf("%s has renewed no claim for %s, and has %s",
				holder, text.Age(now, last), text.Short(strings.Join(issues, ", "), mostSaid)),
			"another machine takes them once they have ended; if that one never comes back, "+
				"symphony machines --release ISSUE gives an issue back at once",
		)...)
	}
	return list
}

// holders are the machines with claims, each once.
func holders(rows []claims.TeamRow) (names []string) {
	for _, r := range rows {
		if r.Status != claims.Unreadable && !r.IsFree() && !slices.Contains(names, r.Holder()) {
			names = append(names, r.Holder())
		}
	}
	return names
}

// namesakes reports claims in the name of this machine and account that it did not make. Which machine
// made them is not known: a claim has no more than the name.
func namesakes(rows []claims.TeamRow, t *wiring.TeamCommand) []finding {
	var issues []string
	for _, r := range rows {
		isNamesake := r.Machine == t.Machine && r.Account == t.Account && r.Project == t.Project
		if isNamesake && !r.Ours && !r.IsFree() {
			issues = append(issues, r.Name())
		}
	}
	if issues == nil {
		return nil
	}
	return warn(
		fmt.Sprintf("claims in the name of this machine (%s) that this state directory did not make: %s",
			t.Name(), text.Short(strings.Join(issues, ", "), mostSaid)),
		"if another machine has the same name, set "+wiring.MachineVar+" on one of them; if the state of this "+
			"machine was lost, symphony machines --release ISSUE gives an issue back",
	)
}

// foreignContents reports what is in the place of a claim and is none.
func foreignContents(rows []claims.TeamRow) (list []finding) {
	for _, r := range rows {
		isTrial := strings.HasPrefix(r.Key, host.TrialClaim) // of this command on another machine
		if r.Status == claims.Unreadable && !isTrial {
			list = append(list, warn(
				"the remote has something else in the place of the claim "+r.Key+": "+r.Message,
				"symphony machines --release "+r.Key+" deletes it",
			)...)
		}
	}
	return list
}
