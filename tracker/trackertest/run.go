// Package trackertest is the conformance suite of the adapters to trackers. An adapter's test
// arranges things in its own tracker or in a fake of it, through the functions of a Backend,
// and Run checks the adapter's answers:
//
//	func TestConformance(t *testing.T) { trackertest.Run(t, newBackend) }
//
// docs/trackers.md explains the contract to authors of adapters.
package trackertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// longestMessage bounds the message and the hint of an error, in bytes each.
const longestMessage = 600

const issueNotFound = "issue_not_found"

// Run checks the adapter of the trackers that start returns. It starts a tracker for each
// case, as a subtest.
func Run(t *testing.T, start func(t *testing.T) *Backend) {
	for _, c := range slices.Concat(reads, comments, moves, tools, faults) {
		t.Run(c.name, func(t *testing.T) {
			b := &backend{Backend: start(t), T: t}
			if c.needs != nil && !c.needs(b) {
				t.Skip("the tracker has no such thing")
			}
			c.check(b)
		})
	}
	runFaults(t, start)
}

// testCase is a rule of the contract.
type testCase struct {
	name  string
	needs func(*backend) bool // nil: the case is for every tracker
	check func(*backend)
}

// backend is a Backend in a test.
type backend struct {
	*Backend
	*testing.T
}

// add creates an issue in the first active state, if i names none, and returns its id.
func (b *backend) add(i Issue) string {
	b.Helper()
	i.Title = cmp.Or(i.Title, "Some work")
	i.State = cmp.Or(i.State, b.Active[0])
	return b.Add(b.T, i)
}

func (b *backend) ctx() context.Context { return b.Context() }

// candidates returns the issues in the active states.
func (b *backend) candidates() []reconcile.Issue {
	b.Helper()
	found, err := b.Candidates(b.ctx(), b.Active)
	test.OK(b.T, err)
	for _, i := range found {
		b.complete(i)
	}
	return found
}

// byIDs returns issues of which some may not exist.
func (b *backend) byIDs(ids ...string) map[string]reconcile.Issue {
	b.Helper()
	found, err := b.ByIDs(b.ctx(), ids)
	test.OK(b.T, err)
	for id, i := range found {
		b.complete(i)
		if i.ID != id || i.Malformed != "" {
			b.Errorf("issue %q has the id %q, malformed %q", id, i.ID, i.Malformed)
		}
	}
	return found
}

// issue returns an issue that exists.
func (b *backend) issue(id string) reconcile.Issue {
	b.Helper()
	i, ok := b.byIDs(id)[id]
	if !ok {
		b.Fatalf("no issue %q", id)
	}
	return i
}

// complete checks that the lists of an issue are there.
func (b *backend) complete(i reconcile.Issue) {
	b.Helper()
	if i.Malformed == "" && (i.Labels == nil || i.BlockedBy == nil) {
		b.Errorf("%s: labels and blockers are empty lists if there are none, not null", i.Identifier)
	}
}

// wantError checks that err tells a person the fault and the next step.
func (b *backend) wantError(err error, code string, class reconcile.Class) {
	b.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		b.Fatalf("error %v (%T), want the code %s", err, err, code)
	}
	class = cmp.Or(class, reconcile.ClassTracker)
	// An issue that does not exist may be the operator's mistake.
	if e.Code != code || reconcile.ClassOf(err) != class && code != issueNotFound {
		b.Errorf("error %v of class %q, want the code %s of class %q", e, reconcile.ClassOf(err), code, class)
	}
	for what, text := range map[string]string{"message": e.Message, "hint": e.Hint} {
		if text == "" || len(text) > longestMessage || strings.ContainsAny(text, "\r\n") {
			b.Errorf("the %s of %s is not one line of at most %d bytes: %q", what, code, longestMessage, text)
		}
	}
	b.noSecret(fmt.Sprintf("%v %+v %v", err, e, e.Err))
}

