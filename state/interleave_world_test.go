package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// lab has the database in which schedules are played one after the other, and the mechanisms
// that are disabled in them.
type lab struct {
	sql     *sql.DB
	changed int // how many statements were modified
	without
}

// without disables mechanisms of the program, to show that a rule detects it.
type without struct {
	projectLock    bool
	exclusiveReap  bool     // a pass ends a dead run without holding its alive file
	rowBeforeSpawn bool     // a worker is started before its run is stored
	sql            []string // conditions of statements, each followed by its replacement
}

func newLab(t testing.TB, w without) *lab {
	t.Helper()
	l := &lab{without: w}
	plain := test.Must(sql.Open("sqlite", ":memory:"))
	l.sql = sql.OpenDB(memory{plain.Driver(), strings.NewReplacer(w.sql...), &l.changed})
	l.sql.SetMaxOpenConns(1)
	t.Cleanup(func() { test.OK(t, errors.Join(plain.Close(), l.sql.Close())) })
	test.OK(t, migrate(ctx, l.sql, migrations, 0, schemaVersion, epoch))
	return l
}

// memory opens databases in memory, and replaces conditions of statements.
type memory struct {
	driver driver.Driver
	change *strings.Replacer
	hits   *int
}

func (m memory) Driver() driver.Driver { return m.driver }

func (m memory) Connect(context.Context) (driver.Conn, error) {
	c, err := m.driver.Open(":memory:")
	if err != nil {
		return nil, err
	}
	return changedConn{c.(wholeConn), m, map[string][]wholeStmt{}}, nil
}

// wholeConn is what database/sql uses of a connection.
type wholeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
}

// wholeStmt is what database/sql uses of a statement.
type wholeStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// changedConn keeps statements for their next use, because otherwise their preparation would
// take most of the time of a test.
type changedConn struct {
	wholeConn
	memory
	unused map[string][]wholeStmt // by text
}

func (c changedConn) changed(query string) string {
	other := c.change.Replace(query)
	if other != query {
		*c.hits++
	}
	return other
}

func (c changedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	query = c.changed(query)
	if list := c.unused[query]; len(list) > 0 {
		last := len(list) - 1
		c.unused[query] = list[:last]
		return keptStmt{list[last], query, c.unused}, nil
	}
	s, err := c.wholeConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return keptStmt{s.(wholeStmt), query, c.unused}, nil
}

func (c changedConn) ExecContext(
	ctx context.Context,
	query string,
	args []driver.NamedValue,
) (driver.Result, error) {
	return c.wholeConn.ExecContext(ctx, c.changed(query), args)
}

type keptStmt struct {
	wholeStmt
	query  string
	unused map[string][]wholeStmt
}

func (s keptStmt) Close() error {
	s.unused[s.query] = append(s.unused[s.query], s.wholeStmt)
	return nil
}

// world is one schedule, and the model of everything but the database.
type world struct {
	lab     *lab
	db      *DB // no two transactions overlap, because each is within one step
	dice    *rand.Rand
	actors  []*actor
	faults  int
	steps   []string
	now     time.Time
	locks   map[string]*actor // held exclusively, by name
	leases  map[string]string // the run that has the lease, by issue
	workers map[string]*workerProcess
	agents  map[string]bool // those that live, by run
	issues  map[string]reconcile.Issue
	conduct conduct // of workers to come
	// scheduled means that a schedule is alive, so that operators' passes may start runs.
	scheduled   bool
	undisturbed bool       // no process has died and no wait has timed out
	seen        *storedAll // what the rules saw last
	stored      *storedAll // what was read last
	wrong       []string
	given       []reconcile.Command // by operators, as stored
	ids         map[string]int
}

type workerProcess struct {
	actor                       *actor
	answered, taken, terminated bool
}

// conduct is what a worker's agent does.
type conduct struct {
	tokens  int64
	handoff string // the state it moves its issue to
	fails   bool
	follow  bool // the worker starts a pass of its own afterwards
}

