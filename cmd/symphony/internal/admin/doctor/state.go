package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// creatable reports whether this account may make a directory, and those around it that do not
// exist.
func creatable(dir string) bool {
	for !wiring.Exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// checkState checks whether the database exists, belongs to this workflow and is intact, and
// whether its state keeps runs from starting. It creates nothing.
func checkState(ctx context.Context, e *environment) (list []finding) {
	dir := e.p.StateDir
	exists, err := state.CheckDir(dir)
	if err != nil {
		return failWith(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	if !exists && !creatable(dir) {
		return fail("state_dir: "+dir+" can't be created by this account",
			cmp.Or(paths.Regain(dir), "make the directory around it writable, or choose another with --state-dir"))
	}
	if !exists || errors.Is(err, state.ErrNoState) {
		_, lost := wiring.OpenForReading(ctx, e.p)
		if state.NeedsRepair(lost) {
			list = failWith(lost)
			list[0].Status = statusWarn // the next pass makes another one
			return list
		}
		return ok("%s, which the first pass creates", dir)
	}
	if err != nil {
		list = failWith(err)
		if list[0].code == "state_outdated" { // the next pass migrates it
			list[0].Status = statusWarn
		}
		return list
	}
	defer db.Close()
	file := filepath.Join(dir, "state.db")
	if unix.Access(file, unix.W_OK) != nil {
		return fail("state_readonly: "+file+" can't be written by this account",
			cmp.Or(paths.Regain(file),
				"make the directory (0700) and its files (0600) writable, or mount the volume read-write"))
	}
	_, ownerErr := wiring.OwnerPath(ctx, e.p, db)
	_, copyErr := wiring.OriginalPath(ctx, e.p, db)
	for _, err := range []error{ownerErr, copyErr, db.Newer(), db.QuickCheck(ctx), state.CheckSpace(dir)} {
		if err != nil {
			list = append(list, failWith(err)...)
		}
	}
	if list == nil {
		list = ok("%s, schema %d, intact", dir, db.Schema())
	}
	rec, err := db.Store.State(ctx)
	if err != nil { // the checks above have found why
		return list
	}
	block := wiring.BlockedBy(rec)
	if block != nil {
		list = append(list, blocked(*block, e.p.Env.Now())...)
	} else if e.config != nil {
		list = append(list, e.accountBlock()...)
	}
	if rec.Paused {
		list = append(list, warn(obstacle.NewPaused().Words(e.p.Env.Now()).Text, "")...)
	}
	return list
}

// blocked reports a fault under which no run starts.
func blocked(b wiring.BlockedRow, now time.Time) []finding {
	w := obstacle.NewBlocked(b).Words(now)
	return warn(w.Full(), w.PlainStep())
}

// accountBlock reports the fault of the agents' account with which the last runs ended, such as a
// login that is missing: an agent may start without one and refuse only the turn.
func (e *environment) accountBlock() []finding {
	block := wiring.AgentsBlock(e.p, e.config, e.p.Env.Now())
	if block == nil {
		return nil
	}
	if block.Reason != reconcile.CodeAgentAuth {
		return blocked(*block, e.p.Env.Now())
	}
	message := obstacle.NewBlocked(*block).Words(e.p.Env.Now()).Text
	logIn := e.loginHint()
	kind, err := wiring.AgentOf(e.config.Chosen.Kind)
	if err == nil && kind.Name != workflow.DefaultAgent {
		logIn = e.logInStep(kind)
	}
	return fail(message, logIn+"; then symphony resume")
}

// checkSchedule reports whether a schedule runs passes, the faults of the schedule, and how
// the last pass ended.
func checkSchedule(ctx context.Context, e *environment) (list []finding) {
	if e.machine && e.as == asCalled {
		return checkScheduler(ctx, e)
	}
	st, err := schedule.ReadStatus(ctx, e.p)
	if err != nil || e.as != asCalled {
		return nil // checkState reports the error; the schedule is the same in both environments
	}
	which := " -w " + text.ShellQuote(e.p.Path)
	now := e.p.Env.Now()
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(st.Timers) > 0 || st.Launchd != nil || st.Cron != nil {
		hint = "it is installed; see symphony schedule status" + which
	}
	last := st.LastPass
	run := st.LastRun
	switch {
	case st.FirstPass != nil:
		list = ok("installed, first pass at the latest in %s", text.Duration(st.FirstPass.Sub(now)))
	case last == nil:
		list = warn("no pass has run yet", hint)
	case st.Loop:
		list = ok("symphony tick --loop is running")
	case run == nil:
		list = warn("no scheduled pass has run yet: runs start only when you run a pass yourself", hint)
	case st.Alive:
		list = ok("active, last pass %s ago (%s)", text.Age(now, run.StartedAt), run.Trigger)
	default:
		list = warn(
			fmt.Sprintf(
				"it has stopped: the last pass of %s began %s ago",
				run.Trigger,
				text.Age(now, run.StartedAt),
			),
			hint,
		)
	}
	if last != nil && len(last.Errors) > 0 {
		errs := text.Map(last.Errors, func(e reconcile.Error) string { return e.Code + ": " + e.Message })
		next := cmp.Or(last.Errors[0].Hint, "run symphony tick, which prints the next step")
		list = append(list, warn(fmt.Sprintf("the last pass (%s ago, by %s) had errors: %s",
			text.Age(now, last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			next)...)
	}
	for _, text := range st.Problems {
		list = append(list, warn(text, "")...) // the problem names the next step
	}
	return list
}

// checkScheduler reports which schedules this machine can have.
func checkScheduler(ctx context.Context, e *environment) []finding {
	kinds, err := schedule.Supported(ctx, e.p)
	if len(kinds) > 0 {
		return ok("%s can run passes", strings.Join(kinds, " or "))
	}
	list := failWith(err)
	list[0].Status = statusWarn
	return list
}
