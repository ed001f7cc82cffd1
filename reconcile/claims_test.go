package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Another machine has taken the issues: their runs are stopped, and their claims released, whatever
// they wait for.
func TestLostClaims(t *testing.T) {
	s := newScene().
		running(issueNo(1), nil).
		claim(issueNo(2), nil).
		held(issueNo(3), HoldOperator).
		claim(issueNo(4), func(c *Claim) { c.Delivery.Due = true }).
		claim(issueNo(5), nil)
	s.Claimed.Taken = map[string]string{}
	for i := 1; i <= 4; i++ {
		s.Claimed.Taken[issueNo(i).ID] = "ann on buildhost works on it"
	}
	p := compute(s.Snapshot)
	equal(t, "plan", story(p.plan),
		"stop A-1 claim_lost; release A-2 claim_lost; release A-3 claim_lost; release A-4 claim_lost")
	var lost []string
	for _, a := range p.plan.Actions {
		if a.Change != nil && a.Change.ForgetWork != "" {
			lost = append(lost, a.Change.ForgetWork)
		}
	}
	equal(t, "issues that are lost", strings.Join(lost, " "), "id-1 id-2 id-3 id-4")
}

// rivals are others who have issues. A pass learns of the issues in has only when it takes them, and of
// those in refused at its beginning.
type rivals struct {
	refused map[string]string
	has     map[string]string
	refuses map[string]bool
	err     error
	asked   []string
}

func (r *rivals) Known(context.Context) (Claimed, error) {
	return Claimed{Refused: r.refused}, nil
}

func (r *rivals) Take(_ context.Context, issues []Issue, dryRun bool) (NotTaken, error) {
	var names []string
	for _, i := range issues {
		names = append(names, i.Identifier)
	}
	r.asked = append(r.asked, fmt.Sprint(strings.Join(names, " "), " ", dryRun))
	not := NotTaken{Elsewhere: map[string]string{}, Refused: map[string]error{}}
	for _, i := range issues {
		if r.has[i.Identifier] != "" {
			not.Elsewhere[i.ID] = r.has[i.Identifier]
		}
		if r.refuses[i.Identifier] {
			not.Refused[i.ID] = NewError("claims_refused", "no "+i.Identifier, "")
		}
	}
	return not, r.err
}

func (r *rivals) Release() { r.asked = append(r.asked, "release") }

func (r *rivals) Settle(context.Context, *Tracked) error {
	r.asked = append(r.asked, "settle")
	return nil
}

// What a pass has got is started, although the issues beside it were refused until it gave up.
func TestTakeBesideRefusals(t *testing.T) {
	s := newScene()
	s.Policy.MaxConcurrent = 2
	w := worldOf(s.Snapshot)
	r := rivals{refuses: map[string]bool{}}
	for i := 1; i <= 7; i++ {
		w.issues[issueNo(i).ID] = issueNo(i)
		r.refuses[issueNo(i).Identifier] = i != 1
	}
	deps := w.deps(s.Policy)
	deps.Claims = []IssueClaims{&r}
	report := Tick(t.Context(), deps, Options{})
	equal(t, "applied", w.story(report), "dispatch A-1; skip A-2 claims_refused; skip A-3 claims_refused; "+
		"skip A-4 claims_refused; skip A-5 claims_refused; skip A-6 elsewhere; skip A-7 elsewhere")
	equal(t, "errors", len(report.Errors), 0)
}

// A pass goes beyond the issues whose claims were refused lately. If there are no others, it says why it
// starts nothing, and tries nothing.
func TestTakeAfterRefusals(t *testing.T) {
	for _, row := range []struct {
		name   string
		issues int
		story  string
		asked  string
		errors string
	}{
		{"another one", 3, "dispatch A-3; skip A-1 claims_refused; skip A-2 claims_refused", "A-3 false", ""},
		{"no other", 2, "", "", "claims_refused"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene()
			s.Policy.MaxConcurrent = 1
			w := worldOf(s.Snapshot)
			for i := 1; i <= row.issues; i++ {
				w.issues[issueNo(i).ID] = issueNo(i)
			}
			r := rivals{refused: map[string]string{issueNo(1).ID: "no", issueNo(2).ID: "no"}}
			deps := w.deps(s.Policy)
			deps.Claims = []IssueClaims{&r}
			report := Tick(t.Context(), deps, Options{})
			equal(t, "applied", w.story(report), row.story)
			asked := slices.DeleteFunc(r.asked, func(what string) bool { return what == "release" || what == "settle" })
			equal(t, "asked", strings.Join(asked, ", "), row.asked)
			var codes []string
			for _, e := range report.Errors {
				codes = append(codes, e.Code)
			}
			equal(t, "errors", strings.Join(codes, " "), row.errors)
		})
	}
}

