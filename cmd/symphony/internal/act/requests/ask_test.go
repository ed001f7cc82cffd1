package requests

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Every question gets its answer, in the type and number that it allows.
func TestAnswersTo(t *testing.T) {
	colours := []reconcile.RequestOption{{Label: "Red"}, {Label: "Blue"}, {Label: "Red, white and blue"}}
	ask := func(questions ...reconcile.RequestQuestion) reconcile.Request {
		return reconcile.Request{
			Identifier: "ABC-1",
			Number:     1,
			Kind:       reconcile.QuestionRequest,
			Detail:     reconcile.RequestDetail{Questions: questions},
		}
	}
	several := ask(reconcile.RequestQuestion{ID: "c", Options: colours, Several: true})
	number := ask(reconcile.RequestQuestion{ID: "n", Text: "how much", Type: "number"})
	optional := reconcile.RequestQuestion{ID: "o", Optional: true}
	for _, c := range []struct {
		r       reconcile.Request
		texts   []string
		choices []int
		want    string // empty: refused
	}{
		{several, []string{"blue , RED"}, nil, "map[c:[Blue Red]]"},
		{several, []string{"red, white and blue"}, nil, "map[c:[Red, white and blue]]"},
		{several, []string{"red, green"}, nil, ""},
		{several, nil, []int{2}, "map[c:[Blue]]"},
		{ask(reconcile.RequestQuestion{ID: "c", Options: colours}), []string{"blue, red"}, nil, ""},
		{
			ask(reconcile.RequestQuestion{ID: "x"}, reconcile.RequestQuestion{ID: "x"}),
			[]string{"one", "two"},
			nil,
			"map[x:[one two]]",
		},
		{number, []string{"-0.5"}, nil, "map[n:[-0.5]]"},
		{number, []string{"NaN"}, nil, ""},
		{number, []string{"null"}, nil, ""},
		{number, []string{"a lot"}, nil, ""},
		{ask(optional, reconcile.RequestQuestion{ID: "x"}), []string{"", "one"}, nil, "map[x:[one]]"},
		{ask(optional), []string{" "}, nil, ""},
	} {
		got, err := AnswersTo(c.r, c.texts, c.choices)
		if (err != nil) != (c.want == "") || err == nil && fmt.Sprint(got.Answers) != c.want {
			t.Errorf(
				"%v %v to %+v: %v, %v; want %s",
				c.texts,
				c.choices,
				c.r.Detail.Questions,
				got.Answers,
				err,
				c.want,
			)
		}
	}
}

// An operator may type the number of an option; what else a question does not allow is
// refused.
func TestCheckAnswer(t *testing.T) {
	options := []reconcile.RequestOption{{Label: "Red"}, {Label: "Blue"}}
	for _, c := range []struct {
		q           reconcile.RequestQuestion
		typed, want string // want is empty if it is refused
	}{
		{reconcile.RequestQuestion{Options: options}, "2", "Blue"},
		{reconcile.RequestQuestion{Options: options}, "3", ""},
		{reconcile.RequestQuestion{Options: options}, "green", ""},
		{reconcile.RequestQuestion{Options: options, Other: true}, "green", "green"},
		{reconcile.RequestQuestion{}, "2", "2"},
		{reconcile.RequestQuestion{Type: "integer"}, "-3", "-3"},
		{reconcile.RequestQuestion{Type: "integer"}, "0.5", ""},
	} {
		got, err := CheckAnswer(reconcile.Request{}, c.q, c.typed)
		if (err != nil) != (c.want == "") || err == nil && got != c.want {
			t.Errorf("%q to %+v: %q, %v; want %q", c.typed, c.q, got, err, c.want)
		}
	}
	_, err := optionNumber(reconcile.Request{}, reconcile.RequestQuestion{}, 1)
	test.Contains(t, "a choice without options", fmt.Sprint(err), "has no options")
}

// A decision about a request that was removed meanwhile is refused.
func TestRecordOfRemovedRequest(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	db := test.Must(state.Create(t.Context(), dir, now))
	defer db.Close()
	p := &wiring.Project{Env: &environ.Env{Now: time.Now}, StateDir: dir}
	_, err := Record(t.Context(), p, db, reconcile.Request{
		IssueID: "1",
		Number:  1,
		RunID:   "r",
	}, Decision{How: reconcile.DecideDeny})
	test.Contains(t, "the error", fmt.Sprint(err), "request_not_found", "no longer exists")
}
