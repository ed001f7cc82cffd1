package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// checkState looks whether the database exists, belongs to this workflow, and is sound. It creates nothing.
func checkState(ctx context.Context, e *environment) (list []finding) {
	dir := e.p.StateDir
	exists, err := state.CheckDir(dir)
	if err != nil {
		return failWith(err)
	}
	var volatile []finding
	if name, lasts := fileSystem(dir); name != "" && !lasts {
		volatile = warn(dir+" is on "+name+", which is empty after a reboot: holds, attempts and totals are forgotten then",
			"name a folder on a disk with --state-dir, also in the schedule's line")
	}
	db, err := state.OpenReadOnly(ctx, dir)
	switch {
	case !exists || errors.Is(err, state.ErrNoState):
		return append(ok("%s, which the first pass makes", dir), volatile...)
	case err != nil:
		list = failWith(err)
		if list[0].code == "state_outdated" { // the next pass migrates it
			list[0].Status = statusWarn
		}
		return list
	}
	defer db.Close()
	_, ownerErr := project.OwnerPath(ctx, e.p, db)
	_, copyErr := project.OriginalPath(ctx, e.p, db)
	for _, err := range []error{ownerErr, copyErr, db.Newer(), db.QuickCheck(ctx)} {
		if err != nil {
			list = append(list, failWith(err)...)
		}
	}
	if list == nil {
		list = ok("%s, schema %d, sound", dir, db.Schema())
	}
	return append(list, volatile...)
}

// checkSchedule says whether passes run by themselves, what is wrong with the installed schedule, and how the last pass went.
func checkSchedule(ctx context.Context, e *environment) (list []finding) {
	st, err := schedule.ReadStatus(ctx, e.p)
	if err != nil {
		return nil // checkState reports it
	}
	which, now := " -w "+term.ShellQuote(e.p.Path), e.p.Env.Now()
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(st.Timers) > 0 || st.Cron != nil {
		hint = "it is installed: symphony schedule status" + which + " says what it does"
	}
	last, run := st.LastPass, st.LastRun
	switch {
	case last == nil:
		list = warn("no pass has run yet", hint)
	case st.Loop:
		list = ok("symphony tick --loop is running")
	case run == nil:
		list = warn("no pass was ever run by cron, a timer or --loop: only what you run yourself is started", hint)
	case st.Alive:
		list = ok("alive, last pass %s ago (%s)", term.Age(now, run.StartedAt), run.Trigger)
	default:
		list = warn(fmt.Sprintf("it has stopped: the last pass of %s began %s ago", run.Trigger, term.Age(now, run.StartedAt)), hint)
	}
	if last != nil && len(last.Errors) > 0 {
		var errs []string
		for _, e := range last.Errors {
			errs = append(errs, e.Code+": "+e.Message)
		}
		list = append(list, warn(fmt.Sprintf("the last pass, %s ago by %s, said: %s", term.Age(now, last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			"symphony tick runs one now, with what to do")...)
	}
	list = append(list, e.checkBlocks(ctx)...)
	for _, text := range st.Problems {
		list = append(list, warn(text, "")...) // the problem names the next step
	}
	return list
}

// checkBlocks reports what keeps all issues from starting.
func (e *environment) checkBlocks(ctx context.Context) (list []finding) {
	db, err := state.OpenReadOnly(ctx, e.p.StateDir)
	if err != nil {
		return nil
	}
	defer db.Close()
	rec, err := db.Store.State(ctx)
	if err != nil {
		return failWith(err)
	}
	if rec.Paused {
		list = warn("it is paused: nothing new is started", "symphony resume")
	}
	now, block := e.p.Env.Now(), project.BlockedBy(rec)
	if e.config != nil {
		block = cmp.Or(block, project.AccountBlock(project.OpenAccount(e.p, e.config.Codex.Home), now))
	}
	if block != nil {
		list = append(list, warn(fmt.Sprintf("blocked since %s ago by %s: %s", term.Age(now, block.Since), block.Reason, block.Message), "symphony ps shows when it is tried again")...)
	}
	return list
}

// checkWorkers asks whether a worker that is started here outlives its pass.
func checkWorkers(ctx context.Context, e *environment) []finding {
	runners := &runner.Local{StateDir: e.p.StateDir, Scopes: &proc.ScopeManager{Env: e.p.Env.Environ}}
	if err := runners.Shelter(ctx); err != nil {
		return failWith(err)
	}
	if host := proc.ReadHostUnit(e.p.Env.Environ); host.Booted && host.Manager && !host.Root && !host.Lingers {
		return warn("your user does not linger: timers of yours, and what they start, end with your last logout", "loginctl enable-linger")
	}
	return ok("live on when their pass ends")
}