// noSecret checks that a text does not contain the key.
func (b *backend) noSecret(text string) {
	b.Helper()
	if b.Secret != "" && strings.Contains(text, b.Secret) {
		b.Errorf("the secret is in %q", text)
	}
}

// inOrder returns ids, which are sorted by their time of creation, as the tracker sorts them.
func (b *backend) inOrder(ids []string) []string {
	ids = slices.Clone(ids)
	if b.NewestFirst {
		slices.Reverse(ids)
	}
	return ids
}

func idsOf(issues []reconcile.Issue) []string {
	return text.Map(issues, func(i reconcile.Issue) string { return i.ID })
}

// Backend is an empty tracker with its adapter. Functions end the test if they fail. A nil
// function or an empty field means that the tracker lacks the feature; the cases that need it
// are skipped. Issues are named by id.
type Backend struct {
	*reconcile.TrackerAdapter
	// an adapter to the same tracker with tracker.tool_scope: read; nil if there are no tools
	ReadOnly *reconcile.TrackerAdapter

	// Active are two active states, or a single state if the tracker knows no more. Terminal
	// is a state of finished issues.
	Active   []string
	Terminal string
	// the state of a blocker in the first active state, if its record lacks the true state
	OpenBlocker string
	OwnLabels   []string // labels that issues have because of their states or priorities
	// candidates are sorted by their time of creation, the newest first; otherwise the oldest
	NewestFirst bool
	Page        int // how many candidates a request returns; 0 without pages
	Batch       int // how many issues a request by id returns; 0 if any number
	// a word that no error and no answer may contain; empty if the tracker needs no key
	Secret string
	// an account that is not symphony's: a value of Issue.Assignee, of Comment's author and of
	// tracker.operators
	Person string
	Me     string // symphony's own account, as a value of Issue.Assignee
	// the id of an issue of another project, which ByIDs must not return as an issue of this
	// project
	Elsewhere string

	// the number of requests that the tracker received, or of programs that were started
	Requests func() int

	Add   func(t testing.TB, i Issue) (id string) // creates an issue
	Move  func(t testing.TB, id, state string)
	Block func(t testing.TB, id string, blockers ...string)
	// by Person; at is a whole minute
	Comment func(t testing.TB, id, author, text string, at time.Time)
	Remove  func(t testing.TB, id string) // the issue no longer exists
	// the issue is kept, but is no candidate whatever its state
	Archive func(t testing.TB, id string)
	// Malform makes the issue's record unusable. It returns a word by which an error must name
	// the record: an id, a file …
	Malform func(t testing.TB, id string) string
	// FailLaterPage makes the request for the second page of candidates fail.
	FailLaterPage func(t testing.TB)
	// Limit makes the tracker refuse requests until a time, a whole second; Low makes it
	// report that a twentieth of the allowance is left until then.
	Limit, Low func(t testing.TB, until time.Time)
	// Unavailable is the fault that is tried with every call of the adapter. Faults are tried
	// with the two reads.
	Unavailable Fault
	Faults      []Fault

	// ToMove and ToComment are the calls by which an agent moves its issue to a state and
	// comments on it.
	ToMove    func(issue reconcile.Issue, state string) Call
	ToComment func(issue reconcile.Issue, text string) Call
	// Refused are calls, by name, that are refused to an agent that works on issue: outside
	// its scope, for example about other, or with bad arguments.
	Refused func(issue, other reconcile.Issue) map[string]Call
}

// Issue is an issue to create. State is never empty.
type Issue struct {
	Title, Description, State string
	Priority                  int // 1 is the highest; 0 for none
	Labels                    []string
	Assignee                  string
}

// Fault makes the tracker fail, or ends its existence.
type Fault struct {
	Name    string
	Code    string // the code of the error
	Arrange func(t testing.TB)
	// OnlyByIDs: Candidates does not meet the fault, such as an answer with another issue than
	// the requested issue.
	OnlyByIDs bool
	Class     reconcile.Class // of the error; ClassTracker if empty
}

// Call is an agent's call of a tool.
type Call struct {
	Tool string
	Args json.RawMessage
}
