// Package trackertest is the conformance suite of the adapters to trackers. An adapter's test arranges things in its own tracker or
// in a fake of it, through the functions of a Backend, and Run checks what the adapter makes of them:
//
//	func TestConformance(t *testing.T) { trackertest.Run(t, newBackend) }
//
// docs/trackers.md explains the contract to authors of adapters.
package trackertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Backend is an empty tracker with its adapter. Functions end the test if they fail. A nil function or an empty field means that the
// tracker has no such thing; the cases that need it are skipped. Issues are named by id.
type Backend struct {
	*reconcile.TrackerAdapter
	ReadOnly *reconcile.TrackerAdapter // an adapter to the same tracker with tracker.tool_scope: read; nil if there are no tools

	// Active are two active states, or one if the tracker has no more. Terminal is a state of finished issues.
	Active      []string
	Terminal    string
	OpenBlocker string   // the state of a blocker in the first active state, if its record lacks the true one
	OwnLabels   []string // labels that issues have because of their states or priorities
	NewestFirst bool     // candidates are sorted by their time of creation, the newest first; otherwise the oldest
	Page        int      // how many candidates one request returns; 0 without pages
	Batch       int      // how many issues one request by id returns; 0 if any number
	Secret      string   // a word that no error and no answer may contain; empty if the tracker needs no key
	Person      string   // an account that is not symphony's: a value of Issue.Assignee, of Comment's author and of tracker.operators
	Me          string   // symphony's own account, as a value of Issue.Assignee
	Elsewhere   string   // the id of an issue of another project, which ByIDs must not take for one of this project

	Requests func() int // the number of requests that the tracker has received, or of programs that were started

	Add     func(t testing.TB, i Issue) (id string) // creates an issue
	Move    func(t testing.TB, id, state string)
	Block   func(t testing.TB, id string, blockers ...string)
	Comment func(t testing.TB, id, author, text string, at time.Time) // by Person; at is a whole minute
	Remove  func(t testing.TB, id string)                             // the issue no longer exists
	Archive func(t testing.TB, id string)                             // the issue is kept, but is no candidate whatever its state
	// Malform makes the issue's record unusable. It returns a word by which an error must name the record: an id, a file …
	Malform func(t testing.TB, id string) string
	// FailLaterPage makes the request for the second page of candidates fail.
	FailLaterPage func(t testing.TB)
	// Limit makes the tracker refuse requests until a time, a whole second; Low makes it report that a twentieth of the allowance
	// is left until then.
	Limit, Low func(t testing.TB, until time.Time)
	// Unavailable is the fault that is tried with every call of the adapter. Faults are tried with the two reads.
	Unavailable Fault
	Faults      []Fault

	// ToMove and ToComment are the calls by which an agent moves its issue to a state and comments on it.
	ToMove    func(issue reconcile.Issue, state string) Call
	ToComment func(issue reconcile.Issue, text string) Call
	// Refused are calls, by name, that are refused to an agent that works on issue: outside its scope, for example about other, or
	// with bad arguments.
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
	// OnlyByIDs: Candidates does not meet the fault, such as an answer with another issue than the one that was asked for.
	OnlyByIDs bool
	Class     reconcile.Class // of the error; ClassTracker if empty
}

// Call is an agent's call of a tool.
type Call struct {
	Tool string
	Args json.RawMessage
}
