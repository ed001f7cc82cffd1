package proc

import (
	"cmp"
	"context"
	"crypto/rand"
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

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	systemdLimit = 2 * time.Second         // for all questions of a pass to systemd
	probeLimit   = 1500 * time.Millisecond // of that, for the attempt to get a scope
)

// runtimeVar is the variable by which systemd's programs find the manager of a user.
const runtimeVar = "XDG_RUNTIME_DIR"

// ScopeManager starts workers in systemd scopes, so that they survive the unit of their pass:
// when a service or a login session ends, systemd ends all its processes, in whatever session
// or process group they are.
//
// systemd-run --scope before the worker's command line creates the scope. It moves itself into
// the new scope and then executes the worker: same pid, parent and descriptors. Whether scopes
// are available is tried once in a pass, and only if it starts a worker, because no
// permission, file or version shows it reliably.
type ScopeManager struct {
	// Env is the environment that systemd's programs are found and started with.
	Env []string

	once    sync.Once
	err     error
	manager *manager // nil: workers are started without a scope

	limits limiter
}

// Ask finds out, once and within two seconds, how workers must be started to survive. It
// returns an error if they cannot.
func (s *ScopeManager) Ask(ctx context.Context) error {
	s.once.Do(func() { s.err = s.ask(ctx, ReadHostUnit(s.Env)) })
	return s.err
}

func (s *ScopeManager) ask(ctx context.Context, at HostUnit) error {
	if !at.Booted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, systemdLimit)
	defer cancel()
	reason := s.probe(ctx, at)
	if reason == nil || !at.inService() {
		return nil
	}
	m := manager{user: at.owner >= 0, runtime: at.runtime}
	mode, err := s.output(ctx, m, "systemctl", m.flag(), "show", "-p", "KillMode", "--value", at.Unit)
	switch {
	case mode == "process", mode == "none":
		return nil
	case err != nil:
		mode = "KillMode unknown"
		reason = fmt.Errorf("%w; %w", reason, err)
	default:
		mode = "KillMode=" + mode
	}
	message := fmt.Sprintf(
		"a worker would end with %s (%s), and systemd gives it no scope: %v",
		at.Unit,
		mode,
		reason,
	)
	hint := "write KillMode=process into the [Service] section of " + at.Unit +
		", or run loginctl enable-linger, or let the pass wait for its runs: symphony tick --wait"
	return reconcile.NewError(reconcile.CodeWorkersWouldDie, message, hint).WithCause(reason)
}

// probe starts a short program in a new scope, and stores the manager that allowed it.
func (s *ScopeManager) probe(ctx context.Context, at HostUnit) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	scope := Scope{description: "symphony: can workers have scopes?"}
	whatever := func(string) error { return nil }
	m, err := s.firstManager(ctx, at, scope, []string{"systemd-run", "--version"}, whatever)
	if err != nil {
		return err
	}
	s.manager = &m
	return nil
}

// firstManager starts a short program in a scope of each manager in turn, and returns the first
// one whose output is accepted. The error is that of the last one.
func (s *ScopeManager) firstManager(
	ctx context.Context,
	at HostUnit,
	scope Scope,
	program []string,
	accept func(said string) error,
) (manager, error) {
	reason := fmt.Errorf("no lasting systemd manager of user %d is running", at.uid)
	for _, m := range at.managers() {
		scope.unit = uniqueUnit("symphony-probe")
		scope.manager = m
		var said string
		said, reason = s.output(ctx, m, "systemd-run", append(scope.options(), program...)...)
		if reason != nil {
			continue
		}
		reason = accept(said)
		if reason == nil {
			return m, nil
		}
	}
	return manager{}, reason
}

// uniqueUnit returns the name of a scope that no other has, such as
// symphony-probe-abcdefghij.scope.
func uniqueUnit(prefix string) string {
	return prefix + "-" + strings.ToLower(rand.Text()[:10]) + ".scope"
}

