package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// checkClaims tries whether the remote takes the claims of a team, and looks for another machine with the
// name of this one. symphony machines lists the claims.
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
	list = namesakes(rows, t)
	if list == nil {
		return ok("the remote takes them; this machine is %s there", t.Name())
	}
	return list
}

// claimsOfOthers reports claims of other machines where this one takes none. names are references of the
// remote: without claims among them there is nothing to look at.
func claimsOfOthers(ctx context.Context, e *environment, names []string) (list []finding) {
	config := *e.config
	branch := strings.TrimPrefix(host.UsualClaimsBranch, "refs/heads/")
	isClaim := func(name string) bool { return strings.HasPrefix(name, host.ClaimRefs) }
	switch {
	case config.Repository.Claims.On:
		return nil
	case slices.Contains(names, host.UsualClaimsBranch):
		config.Repository.Claims.Branch = branch
	case !slices.ContainsFunc(names, isClaim):
		return nil
	}
	t, err := wiring.OpenClaims(ctx, e.p, &config)
	if err != nil {
		return failWith(err)
	}
	defer func() {
		if err := t.Close(ctx); err != nil {
			list = append(list, failWith(err)...)
		}
	}()
	listed, err := t.List(ctx)
	if err != nil {
		return failWith(err)
	}
	var others []string
	for _, l := range listed {
		c := l.Claim
		if c.Project == t.Project && c.Holder() != t.Name() && c.MayLive(t.Now()) {
			others = append(others, text.Visible(c.Holder()+" has "+c.Identifier))
		}
	}
	if others == nil {
		return nil
	}
	return warn(
		text.Short(strings.Join(others, ", "), mostSaid)+", and repository.claims is off here",
		"set repository.claims: true, so that this machine does not start the same issues",
	)
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
