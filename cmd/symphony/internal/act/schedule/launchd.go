package schedule

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// usesLaunchd is set if the schedule without a flag is a job of launchd. Tests set it.
var usesLaunchd = runtime.GOOS == "darwin"

// shortestLaunchd is the least time between two starts of a job by launchd.
const shortestLaunchd = 10 * time.Second

// launchd is the schedule of a job of the user's launchd, an agent in its words: a property
// list below ~/Library/LaunchAgents.
type launchd struct{ files }

func newLaunchd(s *plan) *launchd {
	return &launchd{files{
		plan: s,
		list: []file{{path: filepath.Join(s.caller.Env.Home, "Library", "LaunchAgents", s.name()+".plist")}},
	}}
}

// log is the file to which the passes of launchd print their errors.
func (s *plan) log() string {
	return filepath.Join(s.caller.Env.Home, "Library", "Logs", s.name()+".log")
}

// launchctl calls launchctl.
func (l *launchd) launchctl(ctx context.Context, args ...string) (string, error) {
	return runProgram(ctx, l.caller.Env, "", nil, "launchctl", args...)
}

// domain is launchd's name for the login session of this account, which starts the jobs of
// ~/Library/LaunchAgents.
func domain() string { return "gui/" + strconv.Itoa(os.Geteuid()) }

// service is launchd's name for the job.
func (l *launchd) service() string { return domain() + "/" + l.name() }

// unload ends the schedule of a job that is loaded. A pass that is running gets SIGTERM.
func (l *launchd) unload(ctx context.Context) error {
	if _, err := l.launchctl(ctx, "print", l.service()); err != nil {
		return nil //nolint:nilerr // it is not loaded
	}
	_, err := l.launchctl(ctx, "bootout", l.service())
	return err
}

func (*launchd) options() Options { return Options{} }

func (l *launchd) remove(ctx context.Context) error {
	if err := l.unload(ctx); err != nil {
		return err
	}
	return l.removeFiles(l.list[0].path)
}

func (l *launchd) refuse(ctx context.Context, _ time.Duration) error {
	if _, err := l.launchctl(ctx, "print", domain()); err != nil {
		return reconcile.NewError(
			"schedule_failed",
			"launchd has no session of this account: "+exit.From(err).Message,
			"log in at the Mac once, or use --cron",
		)
	}
	return nil
}

// install implements scheduler. It loads the job again if its file differs, and completes an
// interrupted install.
func (l *launchd) install(ctx context.Context) error {
	if err := l.read(); err != nil {
		return err
	}
	_, notLoaded := l.launchctl(ctx, "print", l.service())
	if notLoaded != nil || !slices.Equal(l.list, l.wanted()) {
		if err := l.unload(ctx); err != nil {
			return err
		}
		if err := l.write(); err != nil {
			return err
		}
		if err := l.load(ctx); err != nil {
			return err
		}
	}
	l.changes.done(
		fmt.Sprintf(
			"%s runs a pass every %s; its errors are in %s",
			l.name(),
			text.Took(l.every.Milliseconds()),
			l.log(),
		),
	)
	return nil
}

// load switches the job on. For some seconds after it was unloaded, launchd refuses to load
// it.
func (l *launchd) load(ctx context.Context) error {
	if _, err := l.launchctl(ctx, "enable", l.service()); err != nil {
		return err
	}
	now := l.caller.Env.Now
	for end := now().Add(managerPatience); ; {
		_, err := l.launchctl(ctx, "bootstrap", domain(), l.list[0].path)
		if err == nil || !now().Before(end) || !wiring.Sleep(ctx, wiring.WaitStep) {
			return err
		}
	}
}

// LaunchdStatus is launchd's state of an installed job.
type LaunchdStatus struct {
	Label  string `json:"label"`
	Path   string `json:"path"`
	Loaded bool   `json:"loaded"`
	// Exit is the exit code of the last pass; null if launchd does not know it.
	Exit *int `json:"last_exit_code"`
}

func (l *launchd) addStatus(ctx context.Context, out *Status) {
	said, err := l.launchctl(ctx, "print", l.service())
	row := &LaunchdStatus{Label: l.name(), Path: l.list[0].path, Loaded: err == nil}
	code, notKnown := strconv.Atoi(lineAfter(said, "\tlast exit code = "))
	if notKnown == nil {
		row.Exit = &code
	}
	out.Launchd = row
	switch {
	case !row.Loaded:
		out.addProblem(
			"%s is not loaded: symphony schedule install -w %s",
			row.Label,
			text.ShellQuote(l.p.Path),
		)
	case row.Exit != nil && *row.Exit != 0:
		out.addProblem("the last pass failed with exit code %d: see %s", *row.Exit, l.log())
	}
}