// output runs a program of systemd and returns its output. The program inherits no descriptors
// of this process, and only the variables that it needs.
func (s *ScopeManager) output(
	ctx context.Context,
	m manager,
	program string,
	args ...string,
) (string, error) {
	if err := SealDescriptors(); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=" + lookup(s.Env, "PATH")}
	if m.user {
		cmd.Env = append(cmd.Env, runtimeVar+"="+m.runtime)
	}
	stdout, stderr, err := Output(cmd)
	if err != nil {
		said := strings.Join(strings.Fields(stderr), " ")
		if ctx.Err() != nil {
			return "", fmt.Errorf("%s does not answer", program)
		}
		if said != "" {
			return "", fmt.Errorf("%s: %s", program, said)
		}
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return strings.TrimSpace(stdout), nil
}

// Scope returns the scope for the worker of a run, nil if it needs none or none is available.
// Ask must be called first.
func (s *ScopeManager) Scope(runID, issue string) *Scope {
	if s == nil || s.manager == nil {
		return nil
	}
	return &Scope{unit: "symphony-" + runID + ".scope", description: "symphony: " + issue, manager: *s.manager}
}

// Scope is a systemd scope that a process is started in.
type Scope struct {
	unit, description string
	manager           manager
	properties        []string // such as TasksMax=100
}

// options returns the arguments of systemd-run before the command. Old versions of systemd
// have these options, too.
func (s *Scope) options() []string {
	options := []string{
		s.manager.flag(),
		"--scope",
		"--quiet",
		"--collect",
		"--no-ask-password",
		"--unit=" + s.unit,
		"--slice=symphony.slice",
		// systemd refuses line breaks and invalid text
		"--description=" + strings.Trim(strconv.QuoteToASCII(s.description), `"`),
	}
	for _, property := range s.properties {
		options = append(options, "--property="+property)
	}
	return append(options, "--")
}

// wrap changes a command so that it starts in the scope.
func (s *Scope) wrap(cmd *exec.Cmd) error {
	systemdRun, err := exec.LookPath("systemd-run")
	if err != nil {
		return err
	}
	exe := cmd.Path
	// in systemd-run, that would be systemd-run itself
	if rest, ok := strings.CutPrefix(exe, "/proc/self/"); ok {
		link, err := os.Readlink(exe)
		exe = link
		if err != nil || strings.HasSuffix(link, " (deleted)") {
			exe = "/proc/" + strconv.Itoa(os.Getpid()) + "/" + rest
		}
	}
	command := append([]string{exe}, cmd.Args[1:]...)
	// the worker gets its own value back
	if own := lookup(cmd.Env, runtimeVar); s.manager.user && own != s.manager.runtime {
		restore := []string{"env", runtimeVar + "=" + own}
		if own == "" {
			restore = []string{"env", "-u", runtimeVar}
		}
		command = append(restore, command...)
		cmd.Env = append(cmd.Env, runtimeVar+"="+s.manager.runtime)
	}
	cmd.Path = systemdRun
	cmd.Args = slices.Concat([]string{systemdRun}, s.options(), command)
	return nil
}

// manager is a systemd manager: the system's, or the manager of this user.
type manager struct {
	user    bool
	runtime string // XDG_RUNTIME_DIR, for the user's
}

func (m manager) flag() string {
	if m.user {
		return "--user"
	}
	return "--system"
}

// HostUnit describes where this process runs, which decides whether workers of a pass started
// here survive.
type HostUnit struct {
	// Booted: systemd runs this machine.
	Booted bool
	// Unit is the innermost service or scope that contains this process; empty if there is
	// none.
	Unit string
	// Manager: the systemd manager of this user is reachable. Lingers: it survives the last
	// logout.
	Manager, Lingers bool
	// Root: this process belongs to root, which can use the system's manager.
	Root bool

	uid     int
	owner   int    // the user whose manager created Unit; -1 for the system's manager
	runtime string // the runtime directory of this user's manager, which need not run
}

// ReadHostUnit finds out where this process runs, without asking systemd.
func ReadHostUnit(env []string) HostUnit {
	at := HostUnit{uid: os.Geteuid(), owner: -1}
	at.Root = at.uid == 0
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return at
	}
	at.Booted = true
	at.runtime = cmp.Or(lookup(env, runtimeVar), "/run/user/"+strconv.Itoa(at.uid))
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return at // without cgroups, no unit ends its processes
	}
	at.Unit, at.owner = unitOf(systemdCgroup(string(b)))
	for _, socket := range []string{"systemd/private", "bus"} {
		info, err := os.Stat(filepath.Join(at.runtime, socket))
		at.Manager = at.Manager || err == nil && info.Mode()&os.ModeSocket != 0
	}
	at.Lingers = lingers("/", at.uid)
	return at
}

