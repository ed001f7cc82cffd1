package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Slice is where systemd keeps all scopes of ours: stopping it ends every worker.
const Slice = "symphony.slice"

const (
	// systemdBound is how long a pass waits for all that it asks systemd, tryBound how much of that the attempt to
	// get a scope may take.
	systemdBound = 2 * time.Second
	tryBound     = 1500 * time.Millisecond
	// scopeStep is how often is looked whether a process has come into its scope.
	scopeStep = 2 * time.Millisecond
)

// runtimeVar names the variable by which systemd's programs find the manager of a user.
const runtimeVar = "XDG_RUNTIME_DIR"

// ScopeManager keeps workers alive when what their pass stands in ends: a service, or somebody's session. systemd ends all
// processes of such a unit together, whatever session or process group they have; only another unit is safe, so that
// each worker gets a scope.
//
// Decisions:
//
//   - A scope is asked for with systemd-run --scope, in front of the worker's command line. It moves itself into the
//     new scope and then becomes the worker: same pid, same parent, same descriptors, no moment in which the worker
//     lives outside. Moving a worker that lives already (busctl call … StartTransientUnit) would take a second round
//     between worker and pass, fails where no bus daemon runs (systemd-run talks to the manager itself), and is no
//     faster: 15 ms, and 4 ms for each further worker beside the first.
//   - Whether scopes can be had is tried, once in a pass and only if it starts something: no permission, file or
//     version that could be read says it for sure.
//   - From outside its tree a user's manager is asked only if that user lingers. Else it ends with the last login, and
//     its scopes with it, while a process that has none often lives on.
type ScopeManager struct {
	// Env is the environment that systemd's programs are found and started with.
	Env []string

	once    sync.Once
	err     error
	manager *manager // nil: workers are started as they are
}

// NoScopeError says that a worker started now would end with the unit that the pass stands in.
type NoScopeError struct {
	// Unit is that service, KillMode what systemd says of its processes; empty if it did not say.
	Unit, KillMode string
	// Err is why systemd gives no scope.
	Err error
}

// Error implements error.
func (e *NoScopeError) Error() string {
	mode := "whose KillMode could not be found out"
	if e.KillMode != "" {
		mode = "KillMode=" + e.KillMode
	}
	return fmt.Sprintf("a worker would end with %s (%s), and systemd gives it no scope of its own: %v", e.Unit, mode, e.Err)
}

// Unwrap gives the reason of systemd.
func (e *NoScopeError) Unwrap() error { return e.Err }

// Ask finds out how workers can be started so that they live on, within two seconds, once. An error is a *NoScopeError:
// then they can't.
func (s *ScopeManager) Ask(ctx context.Context) error {
	s.once.Do(func() { s.err = s.ask(ctx, readHost(s.Env)) })
	return s.err
}

func (s *ScopeManager) ask(ctx context.Context, h host) error {
	if !h.booted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, systemdBound)
	defer cancel()
	why := s.try(ctx, h)
	if why == nil || !h.inService() {
		return nil
	}
	mode, err := s.killMode(ctx, h)
	if err == nil && (mode == "process" || mode == "none") {
		return nil
	}
	if err != nil {
		why = fmt.Errorf("%w; %w", why, err)
	}
	return &NoScopeError{Unit: h.unit, KillMode: mode, Err: why}
}

// try starts a program that ends at once in a scope of its own.
func (s *ScopeManager) try(ctx context.Context, h host) error {
	ctx, cancel := context.WithTimeout(ctx, tryBound)
	defer cancel()
	why := errors.New("no manager of " + strconv.Itoa(h.uid) + "'s that lasts is running")
	for _, m := range h.managers() {
		scope := &Scope{Unit: ScopeUnit("probe-" + strings.ToLower(rand.Text()[:10])), Description: "symphony: can workers have scopes?", manager: m}
		run, err := exec.LookPath("systemd-run")
		if err != nil {
			return err
		}
		if _, err = s.output(ctx, m, scope.command(run, run, "--version")); err == nil {
			s.manager = &m
			return nil
		}
		why = err
	}
	return why
}

func (s *ScopeManager) killMode(ctx context.Context, h host) (string, error) {
	ctl, err := exec.LookPath("systemctl")
	if err != nil {
		return "", err
	}
	m := manager{user: h.owner >= 0, runtime: h.runtime}
	mode, err := s.output(ctx, m, []string{ctl, m.flag(), "show", "-p", "KillMode", "--value", h.unit})
	if err == nil && mode == "" {
		err = fmt.Errorf("systemctl knows no %s", h.unit)
	}
	return mode, err
}

// output runs one of systemd's programs. It gets none of our descriptors, and of our environment what it needs.
func (s *ScopeManager) output(ctx context.Context, m manager, argv []string) (string, error) {
	if err := sealDescriptors(); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.WaitDelay = "/", 100*time.Millisecond
	cmd.Env = []string{"LC_ALL=C", "PATH=" + lookup(s.Env, "PATH")}
	if m.user {
		cmd.Env = append(cmd.Env, runtimeVar+"="+m.runtime)
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err == nil {
		return strings.TrimSpace(out.String()), nil
	}
	name := filepath.Base(argv[0])
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s does not answer", name)
	}
	if text := strings.Join(strings.Fields(complaint.String()), " "); text != "" {
		return "", fmt.Errorf("%s: %s", name, text)
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// Scope is the scope for the worker of a run, nil where it needs none or can have none. It is known after Ask.
func (s *ScopeManager) Scope(runID, issue string) *Scope {
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
	for _, m := range readHost(env).managers() {
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
