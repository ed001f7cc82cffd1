package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Scope is the scope for the worker of a run, nil where it needs none or can have none. It is known after Ask.
func (s *Shelter) Scope(runID, issue string) *Scope {
	if s == nil || s.manager == nil {
		return nil
	}
	return &Scope{Unit: ScopeUnit(runID), Description: "symphony: " + issue, manager: *s.manager}
}

// PassScope is the scope for a pass that the worker of a run starts, nil where the worker itself has none. It must
// not stay in the worker's: whatever stands there belongs to the run, and is ended with it.
func PassScope(env []string, runID string) *Scope {
	if _, ok := OwnScope(runID); !ok {
		return nil
	}
	for _, m := range lookAround(env).managers() {
		return &Scope{Unit: ScopeUnit("pass-" + runID), Description: "symphony: a pass after run " + runID, manager: m}
	}
	return nil
}

// Scope is a scope of systemd that a process is started in.
type Scope struct {
	Unit, Description string
	manager           manager
}

// command is the line that becomes the given one in the scope. Only options that systemd has had for long.
func (s *Scope) command(run string, argv ...string) []string {
	return append([]string{
		run, s.manager.flag(), "--scope", "--quiet", "--collect", "--no-ask-password",
		"--unit=" + s.Unit, "--slice=" + Slice, "--description=" + plain(s.Description), "--",
	}, argv...)
}

// wrap changes what is to be started so that it starts in the scope. The worker's own environment stays as it is.
func (s *Scope) wrap(exe string, argv, env []string) (string, []string, []string, error) {
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return "", nil, nil, err
	}
	inner := append([]string{forOthers(exe)}, argv[1:]...)
	if s.manager.user && lookup(env, runtimeVar) != s.manager.runtime {
		restore := []string{"env", "-u", runtimeVar}
		if i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, runtimeVar+"=") }); i >= 0 {
			restore = []string{"env", env[i]}
		}
		inner = append(restore, inner...)
		env = append(slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, runtimeVar+"=") }), runtimeVar+"="+s.manager.runtime)
	}
	return run, s.command(run, inner...), env, nil
}

// forOthers is a path by which another program finds our executable: /proc/self would be its own. One that was
// replaced or removed since has none but that of our process.
func forOthers(exe string) string {
	if !strings.HasPrefix(exe, "/proc/self/") {
		return exe
	}
	if link, err := os.Readlink(exe); err == nil {
		ours, err := os.Stat(exe)
		theirs, linkErr := os.Stat(link)
		if err == nil && linkErr == nil && os.SameFile(ours, theirs) {
			return link
		}
	}
	return "/proc/" + strconv.Itoa(os.Getpid()) + strings.TrimPrefix(exe, "/proc/self")
}

// plain makes a text fit for a description, which systemd refuses with a line break or broken letters in it.
func plain(text string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, text))
	return string(runes[:min(len(runes), 100)])
}

// Moved waits until a process that was started in a scope has come there, at most as long as Ask. An error says
// why it will not.
func (d *Detached) Moved(ctx context.Context, scope *Scope) error {
	ctx, cancel := context.WithTimeout(ctx, systemdBound)
	defer cancel()
	step := time.NewTicker(scopeStep)
	defer step.Stop()
	for {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(d.process.PID) + "/cgroup")
		if err == nil && path.Base(systemdCgroup(b)) == scope.Unit {
			return nil
		}
		select {
		case <-step.C:
		case <-d.done:
			if d.status == "exit status 0" { // it was quick
				return nil
			}
			return &DiedError{Status: d.status}
		case <-ctx.Done():
			return fmt.Errorf("no %s within %v", scope.Unit, systemdBound)
		}
	}
}
