package requests

import (
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// Every question gets its answer, in the type and number that it allows.
func TestAnswersTo(t *testing.T) {
	colours := []reconcile.RequestOption{{Label: "Red"}, {Label: "Blue"}, {Label: "Red, white and blue"}}
	ask := func(questions ...reconcile.RequestQuestion) reconcile.Request {
		return reconcile.Request{Identifier: "ABC-1", Number: 1, Kind: reconcile.QuestionRequest, Detail: reconcile.RequestDetail{Questions: questions}}
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
		{ask(reconcile.RequestQuestion{ID: "x"}, reconcile.RequestQuestion{ID: "x"}), []string{"one", "two"}, nil, "map[x:[one two]]"},
		{number, []string{"-0.5"}, nil, "map[n:[-0.5]]"},
		{number, []string{"NaN"}, nil, ""},
		{number, []string{"null"}, nil, ""},
		{number, []string{"a lot"}, nil, ""},
		{ask(optional, reconcile.RequestQuestion{ID: "x"}), []string{"", "one"}, nil, "map[x:[one]]"},
		{ask(optional), []string{" "}, nil, ""},
	} {
		got, err := AnswersTo(c.r, c.texts, c.choices)
		if (err != nil) != (c.want == "") || err == nil && fmt.Sprint(got.Answers) != c.want {
			t.Errorf("%v %v to %+v: %v, %v; want %s", c.texts, c.choices, c.r.Detail.Questions, got.Answers, err, c.want)
		}
	}
}
