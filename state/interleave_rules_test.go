package state

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// The rules in this file must hold in every schedule. They do not depend on the planner, but
// compare the rows before and after each step with what the processes did.

// storedAll is the database at one time.
type storedAll struct {
	changes  int // how many rows have ever been written
	paused   bool
	claims   map[string]reconcile.Claim
	runs     map[string]reconcile.Run
	commands map[int64]reconcile.Command
	totals   map[string]int64 // of settled runs by issue
}

func byKey[K comparable, V any](w *world, key func(V) K, fields func(*V) []any, query string) map[K]V {
	list, err := rows(tx{w.lab.sql, ctx}, fields, query)
	w.must(err)
	all := map[K]V{}
	for _, v := range list {
		all[key(v)] = v
	}
	return all
}

func (w *world) rowsNow() *storedAll {
	type total struct {
		issue string
		n     int64
	}
	changes, err := row(tx{w.lab.sql, ctx}, itself[int], `SELECT total_changes()`)
	w.must(err)
	if w.stored != nil && w.stored.changes == changes {
		return w.stored
	}
	paused, _, err := w.db.Meta(ctx, metaPaused)
	w.must(err)
	all := &storedAll{
		changes: changes, paused: paused != "",
		claims: byKey(
			w,
			func(c reconcile.Claim) string { return c.IssueID },
			claimFields,
			`SELECT `+claimColumns+` FROM claims`,
		),
		runs: byKey(
			w,
			func(r reconcile.Run) string { return r.ID },
			runFields,
			`SELECT `+runColumns+` FROM runs`,
		),
		commands: byKey(
			w,
			func(c reconcile.Command) int64 { return c.ID },
			commandFields,
			`SELECT `+commandColumns+` FROM commands`,
		),
		totals: map[string]int64{},
	}
	for issue, t := range byKey(w, func(t total) string { return t.issue }, func(t *total) []any {
		return []any{
			&t.issue,
			&t.n,
		}
	},
		`SELECT issue_id, total FROM issue_totals`) {
		all.totals[issue] = t.n
	}
	w.stored = all
	return all
}

// check returns an error for the rules that are broken now, or that the last step broke.
func (w *world) check() error {
	was := w.seen
	is := w.rowsNow()
	w.seen = is
	faults := w.wrong
	for id := range w.agents {
		if run := is.runs[id]; run.Outcome != "" {
			faults = append(faults, fmt.Sprintf("%s has ended (%s) and its agent lives on", id, run.Outcome))
		}
	}
	faults = append(faults, is.violations()...)
	if was != nil {
		faults = append(faults, w.stepViolations(was, is)...)
	}
	if len(faults) > 0 {
		return w.broken("%s", strings.Join(faults, "; "))
	}
	return nil
}

// violations checks the rules that hold at any time.
func (s *storedAll) violations() (faults []string) {
	sums := map[string]int64{}
	for id, run := range s.runs {
		claim := s.claims[run.IssueID]
		switch {
		case run.Settled:
			sums[run.IssueID] += run.Tokens.Total
		case claim.Status != reconcile.Running || claim.RunID != id:
			faults = append(faults, id+" is unsettled, but is not the run of its issue's claim")
		}
	}
	for id, claim := range s.claims {
		if run, found := s.runs[claim.RunID]; claim.Status == reconcile.Running && (!found || run.Settled) {
			faults = append(
				faults,
				"the claim of "+id+" is running, but its run is missing or settled: "+claim.RunID,
			)
		}
	}
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(s.totals, sums) {
		faults = append(faults, fmt.Sprintf("the total is %v, the settled runs used %v", s.totals, sums))
	}
	return faults
}

