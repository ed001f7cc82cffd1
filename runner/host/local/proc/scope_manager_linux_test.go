package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUnitOf(t *testing.T) {
	for _, row := range []struct {
		cgroup  string
		unit    string
		owner   int
		service bool
	}{
		{"/", "", -1, false},
		{"", "", -1, false},
		{"/..", "", -1, false},
		{"/system.slice/cron.service", "cron.service", -1, true},
		{"/system.slice/foo.service/payload/x", "foo.service", -1, true},
		{"/system.slice/system-foo.slice/foo@bar.service", "foo@bar.service", -1, true},
		{"/system.slice/_cgroup.service", "cgroup.service", -1, true},
		{"/user.slice/user-1000.slice/session-3.scope", "session-3.scope", -1, false},
		{"/user.slice/user-1000.slice/user@1000.service", "user@1000.service", -1, true},
		{"/user.slice/user-1000.slice/user@1000.service/init.scope", "init.scope", 1000, false},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/web-shop.service", "web-shop.service", 1000, true},
		{"/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope", "term.scope", 1000, false},
		{"/user.slice/user-1000.slice/user@1000.service/symphony.slice/symphony-x.scope", "symphony-x.scope", 1000, false},
		{"/system.slice/docker-0123.scope/a.b", "docker-0123.scope", -1, false},
		{"/system.slice/user@home.service/x.service", "x.service", -1, true},
	} {
		unit, owner := unitOf(row.cgroup)
		service := surroundings{HostUnit: HostUnit{Unit: unit}}.inService()
		if unit != row.unit || owner != row.owner || service != row.service {
			t.Errorf("%s: %s of %d, in a service: %v; want %+v", row.cgroup, unit, owner, service, row)
		}
	}
}

func TestSystemdCgroup(t *testing.T) {
	for file, want := range map[string]string{
		"0::/a.service\n": "/a.service",
		"9:name=systemd:/b.service\n1:cpu:/c\n0::/\n": "/b.service",
		"4:memory:/m\n9:name=systemd:/with:colon\n":   "/with:colon",
		"8:pids:/p\n": "",
		"":            "",
		"0::/user.slice/x:y.scope\n10:misc:/nowhere\n":  "/user.slice/x:y.scope",
		"0::/first\n9:name=systemd:/systemds.service\n": "/systemds.service",
	} {
		if got := systemdCgroup(file); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// Which systemd managers are asked for a scope, in which order.
func TestManagers(t *testing.T) {
	const session, service, ours = "session-1.scope", "x.service", "symphony-pass-1.scope"
	for _, row := range []struct {
		name               string
		uid, owner         int
		unit               string
		reachable, lingers bool
		want               string
	}{
		{"a service of the user's", 7, 7, service, true, false, "--user"},
		{"a terminal under the user's manager", 7, 7, "term.scope", true, false, "--user"},
		{"by hand", 7, -1, session, true, true, "--user"},
		{"by hand, a manager that ends with the login", 7, -1, session, true, false, ""},
		{"by hand, no manager", 7, -1, session, false, true, ""},
		{"cron", 7, -1, "cron.service", true, true, "--user --system"},
		{"a service of the system's", 7, -1, service, true, false, "--system"},
		{"a pass that the system gave a scope", 7, -1, ours, true, true, "--system"},
		{"root by hand", 0, -1, session, true, true, "--system"},
		{"root's service", 0, -1, service, false, false, "--system"},
		{"root in a user's service", 0, 7, service, true, true, "--system"},
		{"root in the service of root's manager", 0, 0, service, true, true, "--user"},
	} {
		unit := HostUnit{Booted: true, Unit: row.unit, Manager: row.reachable, Lingers: row.lingers, Root: row.uid == 0}
		h := surroundings{HostUnit: unit, uid: row.uid, owner: row.owner}
		var got []string
		for _, m := range h.managers() {
			got = append(got, m.flag())
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: %q, want %s", row.name, got, row.want)
		}
		if h.Booted = false; len(h.managers()) != 0 {
			t.Errorf("%s: without systemd: %v", row.name, h.managers())
		}
	}
}

func TestLingers(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"run/systemd/users", "var/lib/systemd/linger"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)) }
	write("run/systemd/users/7", "# private\nNAME=ann\nSTATE=active\n")
	write("run/systemd/users/8", "NAME=bob\n")
	write("run/systemd/users/9", "STATE=active\n")
	write("run/systemd/users/10", "NAME=../../../../run\n")
	write("var/lib/systemd/linger/bob", "")
	for uid, want := range map[int]bool{6: true, 7: false, 8: true, 9: false, 10: false} {
		if got := lingers(root, uid); got != want {
			t.Errorf("%d: %v, want %v", uid, got, want)
		}
	}
}

