package pass

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

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