// begin empties the database and sets up the scene.
func (l *lab) begin(sc scene, dice *rand.Rand) *world {
	w := &world{
		lab:         l,
		db:          newDB(&conn{dir: "/in/memory", sql: l.sql, queries: newPreparing(l.sql), schema: schemaVersion}),
		dice:        dice,
		faults:      sc.faults,
		now:         epoch,
		locks:       map[string]*actor{},
		leases:      map[string]string{},
		workers:     map[string]*workerProcess{},
		agents:      map[string]bool{},
		issues:      map[string]reconcile.Issue{},
		conduct:     conduct{tokens: 10},
		undisturbed: true,
		ids:         map[string]int{},
	}
	_, err := l.sql.Exec(
		`DELETE FROM claims; DELETE FROM runs; DELETE FROM commands; DELETE FROM threads; DELETE FROM skips;
		DELETE FROM issue_totals;
		DELETE FROM meta WHERE key IN ('paused', 'last_sweep')`,
	)
	w.must(err)
	sc.setUp(w)
	return w
}

// must records an error that never occurs in a correct model.
func (w *world) must(err error) {
	if err != nil {
		w.wrong = append(w.wrong, err.Error())
	}
}

// gone releases the locks of an actor that has ended or was killed. Its agent lives on until
// it reads the end of its input or a pass ends it.
func (w *world) gone(a *actor) {
	maps.DeleteFunc(w.locks, func(_ string, holder *actor) bool { return holder == a })
	for id, worker := range w.workers {
		switch {
		case worker.actor != a:
		case w.agents[id]:
			w.enter("orphan of "+id, func(a *actor) { a.step("end"); w.endAgent(id) })
		default:
			w.endAgent(id)
		}
	}
}

func (w *world) endAgent(id string) {
	delete(w.agents, id)
	maps.DeleteFunc(w.leases, func(_, holder string) bool { return holder == id })
}

// offered adds an unclaimed issue to the tracker.
func (w *world) offered(i int) reconcile.Issue {
	issue := issueOf(i)
	w.issues[issue.ID] = issue
	return issue
}

// dispatched adds an issue whose run is stored and whose worker is about to begin.
func (w *world) dispatched(i int) string {
	issue := w.offered(i)
	run := newRun(i)
	run.Attempt = 2
	run.Worker.Boot = "boot"
	claim := reconcile.Claim{
		IssueID:       issue.ID,
		Identifier:    issue.Identifier,
		Status:        reconcile.Running,
		RunID:         run.ID,
		Issue:         issue,
		Project:       "here",
		Attempt:       2,
		Runs:          1,
		WorkspaceRoot: "/root",
	}
	w.must(w.db.Store.Commit(ctx, w.now, reconcile.Change{Claim: &claim, Insert: &run}))
	w.spawn(run.ID)
	return run.ID
}

// waiting adds an issue whose next run is due.
func (w *world) waiting(i int) {
	issue := w.offered(i)
	claim := reconcile.Claim{
		IssueID:       issue.ID,
		Identifier:    issue.Identifier,
		Status:        reconcile.Waiting,
		Kind:          reconcile.Backoff,
		Issue:         issue,
		Project:       "here",
		Attempt:       3,
		Runs:          3,
		Failures:      2,
		DueAt:         w.now.Add(-time.Minute),
		WorkspaceRoot: "/root",
	}
	w.must(w.db.Store.Commit(ctx, w.now, reconcile.Change{Claim: &claim}))
}

// ended adds an issue whose run has an outcome but is not settled yet; the worker's own pass
// has begun.
func (w *world) ended(i int) {
	id := w.dispatched(i)
	run, err := w.db.Journal.TakeRun(ctx, id, reconcile.Handle{
		Boot:  "boot",
		PID:   100,
		Start: 1,
	}, w.now)
	run.Outcome = reconcile.Succeeded
	run.Tokens = reconcile.Tokens{Output: 5, Total: 5}
	w.must(errors.Join(err, w.db.Journal.Finish(ctx, w.now, run)))
	w.take(w.workers[id].actor, kill)
	w.faults++
	w.undisturbed = true
	w.enter("own pass", pass(passKind{patient: true}))
}

