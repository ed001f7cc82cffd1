package pass

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor/checktest"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Equal errors are kept once, a full disk once for all steps that it stops.
func TestDropRepeatedErrors(t *testing.T) {
	var r Result
	for _, e := range []reconcile.Error{
		{Code: "disk_full", Message: "a"},
		{Code: "tracker_error", Message: "a"},
		{Code: "disk_full", Message: "b"},
		{Code: "tracker_error", Message: "b"},
		{Code: "tracker_error", Message: "a"},
	} {
		r.addError(&e)
	}
	r.addError(errors.New("other"))
	r.dropRepeatedErrors()
	var got []string
	for _, e := range r.Errors {
		got = append(got, e.Error())
	}
	test.Equal(
		t,
		"the errors",
		got,
		[]string{"disk_full: a", "tracker_error: a", "tracker_error: b", "internal: other"},
	)
}

// The result about one of several issues has what the pass did about it, and no error of
// another issue.
func TestResultAboutAnIssue(t *testing.T) {
	act := func(id string, err error) reconcile.Applied {
		return reconcile.Applied{
			Action: reconcile.Action{Kind: reconcile.ActHold, IssueID: id},
			Err:    err,
		}
	}
	full := reconcile.NewError("disk_full", "no room", "")
	busy := reconcile.NewError("state_busy", "busy", "")
	var r Result
	r.Applied = []reconcile.Applied{act("a", full), act("b", full), act("b", busy), act("c", nil)}
	r.Errors = []*reconcile.Error{full, busy, reconcile.NewError("network", "no route", "")}
	for id, want := range map[string]string{
		"a": "1 [no room no route]",
		"b": "2 [no room busy no route]",
		"c": "1 [no route]",
	} {
		own := r.About(id)
		messages := text.Map(own.Errors, func(e *reconcile.Error) string { return e.Message })
		test.Equal(t, "the actions and errors about "+id, fmt.Sprint(len(own.Applied), " ", messages), want)
	}
}

// A run that an operator has stopped did not fail, and its sentence needs no code.
// An archived issue keeps its state, which would not be a reason.
func TestSentenceOfAnArchivedIssue(t *testing.T) {
	for kind, want := range map[reconcile.ActionKind]string{
		reconcile.ActStop:    "stopping WEB-1: it is archived",
		reconcile.ActRelease: "finished WEB-1: it is archived",
	} {
		a := reconcile.Applied{Action: reconcile.Action{
			Kind:       kind,
			Identifier: "WEB-1",
			Reason:     reconcile.StopInactive,
			State:      "In Progress",
			Archived:   true,
		}}
		test.Equal(t, string(kind), (narrator{}).action(a), want)
	}
}

// An agent that needs help is not held, and what ends that is no clearing of limits.
func TestSentencesOfAnAgentThatNeedsHelp(t *testing.T) {
	for reason, want := range map[string]string{
		reconcile.HoldNeedsHelp: "WEB-1 Prices needs help: Net or gross?",
		"answered":              "WEB-1 Prices goes on, because a person has answered its agent: it is due now",
	} {
		kind := reconcile.ActHold
		if reason == "answered" {
			kind = reconcile.ActRetry
		}
		a := reconcile.Applied{Action: reconcile.Action{
			Kind:       kind,
			Identifier: "WEB-1",
			Title:      "Prices",
			Reason:     reason,
			Message:    "Net or gross?",
		}}
		test.Equal(t, reason, (narrator{}).action(a), want)
	}
}

func TestStoppedRunSentence(t *testing.T) {
	for reason, want := range map[string]string{
		reconcile.StopAll:      "the run of WEB-1 was stopped by symphony stop --all",
		reconcile.StopOperator: "the run of WEB-1 was stopped by an operator",
	} {
		a := reconcile.Applied{Action: reconcile.Action{
			IssueID:   "1",
			Reason:    string(reconcile.Canceled),
			Message:   reconcile.StoppedText(reason),
			StoppedBy: reason,
			Change:    &reconcile.Change{},
		}}
		test.Equal(t, "it", (narrator{}).settled(a, "WEB-1"), want)
		by := strings.TrimPrefix(want, "the run of WEB-1 ")
		a.RunKind = reconcile.DeliveryRun
		test.Equal(t, "a delivery", (narrator{}).settled(a, "WEB-1"), "the delivery of the commits of WEB-1 "+by)
		a.RunKind = reconcile.CleanupRun
		test.Equal(t, "a removal", (narrator{}).settled(a, "WEB-1"), "the removal of the workspace of WEB-1 "+by)
	}
}

// A loop keeps its database open, until a backup has replaced it or a newer program has
// migrated it.
func TestLoopKeepsItsDatabase(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "state")
	var kept KeptDB
	defer kept.Close()
	open := func() *state.DB { return test.Must(kept.open(ctx, dir, time.Now())) }
	first := open()
	test.Equal(t, "the second pass opens the database again", open() != first, false)
	file := filepath.Join(dir, "state.db")
	copied := test.Must(os.ReadFile(file))
	test.OK(t, errors.Join(os.Remove(file+"-wal"), os.Remove(file), os.WriteFile(file, copied, 0o600)))
	second := open()
	test.Equal(t, "a pass writes to a database that was replaced", second == first, false)
	test.OK(t, second.SetMeta(ctx, "after", "the backup"))
	pool := test.Must(sql.Open("sqlite", file))
	test.Must(pool.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", second.Schema()+1)))
	test.OK(t, pool.Close())
	_, err := kept.open(ctx, dir, time.Now())
	newer, ok := errors.AsType[*reconcile.Error](err)
	test.Equal(t, "a pass refuses the database of a newer program", ok && newer.Code == "state_newer", true)
}

// A loop reports each failure, and a success unless it has just reported one.
func TestLoopReportsInMeasure(t *testing.T) {
	s := checktest.New(time.Minute, time.Minute, time.Now)
	defer s.Close()
	now := time.Now()
	p := &wiring.Project{Env: &environ.Env{Now: func() time.Time { return now }}}
	cfg := &workflow.Config{Monitor: workflow.Monitor{
		PingURL: workflow.Secret(s.URL),
		PingVar: "PING",
	}}
	o := Options{Trigger: wiring.TriggerLoop, Reported: new(time.Time)}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	for _, pass := range []struct {
		after time.Duration
		ctx   context.Context
		err   error
		pings string
	}{
		{0, t.Context(), nil, "success"},
		{time.Second, t.Context(), nil, ""},
		{time.Second, t.Context(), errors.New("disk full"), "fail"},
		{time.Second, t.Context(), nil, "success"},
		{time.Second, t.Context(), nil, ""},
		{reportPause, canceled, context.Canceled, "success"}, // the operator ends the loop
	} {
		now = now.Add(pass.after)
		before := len(s.Pings())
		m := &passMonitor{p: p, o: o}
		m.end(pass.ctx, Result{Config: cfg}, pass.err)
		var kinds []string
		for _, ping := range s.Pings()[before:] {
			kinds = append(kinds, ping.Kind)
		}
		test.Equal(t, fmt.Sprint(pass.err), strings.Join(kinds, " "), pass.pings)
	}
}
