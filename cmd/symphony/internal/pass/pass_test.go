package pass

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
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
	want := []string{"disk_full: a", "tracker_error: a", "tracker_error: b", "internal: other"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A pass that could not be recorded, because the database was busy for instance, has no number.
func TestPassNotRecorded(t *testing.T) {
	var out strings.Builder
	w := &term.Env{Stdout: &out, Now: time.Now, Verbose: true}
	ReportActions(&project.Project{Env: w}, Result{})
	if want := "pass not recorded: 0 running, 0 waiting, 0 held, 0 skipped\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if id := (Result{}).JSON().Pass.ID; id != nil {
		t.Errorf("its id is %d", *id)
	}
}

// A run that an operator has stopped did not fail, and its sentence needs no code.
func TestStoppedRunSentence(t *testing.T) {
	for reason, want := range map[string]string{
		reconcile.StopAll:      "the run of WEB-1 was stopped by symphony stop --all",
		reconcile.StopOperator: "the run of WEB-1 was stopped by an operator",
	} {
		a := reconcile.Applied{Action: reconcile.Action{Reason: string(reconcile.Canceled), Message: "stopped: " + reason, Change: &reconcile.Change{}}}
		if got := (narrator{w: &term.Env{}}).settled(a, "WEB-1"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
