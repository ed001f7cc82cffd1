package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestFindResults finds each kind of result, by each part of a filter.
func TestFindResults(t *testing.T) {
	db := newState(t)
	n := 0
	at := epoch
	issue := func(number int, title string, labels ...string) reconcile.Claim {
		c := claim(t, db, number)
		c.Issue.Title = title
		c.Issue.Labels = labels
		c.ClaimedAt = at
		return c
	}
	run := func(c reconcile.Claim, d reconcile.DeliveryResult, said string) {
		n++
		at = at.Add(time.Hour)
		ranFor(t, db, c, n, at, "m", reconcile.Succeeded)
		test.Must(
			db.sql.ExecContext(
				ctx,
				`UPDATE runs SET delivery = ?, activity = ? WHERE id = ?`,
				jsonOf(&d),
				said,
				runID(n),
			),
		)
	}
	release := func(c reconcile.Claim, reason string) {
		at = at.Add(time.Minute)
		test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{
			Claim:   &c,
			Delete:  true,
			Release: &reconcile.Release{Reason: reason, State: "Review"},
		}))
	}
	merged := issue(1, "Mend the gate", "bug", `odd "label"`)
	run(merged, reconcile.DeliveryResult{Commits: 2}, "first")
	release(merged, reconcile.StopInactive) // it comes back, and only its last handover is merged
	merged.ClaimedAt = at.Add(time.Second)
	merged = issue(1, "Mend the gate", "bug", `odd "label"`)
	run(merged, reconcile.DeliveryResult{
		Commits:  3,
		Handover: &reconcile.Handover{Summary: "The 100% gate\ncloses."},
	}, "later words")
	release(merged, reconcile.StopInactive)
	pull := reconcile.Pull{
		URL:    "https://example.com/pull/1",
		State:  reconcile.PullMerged,
		Checks: reconcile.Checks{State: reconcile.CheckSuccess},
	}
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Watch: &reconcile.Watch{
		IssueID: merged.IssueID,
		Pull:    pull,
	}}))
	second := at
	open := issue(2, "Paint the fence", "feature", "über")
	run(open, reconcile.DeliveryResult{}, "painted_it")
	release(open, reconcile.StopTerminal)
	other := issue(3, "Paint the door")
	run(other, reconcile.DeliveryResult{}, "")
	release(other, reconcile.StopLabel)
	held := issue(4, "Held work", "bug")
	run(held, reconcile.DeliveryResult{}, "I can't.")
	held.Status = reconcile.Held
	held.HoldReason = reconcile.HoldMaxFailures
	held.HoldMessage = "3 runs failed"
	held.HeldAt = at.Add(time.Minute)
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Claim: &held}))
	failed := issue(5, "Undelivered work", "bug")
	run(failed, reconcile.DeliveryResult{}, "")
	failed.Status = reconcile.Waiting
	failed.Kind = reconcile.DeliveryFailed
	failed.Delivery = reconcile.Delivery{
		Due:      true,
		Code:     "push_refused",
		Message:  "the branch is protected",
		FailedAt: at.Add(2 * time.Minute),
	}
	test.OK(t, db.Store.Commit(ctx, at, reconcile.Change{Claim: &failed}))

	all := test.Must(db.Views.FindResults(ctx, ResultFilter{Limit: 10}))
	test.Equal(t, "counts", all.Counts, map[string]int{
		ResultHandedOver:  3,
		ResultMerged:      1,
		ResultHeld:        1,
		ResultUndelivered: 1,
		ResultReleased:    1,
	})
	test.Equal(t, "labels", test.Must(db.Views.ResultLabels(ctx)), []string{"bug", "feature", `odd "label"`, "über"})
	codex := reconcile.Agent{Kind: "codex", Home: "/home/ann/.codex"}
	test.Must(db.sql.ExecContext(ctx, `UPDATE runs SET agent = ?, agent_home = ?`, codex.Kind, codex.Home))
	whole := test.Must(db.Views.FindResults(ctx, ResultFilter{Search: Search{Labels: []string{"bug"}}}))
	test.Equal(t, "uses of all that match, and no row", []int{len(whole.Uses), len(whole.List)}, []int{4, 0})
	for n, use := range whole.Uses {
		row := all.List[slices.IndexFunc(all.List, func(r Result) bool { return r.At.Equal(use.At) })]
		test.Equal(t, fmt.Sprint("use ", n), use, ResultUse{
			IssueID: row.IssueID,
			At:      row.At,
			Agent:   codex,
			Runtime: row.Runtime,
			Models:  row.Models,
		})
	}
	byText := func(texts ...string) ResultFilter {
		return ResultFilter{
			Search: Search{Texts: texts},
			Limit:  10,
		}
	}
	byLabel := func(labels ...string) ResultFilter {
		return ResultFilter{
			Search: Search{Labels: labels},
			Limit:  10,
		}
	}
	for _, c := range []struct {
		name   string
		filter ResultFilter
		want   []string // identifiers
	}{
		{
			"all, the latest first",
			ResultFilter{Limit: 10},
			[]string{"ABC-5", "ABC-4", "ABC-3", "ABC-2", "ABC-1", "ABC-1"},
		},
		{"a page", ResultFilter{From: 1, Limit: 2}, []string{"ABC-4", "ABC-3"}},
		{"after the end", ResultFilter{From: 9, Limit: 2}, nil},
		{"title, in any case", byText("PAINT THE"), []string{"ABC-3", "ABC-2"}},
		{"identifier or title", byText("abc-3", "gate"), []string{"ABC-3", "ABC-1", "ABC-1"}},
		{"last words", byText("gate\ncloses"), []string{"ABC-1"}},
		{"percent is no pattern", byText("100%"), []string{"ABC-1"}},
		{"nor is an underscore", byText("painted_"), []string{"ABC-2"}},
		{"an underscore for any character", byText("t_e"), nil},
		{"last words of a held issue", byText("I can't"), []string{"ABC-4"}},
		{"why it is held", byText("3 runs failed"), []string{"ABC-4"}},
		{"label", byLabel("Bug"), []string{"ABC-5", "ABC-4", "ABC-1", "ABC-1"}},
		{"part of a label", byLabel("feat"), nil},
		{"label of other letters", byLabel("ÜBER"), []string{"ABC-2"}},
		{"quoted label", byLabel(`odd "label"`), []string{"ABC-1", "ABC-1"}},
		{"merged", ResultFilter{Outcomes: []string{ResultMerged}, Limit: 10}, []string{"ABC-1"}},
		{"handed over", ResultFilter{
			Outcomes: []string{ResultHandedOver},
			Limit:    10,
		}, []string{"ABC-2", "ABC-1", "ABC-1"}},
		{"since", ResultFilter{
			Since:    second.Add(time.Second),
			Outcomes: []string{ResultHandedOver},
			Limit:    10,
		}, []string{"ABC-2"}},
		{"until", ResultFilter{Until: second, Limit: 10}, []string{"ABC-1"}},
	} {
		found := test.Must(db.Views.FindResults(ctx, c.filter))
		var names []string
		for _, r := range found.List {
			names = append(names, r.Identifier)
		}
		test.Equal(t, c.name, names, c.want)
	}
	r := all.List[4]
	test.Equal(t, "words, commits and labels", []any{r.Outcome, r.Words, r.Commits, r.Labels},
		[]any{ResultMerged, "The 100% gate\ncloses.", 3, []string{"bug", `odd "label"`}})
	test.Equal(t, "pull request", r.PullRequest.PullRequest, reconcile.PullRequest{
		URL:    pull.URL,
		State:  "merged",
		Checks: "passed",
	})
	test.Equal(
		t,
		"held",
		[]any{all.List[1].Reason, all.List[1].Message, all.List[1].Runs},
		[]any{reconcile.HoldMaxFailures, "3 runs failed", 1},
	)
	test.Equal(
		t,
		"undelivered",
		[]any{all.List[0].Reason, all.List[0].Message},
		[]any{"push_refused", "the branch is protected"},
	)
	for text, want := range map[string]int{"i can't": 1, "abc-": 6, "succeeded": 6, "nothing": 0} {
		runs := test.Must(db.Runs.Ended(ctx, nil, Search{Texts: []string{text}}, 9))
		test.Equal(t, "ended runs with "+text, len(runs), want)
	}
	for words, want := range map[string]int{
		"i can't abc-":      1,
		"abc- succeeded":    6,
		"succeeded nothing": 0,
	} {
		runs := test.Must(db.Runs.Ended(ctx, nil, Search{Words: strings.Fields(words)}, 9))
		test.Equal(t, "ended runs with all of "+words, len(runs), want)
	}
	runs := test.Must(
		db.Runs.Ended(ctx, []string{held.IssueID, open.IssueID}, Search{Labels: []string{"bug"}}, 9),
	)
	test.Equal(t, "ended runs of two issues with a label", len(runs), 1)
}

// An issue that was archived, or whose state is no longer active, is let go in the state that
// it had. Nobody handed it over.
func TestLetGoInItsState(t *testing.T) {
	db := newState(t)
	c := claim(t, db, 1)
	c.ClaimedAt = epoch
	c.Issue.State = "In Progress"
	ranFor(t, db, c, 1, epoch.Add(time.Hour), "m", reconcile.Succeeded)
	test.OK(t, db.Store.Commit(ctx, epoch.Add(2*time.Hour), reconcile.Change{
		Claim:   &c,
		Delete:  true,
		Release: &reconcile.Release{Reason: reconcile.StopInactive, State: "In Progress"},
	}))
	found := test.Must(db.Views.FindResults(ctx, ResultFilter{Limit: 10}))
	test.Equal(t, "results", found.Counts, map[string]int{ResultReleased: 1})
	list := test.Must(db.Views.Releases(ctx, c.IssueID, 1))
	test.Equal(t, "the release says so, too", list[0].HandedOver(), false)
}
