package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// This file states what must hold in every schedule. It does not use the plan, only the rows before and after a step and
// what the processes did.

// row is one line of the database in a common shape; dumpRows says what a to d and n are for each kind.
type dbRow struct {
	kind, id, a, b, c, d string
	n                    [4]int64
	rest                 string
}

const dumpRows = `
	SELECT 'claim', issue_id, status, run_id, hold_reason, '', version, attempt, hold_next, 0,
		json_array(kind, due_at, error_code, error_message, held_at, failures, idle_runs, runs, interruptions,
			token_base, issue, claimed_at) FROM claims
	UNION ALL SELECT 'run', id, phase, coalesce(outcome, ''), issue_id, error_code, settled, tokens_total, attempt,
		turns_done, json_array(stop_reason, reap_tries, thread_id, worker_pid, beats, handoff_state) FROM runs
	UNION ALL SELECT 'command', id, verb, issue_id, '', '', 0, 0, 0, 0, '' FROM commands
	UNION ALL SELECT 'meta', key, value, '', '', '', 0, 0, 0, 0, '' FROM meta WHERE key <> 'created_at'
	UNION ALL SELECT 'thread', thread_id, run_id, issue_id, '', '', total, base_total, 0, 0, '' FROM threads
	UNION ALL SELECT 'total', issue_id, '', '', '', '', total, 0, 0, 0, '' FROM issue_totals
	ORDER BY 1, 2`

// rows is the whole database at one time.
type dbRows struct {
	all  []dbRow
	text string
}

// rowsNow reads the database if it has changed.
func (m *model) rowsNow() *dbRows {
	if !m.dirty {
		return m.rows
	}
	all, err := rows(tx{m.lab.sql, context.Background()}, func(r *dbRow) []any {
		return []any{&r.kind, &r.id, &r.a, &r.b, &r.c, &r.d, &r.n[0], &r.n[1], &r.n[2], &r.n[3], &r.rest}
	}, dumpRows)
	if err != nil {
		panic(err)
	}
	m.rows, m.dirty = &dbRows{all: all}, false
	m.rows.text = strings.Join(m.rows.lines(), "\n")
	return m.rows
}

func (r *dbRows) lines() []string {
	var lines []string
	for _, one := range r.all {
		lines = append(lines, fmt.Sprint(one))
	}
	return lines
}

func (r *dbRows) find(kind, id string) dbRow {
	for _, one := range r.all {
		if one.kind == kind && one.id == id {
			return one
		}
	}
	return dbRow{}
}

func (r *dbRows) run(id string) dbRow    { return r.find("run", id) }
func (r *dbRows) claim(id string) dbRow  { return r.find("claim", id) }
func (r *dbRows) meta(key string) string { return r.find("meta", key).a }

func (r *dbRows) of(kind string) []dbRow {
	return slices.DeleteFunc(slices.Clone(r.all), func(one dbRow) bool { return one.kind != kind })
}

// look compares the world with the one before the last step, and reports the first rule that is broken.
func (s *schedule) look() error {
	was, is := s.seen, s.rowsNow()
	s.seen = is
	if len(s.wrong) > 0 {
		return s.broken("%s", strings.Join(s.wrong, "; "))
	}
	for id := range s.agents {
		if run := is.run(id); run.b != "" {
			return s.broken("%s has ended (%s) and its agent lives", id, run.b)
		}
	}
	if was == is {
		return nil
	}
	if fault := standing(is); fault != "" {
		return s.broken("%s", fault)
	}
	if was == nil {
		return nil
	}
	if fault := s.moved(was, is); fault != "" {
		return s.broken("%s", fault)
	}
	return nil
}

