package schedule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
)

// Install may be repeated, and goes on where one that was cut short has stopped: each step looks at what is
// there, and nothing depends on an earlier step having been made by the same process.
func Install(ctx context.Context, p *project.Project, o Options) error {
	s, err := planSchedule(p, o)
	if err != nil {
		return err
	}
	if err := s.refused(ctx, o, managerPatience); err != nil {
		return err
	}
	s.warnInterval(o)
	changed := false
	if o.Cron {
		changed, err = s.installLine(ctx)
	} else {
		changed, err = s.installUnits(ctx)
	}
	if err != nil {
		return err
	}
	if !changed {
		fmt.Fprintln(p.Env.Stdout, "nothing to do: it is installed already")
	}
	return s.besides(ctx, o)
}

// installUnits writes what differs, and has systemd take it up.
func (s *scheduled) installUnits(ctx context.Context) (changed bool, err error) {
	w, ctl := s.caller.Env, serviceManager{s.caller.Env, s.system}
	if err := s.findDir(ctx, ctl); err != nil {
		return false, err
	}
	units := s.units()
	for _, u := range units {
		was, err := ownUnit(u.path)
		if err != nil {
			return false, err
		}
		if was == u.text {
			continue
		}
		if err := writeUnit(u); err != nil {
			return false, unwritten(u.path, err)
		}
		changed = true
		sayWritten(w, u, was)
	}
	timer := filepath.Base(units[1].path)
	found, err := ctl.properties(ctx, []string{"ActiveState", "UnitFileState", "NeedDaemonReload", "LoadState"}, timer, filepath.Base(units[0].path))
	if err != nil {
		return changed, err
	}
	stale := changed
	for _, unit := range found {
		stale = stale || unit["NeedDaemonReload"] == "yes" || unit["LoadState"] == "not-found"
	}
	on := found[timer]["ActiveState"] == "active" && found[timer]["UnitFileState"] == "enabled"
	if stale {
		if _, err := ctl.run(ctx, "daemon-reload"); err != nil {
			return changed, err
		}
	}
	if !on {
		if _, err := ctl.run(ctx, "enable", "--quiet", timer); err != nil {
			return changed, err
		}
	}
	if stale || !on { // a timer that runs would keep its old interval
		if _, err := ctl.run(ctx, "restart", timer); err != nil {
			return changed, err
		}
		fmt.Fprintf(w.Stdout, "%s runs a pass every %s\n", timer, s.every())
	}
	return stale || !on, nil
}

// findDir asks systemd which of the folders it reads.
func (s *scheduled) findDir(ctx context.Context, ctl serviceManager) error {
	read, err := ctl.run(ctx, "show", "-p", "UnitPath", "--value")
	if err != nil {
		return err
	}
	dirs := UnitDirs(s.caller.Env, s.system, s.who.home)
	for _, dir := range dirs {
		if strings.Contains(" "+strings.TrimSpace(read)+" ", " "+dir+" ") {
			s.dir = dir
			return nil
		}
	}
	return &reconcile.Error{
		Code: "schedule_failed", Message: "systemd reads no units in " + strings.Join(dirs, " nor in "),
		Hint: "it has another XDG_CONFIG_HOME: set the same here; systemctl --user show -p UnitPath shows what it reads",
	}
}

// ownUnit reads a unit that is to be rewritten or removed; empty where there is none.
func ownUnit(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", unwritten(path, err)
	}
	if !strings.HasPrefix(string(data), UnitMark) {
		return "", &reconcile.Error{
			Code: "schedule_foreign", Message: path + " was not written by symphony schedule install",
			Hint: "see what it is; move it away, and try again",
		}
	}
	return string(data), nil
}

func unwritten(path string, err error) error {
	return &reconcile.Error{Code: "schedule_failed", Message: path + ": " + err.Error(), Hint: "look at the permissions of its folder", Err: err}
}

// writeUnit puts a unit in its place at once: systemd never reads half of one.
func writeUnit(u unitFile) error {
	if err := os.MkdirAll(filepath.Dir(u.path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(u.path, []byte(u.text), 0o644)
}

// sayWritten tells what has become of a unit, line by line where there was one before.
func sayWritten(w *term.Env, u unitFile, was string) {
	if was == "" {
		fmt.Fprintln(w.Stdout, "wrote", term.Visible(u.path))
		return
	}
	fmt.Fprintln(w.Stdout, "rewrote", term.Visible(u.path))
	before, after := strings.Split(was, "\n"), strings.Split(u.text, "\n")
	for _, side := range []struct {
		mark         string
		lines, other []string
	}{{"-", before, after}, {"+", after, before}} {
		for _, line := range side.lines {
			if !slices.Contains(side.other, line) && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "Description=") {
				fmt.Fprintln(w.Stdout, "  "+side.mark, term.Visible(line))
			}
		}
	}
}

// besides names a schedule of another kind: two do no harm, but who stops one of them has not stopped the other.
func (s *scheduled) besides(ctx context.Context, o Options) error {
	st, err := FindInstalled(ctx, s.caller)
	if err != nil {
		return err
	}
	say := func(what, remove string) {
		fmt.Fprintf(s.caller.Env.Stderr, "symphony: warning: %s runs passes of this project, too; symphony schedule remove -w %s%s\n", what, term.ShellQuote(s.p.Path), remove)
	}
	if st.Line != "" && !o.Cron {
		say("a line of your crontab", " --cron takes it away")
	}
	for _, u := range st.Units {
		switch {
		case u.system && !o.System:
			say("a timer of the system", " --system takes it away")
		case !u.system && (o.System || o.Cron):
			say("a timer of your own", " takes away both")
		}
	}
	return nil
}