// fakeSystemd puts shell scripts in the place of systemd's programs.
func fakeSystemd(t *testing.T, run, ctl string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	for name, script := range map[string]string{"systemd-run": run, "systemctl": ctl} {
		if script == "" {
			continue
		}
		text := "#!/bin/sh\necho \"$0 $*\" >> " + log + "\n" + script + "\n"
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	t.Setenv("PATH", dir)
	return func() string {
		b, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), dir+"/", "")
	}
}

func TestAsk(t *testing.T) {
	const denied = "echo 'Failed to start transient scope unit: no' >&2; exit 1"
	const hangs = "exec /bin/sleep 30"
	const service, session = "x.service", "session-1.scope"
	for _, row := range []struct {
		name     string
		unit     string
		run, ctl string
		scopes   bool
		asked    bool // for the KillMode
		err      string
	}{
		{"a scope", service, "exit 0", "echo control-group", true, false, ""},
		{"none, KillMode=process", service, denied, "echo process", false, true, ""},
		{"none, KillMode=none", service, denied, "echo none", false, true, ""},
		{"none, the default", service, denied, "echo control-group", false, true, "a worker would end with x.service (KillMode=control-group), and systemd gives it no scope of its own: systemd-run: Failed to start transient scope unit: no"},
		{"none, KillMode=mixed", service, denied, "echo mixed", false, true, "KillMode=mixed"},
		{"none, and no answer", service, denied, "exit 4", false, true, "KillMode could not be found out"},
		{"no programs", service, "", "", false, false, "KillMode could not be found out"},
		{"none by hand", session, denied, "echo control-group", false, false, ""},
		{"one that hangs, KillMode=process", service, hangs, "echo process", false, true, ""},
		{"both hang", service, hangs, hangs, false, true, "systemd-run does not answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls := fakeSystemd(t, row.run, row.ctl)
			s := &ScopeManager{Env: []string{"PATH=" + os.Getenv("PATH")}}
			err := s.ask(t.Context(), surroundings{HostUnit: HostUnit{Booted: true, Unit: row.unit}, owner: -1})
			var noScope *NoScopeError
			if row.err == "" && err != nil || row.err != "" && (!errors.As(err, &noScope) || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
			if scope := s.Scope("r", "ABC-1"); (scope != nil) != row.scopes {
				t.Errorf("scope %+v, want one: %v", scope, row.scopes)
			}
			if got := strings.Contains(calls(), "systemctl --system show -p KillMode --value x.service\n"); got != row.asked {
				t.Errorf("asked for the KillMode: %v\n%s", got, calls())
			}
		})
	}
	var none *ScopeManager
	if none.Scope("r", "ABC-1") != nil {
		t.Error("a scope without a manager")
	}
}

// systemd's programs inherit neither descriptors nor secrets of the environment.
func TestAskHandsOnNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	fakeSystemd(t, "/bin/ls -l /proc/$$/fd > "+out+"; /usr/bin/env >> "+out, "")
	file, err := os.Create(filepath.Join(t.TempDir(), "ours"))
	must(t, err)
	defer file.Close()
	fd, err := unix.Dup(int(file.Fd())) // inherited by children, as what cron or a terminal gave is
	must(t, err)
	defer unix.Close(fd)
	s := &ScopeManager{Env: []string{"PATH=" + os.Getenv("PATH"), "LINEAR_API_KEY=secret"}}
	must(t, s.ask(t.Context(), surroundings{HostUnit: HostUnit{Booted: true, Unit: "x.service"}, owner: -1}))
	b, err := os.ReadFile(out)
	must(t, err)
	if said := string(b); strings.Contains(said, "/ours") || strings.Contains(said, "secret") || !strings.Contains(said, "PATH=") {
		t.Errorf("it got\n%s", said)
	}
}

