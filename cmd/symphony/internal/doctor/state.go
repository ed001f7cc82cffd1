package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
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
	defer func() {
		if err := db.Close(); err != nil {
			list = append(list, failWith(err)...)
		}
	}()
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
func checkSchedule(ctx context.Context, e *environment) []finding {
	installed, err := schedule.InstalledStatus(ctx, e.p)
	if err != nil {
		return failWith(err)
	}
	list := e.checkPasses(ctx, installed)
	for _, text := range installed.Problems {
		list = append(list, warn(text, "")...) // the problem names the next step
	}
	return list
}

// checkPasses looks at the passes that have run.
func (e *environment) checkPasses(ctx context.Context, installed schedule.Status) (list []finding) {
	which := " -w " + term.ShellQuote(e.p.Path)
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(installed.Timers) > 0 || installed.Cron != nil {
		hint = "it is installed: symphony schedule status" + which + " says what it does"
	}
	db, err := state.OpenReadOnly(ctx, e.p.StateDir)
	if errors.Is(err, state.ErrNoState) {
		return warn("no pass has run yet", hint)
	}
	if err != nil {
		return nil // checkState reports it
	}
	defer db.Close()
	now := e.p.Env.Now()
	alive, err := project.ScheduleAlive(ctx, db, now)
	if err != nil {
		return failWith(err)
	}
	passes, err := db.Views.ScheduleGaps(ctx)
	switch {
	case err != nil:
		return failWith(err)
	case installed.Loop:
		list = ok("symphony tick --loop is running")
	case len(passes) == 0:
		list = warn("no pass was ever run by cron, a timer or --loop: only what you run yourself is started", hint)
	case alive:
		list = ok("alive, last pass %s ago (%s)", term.Age(now, passes[0].StartedAt), passes[0].Trigger)
	default:
		list = warn(fmt.Sprintf("it has stopped: the last pass of %s began %s ago", passes[0].Trigger, term.Age(now, passes[0].StartedAt)), hint)
	}

	last, known, err := db.Views.LastPass(ctx)
	if err != nil {
		return append(list, failWith(err)...)
	}
	var errs []string
	for _, passErr := range last.Errors {
		errs = append(errs, passErr.Code+": "+passErr.Message)
	}
	if known && len(errs) > 0 {
		list = append(list, warn(fmt.Sprintf("the last pass, %s ago by %s, said: %s", term.Age(now, last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			"symphony tick runs one now, with what to do")...)
	}
	rec, err := db.Store.State(ctx)
	if err != nil {
		return append(list, failWith(err)...)
	}
	if rec.Paused {
		list = append(list, warn("it is paused: nothing new is started", "symphony resume")...)
	}
	block := project.BlockedBy(rec)
	if block == nil && e.config != nil {
		block = project.AccountBlock(project.OpenAccount(e.p, e.config.Codex.Home), now)
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
	return lifeOfWorkers(proc.ReadHostUnit(e.p.Env.Environ))
}

// lifeOfWorkers says how long workers live.
func lifeOfWorkers(s proc.HostUnit) []finding {
	switch {
	case !s.Booted:
		return ok("live on when their pass ends; no systemd runs this machine")
	case s.Root, s.Manager && s.Lingers:
		return ok("live on when their pass ends, and after a logout")
	case s.Manager:
		return warn("your user does not linger: timers of yours, and what they start, end with your last logout", "loginctl enable-linger")
	}
	return ok("live on when their pass ends")
}

// checkLeftovers looks for processes, workspaces and directories that are no longer used.
func checkLeftovers(ctx context.Context, e *environment) []finding {
	claimed, runs, err := recorded(ctx, e.p)
	if err != nil {
		return nil // checkState reports it
	}
	list := processesOfDeadRuns(ctx, e.p, runs)
	root, found, err := workspace.FindRoot(project.Resolve(e.config.Workspace.Root))
	if err != nil || !found { // checkRoot reports it
		if list == nil {
			return ok("none")
		}
		return list
	}
	records, err := root.List()
	if err != nil {
		list = append(list, warn(err.Error(), "look at the file that is named")...)
	}
	unclaimed := 0
	for _, r := range records {
		if r.StateDir == e.p.StateDir && !claimed[r.IssueID] {
			unclaimed++
		}
	}
	for _, folder := range runner.LeftInspections(root.Path) {
		list = append(list, warn(folder+" is left of a doctor that was killed", "rm -rf "+term.ShellQuote(folder))...)
	}
	trash, stuck, size, err := sizeOfTrash(ctx, root.Path)
	if err != nil {
		list = append(list, warn("the trash of "+root.Path+": "+err.Error(), "look at its permissions")...)
	}
	for _, path := range stuck {
		list = append(list, warn(path+" could not be deleted", "delete it by hand, maybe as root")...)
	}
	if list == nil {
		list = ok("%s without a claim, %d in the trash (%s)", text.Plural(unclaimed, "workspace"), trash, term.BytesText(size))
	}
	return list
}

// recorded returns the claimed issues and the runs and takeovers of the database; none if there is no database.
func recorded(ctx context.Context, p *project.Project) (claimed map[string]bool, runs []reconcile.Run, err error) {
	claimed = map[string]bool{}
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if errors.Is(err, state.ErrNoState) {
		return claimed, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	rec, err := db.Store.State(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range rec.Claims {
		claimed[c.IssueID] = true
	}
	recent, err := db.Views.RecentRuns(ctx, project.PastRuns)
	if err != nil {
		return nil, nil, err
	}
	runs = append(rec.Runs, recent...)
	takeovers, err := project.Rowless(ctx, p, db)
	for _, d := range takeovers {
		runs = append(runs, reconcile.Run{ID: d.Name(), Identifier: "a takeover"})
	}
	return claimed, runs, err
}

// processesOfDeadRuns names the processes of runs whose workers are dead.
func processesOfDeadRuns(ctx context.Context, p *project.Project, runs []reconcile.Run) (list []finding) {
	local := &runner.Local{StateDir: p.StateDir}
	seen := map[string]bool{}
	for _, r := range runs {
		if seen[r.ID] || ctx.Err() != nil {
			continue
		}
		seen[r.ID] = true
		hint := "the next pass ends what an unsettled run left"
		if r.IssueID == "" {
			hint = "symphony stop --all ends it"
		}
		for _, left := range local.Probe(ctx, r).Left {
			list = append(list, warn(fmt.Sprintf("process %d (%s) is left of run %s of %s", left.PID, left.Name, r.ID, r.Identifier),
				fmt.Sprintf("%s; else look at it: ps -fp %d", hint, left.PID))...)
		}
	}
	return list
}

// sizeOfTrash counts the removed workspaces that are kept, and names those that could not be deleted.
func sizeOfTrash(ctx context.Context, root string) (entries int, stuck []string, size int64, err error) {
	trash := filepath.Join(root, ".symphony", "trash")
	err = filepath.WalkDir(trash, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // none yet, or deleted meanwhile
		case err != nil:
			return err
		}
		if filepath.Dir(path) == trash && d.IsDir() {
			entries++
			if strings.HasSuffix(path, ".stuck") {
				stuck = append(stuck, path)
			}
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return entries, stuck, size, err
}