func (w *world) tick(name string) { w.enter(name, pass(passKind{})) }

// operator adds an operator's command: it is stored, and then a pass confined to it runs.
func (w *world) operator(verb reconcile.Verb, i int) {
	cmd := reconcile.Command{Verb: verb, CreatedAt: w.now}
	only := []string{"-"}
	if i > 0 {
		cmd.IssueID = issueOf(i).ID
		cmd.Identifier = issueOf(i).Identifier
		only = []string{cmd.IssueID}
	} else if verb == reconcile.VerbStopAll {
		only = nil
	}
	w.enter("operator, "+string(verb), pass(passKind{
		command: &cmd,
		patient: true,
		options: reconcile.Options{Only: only, DispatchOff: !w.scheduled},
	}))
}

// passKind is the kind of a pass.
type passKind struct {
	options reconcile.Options
	command *reconcile.Command // an operator's, stored before
	patient bool               // it waits for the lock
}

// pass is symphony tick, an operator's command, or a worker's own pass.
func pass(k passKind) func(*actor) {
	return func(a *actor) {
		if k.command != nil {
			c := *k.command
			a.step("store the command " + string(c.Verb))
			var err error
			c.ID, err = a.db.Operator.AddCommand(ctx, c)
			a.must(err)
			a.given = append(a.given, c)
		}
		free := func() bool { return a.locks["project"] == nil || a.lab.projectLock }
		if !k.patient {
			a.step("try the project lock")
		}
		if k.patient && !a.await("wait for the project lock", free) || !free() {
			return
		}
		a.locks["project"] = a
		r := &modelRunners{actor: a}
		report := reconcile.Tick(ctx, reconcile.Deps{
			Policy:   modelPolicy,
			Store:    stepped{a.db.Store, a},
			Tracker:  &reconcile.TrackerAdapter{Tracker: r},
			Runners:  r,
			Boot:     "boot",
			Now:      func() time.Time { return a.now },
			Mono:     func() time.Duration { return time.Hour },
			NewRunID: func() string { a.ids[a.name]++; return fmt.Sprintf("run %d of %s", a.ids[a.name], a.name) },
		}, k.options)
		a.step("give the project lock back")
		if a.locks["project"] == a {
			delete(a.locks, "project")
		}
		for _, e := range report.Errors {
			if e.Code != reconcile.CodeSpawnFailed {
				a.must(fmt.Errorf("the pass reports %w", e))
			}
		}
	}
}

var modelPolicy = reconcile.Policy{
	Project:         "here",
	ActiveStates:    []string{"Todo"},
	TerminalStates:  []string{"Done"},
	MaxConcurrent:   2,
	MaxRetryBackoff: 5 * time.Minute,
	MaxFailures:     10,
	MaxIdleRuns:     3,
	MaxRuns:         20,
	WorkspaceRoot:   "/root",
}

// stepped is the real store with a step before each method on which a decision depends.
type stepped struct {
	Store
	a *actor
}

func (s stepped) State(ctx context.Context) (reconcile.State, error) {
	s.a.step("read the state")
	return s.Store.State(ctx)
}

func (s stepped) Commit(ctx context.Context, now time.Time, changes ...reconcile.Change) error {
	c := changes[0]
	s.a.step(fmt.Sprint("commit, settle ", c.Settle, ", start ", c.Insert != nil, ", commands ", c.Commands))
	return s.Store.Commit(ctx, now, changes...)
}

func (s stepped) RequestStop(ctx context.Context, id, reason string, at reconcile.Instant) error {
	s.a.step("ask " + id + " to stop: " + reason)
	return s.Store.RequestStop(ctx, id, reason, at)
}

func (s stepped) EndDead(
	ctx context.Context,
	now time.Time,
	run reconcile.Run,
	outcome reconcile.Outcome,
	code, message string,
) error {
	s.a.step("record " + string(outcome) + " for the dead " + run.ID)
	return s.Store.EndDead(ctx, now, run, outcome, code, message)
}

// modelRunners models processes, workspaces and the tracker for one pass.
type modelRunners struct {
	*actor
	answer map[string]reconcile.Issue // the tracker's issues at one time
	single sync.Mutex                 // a pass starts and stops workers concurrently
}