// stepViolations checks what one step, which is one transaction, has changed.
func (w *world) stepViolations(was, is *storedAll) (faults []string) {
	fault := func(broken bool, format string, args ...any) {
		if broken {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for id, old := range was.runs {
		now, found := is.runs[id]
		ended := old.Outcome != ""
		fault(!found, "run %s is gone", id)
		fault(ended && (now.Outcome != old.Outcome || now.ErrorCode != old.ErrorCode),
			"run %s had ended as %s and now as %s", id, old.Outcome, now.Outcome)
		fault(old.Settled && !now.Settled, "run %s was settled and no longer is", id)
		fault(now.Tokens.Total < old.Tokens.Total || ended && now.Tokens != old.Tokens,
			"run %s lost tokens, or used some after its end", id)
		fault(
			!ended && now.Outcome == reconcile.Lost && w.undisturbed,
			"run %s is lost although no process died",
			id,
		)
		fault(!ended && now.ErrorCode == reconcile.CodeSpawnFailed && old.Phase != reconcile.Starting,
			"run %s counts as never started, but was in phase %s", id, old.Phase)
	}
	given := func(verb reconcile.Verb, issue string) bool { // in this step
		for id, c := range was.commands {
			if _, left := is.commands[id]; !left && c.Verb == verb && c.IssueID == issue {
				return true
			}
		}
		return false
	}
	for id, old := range was.claims {
		now, found := is.claims[id]
		if !found {
			continue
		}
		ended := is.runs[old.RunID]
		retried := given(reconcile.VerbRetry, id)
		settled := ended.Settled && !was.runs[old.RunID].Settled
		held := now.Status == reconcile.Held
		wasHeld := old.Status == reconcile.Held
		changed := now.Version != old.Version+1 && !reflect.DeepEqual(now, old)
		fault(changed, "claim %s was changed without its version, or more than once", id)
		fault(now.Attempt < old.Attempt && (!settled || ended.Outcome != reconcile.Succeeded) && !retried,
			"claim %s went from attempt %d back to %d", id, old.Attempt, now.Attempt)
		fault(settled && ended.Outcome == reconcile.Lost && !held && now.Attempt != ended.Attempt+1,
			"claim %s has attempt %d after attempt %d was lost", id, now.Attempt, ended.Attempt)
		fault(wasHeld && old.HoldReason == reconcile.HoldOperator && !held && !retried,
			"claim %s was held by an operator and not retried", id)
		fault(
			old.HoldNext && !now.HoldNext && !held && !retried,
			"claim %s should be held after its run, but is not",
			id,
		)
		fault(
			!wasHeld && held && now.HoldReason == reconcile.HoldOperator && !old.HoldNext && !given(reconcile.VerbHold, id) &&
				!given(reconcile.VerbStop, id),
			"claim %s is held, but no operator asked for it",
			id,
		)
	}
	for id, c := range was.commands {
		_, left := is.commands[id]
		claim, claimed := is.claims[c.IssueID]
		fault(!left && !is.obeys(c.Verb, claim, claimed, claim.HoldNext && claim.Status == reconcile.Running),
			"%s was consumed without its effect", c.Verb)
	}
	return faults
}

// obeys reports whether a command has had its effect, or will have it when the issue's run
// ends.
func (s *storedAll) obeys(verb reconcile.Verb, claim reconcile.Claim, claimed, later bool) bool {
	held := claimed && claim.Status == reconcile.Held
	switch verb {
	case reconcile.VerbHold, reconcile.VerbStop:
		return held || later
	case reconcile.VerbRetry:
		return !held && !later
	case reconcile.VerbPause, reconcile.VerbStopAll:
		return s.paused
	default: // resume
	}
	return !s.paused
}

// finish runs two passes after all actors have ended, which must leave nothing undone. Of
// several commands about an issue or the project the last one stored decides. An issue that
// still needs work gets a run, unless it is held.
func (w *world) finish() error {
	w.conduct = conduct{tokens: 1}
	w.faults = 0
	if err := w.runLastPass(reconcile.Options{DispatchOff: true}); err != nil {
		return err
	}
	before := w.seen
	for id, run := range before.runs {
		if !run.Settled {
			return w.broken("%s is still not settled", id)
		}
	}
	if len(before.commands)+len(w.agents)+len(w.locks)+len(w.leases) > 0 {
		return w.broken("something is left: %v %v %v", w.agents, w.locks, w.leases)
	}
	last := map[string]reconcile.Verb{}
	for _, c := range w.given {
		last[c.IssueID] = c.Verb
	}
	for issue, verb := range last {
		claim, claimed := before.claims[issue]
		finished := modelPolicy.Terminal(w.issues[issue].State) // such an issue can't be held
		if !finished && !before.obeys(verb, claim, claimed, false) {
			return w.broken("the last command about %q was %s, but has no effect", issue, verb)
		}
	}
	if err := w.runLastPass(reconcile.Options{}); err != nil || before.paused {
		return err
	}
	count := func(s *storedAll, issue string) (n int) {
		for _, run := range s.runs {
			if run.IssueID == issue {
				n++
			}
		}
		return n
	}
	for id, issue := range w.issues {
		if modelPolicy.Active(issue.State) && before.claims[id].Status != reconcile.Held &&
			count(w.seen, id) == count(before, id) {
			return w.broken("%s gets no run, but is not held", id)
		}
	}
	return nil
}

// runLastPass runs one more pass, an hour later, and the actors that it starts to their ends,
// without faults.
func (w *world) runLastPass(options reconcile.Options) error {
	w.now = w.now.Add(time.Hour)
	w.enter("pass after all", pass(passKind{options: options}))
	for range 1000 {
		can, _ := w.split()
		if len(can) == 0 {
			return nil
		}
		w.take(can[0], proceed)
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.broken("no end")
}
