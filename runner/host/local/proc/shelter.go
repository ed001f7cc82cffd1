package proc

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
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

// Shelter keeps workers alive when what their pass stands in ends: a service, or somebody's session. systemd ends all
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
type Shelter struct {
	// Env is the environment that systemd's programs are found and started with.
	Env []string

	once    sync.Once
	err     error
	manager *manager // nil: workers are started as they are
}

// MortalError says that a worker started now would end with the unit that the pass stands in.
type MortalError struct {
	// Unit is that service, KillMode what systemd says of its processes; empty if it did not say.
	Unit, KillMode string
	// Err is why systemd gives no scope.
	Err error
}

// Error implements error.
func (e *MortalError) Error() string {
	mode := "whose KillMode could not be found out"
	if e.KillMode != "" {
		mode = "KillMode=" + e.KillMode
	}
	return fmt.Sprintf("a worker would end with %s (%s), and systemd gives it no scope of its own: %v", e.Unit, mode, e.Err)
}

// Unwrap gives the reason of systemd.
func (e *MortalError) Unwrap() error { return e.Err }

// Ask finds out how workers can be started so that they live on, within two seconds, once. An error is a *MortalError:
// then they can't.
func (s *Shelter) Ask(ctx context.Context) error {
	s.once.Do(func() { s.err = s.ask(ctx, lookAround(s.Env)) })
	return s.err
}

func (s *Shelter) ask(ctx context.Context, h host) error {
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
	return &MortalError{Unit: h.unit, KillMode: mode, Err: why}
}

// try starts a program that ends at once in a scope of its own.
func (s *Shelter) try(ctx context.Context, h host) error {
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

func (s *Shelter) killMode(ctx context.Context, h host) (string, error) {
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
func (s *Shelter) output(ctx context.Context, m manager, argv []string) (string, error) {
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
