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

// Between taking the lock and writing down who took it a pass is known to nobody; what is not known is null.
func TestHolderThatIsNotKnown(t *testing.T) {
	r := Result{Holder: &state.Holder{}}
	got, err := json.Marshal(r.Json(false))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"holder":{"pid":null,"trigger":null,"since":null}`; !strings.Contains(string(got), want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
}

// Each thing is said once, and a full disk once for all that it stops.
func TestCondense(t *testing.T) {
	var r Result
	for _, e := range []reconcile.Error{
		{Code: "disk_full", Message: "a"},
		{Code: "tracker_error", Message: "a"},
		{Code: "disk_full", Message: "b"},
		{Code: "tracker_error", Message: "b"},
		{Code: "tracker_error", Message: "a"},
	} {
		r.fail(&e)
	}
	r.fail(errors.New("other"))
	r.condense()
	var got []string
	for _, e := range r.Errors {
		got = append(got, e.Error())
	}
	want := []string{"disk_full: a", "tracker_error: a", "tracker_error: b", "internal: other"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
