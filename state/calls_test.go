package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func freeRun(i int, agent, dir string) reconcile.Run {
	r := newRun(i)
	r.Kind = reconcile.FreeRun
	r.IssueID = agent
	r.Identifier = agent
	r.WorkspacePath = dir
	return r
}

func TestAgentsAreAddedOnce(t *testing.T) {
	db := newState(t)
	for _, step := range []struct {
		name   string
		run    reconcile.Run
		exists bool
	}{
		{"the first", freeRun(1, "a", "/srv/x"), false},
		{"the same id", freeRun(2, "a", "/srv/y"), true},
		{"the same id in capitals", freeRun(3, "A", "/srv/y"), true},
		{"another id", freeRun(4, "b", "/srv/x"), false},
	} {
		exists := test.Must(db.Clients.AddAgent(ctx, step.run))
		test.Equal(t, step.name+" exists", exists != nil, step.exists)
	}
}

func TestCallsAreCarriedOutOnce(t *testing.T) {
	db := newState(t)
	run := freeRun(1, "a", "/srv/x")
	test.Must(db.Clients.AddAgent(ctx, run))
	taken := test.Must(db.Journal.TakeRun(ctx, run.ID, worker, epoch))
	add := func(id string) reconcile.Call {
		t.Helper()
		return test.Must(db.Clients.AddCall(ctx, reconcile.Call{
			ID:           id,
			RunID:        run.ID,
			Agent:        "a",
			Verb:         reconcile.CallTurn,
			Conversation: "c",
			Params:       []byte(`{"items":[]}`),
			CreatedAt:    epoch,
		}))
	}
	one := add("1")
	two := add("2")
	if again := add("1"); again.Status != reconcile.CallQueued || again.CreatedAt != one.CreatedAt {
		t.Errorf("the call was replaced: %+v", again)
	}
	test.OK(t, db.Journal.BeginCall(ctx, "1", epoch))
	wantConflict(t, db.Journal.BeginCall(ctx, "1", epoch))
	one.Status = reconcile.CallCompleted
	one.Result = []byte(`{"turnId":"t"}`)
	one.EndedAt = epoch.Add(time.Second)
	test.OK(t, db.Journal.EndCall(ctx, one))
	wantConflict(t, db.Journal.EndCall(ctx, one))
	if again := add("1"); again.Status != reconcile.CallCompleted ||
		string(again.Result) != `{"turnId":"t"}` ||
		string(again.Params) != "{}" {
		t.Errorf("the result is not stored: %+v", again)
	}
	queued := test.Must(db.Journal.QueuedCalls(ctx, run.ID))
	test.Equal(t, "queued", test.Map(queued, func(c reconcile.Call) string { return c.ID }), []string{two.ID})

	add("0") // older by its ID
	changes := func(since int64) (list []string) {
		for _, c := range test.Must(db.Clients.ConversationsOf(ctx, run.ID, since)) {
			list = append(list, fmt.Sprint(c.ID, ":", c.EndedNo))
		}
		return list
	}
	test.Equal(
		t,
		"calls since the beginning, and since the end of one",
		fmt.Sprint(changes(0), changes(1)),
		"[0:0 1:1 2:0] [0:0 2:0]",
	)

	taken.Outcome = reconcile.Canceled
	taken.ErrorText = "stopped"
	test.OK(t, db.Journal.Finish(ctx, epoch, taken))
	wantConflict(t, test.Err(db.Clients.AddCall(ctx, reconcile.Call{
		ID:    "3",
		RunID: run.ID,
		Agent: "a",
		Verb:  reconcile.CallTurn,
	})))
	test.OK(t, db.Clients.EndCalls(ctx, taken, epoch))
	test.OK(t, db.Clients.SettleAgent(ctx, taken))
	left, _, err := db.Clients.Call(ctx, "2")
	test.OK(t, err)
	if left.Status != reconcile.CallFailed || left.ErrorCode != "agent_ended" ||
		left.ErrorText != "agent a has ended: stopped" {
		t.Errorf("a call without a worker: %+v", left)
	}
	if got := changes(1); len(got) != 2 || left.EndedNo < 2 {
		t.Errorf("calls since the first end: %v", got)
	}
}
