// Package agents starts and uses agents without an issue. Each is a detached worker; its
// client chooses its id. The clients, such as symphony mcp, hold no state: they store calls in
// the database of the agents, and read results and events there.
//
//	client ── Spawn, Call ──► calls, runs ──► worker (runner.Free) ──► agent
//	       ◄─ Await, Events ◄─ results, events.jsonl ◄─┘
//
// The worker starts an app-server for each conversation.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// Agents are the agents without an issue of this account of the machine.
type Agents struct {
	DB      *state.DB
	p       *wiring.Project
	account *wiring.PassAccounts
	runners *workers.Local
	boot    string
}

// The error codes of agents.
const (
	CodeUnknown  = "not_found"
	CodeEnded    = "agent_ended"
	CodeConflict = "agent_conflict" // the id is taken, or the directory
	CodeInvalid  = "invalid_argument"
	CodeTimeout  = "call_timeout"
)

const (
	lockPatience = 10 * time.Second
	// stopPatience is how long a worker may take to end its agent, before it is killed.
	stopPatience = 10 * time.Second
)

// Open opens the state directory of the agents, and creates it if necessary.
func Open(ctx context.Context, w *environ.Env) (*Agents, error) {
	dir := wiring.AgentsDir(w)
	db, err := state.Open(ctx, dir)
	if errors.Is(err, state.ErrNoState) || err != nil && exit.From(err).Code == "state_outdated" {
		db, err = create(ctx, dir, w.Now())
	}
	if err != nil {
		return nil, err
	}
	a, err := newAgents(w, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return a, nil
}

func newAgents(w *environ.Env, db *state.DB) (*Agents, error) {
	exe, err := wiring.RunningProgram()
	if err != nil {
		return nil, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	p := openProject(w)
	account := wiring.OpenPassAccounts(p, reconcile.Policy{}, func(string) {})
	return &Agents{
		DB:      db,
		p:       p,
		account: account,
		boot:    boot,
		runners: &workers.Local{
			Machine:  wiring.NewMachine(p.StateDir),
			StateDir: p.StateDir,
			Exe:      exe,
			Env:      p.WorkerEnviron(),
			NextSlot: account.NextSlot,
			Scopes:   &proc.ScopeManager{Env: w.Environ},
		},
	}, nil
}

// openProject returns the directory of the agents as a project without a workflow.
func openProject(w *environ.Env) *wiring.Project {
	dir := wiring.AgentsDir(w)
	return wiring.NewProject(w, filepath.Join(dir, "WORKFLOW.md"), dir)
}

// create creates the state directory of the agents, or migrates an older directory.
func create(ctx context.Context, dir string, now time.Time) (*state.DB, error) {
	release, err := lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	db, err := state.Create(ctx, dir, now)
	return db, errors.Join(err, release())
}

// lock takes the lock of the state directory, under which agents are started and settled.
func lock(ctx context.Context, dir string) (release func() error, err error) {
	me := state.Holder{PID: os.Getpid(), Trigger: "agents", Since: time.Now()}
	release, held, err := state.Acquire(ctx, dir, me, lockPatience, false)
	if err != nil {
		return nil, err
	}
	if held != nil {
		wiring.NameHolder(dir, held)
		return nil, reconcile.NewError(
			"state_busy",
			"the state of agents is locked by "+held.String(),
			"try again; if it stays, end that process",
		)
	}
	return release, nil
}

// Close closes the database.
func (a *Agents) Close() error { return a.DB.Close() }

// Agent is an agent without an issue.
type Agent struct {
	reconcile.Run
	Settings Settings
}

var validID = text.Pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Spawn starts an agent and returns at once. If an agent with the same id and directory lives
// already, Spawn returns that agent.
func (a *Agents) Spawn(ctx context.Context, s Settings) (agent Agent, err error) {
	if err := s.prepare(ctx, a); err != nil {
		return Agent{}, err
	}
	err = a.locked(ctx, func() (err error) {
		agent, err = a.spawn(ctx, s)
		return err
	})
	return agent, err
}

// spawn is Spawn under the lock.
func (a *Agents) spawn(ctx context.Context, s Settings) (Agent, error) {
	now := a.p.Env.Now()
	if err := a.DB.NewerNow(ctx); err != nil { // under the lock, which its migration needs
		return Agent{}, err
	}
	if err := a.settle(ctx); err != nil {
		return Agent{}, err
	}
	_ = a.prune(ctx, now) // the next spawn tries again
	known, found, err := a.DB.Clients.FreeAgent(ctx, s.ID)
	if err != nil {
		return Agent{}, err
	}
	if found {
		failed, err := a.startFailed(ctx, known)
		if err != nil {
			return Agent{}, err
		}
		if !failed {
			return a.same(known, s)
		}
		if err := a.forget(ctx, s.ID); err != nil {
			return Agent{}, err
		}
	}
	if err := a.directoryFree(ctx, s); err != nil {
		return Agent{}, err
	}
	if err := a.branchFree(ctx, s); err != nil {
		return Agent{}, err
	}
	if err := a.checkAccount(now); err != nil {
		return Agent{}, err
	}
	release, err := a.takeSlot(ctx)
	if err != nil {
		return Agent{}, err
	}
	defer release() // a worker that was started keeps its slot
	root := s.Cwd
	if s.Worktree != nil {
		root = filepath.Dir(root)
	}
	run := reconcile.Run{
		ID:            wiring.RunIDs(a.DB, a.p.Env.Now)(),
		Kind:          reconcile.FreeRun,
		IssueID:       s.ID,
		Identifier:    s.ID,
		Phase:         reconcile.Starting,
		WorkspacePath: s.Cwd,
		WorkspaceRoot: root,
		StartedAt:     now,
		Issue:         reconcile.Issue{ID: s.ID, Identifier: s.ID, Title: s.Cwd},
	}
	exists, err := a.DB.Clients.AddAgent(ctx, run)
	if err != nil {
		return Agent{}, err
	}
	if exists != nil {
		return a.same(*exists, s)
	}
	if err := a.start(ctx, run, s); err != nil {
		// The worker may have started all the same.
		return Agent{}, errors.Join(err, a.settle(context.WithoutCancel(ctx)))
	}
	return Agent{run, s}, nil
}

// startFailed reports whether an agent ended before it could do anything: its client was killed
// before it started the worker, or the agent could not be started. Its id is not used up. If nobody
// permitted the directory, the client has to learn that.
func (a *Agents) startFailed(ctx context.Context, run reconcile.Run) (bool, error) {
	if !run.Settled || run.ErrorCode == CodeNotPermitted {
		return false, nil
	}
	if run.Worker.PID == 0 {
		return true, nil
	}
	one, err := a.agent(run)
	if err != nil {
		return false, err
	}
	if one.HasWorktree() {
		return false, nil
	}
	calls, err := a.DB.Clients.CallsOf(ctx, run.ID)
	if err != nil {
		return false, fmt.Errorf("read the calls of agent %s: %w", run.Identifier, err)
	}
	return !slices.ContainsFunc(calls, hasWorked), nil
}

// hasWorked reports whether a call was carried out. The call of an agent that was ended before
// its first turn was not.
func hasWorked(call reconcile.Call) bool { return call.Status == reconcile.CallCompleted }

// same returns the agent of an id that is taken, if s describes that agent.
func (a *Agents) same(run reconcile.Run, s Settings) (Agent, error) {
	if run.IssueID != s.ID {
		return Agent{}, reconcile.NewError(
			CodeConflict,
			fmt.Sprintf("the ids %s and %s differ only in case", s.ID, run.IssueID),
			"choose another id",
		)
	}
	if run.Outcome != "" {
		return Agent{}, Ended(run)
	}
	if run.WorkspacePath != s.Cwd {
		return Agent{}, reconcile.NewError(
			CodeConflict,
			fmt.Sprintf("agent %s works in %s, not in %s", s.ID, run.WorkspacePath, s.Cwd),
			"choose another id",
		)
	}
	return a.agent(run)
}

// reasonOf returns the reason why an agent ended.
func reasonOf(run reconcile.Run) string { return cmp.Or(run.ErrorText, string(run.Outcome)) }

// checkAccount refuses a new agent while the account can't be used. Later a new agent shows
// whether that is over: a machine may have no issues whose runs would.
func (a *Agents) checkAccount(now time.Time) error {
	b := wiring.AccountBlock(wiring.OpenAccount(a.p, ""), now)
	if b == nil || !now.Before(b.NextTry) {
		return nil
	}
	return reconcile.NewError(
		b.Reason,
		"the account of the agents can't be used: "+b.Message,
		"",
	).WithHint("%s shows when it is tried again", reconcile.CommandFor("status", ""))
}

// takeSlot takes a slot of the machine for the worker that a.runners starts next. release
// gives the slot back if no worker was started with it.
func (a *Agents) takeSlot(ctx context.Context) (release func(), err error) {
	if _, err := wiring.MaxAgents(a.p); err != nil {
		return nil, err
	}
	slots, err := a.account.TakeSlots(ctx, 1, false)
	if err != nil {
		return nil, err
	}
	if slots != nil && slots.Free == 0 {
		return nil, reconcile.NewError(
			"no_slot",
			"all slots of "+reconcile.MaxAgentsVar+" are taken",
			"end an agent, or wait until a run has ended",
		)
	}
	return a.account.Release, nil
}

// start writes the files of an agent and starts its worker.
func (a *Agents) start(ctx context.Context, run reconcile.Run, s Settings) error {
	dir := host.RunDir(a.runners.StateDir, run.ID)
	settings, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, settingsFile), settings, 0o600); err != nil {
		return err
	}
	if err := unix.Mkfifo(filepath.Join(dir, wakeFile), 0o600); err != nil {
		return err
	}
	if err := a.runners.Prepare(ctx, run); err != nil {
		return err
	}
	return a.runners.Start(ctx, run)
}

