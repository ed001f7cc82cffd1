package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// checkState looks whether the database is there, ours and sound. It makes none.
func checkState(ctx context.Context, at *place) (list []finding) {
	dir := at.p.StateDir
	there, err := state.CheckDir(dir)
	if err != nil {
		return failed(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	switch {
	case !there || errors.Is(err, state.ErrNoState):
		return append([]finding{well("%s, which the first pass makes", dir)}, stateDangers(dir)...)
	case err != nil:
		list = failed(err)
		if list[0].code == "state_outdated" {
			list[0].Status = statusWarn
		}
		return list
	}
	defer func() {
		if err := db.Close(); err != nil {
			list = append(list, failed(err)...)
		}
	}()
	_, ownerErr := project.OwnerPath(ctx, at.p, db)
	_, copyErr := project.OriginalPath(ctx, at.p, db)
	for _, err := range []error{ownerErr, copyErr, db.Newer(), db.QuickCheck(ctx)} {
		if err != nil {
			list = append(list, failed(err)...)
		}
	}
	if list == nil {
		list = append(list, well("%s, schema %d, sound", dir, db.Schema()))
	}
	return append(list, stateDangers(dir)...)
}

// stateDangers: what is on a network is refused already; what a reboot forgets is not.
func stateDangers(dir string) []finding {
	if name, lasts := fileSystem(dir); name != "" && !lasts {
		return []finding{wary(dir+" is on "+name+", which is empty after a reboot: holds, attempts and totals are forgotten then",
			"name a folder on a disk with --state-dir, also in the schedule's line")}
	}
	return nil
}

// lastPass repeats what stood in the way of the last one, and what stops the project.
func lastPass(ctx context.Context, at *place, db *state.DB) []finding {
	var list []finding
	last, known, err := db.LastPass(ctx)
	if err != nil {
		return failed(err)
	}
	var errs []string
	for _, e := range last.Errors {
		errs = append(errs, e.Code+": "+e.Message)
	}
	if known && len(errs) > 0 {
		list = append(list, wary(fmt.Sprintf("the last pass, %s ago by %s, said: %s", term.Age(at.p.Env.Now(), last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			"symphony tick runs one now, with what to do"))
	}
	rec, err := db.State(ctx)
	if err != nil {
		return append(list, failed(err)...)
	}
	if rec.Paused {
		list = append(list, wary("it is paused: nothing new is started", "symphony resume"))
	}
	b := project.BlockedBy(rec)
	if b == nil && at.cfg != nil {
		b = project.AccountBlock(project.OpenAccount(at.p, at.cfg.Codex.Home), at.p.Env.Now())
	}
	if b != nil {
		list = append(list, wary(fmt.Sprintf("blocked since %s ago by %s: %s", term.Age(at.p.Env.Now(), b.Since), b.Reason, b.Message), "symphony ps shows when it is tried again"))
	}
	return list
}

// checkWorkers asks whether a worker started from here lives on when its pass has ended.
func checkWorkers(ctx context.Context, at *place) []finding {
	runners := shelterOnly(at.p)
	if err := runners.Shelter(ctx); err != nil {
		return failed(err)
	}
	return []finding{standingOf(proc.Look(at.p.Env.Environ))}
}

// standingOf says what becomes of workers at a logout.
func standingOf(s proc.Standing) finding {
	switch {
	case !s.Booted:
		return well("live on when their pass ends; no systemd runs this machine")
	case s.Root, s.Manager && s.Lingers:
		return well("live on when their pass ends, and after a logout")
	case s.Manager:
		return wary("your user does not linger: timers of yours, and what they start, end with your last logout", "loginctl enable-linger")
	}
	return well("live on when their pass ends")
}