// A remote that could not be asked about claims is no obstacle any more once it answers, long before the
// next try.
func TestClaimsAnswerAgain(t *testing.T) {
	for _, row := range []struct{ name, story, block string }{
		{"it answers", "dispatch A-1; dispatch A-2", ""},
		{"it does not", "", "claims_unavailable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene()
			s.Policy.MaxConcurrent = 2
			s.AgentBlock = &Block{Code: "claims_unavailable", Since: s.Now, Tries: 3, NextTry: s.Now.Add(time.Hour)}
			w := worldOf(s.Snapshot)
			w.issues[issueNo(1).ID] = issueNo(1)
			w.issues[issueNo(2).ID] = issueNo(2)
			var r rivals
			if row.block != "" {
				r.err = errors.New("no answer")
			}
			deps := w.deps(s.Policy)
			deps.Claims = []IssueClaims{&r}
			report := Tick(t.Context(), deps, Options{})
			equal(t, "applied", w.story(report), row.story)
			code := ""
			if w.agentBlock != nil {
				code = w.agentBlock.Code
			}
			equal(t, "block", code, row.block)
		})
	}
}

// A pass with one slot takes issues until it has one that nobody else has.
func TestTake(t *testing.T) {
	has := map[string]string{"A-1": "ann has it", "A-2": "bob has it"}
	const started = "dispatch A-3; skip A-1 elsewhere; skip A-2 elsewhere; skip A-4 no_slot; skip A-5 no_slot"
	four := map[string]string{"A-1": "x", "A-2": "x", "A-3": "x", "A-4": "x"}
	for _, row := range []struct {
		name    string
		rivals  rivals
		options Options
		story   string
		asked   string
		errors  string
	}{
		{"others have two", rivals{has: has}, Options{}, started, "A-1 false, A-2 false, A-3 false, release, settle", ""},
		{
			"others have four",
			rivals{has: four},
			Options{},
			"",
			"A-1 false, A-2 false, A-3 false, A-4 false, release, settle",
			"",
		},
		{
			"the first is refused",
			rivals{refuses: map[string]bool{"A-1": true}},
			Options{},
			"dispatch A-2; skip A-1 claims_refused; skip A-3 no_slot; skip A-4 no_slot; skip A-5 no_slot",
			"A-1 false, A-2 false, release, settle",
			"",
		},
		{
			"four are refused",
			rivals{refuses: map[string]bool{"A-1": true, "A-2": true, "A-3": true, "A-4": true}},
			Options{},
			"",
			"A-1 false, A-2 false, A-3 false, A-4 false, release, settle",
			"claims_refused",
		},
		{"dry run", rivals{has: has}, Options{DryRun: true}, started, "A-1 true, A-2 true, A-3 true, release", ""},
		{
			"they can't be asked",
			rivals{err: errors.New("no link")},
			Options{},
			"",
			"A-1 false, release, settle",
			"account_state",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene()
			s.Policy.MaxConcurrent = 1
			w := worldOf(s.Snapshot)
			for i := 1; i <= 5; i++ {
				w.issues[issueNo(i).ID] = issueNo(i)
			}
			deps := w.deps(s.Policy)
			deps.Claims = []IssueClaims{&row.rivals}
			report := Tick(t.Context(), deps, row.options)
			equal(t, "applied", w.story(report), row.story)
			asked := strings.Join(row.rivals.asked, ", ")
			equal(t, "asked", strings.TrimPrefix(asked, "release, "), row.asked)
			var codes []string
			for _, e := range report.Errors {
				codes = append(codes, e.Code)
			}
			equal(t, "errors", strings.Join(codes, " "), row.errors)
		})
	}
}
