package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Probe implements Runners.
func (w *world) Probe(_ context.Context, run Run) Liveness {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch p := w.workers[run.ID]; {
	case w.dead:
		return Liveness{Unknown: true}
	case p == nil:
		return Liveness{}
	default:
		return Liveness{Alive: p.alive, Beats: w.now.UnixMilli(), Left: slices.Clone(p.left)}
	}
}

// Prepare implements Runners.
func (w *world) Prepare(_ context.Context, run Run) error {
	return w.step("prepare", func() error {
		if _, stored := w.runs[run.ID]; stored {
			w.wrong = append(w.wrong, "the row of "+run.ID+" came before its directory")
		}
		w.prepared[run.ID] = true
		return nil
	})
}

// Start implements Runners. The worker takes its run by comparing and swapping the phase.
func (w *world) Start(_ context.Context, run Run) error {
	return w.step("start", func() error {
		r := w.runs[run.ID]
		if !w.prepared[run.ID] || r.Phase != Starting || r.Outcome != "" {
			return fmt.Errorf("run %s is not to be taken", run.ID)
		}
		for id, p := range w.workers {
			// A run whose processes three passes could not end is settled and held, and may be retried.
			left := len(p.left) > 0 && !w.runs[id].Settled
			if other := w.runs[id]; other.IssueID == r.IssueID && other.Kind == AgentRun && r.Kind == AgentRun && (p.alive || left) {
				w.wrong = append(w.wrong, "started "+run.ID+" while "+id+" lives")
			}
		}
		r.Phase, r.Worker = PreparingWorkspace, Handle{Boot: w.boot, PID: 1000 + len(w.workers)}
		w.runs[run.ID] = r
		w.workers[run.ID] = &worker{alive: true}
		return nil
	})
}

// Stop implements Runners.
func (w *world) Stop(_ context.Context, run Run) error {
	return w.step("stop", func() error {
		if w.runs[run.ID].StopReason == "" {
			w.wrong = append(w.wrong, "signalled "+run.ID+" before its stop reason was stored")
		}
		if p := w.workers[run.ID]; p != nil {
			p.stopped = true
		}
		return nil
	})
}

// Reap implements Runners.
func (w *world) Reap(_ context.Context, run Run, record func([]Process) error) ([]Process, error) {
	var left []Process
	err := w.step("reap", func() error {
		switch p := w.workers[run.ID]; {
		case p == nil:
		case p.alive:
			return conflict("reap %s", run.ID)
		case p.stubborn:
			left = p.left
		default:
			p.left = nil
		}
		return nil
	})
	if err != nil {
		return left, err
	}
	return left, record(left)
}

// Kill implements Runners.
func (w *world) Kill(_ context.Context, run Run) error {
	return w.step("kill", func() error {
		if p := w.workers[run.ID]; p != nil {
			p.alive = false
		}
		return nil
	})
}

// ReapFailed implements Store.
func (w *world) ReapFailed(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[id]
	r.ReapTries++
	w.runs[id] = r
	return nil
}

// Workspaces implements Runners.
func (w *world) Workspaces(context.Context) ([]Workspace, error) { return w.workspaces, nil }

// FreeBytes implements Runners.
func (w *world) FreeBytes() int64 { return w.free }

func (w *world) TrashDue(time.Time, int64, int64) (bool, error) { return w.trash, nil }

// ByIDs implements Tracker.
func (w *world) ByIDs(_ context.Context, ids []string) (map[string]Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, "ids "+strings.Join(slices.Sorted(slices.Values(ids)), " "))
	if w.refused != nil {
		return nil, w.refused
	}
	found := map[string]Issue{}
	for _, id := range ids {
		if i, ok := w.issues[id]; ok {
			found[id] = i
		}
	}
	return found, nil
}

// Candidates implements Tracker.
func (w *world) Candidates(_ context.Context, states []string) ([]Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, "candidates "+strings.Join(states, ", "))
	if w.hidden != nil {
		return nil, w.hidden
	}
	var list []Issue
	for _, id := range slices.Sorted(maps.Keys(w.issues)) {
		if i := w.issues[id]; slices.Contains(states, i.State) && !i.Archived {
			list = append(list, i)
		}
	}
	return list, nil
}

// tracker is the world as a tracker whose allowance is used up, or untouched.
func (w *world) tracker() *TrackerAdapter {
	return &TrackerAdapter{Tracker: w, Budget: func() Budget {
		if w.low {
			return Budget{At: w.now, Reset: w.now.Add(time.Hour)}
		}
		return Budget{At: w.now, Left: 1}
	}}
}

// ends lets the worker of the issue's unsettled run end with an outcome, as a worker records it.
func (w *world) ends(i Issue, outcome Outcome, code string) {
	r := w.runOf(i)
	r.Outcome, r.ErrorCode, r.EndedAt = outcome, code, w.now
	w.runs[r.ID] = r
	w.workers[r.ID].alive = false
}

// dies lets the worker die without an outcome, leaving processes.
func (w *world) dies(i Issue, left int, stubborn bool) {
	p := w.workers[w.runOf(i).ID]
	p.alive, p.left, p.stubborn = false, make([]Process, left), stubborn
}

func (w *world) runOf(i Issue) Run {
	for _, r := range w.runs {
		if r.IssueID == i.ID && !r.Settled {
			return r
		}
	}
	return Run{}
}

// obey lets every worker that was asked to stop, by a signal or by its row, end as asked, and every removal of
// a workspace be done.
func (w *world) obey() {
	for id, p := range w.workers {
		r := w.runs[id]
		switch {
		case !p.alive:
			continue
		case r.Kind == CleanupRun:
			r.Outcome = Succeeded
			w.workspaces = slices.DeleteFunc(slices.Clone(w.workspaces), func(s Workspace) bool { return s.IssueID == r.IssueID })
		case p.stopped || r.StopReason != "":
			r.Outcome, r.ErrorCode = Canceled, r.StopReason
		default:
			continue
		}
		p.alive, r.EndedAt = false, w.now
		w.runs[id] = r
	}
}

// revive lets the next pass be undisturbed.
func (w *world) revive() { w.cut = cut{} }

// dump prints everything that is stored, to compare before and after.
func (w *world) dump() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(w.claims)) {
		fmt.Fprintf(&b, "%+v\n", w.claims[id])
	}
	for _, id := range slices.Sorted(maps.Keys(w.runs)) {
		fmt.Fprintf(&b, "%+v\n", w.runs[id])
	}
	fmt.Fprintln(&b, w.commands, w.paused, w.agentBlock, w.trackerBlock, w.hostBlock, w.skips, w.lastSweep, w.used, w.prepared, len(w.workers))
	return b.String()
}

// limitErr is what a tracker answers whose allowance is used up.
type limitErr struct{ reset time.Time }

func (e limitErr) Error() string      { return "allowance used up" }
func (e limitErr) ResetAt() time.Time { return e.reset }

func rateLimited(reset time.Time) error {
	return &Error{Code: "tracker_rate_limited", Message: "used up", Err: limitErr{reset}}
}

var errTracker = &Error{Code: "linear_api_request", Message: "no route", Err: errors.New("dial")}