func (r *modelRunners) Probe(_ context.Context, run reconcile.Run) reconcile.Liveness {
	r.step("probe " + run.ID)
	live := reconcile.Liveness{Alive: r.locks[run.ID] != nil}
	if !live.Alive && r.agents[run.ID] {
		live.Left = []reconcile.Process{{PID: 1, Name: "agent"}}
	}
	return live
}

func (r *modelRunners) Prepare(_ context.Context, run reconcile.Run) error {
	if r.lab.rowBeforeSpawn {
		r.spawn(run.ID)
	}
	return nil
}

func (r *modelRunners) Start(_ context.Context, run reconcile.Run) error {
	r.single.Lock()
	defer r.single.Unlock()
	if !r.lab.rowBeforeSpawn {
		r.step("start the worker of " + run.ID)
		r.spawn(run.ID)
	}
	w := r.workers[run.ID]
	if !r.await("wait for the worker's answer", func() bool { return w.answered || w.actor.over }) {
		return errors.New("no answer")
	}
	return nil
}

func (r *modelRunners) Stop(_ context.Context, run reconcile.Run) error {
	w := r.workers[run.ID]
	if run.Worker.PID == 0 || w == nil {
		return nil
	}
	r.single.Lock()
	defer r.single.Unlock()
	r.step("signal the worker of " + run.ID)
	w.terminated = true
	r.await("wait for the end of "+run.ID, func() bool { return w.actor.over })
	return nil
}

func (r *modelRunners) Kill(_ context.Context, run reconcile.Run) error {
	return fmt.Errorf("%s: no worker is frozen in this model", run.ID)
}

func (r *modelRunners) Reap(
	_ context.Context,
	run reconcile.Run,
	record func([]reconcile.Process) error,
) ([]reconcile.Process, error) {
	if !r.lab.exclusiveReap {
		r.step("lock the dead " + run.ID)
		if r.locks[run.ID] != nil {
			return nil, fmt.Errorf("run %s: %w", run.ID, reconcile.ErrConflict)
		}
		r.locks[run.ID] = r.actor
	}
	r.step("end what is left of " + run.ID)
	if w := r.workers[run.ID]; w != nil && w.taken && !w.actor.over {
		r.wrong = append(r.wrong, r.name+" killed the healthy worker of "+run.ID)
	}
	r.endAgent(run.ID)
	err := record(nil)
	delete(r.locks, run.ID)
	return nil, err
}

// Workspaces is called right before the tracker is asked.
func (r *modelRunners) Workspaces(context.Context) ([]reconcile.Workspace, error) {
	r.step("ask the tracker")
	r.answer = maps.Clone(r.issues)
	return nil, nil
}

func (r *modelRunners) TrashDue(time.Time, int64) (bool, error) { return false, nil }
func (r *modelRunners) FreeBytes() int64                        { return -1 }

func (r *modelRunners) ByIDs(_ context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found := maps.Clone(r.answer)
	maps.DeleteFunc(found, func(id string, _ reconcile.Issue) bool { return !slices.Contains(ids, id) })
	return found, nil
}

func (r *modelRunners) Candidates(context.Context, []string) ([]reconcile.Issue, error) {
	var list []reconcile.Issue
	for _, id := range slices.Sorted(maps.Keys(r.answer)) {
		if modelPolicy.Active(r.answer[id].State) {
			list = append(list, r.answer[id])
		}
	}
	return list, nil
}

// spawn adds the worker of a run.
func (w *world) spawn(id string) {
	worker := &workerProcess{}
	w.workers[id] = worker
	worker.actor = w.enter("worker of "+id, w.worker(id, worker, w.conduct))
}

