package schedule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Remove takes away what install wrote. It needs no workflow that can be read, nor any that is still there.
func Remove(ctx context.Context, p *project.Project, o Options) error {
	if err := p.Nested(); err != nil {
		return err
	}
	st, err := FindInstalled(ctx, p)
	if err != nil {
		return err
	}
	removed, stateDirs := 0, []string{p.StateDir}
	var left error
	by := "" // who can end what runs, where that is somebody else
	for _, u := range st.Units {
		if o.Cron || o.System != u.system && o.System {
			continue
		}
		if u.system && os.Geteuid() != 0 {
			left = needsRoot("sudo " + term.ShellQuote(project.ProgramPath()) + " schedule remove --system -w " + term.ShellQuote(p.Path))
			continue
		}
		if err := removeUnits(ctx, p, u); err != nil {
			return err
		}
		removed++
		if dir := stateDirOf(p, u.runAs); u.system && dir != "" && !slices.Contains(stateDirs, dir) {
			stateDirs, by = append(stateDirs, dir), ", as "+u.runAs+","
		}
	}
	if !o.System {
		if o.Cron && st.lineErr != nil {
			return st.lineErr
		}
		if st.Line != "" {
			if _, err := removeLine(ctx, p); err != nil {
				return err
			}
			removed++
		}
	}
	if removed == 0 && left == nil {
		fmt.Fprintf(p.Env.Stdout, "nothing is installed for %s\n", term.Visible(p.Path))
	}
	return errors.Join(sayWhatRuns(ctx, p, stateDirs, by), left)
}

// removeUnits switches a timer off and takes its files away, with the stamp of Persistent. A pass that is at work ends by
// itself.
func removeUnits(ctx context.Context, p *project.Project, u installedUnit) error {
	for _, path := range []string{u.Service, u.timer} {
		if _, err := ownUnit(path); err != nil {
			return err
		}
	}
	ctl, timer, service := serviceManager{p.Env, u.system}, filepath.Base(u.timer), filepath.Base(u.Service)
	standing := proc.ReadHostUnit(p.Env.Environ)
	reachable := standing.Booted && (u.system || standing.Manager)
	if reachable { // and forgets units that nothing needs any more, once their files are gone
		if err := switchOff(ctx, ctl, timer, service); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.Env.Stderr, "symphony: warning: no systemd of yours is to be reached: the files of %s are removed, and nothing is stopped\n", timer)
	}
	wanted := filepath.Join(filepath.Dir(u.timer), "timers.target.wants", timer)
	for _, path := range []string{wanted, timerStamp(p.Env, u.system, timer), u.timer, u.Service} { // the service last: while it is there, remove can be repeated
		if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return unwritten(path, err)
		}
		fmt.Fprintln(p.Env.Stdout, "removed", term.Visible(path))
	}
	for _, path := range []string{u.timer + ".d", u.Service + ".d"} {
		if project.Exists(path) {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: %s is yours, and stays\n", term.Visible(path))
		}
	}
	return nil
}

// stamp is where systemd notes a timer's last pass, for Persistent. systemctl clean removes it, where systemd can be asked.
func timerStamp(w *term.Env, system bool, timer string) string {
	if system {
		return "/var/lib/systemd/timers/stamp-" + timer
	}
	return filepath.Join(w.Home, ".local", "share", "systemd", "timers", "stamp-"+timer)
}

func switchOff(ctx context.Context, ctl serviceManager, timer, service string) error {
	found, err := ctl.properties(ctx, []string{"LoadState", "ActiveState"}, timer, service)
	if err != nil {
		return err
	}
	if found[timer]["LoadState"] == "loaded" {
		for _, args := range [][]string{{"disable", "--quiet", "--now", timer}, {"clean", "--what=state", timer}} {
			if _, err := ctl.run(ctx, args...); err != nil {
				return err
			}
		}
	}
	for _, unit := range []string{timer, service} { // else it is listed as failed until the next boot
		if found[unit]["ActiveState"] == "failed" {
			if _, err := ctl.run(ctx, "reset-failed", unit); err != nil {
				return err
			}
		}
	}
	return nil
}

// stateDirOf is the usual state directory of this workflow for another account; empty where there is no such account.
func stateDirOf(p *project.Project, name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return state.DefaultDir("", u.HomeDir, p.Path)
}

// sayWhatRuns names the workers: no schedule ends them. Their own passes go on for a while, too.
func sayWhatRuns(ctx context.Context, p *project.Project, stateDirs []string, by string) error {
	names, err := whatRuns(ctx, p, stateDirs)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		fmt.Fprintf(p.Env.Stdout, "still running: %s\n  they may end by themselves; symphony stop --all -w %s%s ends them\n", term.Visible(strings.Join(names, ", ")), term.ShellQuote(p.Path), by)
	}
	db, err := project.OpenForReading(ctx, p)
	if errors.Is(err, state.ErrNoState) || p.SourceErr != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
	if err == nil && alive && len(names) > 0 {
		fmt.Fprintln(p.Env.Stdout, "  until the last pass of the schedule is three of its gaps old, three minutes at least, a run that ends still starts the next; symphony pause prevents it")
	}
	return err
}

// whatRuns finds workers by what they hold and by their command lines: root must not open another account's database,
// whose files would then be root's.
func whatRuns(ctx context.Context, p *project.Project, stateDirs []string) (names []string, err error) {
	issue := func(string) string { return "" }
	if db, err := project.OpenForReading(ctx, p); err == nil { // otherwise a worker is named by its run
		defer db.Close()
		issue = func(runID string) string {
			run, err := db.Run(ctx, runID)
			if err != nil {
				return ""
			}
			return run.Identifier
		}
	}
	for _, dir := range stateDirs {
		workers, err := proc.Workers(dir)
		if err != nil {
			return nil, err
		}
		for _, id := range slices.Sorted(maps.Keys(workers)) {
			if !runner.Alive(dir, id) {
				continue
			}
			name := "run " + id
			if identifier := issue(id); identifier != "" {
				name = identifier
			}
			names = append(names, fmt.Sprintf("%s (pid %d)", name, workers[id].PID))
		}
	}
	return names, nil
}
