// Package claims describes the claims of issues in the git remote that the machines of a team share.
package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// Unreadable is the status of a row whose content is no claim of symphony.
const Unreadable = "unreadable"

// TeamRow is a claim of a machine.
type TeamRow struct {
	// Key names the claim in the remote, such as 3f2a9c1b04de55aa10c7.
	Key string `json:"key"`
	// These are empty, null or 0 if the content is no claim of symphony; message says why it is none.
	IssueID     string     `json:"issue_id"`
	Identifier  string     `json:"issue_identifier"`
	Project     string     `json:"tracker_project"`
	Machine     string     `json:"machine"`
	Account     string     `json:"account"`
	Status      string     `json:"status"`     // working, watching, free, or unreadable
	Since       *time.Time `json:"since"`      // by the holder's clock
	RenewedAt   *time.Time `json:"renewed_at"` // by the holder's clock
	TermMS      int64      `json:"term_ms"`
	Branch      string     `json:"branch"`
	Commit      string     `json:"commit"`
	PullRequest string     `json:"pull_request"`
	// Ours: this machine has the claim.
	Ours bool `json:"ours"`
	// Until is when the claim ends unless its holder renews it, by the clock of this machine. A claim
	// that this machine has not seen before is counted from now.
	Until   time.Time `json:"until"`
	Ended   bool      `json:"ended"`
	Message string    `json:"message"`

	entry team.Entry
}

// Rows looks at the remote once, and returns its claims: first those of issues of this project, in the
// order of the issues, then the others.
func Rows(ctx context.Context, p *wiring.Project) (rows []TeamRow, err error) {
	t, err := wiring.OpenTeam(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close(ctx)) }()
	return RowsOf(ctx, t)
}

// RowsOf is Rows of an open team.
func RowsOf(ctx context.Context, t *wiring.TeamCommand) ([]TeamRow, error) {
	listed, err := t.List(ctx)
	if err != nil {
		return nil, err
	}
	return sorted(listed, t.Project, t.Now()), nil
}

// Stored returns what other machines have claimed, as this one saw it last, without a request; nil if
// repository.claims is off.
func Stored(ctx context.Context, p *wiring.Project, cfg *workflow.Config, db *state.DB) ([]TeamRow, error) {
	t, err := wiring.NewTeamOfPass(p, cfg, db)
	if err != nil || t == nil {
		return nil, err
	}
	listed, err := t.Stored(ctx)
	if err != nil {
		return nil, err
	}
	rows := sorted(listed, cfg.Policy.Project, p.Env.Now())
	return slices.DeleteFunc(rows, TeamRow.IsFree), nil
}

func sorted(listed []team.Listed, project string, now time.Time) []TeamRow {
	rows := text.Map(listed, func(l team.Listed) TeamRow { return newRow(l, now) })
	isOther := func(r TeamRow) int {
		if r.Project == project {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b TeamRow) int {
		return cmp.Or(cmp.Compare(isOther(a), isOther(b)), text.CompareNatural(a.Identifier, b.Identifier))
	})
	return rows
}

func newRow(l team.Listed, now time.Time) TeamRow {
	r := TeamRow{
		Key:   l.Key,
		Ours:  l.IsOurs,
		Until: l.Until.UTC(),
		Ended: l.Ended(now),
		entry: l.Entry,
	}
	if l.Problem != nil {
		r.Status = Unreadable
		r.Message = l.Problem.Error()
		return r
	}
	c := l.Claim
	r.IssueID = c.IssueID
	r.Identifier = c.Identifier
	r.Project = c.Project
	r.Machine = c.Machine
	r.Account = c.Account
	r.Status = string(c.Status)
	r.Since = text.OrNull(c.Since)
	r.RenewedAt = text.OrNull(c.Renewed)
	r.TermMS = c.TermMS
	r.Branch = c.Branch
	r.Commit = c.Commit
	r.PullRequest = c.PullRequest
	return r
}

// Name is the issue for people: the identifier, or the key of what is no claim.
func (r TeamRow) Name() string { return cmp.Or(r.Identifier, r.Key) }

// IsFree reports whether no machine works on the issue, so that any may take it at once.
func (r TeamRow) IsFree() bool { return r.Status == string(team.Free) }

// Holder names who has the claim, such as "ann on buildhost-2".
func (r TeamRow) Holder() string {
	switch {
	case r.Status == Unreadable:
		return "nobody that can be told"
	case r.IsFree():
		return "nobody"
	}
	return team.Claim{Machine: r.Machine, Account: r.Account}.Holder()
}

// Find returns the claim of an issue, given by its identifier, its id or the key of the claim.
func Find(rows []TeamRow, ref, project string) (TeamRow, error) {
	isNamed := func(r TeamRow) bool {
		return ref == r.Key || ref == r.IssueID || r.Identifier != "" && strings.EqualFold(ref, r.Identifier)
	}
	found := text.Filter(rows, isNamed)
	if len(found) > 1 {
		ofProject := text.Filter(found, func(r TeamRow) bool { return r.Project == project || r.Key == ref })
		if len(ofProject) > 0 {
			found = ofProject
		}
	}
	switch len(found) {
	case 0:
		return TeamRow{}, reconcile.NewError(
			"not_found",
			"the remote has no claim of "+ref,
			"symphony machines lists what it has",
		)
	case 1:
		return found[0], nil
	}
	keys := text.Map(found, func(r TeamRow) string { return r.Key })
	return TeamRow{}, reconcile.NewError(
		"ambiguous",
		fmt.Sprintf("%s is claimed in several projects", ref),
		"name a key instead: "+strings.Join(keys, ", "),
	)
}

// Release lets any machine take the claim, if it is still the same.
func (r TeamRow) Release(ctx context.Context, t *wiring.TeamCommand) error {
	return t.Release(ctx, r.entry)
}

// Effect says what happens if the claim is released.
func (r TeamRow) Effect(now time.Time) []string {
	name := r.Name()
	switch {
	case r.Status == Unreadable:
		return []string{"the remote has something else in the place of the claim " + r.Key + ": " + r.Message}
	case r.IsFree():
		return []string{"nobody works on " + name + ", and any machine may take its claim at once"}
	}
	lines := []string{r.Holder() + " has the claim of " + name + ": " + r.does(now)}
	if r.Ended {
		return lines
	}
	half := time.Duration(r.TermMS) * time.Millisecond / 2
	return append(lines,
		"if it lives, it takes the claim again within "+text.Duration(half)+", unless another machine starts "+name+" first",
		"if another one does, its run there ends, and commits that were not pushed stay in its workspace",
	)
}

// does says what the holder does, and when it said so last.
func (r TeamRow) does(now time.Time) string {
	does := "works on it"
	if r.Status == string(team.Watching) {
		does = "waits for its review"
	}
	if r.RenewedAt == nil {
		return does
	}
	return fmt.Sprintf("%s, and renewed it %s ago", does, text.Age(now, *r.RenewedAt))
}