func (at HostUnit) inService() bool { return strings.HasSuffix(at.Unit, ".service") }

// managers returns the managers that may provide a lasting scope, the best first. A user's
// manager is used from outside its units only if that user lingers. Otherwise the manager and
// its scopes end with the last logout.
func (at HostUnit) managers() []manager {
	system := manager{}
	user := manager{user: true, runtime: at.runtime}
	inScopeOfSystem := strings.HasPrefix(at.Unit, "symphony-") && strings.HasSuffix(at.Unit, ".scope")
	switch {
	case !at.Booted:
		return nil
	case at.owner == at.uid:
		return []manager{user}
	case at.Root || inScopeOfSystem:
		return []manager{system}
	}
	var list []manager
	if at.Manager && at.Lingers {
		list = append(list, user)
	}
	if at.inService() { // the system's manager may allow it to the account of the service
		list = append(list, system)
	}
	return list
}

// unitOf returns the innermost unit in the path of a cgroup, and the owner of its manager.
// Units may create cgroups below their own.
func unitOf(cgroup string) (unit string, owner int) {
	owner = -1
	for name := range strings.SplitSeq(cgroup, "/") {
		name = strings.TrimPrefix(name, "_") // systemd's escape for names that the kernel might use
		if uid, ok := strings.CutPrefix(unit, "user@"); ok && name != "" {
			if n, err := strconv.Atoi(strings.TrimSuffix(uid, ".service")); err == nil {
				owner = n
			}
		}
		if strings.HasSuffix(name, ".service") || strings.HasSuffix(name, ".scope") {
			unit = name
		}
	}
	return unit, owner
}

// systemdCgroup returns the path of a process in systemd's cgroup hierarchy, from its file
// /proc/PID/cgroup: of "9:name=systemd:/a.service" on older systems, otherwise of the unified
// hierarchy, "0::/a.service".
func systemdCgroup(file string) string {
	unified := ""
	for line := range strings.Lines(file) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		controllers := fields[1]
		cgroup := fields[2]
		switch controllers {
		case "name=systemd":
			return cgroup
		case "":
			unified = cgroup
		}
	}
	return unified
}

// lingers reports whether the manager of a user survives the last logout. If logind does not
// know the user, or is not running, no logout ends the manager.
func lingers(root string, uid int) bool {
	b, err := os.ReadFile(path.Join(root, "run/systemd/users", strconv.Itoa(uid)))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "NAME="); ok {
			_, err := os.Stat(path.Join(root, "var/lib/systemd/linger", name))
			return err == nil
		}
	}
	return false
}

// lookup returns the value of a variable in an environment; the last Entry wins.
func lookup(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// LookPath returns the path of a program, by the last PATH of an environment; empty if it is
// not there.
func LookPath(name string, env []string) string {
	for _, dir := range filepath.SplitList(lookup(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue // exec.LookPath would look for a name alone in the PATH of this process
		}
		path, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return path
		}
	}
	return ""
}
