package trackertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// longestMessage bounds the message and the hint of an error, in bytes each.
const longestMessage = 600

const issueNotFound = "issue_not_found"

// Run checks the adapter of the trackers that start returns. It starts one for each case, as a subtest.
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
	needs func(*backend) bool // nil: every tracker has it
	check func(*backend)
}

// backend is a Backend in one test.
type backend struct {
	*Backend
	*testing.T
}

// add creates an issue in the first active state, if i names none, and returns its id.
func (b *backend) add(i Issue) string {
	b.Helper()
	i.Title, i.State = cmp.Or(i.Title, "Some work"), cmp.Or(i.State, b.Active[0])
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
		if b.complete(i); i.ID != id || i.Malformed != "" {
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

// wantError checks that err tells a person what happened and what to do.
func (b *backend) wantError(err error, code string, class reconcile.Class) {
	b.Helper()
	var e *reconcile.Error
	if !errors.As(err, &e) {
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