// worker does the same as the worker of a run, in the order of
// cmd/symphony/internal/act/worker and runner.
func (w *world) worker(id string, self *workerProcess, do conduct) func(*actor) {
	return func(a *actor) {
		a.step("take alive")
		if w.locks[id] != nil {
			self.answered = true
			return
		}
		w.locks[id] = a
		a.step("take the run")
		run, err := w.db.Journal.TakeRun(ctx, id, reconcile.Handle{
			Boot:  "boot",
			PID:   100,
			Start: 1,
		}, w.now)
		self.answered = true
		if err != nil {
			return // the lock on alive ends with the process
		}
		if self.taken {
			w.wrong = append(w.wrong, id+" was taken twice")
		}
		self.taken = true
		if self.work(a, run, do) && do.follow && !self.terminated {
			w.enter("own pass of "+id, pass(passKind{patient: true}))
		}
	}
}

// work carries out a run that was taken, and reports whether its outcome was recorded.
func (w *workerProcess) work(a *actor, run reconcile.Run, do conduct) bool {
	run.Outcome = reconcile.Succeeded
	run.Phase = reconcile.StreamingTurn
	a.step("take the lease")
	if _, busy := a.leases[run.IssueID]; busy {
		run.Outcome = reconcile.Failed
		run.ErrorCode = reconcile.CodeWorkspaceBusy
	} else {
		a.leases[run.IssueID] = run.ID
		run.WorkspacePath = "/srv/" + run.IssueID
		if !w.converse(a, &run, do) {
			return false
		}
	}
	last := run
	w.beat(a, &last) // too late
	a.step("record " + string(run.Outcome))
	err := a.db.Journal.Finish(ctx, a.now, run)
	if errors.Is(err, reconcile.ErrConflict) {
		return false
	}
	a.must(err)
	a.step("give alive up")
	delete(a.locks, run.ID)
	return true
}

// converse starts and ends the agent. It returns false if the worker has lost the run.
func (w *workerProcess) converse(a *actor, run *reconcile.Run, do conduct) (ours bool) {
	if ours, on := w.beat(a, run); !on {
		return ours
	}
	a.step("start the agent")
	for id := range a.agents {
		if a.rowsNow().runs[id].IssueID == run.IssueID {
			a.wrong = append(a.wrong, "two agents in the workspace of "+run.IssueID)
		}
	}
	a.agents[run.ID] = true
	run.ThreadID = "thread of " + run.IssueID
	ours, on := w.turn(a, run, do)
	a.step("end the agent")
	a.endAgent(run.ID)
	if on && do.fails {
		run.Outcome = reconcile.Failed
		run.ErrorCode = "turn_failed"
	}
	return ours
}

func (w *workerProcess) turn(a *actor, run *reconcile.Run, do conduct) (ours, on bool) {
	used := reconcile.Tokens{Output: do.tokens, Total: do.tokens}
	// no other process writes it while this agent lives
	total, _, err := a.db.Journal.Thread(ctx, run.ThreadID)
	a.must(err)
	a.step("save the thread")
	if a.db.Journal.SaveThread(
		ctx,
		run.ID,
		run.IssueID,
		reconcile.Thread{ID: run.ThreadID, WorkspaceID: "space"},
		total.Plus(used),
		a.now,
	) == nil {
		run.Tokens = used
	}
	if do.handoff != "" {
		run.MovedAt = a.now
		if ours, on := w.beat(a, run); !on {
			return ours, false
		}
		a.step("move the issue")
		issue := a.issues[run.IssueID]
		issue.State = do.handoff
		run.MovedTo = do.handoff
		a.issues[run.IssueID] = issue
	}
	run.TurnsDone = 1
	return w.beat(a, run)
}

// beat writes the row. ours is false if another process has ended the run. on is false if the
// run must end.
func (w *workerProcess) beat(a *actor, run *reconcile.Run) (ours, on bool) {
	run.Beats++
	a.step("write the row")
	orders, err := a.db.Journal.UpdateRun(ctx, a.now, *run)
	switch {
	case errors.Is(err, reconcile.ErrConflict):
		return false, false
	case orders.Stop != "":
		run.Outcome = reconcile.Canceled
		run.ErrorCode = orders.Stop
	case w.terminated:
		run.Outcome = reconcile.InterruptedRun
		run.ErrorCode = "terminated"
	}
	a.must(err)
	return true, orders.Stop == "" && !w.terminated
}