// List returns the agents, newest first. Agents that have died are settled before.
func (a *Agents) List(ctx context.Context) (list []Agent, err error) {
	if err := a.Settle(ctx); err != nil {
		return nil, err
	}
	runs, err := a.DB.Clients.FreeAgents(ctx)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		one, err := a.agent(run)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// Find returns an agent. Error: CodeUnknown.
func (a *Agents) Find(ctx context.Context, id string) (Agent, error) {
	run, found, err := a.DB.Clients.FreeAgent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	if !found {
		return Agent{}, reconcile.NewError(
			CodeUnknown,
			fmt.Sprintf("there is no agent %q", id),
			"list_agents, or symphony ps --agents, shows the agents",
		)
	}
	return a.agent(run)
}

// Current is Find, but first records the end of an agent whose worker exited.
func (a *Agents) Current(ctx context.Context, id string) (Agent, error) {
	one, err := a.Find(ctx, id)
	if err != nil || one.Settled || workers.Alive(a.runners.StateDir, one.ID) {
		return one, err
	}
	if err := a.Settle(ctx); err != nil {
		return one, err
	}
	return a.Find(ctx, id)
}

// live returns an agent that is still alive. Errors: CodeUnknown, CodeEnded.
func (a *Agents) live(ctx context.Context, id string) (Agent, error) {
	one, err := a.Current(ctx, id)
	if err != nil {
		return one, err
	}
	if one.Outcome != "" {
		return one, reconcile.NewError(
			CodeEnded,
			fmt.Sprintf("agent %s has ended: %s", id, reasonOf(one.Run)),
			"spawn_agent starts another, where new_conversation can continue its conversations",
		)
	}
	return one, nil
}

// agent returns the agent of a run, with its settings.
func (a *Agents) agent(run reconcile.Run) (Agent, error) {
	s, err := readSettings(host.RunDir(a.runners.StateDir, run.ID))
	if errors.Is(err, os.ErrNotExist) { // it was never started, or pruned
		return Agent{run, Settings{ID: run.IssueID, Cwd: run.WorkspacePath}}, nil
	}
	return Agent{run, s}, err
}

// Kill ends an agent with all its processes, and waits for their end. It does nothing if the
// agent ended already. If ctx ends, the worker is killed, which otherwise may take a while to
// end the agent.
func (a *Agents) Kill(ctx context.Context, id string) error {
	one, err := a.Find(ctx, id)
	if err != nil || one.Settled {
		return err
	}
	at := reconcile.Instant{Boot: a.boot, Mono: proc.Monotonic()}
	if err := a.DB.Store.RequestStop(ctx, one.ID, reconcile.StopOperator, at); err != nil {
		// An agent that fills the disk ends all the same. Its end is recorded later.
		return errors.Join(err, a.runners.Kill(context.WithoutCancel(ctx), one.Run))
	}
	limited, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	ctx = context.WithoutCancel(ctx)
	// A spawn that is under way holds the lock: once it is released, the worker took the run
	// or never will.
	var run reconcile.Run
	err = a.locked(ctx, func() (err error) {
		run, err = a.DB.Runs.Find(ctx, one.ID)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.runners.Stop(limited, run); err != nil {
		return err
	}
	// Under the lock no other client settles the run, during which its worker seems to be
	// alive.
	err = a.locked(ctx, func() (err error) {
		if workers.Alive(a.runners.StateDir, run.ID) {
			if err := a.runners.Kill(ctx, run); err != nil {
				return err
			}
		}
		if err := a.settle(ctx); err != nil {
			return err
		}
		run, err = a.DB.Runs.Find(ctx, run.ID)
		return err
	})
	if err != nil {
		return err
	}
	if !run.Settled {
		return reconcile.NewError(
			"leftover_process",
			fmt.Sprintf("agent %s has left processes that can't be ended", id),
			"end them yourself: ps -ef shows them",
		)
	}
	return nil
}

// locked calls do under the lock of the state directory.
func (a *Agents) locked(ctx context.Context, do func() error) error {
	release, err := lock(ctx, a.runners.StateDir)
	if err != nil {
		return err
	}
	return errors.Join(do(), release())
}

// Settle records the end of agents whose worker exited, and ends the processes that they left.
// It takes the lock only if there are such agents.
func (a *Agents) Settle(ctx context.Context) error {
	runs, err := a.DB.Runs.Unsettled(ctx)
	if err != nil || !slices.ContainsFunc(runs, a.dead) {
		return err
	}
	return a.locked(ctx, func() error { return a.settle(ctx) })
}

// dead reports whether the worker of a run exited. The outcome does not tell: a worker records
// it a moment before it exits.
func (a *Agents) dead(run reconcile.Run) bool { return !workers.Alive(a.runners.StateDir, run.ID) }

// settle is Settle under the lock.
func (a *Agents) settle(ctx context.Context) error {
	runs, err := a.DB.Runs.Unsettled(ctx)
	for _, run := range runs {
		if a.dead(run) {
			err = errors.Join(err, a.settleDead(ctx, run))
		}
	}
	return err
}

// settleDead ends the processes that the dead worker of a run left, and ends the run and its
// calls. If some processes can't be ended, the run stays unsettled, so that the next call
// tries again.
func (a *Agents) settleDead(ctx context.Context, run reconcile.Run) error {
	err := a.endDead(ctx, run)
	if errors.Is(err, reconcile.ErrConflict) {
		// The worker recorded its outcome just before it exited, or a worker just took the
		// run: the next call settles it.
		return nil
	}
	return err
}

func (a *Agents) endDead(ctx context.Context, run reconcile.Run) error {
	now := a.p.Env.Now()
	const died = "its worker has died"
	left, err := a.runners.Reap(ctx, run, func([]reconcile.Process) error {
		if run.Outcome != "" {
			return nil
		}
		return a.DB.Store.EndDead(ctx, now, run, reconcile.Lost, reconcile.CodeWorkerLost, died)
	})
	if err != nil {
		return err
	}
	run, err = a.DB.Runs.Find(ctx, run.ID)
	if err != nil {
		return err
	}
	if err := a.DB.Clients.EndCalls(ctx, run, now); err != nil {
		return err
	}
	if len(left) > 0 {
		return nil
	}
	_ = os.Remove(filepath.Join(host.RunDir(a.runners.StateDir, run.ID), wakeFile)) // prune does so, too
	if err := a.DB.Clients.SettleAgent(ctx, run); err != nil {
		return err
	}
	one, err := a.agent(run)
	if err == nil && one.HasWorktree() {
		limited, cancel := context.WithTimeout(ctx, removeFor)
		defer cancel()
		_, _ = a.removeWorktree(limited, one, false) // a later prune tries again
	}
	return nil
}

// removeFor limits how long kill_agent, for which a person or a model waits, tries to remove a
// worktree. A worktree with very many files is left to symphony prune.
const removeFor = 5 * time.Second

// How long ended agents are kept, and how many are deleted at once.
const (
	keepFor   = 7 * 24 * time.Hour
	pruneMost = 20
	maxKept   = 1000 // that are looked at, because of their worktrees
)

// prune deletes agents that have ended long ago, with their calls and files.
func (a *Agents) prune(ctx context.Context, now time.Time) error {
	old, err := a.DB.Views.PastIssues(ctx, now.Add(-keepFor), maxKept)
	if err != nil {
		return err
	}
	var failed []error
	forgotten := 0
	for _, agent := range old {
		if forgotten == pruneMost {
			break
		}
		one, err := a.Find(ctx, agent.IssueID)
		if err != nil { // whether it has a worktree is not known
			failed = append(failed, err)
			continue
		}
		if one.HasWorktree() {
			continue // work in it exists nowhere else
		}
		forgotten++
		failed = append(failed, a.forget(ctx, agent.IssueID))
	}
	return errors.Join(failed...)
}

// Reap settles the agents of this account, for a program that does not use them. It does
// nothing if there never were any.
func Reap(ctx context.Context, w *environ.Env) error {
	if AsProject(w) == nil {
		return nil
	}
	a, err := Open(ctx, w)
	if err != nil {
		return err
	}
	return errors.Join(a.Settle(ctx), a.Close())
}
