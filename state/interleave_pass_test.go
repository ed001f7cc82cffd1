package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// stepped is the real store, with one step for each method.
type stepped struct {
	a       *actor
	db      *DB
	runners *modelRunners
}

func (s stepped) State(ctx context.Context) (reconcile.State, error) {
	s.a.step("read the state")
	rec, err := answered(&s.a.tape, func() (reconcile.State, error) { return s.db.Store.State(ctx) })
	text, jsonErr := jsonOf(rec).Value() // pointers print as addresses
	// From here on the pass plans on what it has just read. From before it knows only the tracker's answer and the runs
	// that it could not reap.
	s.a.forget(s.runners.remembered()...)
	s.a.learn(text, err)
	return rec, errors.Join(err, jsonErr)
}

func (s stepped) Commit(ctx context.Context, now time.Time, changes ...reconcile.Change) error {
	c := changes[0] // several are updates of claims, and have nothing that is written here
	op := "commit" + subject(changes)
	if c.Settle != "" {
		op += ", settling " + c.Settle
	}
	if c.Insert != nil {
		op += ", starting " + c.Insert.ID
	}
	if len(c.Commands) > 0 {
		op += fmt.Sprint(", commands ", c.Commands)
	}
	_, err := storing(s.a, op, func() (struct{}, error) { return nothing(s.db.Store.Commit(ctx, now, changes...)) })
	if err != nil && c.Insert != nil {
		s.runners.prepared--
	}
	return err
}

func (s stepped) RequestStop(ctx context.Context, id, reason string, at reconcile.Instant) error {
	s.runners.stopping++
	_, err := storing(s.a, "ask "+id+" to stop: "+reason, func() (struct{}, error) {
		return nothing(s.db.Store.RequestStop(ctx, id, reason, at))
	})
	return err
}

func (s stepped) ReapFailed(ctx context.Context, id string) error {
	_, err := storing(s.a, "could not reap "+id, func() (struct{}, error) { return nothing(s.db.Store.ReapFailed(ctx, id)) })
	return err
}

func (s stepped) EndDead(ctx context.Context, now time.Time, run reconcile.Run, outcome reconcile.Outcome, code, message string) error {
	_, err := storing(s.a, "record "+string(outcome)+" for the dead "+run.ID, func() (struct{}, error) {
		return nothing(s.db.Store.EndDead(ctx, now, run, outcome, code, message))
	})
	return err
}

// SaveSkips and SaveSweep write what no decision depends on, so they have no step of their own.
func (s stepped) SaveSkips(ctx context.Context, now time.Time, skips []reconcile.Skip) error {
	s.a.saved = nil
	_, err := answered(&s.a.tape, func() (struct{}, error) { return nothing(s.db.Store.SaveSkips(ctx, now, skips)) })
	return err
}

func (s stepped) SaveSweep(context.Context, time.Time) error { return nil }

// passKind is the kind of a pass.
type passKind struct {
	options reconcile.Options
	command *reconcile.Command // an operator's, stored before
	patient bool               // waits for the lock
}

// pass is symphony tick, an operator's command, or a worker's own pass.
func pass(k passKind) func(*actor) {
	return func(a *actor) {
		ctx, db := context.Background(), a.lab.open()
		if k.command != nil {
			c := *k.command
			c.CreatedAt = a.now
			id, err := storing(a, "store the command "+string(c.Verb), func() (int64, error) { return db.Operator.AddCommand(ctx, c) })
			if err != nil {
				a.wrong = append(a.wrong, "a command was refused: "+err.Error())
				return
			}
			c.ID = id
			a.given = append(a.given, c)
		}
		if !a.lockProject(k.patient) {
			return
		}
		report := reconcile.Tick(ctx, a.deps(db), k.options)
		a.step("give the project lock back")
		a.releaseProject()
		for _, e := range report.Errors {
			if e.Code != reconcile.CodeSpawnFailed {
				a.wrong = append(a.wrong, "the pass reports "+e.Error())
			}
		}
	}
}

const projectLockName = "project"

func (a *actor) lockProject(patient bool) bool {
	free := func() bool { return a.locks[projectLockName] == nil || a.lab.projectLock }
	if !patient {
		a.step("try the project lock")
	} else if !a.await("wait for the project lock", free) {
		return false
	}
	if !free() {
		a.learn("locked")
		return false
	}
	a.locks[projectLockName] = a
	a.acted = true
	return true
}

func (a *actor) releaseProject() {
	if a.locks[projectLockName] == a {
		delete(a.locks, projectLockName)
	}
	a.acted = true
}

var modelPolicy = reconcile.Policy{
	Project: "here", ActiveStates: []string{"Todo"}, TerminalStates: []string{"Done"}, MaxConcurrent: 2,
	MaxRetryBackoff: 5 * time.Minute, MaxFailures: 10, MaxIdleRuns: 3, MaxRuns: 20, WorkspaceRoot: "/root",
}

func (a *actor) deps(db *DB) reconcile.Deps {
	r := &modelRunners{actor: a}
	return reconcile.Deps{
		Policy: modelPolicy, Store: stepped{a, db, r}, Tracker: &reconcile.TrackerAdapter{Tracker: r}, Runners: r, Boot: "boot",
		Now: func() time.Time { return a.now }, Mono: func() time.Duration { return time.Hour },
		NewRunID: func() string { a.ids[a.name]++; return fmt.Sprintf("run %d of %s", a.ids[a.name], a.name) },
	}
}