// standing checks the rules that hold at any time.
func standing(is *dbRows) string {
	sums, all := map[string]int64{}, int64(0)
	for _, run := range is.of("run") {
		settled := run.n[0] == 1
		claim := is.claim(run.c)
		switch {
		case settled && run.b == "":
			return run.id + " is settled without an outcome"
		case !settled && (claim.a != "running" || claim.b != run.id):
			return run.id + " is unsettled and its issue's claim does not name it"
		}
		if settled {
			sums[run.c] += run.n[1]
			all += run.n[1]
		}
	}
	for _, claim := range is.of("claim") {
		if claim.a == "running" && (is.run(claim.b).id == "" || is.run(claim.b).n[0] == 1) {
			return "the claim of " + claim.id + " is running, and its run is none that runs: " + claim.b
		}
	}
	for _, total := range is.of("total") {
		if total.n[0] != sums[total.id] {
			return fmt.Sprintf("the total of %s is %d, its settled runs used %d", total.id, total.n[0], sums[total.id])
		}
	}
	if got := is.meta("totals_total"); got != fmt.Sprint(all) {
		return fmt.Sprintf("the project's total is %s, all settled runs used %d", got, all)
	}
	return ""
}

// moved checks what one step, which is one transaction, may change.
func (s *schedule) moved(was, is *dbRows) string {
	for _, old := range was.all {
		now := is.find(old.kind, old.id)
		fault := ""
		switch old.kind {
		case "run":
			fault = s.runMoved(old, now)
		case "claim":
			fault = claimMoved(old, now, was, is)
		case "command":
			fault = commandTaken(old, now, was, is)
		case "thread", "total":
			if now.n[0] < old.n[0] {
				fault = "counts less than before"
			}
		}
		if fault != "" {
			return old.kind + " " + old.id + " " + fault
		}
	}
	return ""
}

func (s *schedule) runMoved(old, now dbRow) string {
	switch {
	case now.id == "":
		return "is gone"
	case old.b != "" && now.b != old.b || old.b != "" && now.d != old.d:
		return fmt.Sprintf("had ended as %s %s and now as %s %s", old.b, old.d, now.b, now.d)
	case old.n[0] > now.n[0]:
		return "was settled and is no more"
	case old.n[1] > now.n[1]:
		return "has lost tokens"
	case old.b != "" && old.n[1] != now.n[1]:
		return "has ended and still used tokens"
	case old.b == "" && now.b == string(reconcile.Lost) && s.calm:
		return "is lost although no process died"
	case old.b == "" && now.d == reconcile.CodeSpawnFailed && old.a != string(reconcile.Starting):
		return "counts as never started, and was in phase " + old.a
	}
	return ""
}

func claimMoved(old, now dbRow, was, is *dbRows) string {
	given := func(verb string) bool { return taken(was, is, verb, old.id) }
	ended := is.run(old.b) // the run it named
	settled := was.run(old.b).n[0] == 0 && ended.n[0] == 1
	switch {
	case now.id == "":
		return ""
	case now.n[0] != old.n[0]+1 && now != old:
		return "was changed without its version, or twice"
	case now.n[1] < old.n[1] && (!settled || ended.b != string(reconcile.Succeeded)) && !given("retry"):
		return fmt.Sprintf("went from attempt %d back to %d", old.n[1], now.n[1])
	case settled && ended.b == string(reconcile.Lost) && now.a != "held" && now.n[1] != ended.n[2]+1:
		return fmt.Sprintf("has attempt %d after attempt %d was lost", now.n[1], ended.n[2])
	case old.a == "held" && old.c == reconcile.HoldOperator && now.a != "held" && !given("retry"):
		return "was held by an operator and not retried"
	case old.n[2] == 1 && now.n[2] == 0 && now.a != "held" && !given("retry"):
		return "was to be held after its run, and is not"
	case old.a != "held" && now.a == "held" && now.c == reconcile.HoldOperator && old.n[2] == 0 && !given("hold") && !given("stop"):
		return "is held, and no operator asked for it"
	}
	return ""
}

// taken reports whether a command of that kind about the issue was consumed in the step.
func taken(was, is *dbRows, verb, issue string) bool {
	return slices.ContainsFunc(was.of("command"), func(c dbRow) bool {
		return c.a == verb && c.b == issue && is.find("command", c.id).id == ""
	})
}

