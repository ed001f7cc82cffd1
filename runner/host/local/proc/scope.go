package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Slice is the systemd slice of all scopes: stopping it ends every worker.
const Slice = "symphony.slice"

// ScopeUnit is the name of the systemd scope of a run's worker.
func ScopeUnit(runID string) string { return "symphony-" + runID + ".scope" }

// isScope reports whether cgroup is the path of the run's scope. Nothing else in a scope file is believed: an empty line,
// "/" or the cgroup of a login session would make unrelated processes the run's.
func isScope(cgroup, runID string) bool {
	return runID != "" && strings.HasPrefix(cgroup, "/") && !strings.Contains(cgroup, "\n") &&
		path.Clean(cgroup) == cgroup && path.Base(cgroup) == ScopeUnit(runID)
}

// ReadScope reads the file in which a worker has recorded its OwnScope; empty if there is no file or it does not name the
// scope of this run.
func ReadScope(file, runID string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("scope file: %w", err)
	}
	if cgroup := strings.TrimSuffix(string(b), "\n"); isScope(cgroup, runID) {
		return cgroup, nil
	}
	return "", nil
}

// Scope is a systemd scope that a process is started in.
type Scope struct {
	Unit, Description string
	manager           manager
}

// PassScope returns the scope for a pass that the worker of a run starts, nil if the worker itself has none. The pass must
// not stay in the worker's scope, whose processes belong to the run and are ended with it.
func PassScope(env []string, runID string) *Scope {
	if _, ok := OwnScope(runID); !ok {
		return nil
	}
	managers := readSurroundings(env).managers()
	if len(managers) == 0 {
		return nil
	}
	return &Scope{Unit: ScopeUnit("pass-" + runID), Description: "symphony: a pass after run " + runID, manager: managers[0]}
}

// command returns the command line that runs argv in the scope. It uses only options that old versions of systemd have.
func (s *Scope) command(systemdRun string, argv ...string) []string {
	// systemd refuses a description with a line break or invalid text.
	description := []rune(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s.Description))
	return append([]string{
		systemdRun, s.manager.flag(), "--scope", "--quiet", "--collect", "--no-ask-password", "--unit=" + s.Unit,
		"--slice=" + Slice, "--description=" + string(description[:min(len(description), 100)]), "--",
	}, argv...)
}

// wrap changes a program, its arguments and its environment so that it starts in the scope. The program itself sees env.
func (s *Scope) wrap(exe string, argv, env []string) (string, []string, []string, error) {
	systemdRun, err := exec.LookPath("systemd-run")
	if err != nil {
		return "", nil, nil, err
	}
	inner := append([]string{pathForOthers(exe)}, argv[1:]...)
	if s.manager.user && lookup(env, runtimeVar) != s.manager.runtime {
		isRuntime := func(e string) bool { return strings.HasPrefix(e, runtimeVar+"=") }
		restore := []string{"env", "-u", runtimeVar}
		if i := slices.IndexFunc(env, isRuntime); i >= 0 {
			restore = []string{"env", env[i]}
		}
		inner = append(restore, inner...)
		env = append(slices.DeleteFunc(slices.Clone(env), isRuntime), runtimeVar+"="+s.manager.runtime)
	}
	return systemdRun, s.command(systemdRun, inner...), env, nil
}

// pathForOthers returns a path by which another program finds this executable: /proc/self would be its own. An executable
// that was replaced or removed is reached only through this process.
func pathForOthers(exe string) string {
	if !strings.HasPrefix(exe, "/proc/self/") {
		return exe
	}
	if link, err := os.Readlink(exe); err == nil {
		own, err := os.Stat(exe)
		linked, linkErr := os.Stat(link)
		if err == nil && linkErr == nil && os.SameFile(own, linked) {
			return link
		}
	}
	return "/proc/" + strconv.Itoa(os.Getpid()) + strings.TrimPrefix(exe, "/proc/self")
}

// scopeStep is how often WaitForScope looks.
const scopeStep = 2 * time.Millisecond

// WaitForScope waits, for two seconds at most, until a process that was started in a scope is in it. An error says why it
// is not.
func (d *Detached) WaitForScope(ctx context.Context, scope *Scope) error {
	ctx, cancel := context.WithTimeout(ctx, systemdLimit)
	defer cancel()
	step := time.NewTicker(scopeStep)
	defer step.Stop()
	for {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(d.process.PID) + "/cgroup")
		if err == nil && path.Base(systemdCgroup(string(b))) == scope.Unit {
			return nil
		}
		select {
		case <-step.C:
		case <-d.done:
			if d.status == "exit status 0" { // it ended before the first look
				return nil
			}
			return &DiedError{Status: d.status}
		case <-ctx.Done():
			return fmt.Errorf("no %s within %v", scope.Unit, systemdLimit)
		}
	}
}