// modelRunners are the processes, workspaces and the tracker as one pass sees them.
type modelRunners struct {
	*actor
	answer   map[string]reconcile.Issue // of the tracker, all at one time
	asked    []string
	offered  bool // the candidates were asked for
	unreaped []string
	// How many workers are to be started and stopped. Of several that are handled side by side none stops on its
	// way, for which of them would be first is not the schedule's to say.
	prepared, stopping int
	together           sync.Mutex
	started            []string
}

// remembered is what a pass knows beyond its snapshot.
func (r *modelRunners) remembered() []any {
	all := []any{r.asked, r.offered, r.unreaped, r.prepared}
	for _, id := range slices.Sorted(maps.Keys(r.answer)) {
		all = append(all, id, r.answer[id].State)
	}
	return all
}

func aliveOf(id string) string { return "alive of " + id }

func (r *modelRunners) Probe(_ context.Context, run reconcile.Run) reconcile.Liveness {
	r.step("probe " + run.ID)
	live := reconcile.Liveness{Alive: r.locks[aliveOf(run.ID)] != nil}
	if !live.Alive && r.agents[run.ID] {
		live.Left = []reconcile.Process{{PID: 1, Name: "agent"}}
	}
	r.learn(live)
	return live
}

func (r *modelRunners) Prepare(_ context.Context, run reconcile.Run) error {
	r.prepared++
	if r.lab.rowBeforeSpawn {
		r.spawn(run.ID)
	}
	return nil
}

func (r *modelRunners) Start(_ context.Context, run reconcile.Run) error {
	if r.prepared > 1 {
		r.startTogether(run.ID)
		return nil
	}
	if !r.lab.rowBeforeSpawn {
		r.step("start the worker of " + run.ID)
		r.spawn(run.ID)
		r.acted = true
	}
	w := r.workers[run.ID]
	if !r.await("wait for the worker's answer", func() bool { return w.answered || w.actor.over }) {
		return errors.New("no answer")
	}
	return nil
}

// startTogether starts all workers when the last has come, always in the same order.
func (r *modelRunners) startTogether(id string) {
	r.together.Lock()
	defer r.together.Unlock()
	r.started = append(r.started, id)
	if len(r.started) < r.prepared {
		return
	}
	slices.Sort(r.started)
	for _, id := range r.started {
		r.spawn(id)
	}
	r.acted = true
}

func (r *modelRunners) Stop(_ context.Context, run reconcile.Run) error {
	w := r.workers[run.ID]
	if run.Worker.PID == 0 || w == nil {
		return nil
	}
	if r.stopping > 1 {
		r.together.Lock()
		defer r.together.Unlock()
		w.terminated, r.acted = true, true
		return nil
	}
	r.step("signal the worker of " + run.ID)
	w.terminated, r.acted = true, true
	r.await("wait for the end of "+run.ID, func() bool { return w.actor.over })
	return nil
}

func (r *modelRunners) Kill(_ context.Context, run reconcile.Run) error {
	return fmt.Errorf("%s: no worker is frozen in this model", run.ID)
}

func (r *modelRunners) Reap(_ context.Context, run reconcile.Run, record func([]reconcile.Process) error) ([]reconcile.Process, error) {
	if !r.lab.exclusiveReap {
		r.step("lock the dead " + run.ID)
		held := r.locks[aliveOf(run.ID)] != nil
		r.learn(held)
		if held {
			r.unreaped = append(r.unreaped, run.ID)
			return nil, fmt.Errorf("run %s: %w", run.ID, reconcile.ErrConflict)
		}
		r.locks[aliveOf(run.ID)], r.acted = r.actor, true
	}
	r.step("end what is left of " + run.ID)
	r.endTree(run.ID)
	r.acted = true
	err := record(nil)
	if err != nil {
		r.unreaped = append(r.unreaped, run.ID)
	}
	delete(r.locks, aliveOf(run.ID))
	r.acted = true
	return nil, err
}

// endTree kills what belongs to a run: its agent, and a worker that has not taken it.
func (r *modelRunners) endTree(id string) {
	if w := r.workers[id]; w != nil && w.taken && !w.actor.over {
		r.wrong = append(r.wrong, r.name+" killed the healthy worker of "+id)
	}
	for _, other := range r.actors {
		if other.name == "orphan of "+id {
			r.kill(other)
		}
	}
	r.endAgent(id)
}

// Workspaces comes right before the tracker is asked.
func (r *modelRunners) Workspaces(context.Context) ([]reconcile.Workspace, error) {
	r.step("ask the tracker")
	r.answer = maps.Clone(r.issues)
	for _, id := range slices.Sorted(maps.Keys(r.answer)) {
		r.learn(id, r.answer[id].State)
	}
	return nil, nil
}

func (r *modelRunners) TrashDue(time.Time, int64, int64) (bool, error) { return false, nil }
func (r *modelRunners) FreeBytes() int64                               { return -1 }

func (r *modelRunners) ByIDs(_ context.Context, ids []string) (map[string]reconcile.Issue, error) {
	r.asked = ids
	found := map[string]reconcile.Issue{}
	for _, id := range ids {
		if issue, ok := r.answer[id]; ok {
			found[id] = issue
		}
	}
	return found, nil
}

func (r *modelRunners) Candidates(context.Context, []string) ([]reconcile.Issue, error) {
	r.offered = true
	var list []reconcile.Issue
	for _, id := range slices.Sorted(maps.Keys(r.answer)) {
		if modelPolicy.Active(r.answer[id].State) {
			list = append(list, r.answer[id])
		}
	}
	return list, nil
}