// Without systemd no program is called, and nothing is refused.
func TestAskWithoutSystemd(t *testing.T) {
	calls := fakeSystemd(t, "exit 0", "exit 0")
	s := &ScopeManager{}
	must(t, s.ask(t.Context(), surroundings{HostUnit: HostUnit{Unit: "x.service"}, owner: -1}))
	if s.Scope("r", "ABC-1") != nil || calls() != "" {
		t.Errorf("a scope, or calls: %s", calls())
	}
}

// A worker in a scope is started by systemd-run, and has its own environment all the same.
func TestScopeCommand(t *testing.T) {
	fakeSystemd(t, "exit 0", "")
	exe, err := os.Executable()
	must(t, err)
	begin := func(flag string) []string {
		return []string{
			filepath.Join(os.Getenv("PATH"), "systemd-run"), flag, "--scope", "--quiet", "--collect", "--no-ask-password",
			"--unit=symphony-r1.scope", "--slice=symphony.slice", "--description=symphony: A_B_C", "--",
		}
	}
	for name, row := range map[string]struct {
		m    manager
		env  []string
		argv []string
		want []string // of the environment
	}{
		"system":          {manager{}, []string{"A=1"}, []string{exe, "worker", "--run"}, []string{"A=1"}},
		"user, the same":  {manager{true, "/run/user/7"}, []string{"XDG_RUNTIME_DIR=/run/user/7"}, []string{exe, "worker", "--run"}, []string{"XDG_RUNTIME_DIR=/run/user/7"}},
		"user, not set":   {manager{true, "/run/user/7"}, []string{"A=1"}, []string{"env", "-u", "XDG_RUNTIME_DIR", exe, "worker", "--run"}, []string{"A=1", "XDG_RUNTIME_DIR=/run/user/7"}},
		"user, elsewhere": {manager{true, "/run/user/7"}, []string{"XDG_RUNTIME_DIR=/x"}, []string{"env", "XDG_RUNTIME_DIR=/x", exe, "worker", "--run"}, []string{"XDG_RUNTIME_DIR=/run/user/7"}},
	} {
		s := &Scope{Unit: ScopeUnit("r1"), Description: "symphony: A\nB\x1bC", manager: row.m}
		_, argv, env, err := s.wrap("/proc/self/exe", []string{"symphony", "worker", "--run"}, row.env)
		must(t, err)
		if want := append(begin(row.m.flag()), row.argv...); !slices.Equal(argv, want) {
			t.Errorf("%s: %q\nwant %q", name, argv, want)
		}
		if !slices.Equal(env, row.want) {
			t.Errorf("%s: environment %q, want %q", name, env, row.want)
		}
	}
}

// An executable that was replaced is started through the process that still runs it.
func TestPathForOthers(t *testing.T) {
	if got := pathForOthers("/usr/bin/x"); got != "/usr/bin/x" {
		t.Error(got)
	}
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "program"))
	must(t, err)
	defer file.Close()
	self := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
	if got := pathForOthers(self); got != file.Name() {
		t.Errorf("%s, want %s", got, file.Name())
	}
	must(t, os.Rename(file.Name(), file.Name()+".old"))
	must(t, os.WriteFile(file.Name(), nil, 0o600))
	if got, err := os.Readlink(self); err != nil || got != file.Name()+".old" {
		t.Fatal(got, err)
	}
	must(t, os.Remove(file.Name()+".old"))
	if got, want := pathForOthers(self), "/proc/"+strconv.Itoa(os.Getpid())+strings.TrimPrefix(self, "/proc/self"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A process that never reaches its scope is an error.
func TestWaitForScope(t *testing.T) {
	for name, row := range map[string]struct{ run, err string }{
		"it fails": {"exit 1", "exit status 1"},
		"it hangs": {"exec /bin/sleep 30", "no symphony-pass-r.scope within"},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSystemd(t, row.run, "")
			scope := &Scope{Unit: ScopeUnit("pass-r")}
			d, err := Detach(Spawn{Exe: "/bin/true", Argv: []string{"true"}, Scope: scope})
			must(t, err)
			t.Cleanup(func() {
				if err := Signal(d.Process(), unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Error(err)
				}
				<-d.Done()
			})
			if err := d.WaitForScope(t.Context(), scope); err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%v, want %s", err, row.err)
			}
		})
	}
}
