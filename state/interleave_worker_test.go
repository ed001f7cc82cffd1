package state

import (
	"context"
	"errors"

	"github.com/symphony-cron/symphony/reconcile"
)

// spawn makes the worker of a run.
func (s *schedule) spawn(id string) {
	w := &workerProcess{}
	s.workers[id] = w
	w.actor = s.enter("worker of "+id, s.worker(id, w, s.conduct))
}

// worker does what the worker of a run does, in the order of cmd/symphony/worker.go and runner/worker.go.
func (s *schedule) worker(id string, w *workerProcess, do conduct) func(*actor) {
	return func(a *actor) {
		a.step("take alive")
		if s.locks[aliveOf(id)] != nil {
			a.learn("held")
			w.answered = true
			return
		}
		s.locks[aliveOf(id)], a.acted = a, true
		db := s.lab.open()
		run, err := storing(a, "take the run", func() (reconcile.Run, error) {
			return db.Journal.TakeRun(context.Background(), id, reconcile.Handle{Boot: "boot", PID: 100, Start: 1}, s.now)
		})
		w.answered = true
		if err != nil {
			return // the lock on alive ends with the process
		}
		if w.taken {
			s.wrong = append(s.wrong, id+" was taken twice")
		}
		w.taken = true
		if w.work(a, db, run, do) && do.follow && !w.terminated {
			s.enter("own pass of "+id, pass(passKind{patient: true}))
		}
	}
}

// work carries out a run that was taken and reports whether its outcome is recorded.
func (w *workerProcess) work(a *actor, db *DB, run reconcile.Run, do conduct) bool {
	ctx, issue := context.Background(), run.IssueID
	run.Outcome, run.ErrorCode, run.Phase = reconcile.Succeeded, "", reconcile.StreamingTurn
	a.step("take the lease")
	switch holder, busy := a.leases[issue]; {
	case busy:
		a.learn(holder)
		run.Outcome, run.ErrorCode = reconcile.Failed, reconcile.CodeWorkspaceBusy
	default:
		a.leases[issue], a.acted = run.ID, true
		run.WorkspacePath = "/srv/" + issue
		if !w.converse(a, db, &run, do) {
			return false
		}
	}
	run.Phase = reconcile.Finishing
	last := run
	w.beat(a, db, &last) // too late
	_, err := storing(a, "record "+string(run.Outcome), func() (struct{}, error) { return nothing(db.Journal.Finish(ctx, a.now, run)) })
	if errors.Is(err, reconcile.ErrConflict) {
		return false
	}
	if err != nil {
		a.wrong = append(a.wrong, err.Error())
	}
	a.step("give alive up")
	delete(a.locks, aliveOf(run.ID))
	a.acted = true
	return true
}

// converse is one turn of the agent. It returns false where the worker has lost the run.
func (w *workerProcess) converse(a *actor, db *DB, run *reconcile.Run, do conduct) bool {
	if ours, on := w.beat(a, db, run); !on {
		return ours
	}
	a.step("start the agent")
	for id := range a.agents {
		if a.workers[id] != nil && a.rowsNow().run(id).c == run.IssueID {
			a.wrong = append(a.wrong, "two agents in the workspace of "+run.IssueID)
		}
	}
	a.agents[run.ID], a.acted = true, true
	run.ThreadID = "thread of " + run.IssueID
	ours, on := w.turn(a, db, run, do)
	a.step("end the agent")
	a.endAgent(run.ID)
	a.acted = true
	if on && do.fails {
		run.Outcome, run.ErrorCode = reconcile.Failed, "turn_failed"
	}
	return ours
}

func (w *workerProcess) turn(a *actor, db *DB, run *reconcile.Run, do conduct) (ours, on bool) {
	ctx := context.Background()
	// No other process writes it while this agent lives.
	base, err := answered(&a.tape, func() (reconcile.Tokens, error) {
		base, _, err := db.Journal.Thread(ctx, run.ThreadID)
		return base, err
	})
	if err != nil {
		a.wrong = append(a.wrong, err.Error())
	}
	total := reconcile.Tokens{Input: base.Input, Output: base.Output + do.tokens, Total: base.Total + do.tokens}
	_, err = storing(a, "save the thread", func() (struct{}, error) {
		return nothing(db.Journal.SaveThread(ctx, run.ID, run.IssueID, run.ThreadID, "space", total, a.now))
	})
	if err == nil {
		run.Tokens = reconcile.Tokens{Output: do.tokens, Total: do.tokens}
	}
	if do.handoff != "" {
		run.HandoffAt = a.now
		if ours, on := w.beat(a, db, run); !on {
			return ours, false
		}
		a.step("move the issue")
		issue := a.issues[run.IssueID]
		issue.State = do.handoff
		a.issues[run.IssueID], a.acted = issue, true
		run.HandoffState = do.handoff
	}
	run.TurnsDone = 1
	if do.brief {
		return true, true
	}
	return w.beat(a, db, run)
}

// beat writes the row. ours is false where another process has ended the run, on where the run is to end.
func (w *workerProcess) beat(a *actor, db *DB, run *reconcile.Run) (ours, on bool) {
	run.Beats++
	reason, err := storing(a, "write the row", func() (string, error) { return db.Journal.UpdateRun(context.Background(), a.now, *run) })
	switch {
	case errors.Is(err, reconcile.ErrConflict):
		return false, false
	case err != nil:
		a.wrong = append(a.wrong, err.Error())
	case reason != "":
		run.Outcome, run.ErrorCode = reconcile.Canceled, reason
		return true, false
	case w.terminated:
		run.Outcome, run.ErrorCode = reconcile.InterruptedRun, "terminated"
		return true, false
	}
	return true, true
}
