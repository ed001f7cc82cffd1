package trackertest

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// moves are the rules about moving issues by symphony itself, which tracker.tool_scope does not concern.
var moves = []testCase{
	{"move: to another state", canMove, checkMoves},
	{"move: to the same state", canMove, checkMoveToSame},
	{"move: other spellings", canMove, checkMoveSpelled},
	{"move: read only", func(b *backend) bool { return canMove(b) && b.ReadOnly != nil }, checkMoveReadOnly},
	{"move: to an unknown state", canMove, checkMoveToUnknown},
	{"move: an issue that is gone", func(b *backend) bool { return canMove(b) && b.Remove != nil }, checkMoveOfGone},
}

func canMove(b *backend) bool { return b.TrackerAdapter.Move != nil }

// noState is the name of a state that no tracker has.
const noState = "No such state"

// move moves an issue by the adapter. Backend.Move is a person's move.
func (b *backend) move(id, state string) {
	b.Helper()
	test.OK(b.T, b.TrackerAdapter.Move(b.ctx(), id, state))
}

func checkMoves(b *backend) {
	other := b.issue(b.add(Issue{}))
	id := b.add(Issue{Title: "To move", Description: "Text.", Labels: []string{"Bug"}, Priority: 1})
	before := b.issue(id)
	for _, state := range append(slices.Clone(b.Active[1:]), b.Terminal, b.Active[0]) {
		b.move(id, state)
		after := b.issue(id)
		test.Equal(b.T, "state", after.State, state)
		if !reflect.DeepEqual(after.Description, before.Description) || !reflect.DeepEqual(after.Priority, before.Priority) ||
			!slices.Contains(after.Labels, "bug") {
			b.Errorf("a move has changed more than the state: %+v", after)
		}
		test.Equal(b.T, "is a candidate", slices.Contains(idsOf(b.candidates()), id), state != b.Terminal)
	}
	test.Equal(b.T, "another issue", b.issue(other.ID), other)
}

func checkMoveToSame(b *backend) {
	for _, state := range []string{b.Active[0], b.Terminal} {
		id := b.add(Issue{State: state})
		before := b.issue(id)
		b.move(id, state)
		test.Equal(b.T, "the issue", b.issue(id), before)
	}
}

func checkMoveSpelled(b *backend) {
	id := b.add(Issue{})
	for _, state := range []string{b.Terminal, b.Active[0]} {
		b.move(id, " "+strings.ToUpper(state)+" ")
		test.Equal(b.T, "state", b.issue(id).State, state)
	}
}

func checkMoveReadOnly(b *backend) {
	id := b.add(Issue{})
	test.OK(b.T, b.ReadOnly.Move(b.ctx(), id, b.Terminal))
	test.Equal(b.T, "state", b.issue(id).State, b.Terminal)
}

func checkMoveToUnknown(b *backend) {
	issue := b.issue(b.add(Issue{}))
	err := b.TrackerAdapter.Move(b.ctx(), issue.ID, noState)
	var e *reconcile.Error
	if !errors.As(err, &e) || errors.Is(err, reconcile.ErrGone) {
		b.Fatalf("move to an unknown state: %v", err)
	}
	class := reconcile.ClassOf(err)
	b.wantError(err, e.Code, class)
	if class != reconcile.ClassWorkflow && class != reconcile.ClassTracker || !strings.Contains(e.Message, noState) {
		b.Errorf("error %v of class %q: want one of the workflow or the tracker that names the state", err, class)
	}
	test.Equal(b.T, "the issue", b.issue(issue.ID), issue)
}

func checkMoveOfGone(b *backend) {
	id := b.add(Issue{})
	b.Remove(b.T, id)
	err := b.TrackerAdapter.Move(b.ctx(), id, b.Terminal)
	if b.wantError(err, issueNotFound, ""); !errors.Is(err, reconcile.ErrGone) {
		b.Errorf("move an issue that is gone: %v", err)
	}
}
