package pass

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Between taking the lock and writing the holder, the fields of the holder are unknown.
func TestUnknownHolderIsNull(t *testing.T) {
	r := Result{Holder: &state.Holder{}}
	got, err := json.Marshal(r.JSON(false))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"holder":{"pid":null,"trigger":null,"since":null}`; !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

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