// commandTaken checks that a command is consumed in the transaction that carries it out.
func commandTaken(old, now dbRow, _, is *dbRows) string {
	if now.id != "" {
		return ""
	}
	claim := is.claim(old.b)
	done := true
	switch reconcile.Verb(old.a) {
	case reconcile.VerbHold, reconcile.VerbStop:
		done = claim.a == "held" || claim.a == "running" && claim.n[2] == 1
	case reconcile.VerbRetry:
		done = claim.id == "" || claim.a != "held" && claim.n[2] == 0
	case reconcile.VerbPause, reconcile.VerbStopAll:
		done = is.meta(metaPaused) == "1"
	case reconcile.VerbResume:
		done = is.meta(metaPaused) == ""
	}
	if !done {
		return old.a + " is gone without its effect"
	}
	return ""
}

// alone runs one actor, and the actors that it starts, to the end without interference.
func (s *schedule) alone(name string, body func(*actor)) error {
	s.faults = 0
	s.enter(name, body)
	for range 1000 {
		all := s.choices()
		if len(all) == 0 {
			return nil
		}
		s.take(all[0])
		if err := s.look(); err != nil {
			return err
		}
	}
	return s.broken("no end")
}

// settleDown runs passes when all other actors are gone: they must leave nothing undone.
func (s *schedule) settleDown() error {
	s.conduct = conduct{tokens: 1, brief: true}
	s.now = s.now.Add(time.Hour)
	quiet := passKind{options: reconcile.Options{DispatchOff: true}}
	if err := s.alone("pass after all", pass(quiet)); err != nil {
		return err
	}
	if err := s.finished("one pass"); err != nil {
		return err
	}
	if fault := s.obeyed(); fault != "" {
		return s.broken("%s", fault)
	}
	before := s.rowsNow()
	s.now = s.now.Add(time.Hour)
	if err := s.alone("pass that starts", pass(passKind{})); err != nil {
		return err
	}
	return s.wentOn(before)
}

// finished checks that nothing is left to do but the next dispatch.
func (s *schedule) finished(when string) error {
	is := s.rowsNow()
	for _, run := range is.of("run") {
		if run.n[0] == 0 {
			return s.broken("after %s %s is still not settled", when, run.id)
		}
	}
	if left := is.of("command"); len(left) > 0 {
		return s.broken("after %s a command is still queued: %v", when, left)
	}
	if len(s.agents)+len(s.locks)+len(s.leases) > 0 {
		return s.broken("after %s something is left: %v %v %v", when, s.agents, s.locks, s.leases)
	}
	return nil
}

// obeyed checks that of the commands about a thing, in the order in which they were stored, the last decides.
func (s *schedule) obeyed() string {
	is, last := s.rowsNow(), map[string]reconcile.Verb{}
	for _, c := range s.given {
		last[c.IssueID] = c.Verb
	}
	for issue, verb := range last {
		claim := is.claim(issue)
		if modelPolicy.Terminal(s.issues[issue].State) {
			continue // a finished issue can't be held
		}
		ok := true
		switch verb {
		case reconcile.VerbHold, reconcile.VerbStop:
			ok = claim.a == "held" && claim.c == reconcile.HoldOperator
		case reconcile.VerbRetry:
			ok = claim.a != "held"
		case reconcile.VerbPause, reconcile.VerbStopAll:
			ok = is.meta(metaPaused) == "1"
		case reconcile.VerbResume:
			ok = is.meta(metaPaused) == ""
		}
		if !ok {
			return fmt.Sprintf("the last command about %q was %s, and that is not how it stands", issue, verb)
		}
	}
	return ""
}

// wentOn checks that an issue that still needs work got a run from the pass, unless an operator holds it.
func (s *schedule) wentOn(before *dbRows) error {
	is := s.rowsNow()
	if is.meta(metaPaused) == "1" {
		return nil
	}
	for id, issue := range s.issues {
		if !modelPolicy.Active(issue.State) || before.claim(id).a == "held" {
			continue
		}
		runs := func(r *dbRows) int {
			return len(slices.DeleteFunc(r.of("run"), func(run dbRow) bool { return run.c != id }))
		}
		if runs(is) == runs(before) {
			return s.broken("%s has no run any more, and nothing holds it", id)
		}
	}
	return nil
}
