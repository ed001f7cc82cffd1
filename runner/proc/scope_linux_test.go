package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestUnitOf(t *testing.T) {
	for cgroup, want := range map[string]struct {
		unit  string
		owner int
	}{
		"/":                                   {"", -1},
		"/..":                                 {"", -1},
		"/system.slice/cron.service":          {"cron.service", -1},
		"/system.slice/foo.service/payload/x": {"foo.service", -1},
		"/system.slice/system-foo.slice/foo@bar.service":                                {"foo@bar.service", -1},
		"/system.slice/_cgroup.service":                                                 {"cgroup.service", -1},
		"/user.slice/user-1000.slice/session-3.scope":                                   {"session-3.scope", -1},
		"/user.slice/user-1000.slice/user@1000.service":                                 {"user@1000.service", -1},
		"/user.slice/user-1000.slice/user@1000.service/init.scope":                      {"init.scope", 1000},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/web-shop.service":      {"web-shop.service", 1000},
		"/user.slice/user-1000.slice/user@1000.service/symphony.slice/symphony-x.scope": {"symphony-x.scope", 1000},
		"/system.slice/docker-0123.scope/a.b":                                           {"docker-0123.scope", -1},
		"/system.slice/user@home.service/x.service":                                     {"x.service", -1},
	} {
		unit, owner := unitOf(cgroup)
		test.Equal(t, cgroup+": unit and owner", []any{unit, owner}, []any{want.unit, want.owner})
	}
}

func TestSystemdCgroup(t *testing.T) {
	for file, want := range map[string]string{
		"": "", "8:pids:/p\n": "", "0::/a.service\n": "/a.service",
		"9:name=systemd:/b.service\n1:cpu:/c\n0::/\n":   "/b.service",
		"4:memory:/m\n9:name=systemd:/with:colon\n":     "/with:colon",
		"0::/first\n9:name=systemd:/systemds.service\n": "/systemds.service",
	} {
		test.Equal(t, file, systemdCgroup(file), want)
	}
}

// The order in which systemd managers are asked for a scope.
func TestManagers(t *testing.T) {
	const session, service, ours = "session-1.scope", "x.service", "symphony-r-1.scope"
	for _, row := range []struct {
		name               string
		uid, owner         int
		unit               string
		reachable, lingers bool
		want               string
	}{
		{"a service of the user's", 7, 7, service, true, false, "--user"},
		{"a terminal under the user's manager", 7, 7, "term.scope", true, false, "--user"},
		{"from a login", 7, -1, session, true, true, "--user"},
		{"from a login, a manager that ends with the login", 7, -1, session, true, false, ""},
		{"from a login, no manager", 7, -1, session, false, true, ""},
		{"cron", 7, -1, "cron.service", true, true, "--user --system"},
		{"a service of the system's", 7, -1, service, true, false, "--system"},
		{"a pass of a worker that the system gave a scope", 7, -1, ours, true, true, "--system"},
		{"root, from a login", 0, -1, session, true, true, "--system"},
		{"root's service", 0, -1, service, false, false, "--system"},
		{"root in a user's service", 0, 7, service, true, true, "--system"},
		{"root in the service of root's manager", 0, 0, service, true, true, "--user"},
	} {
		h := HostUnit{
			Booted:  true,
			Unit:    row.unit,
			Manager: row.reachable,
			Lingers: row.lingers,
			Root:    row.uid == 0,
			uid:     row.uid,
			owner:   row.owner,
		}
		got := test.Map(h.managers(), func(m manager) string { return m.flag() })
		test.Equal(t, row.name, strings.Join(got, " "), row.want)
		h.Booted = false
		if len(h.managers()) != 0 {
			t.Errorf("%s: without systemd: %v", row.name, h.managers())
		}
	}
}

func TestLingers(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"run/systemd/users/7":        "# private\nNAME=ann\nSTATE=active\n",
		"run/systemd/users/8":        "NAME=bob\n",
		"run/systemd/users/9":        "STATE=active\n",
		"var/lib/systemd/linger/bob": "",
	} {
		test.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		test.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	for uid, want := range map[int]bool{6: true, 7: false, 8: true, 9: false} {
		test.Equal(t, strconv.Itoa(uid), lingers(root, uid), want)
	}
}

// fakeSystemd replaces systemd's programs by shell scripts.
func fakeSystemd(t *testing.T, run, ctl string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	for name, script := range map[string]string{"systemd-run": run, "systemctl": ctl} {
		if script != "" {
			text := "#!/bin/sh\necho \"${0##*/} $*\" >> " + log + "\n" + script + "\n"
			test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
		}
	}
	t.Setenv("PATH", dir)
	return func() string {
		b, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
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
		{
			"none, the default",
			service,
			denied,
			"echo control-group",
			false,
			true,
			"a worker would end with x.service (KillMode=control-group), and systemd gives it no scope: " +
				"systemd-run: Failed to start transient scope unit: no",
		},
		{"none, KillMode=mixed", service, denied, "echo mixed", false, true, "KillMode=mixed"},
		{"none, and no answer", service, denied, "exit 4", false, true, "KillMode unknown"},
		{"no programs", service, "", "", false, false, "KillMode unknown"},
		{"none, from a login", session, denied, "echo control-group", false, false, ""},
		{"one that hangs, KillMode=process", service, hangs, "echo process", false, true, ""},
		{"both hang", service, hangs, hangs, false, true, "systemd-run does not answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls := fakeSystemd(t, row.run, row.ctl)
			s := &ScopeManager{Env: []string{"PATH=" + os.Getenv("PATH")}}
			err := s.ask(t.Context(), HostUnit{Booted: true, Unit: row.unit, owner: -1})
			if row.err == "" && err != nil ||
				row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("error %v, want %q", err, row.err)
			}
			test.Equal(t, "there is a scope", s.Scope("r", "ABC-1") != nil, row.scopes)
			test.Equal(
				t,
				"asked for the KillMode",
				strings.Contains(calls(), "systemctl --system show -p KillMode --value x.service\n"),
				row.asked,
			)
		})
	}
	// Without systemd no program is called, and nothing is refused.
	calls := fakeSystemd(t, "exit 0", "exit 0")
	s := &ScopeManager{}
	test.OK(t, s.ask(t.Context(), HostUnit{Unit: "x.service", owner: -1}))
	test.Equal(
		t,
		"there is a scope",
		s.Scope("r", "ABC-1") != nil || (*ScopeManager)(nil).Scope("r", "ABC-1") != nil,
		false,
	)
	test.Equal(t, "calls", calls(), "")
}

// systemd's programs inherit neither descriptors nor secrets of the environment.
func TestAskHandsOnNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	fakeSystemd(t, "/bin/ls -l /proc/$$/fd > "+out+"; /usr/bin/env >> "+out, "")
	file := test.Must(os.Create(filepath.Join(t.TempDir(), "ours")))
	defer file.Close()
	// inherited by children, as what cron or a terminal gave is
	fd := test.Must(unix.Dup(int(file.Fd())))
	defer unix.Close(fd)
	s := &ScopeManager{Env: []string{"PATH=" + os.Getenv("PATH"), "LINEAR_API_KEY=secret"}}
	test.OK(t, s.ask(t.Context(), HostUnit{Booted: true, Unit: "x.service", owner: -1}))
	b := test.Must(os.ReadFile(out))
	if said := string(b); strings.Contains(said, "/ours") || strings.Contains(said, "secret") ||
		!strings.Contains(said, "PATH=") {
		t.Errorf("it got\n%s", said)
	}
}

// A worker in a scope is started by systemd-run. Its program is named so that systemd-run
// finds it, even if it was replaced.
func TestScopeCommand(t *testing.T) {
	fakeSystemd(t, "exit 0", "")
	systemdRun := filepath.Join(os.Getenv("PATH"), "systemd-run")
	file := test.Must(os.Create(filepath.Join(t.TempDir(), "program")))
	defer file.Close()
	self := "/proc/self/fd/" + strconv.Itoa(int(file.Fd()))
	check := func(exe, named, flag string, env, wantEnv []string, m manager) {
		t.Helper()
		cmd := &exec.Cmd{Path: exe, Args: []string{"symphony", "worker"}, Env: env}
		s := &Scope{unit: "symphony-r1.scope", description: "symphony: A\nB\x1bC", manager: m}
		test.OK(t, s.wrap(cmd))
		want := []string{
			systemdRun, flag, "--scope", "--quiet", "--collect", "--no-ask-password",
			"--unit=symphony-r1.scope", "--slice=symphony.slice", "--description=symphony: A\\nB\\x1bC", "--",
		}
		want = append(append(want, strings.Fields(named)...), "worker")
		test.Equal(
			t,
			"path, arguments and environment",
			[]any{cmd.Path, cmd.Args, cmd.Env},
			[]any{systemdRun, want, wantEnv},
		)
	}
	seven := manager{true, "/run/user/7"}
	eight := []string{"XDG_RUNTIME_DIR=/run/user/8"}
	check("/usr/bin/x", "/usr/bin/x", "--system", eight, eight, manager{})
	check(
		"/x",
		"env -u XDG_RUNTIME_DIR /x",
		"--user",
		[]string{"A=1"},
		[]string{"A=1", "XDG_RUNTIME_DIR=/run/user/7"},
		seven,
	)
	check(
		"/x",
		"env XDG_RUNTIME_DIR=/run/user/8 /x",
		"--user",
		eight,
		append(eight, "XDG_RUNTIME_DIR=/run/user/7"),
		seven,
	)
	check(
		"/x",
		"/x",
		"--user",
		[]string{"XDG_RUNTIME_DIR=/run/user/7"},
		[]string{"XDG_RUNTIME_DIR=/run/user/7"},
		seven,
	)
	check(self, file.Name(), "--system", nil, nil, manager{})
	test.OK(t, os.Remove(file.Name()))
	check(self, strings.Replace(self, "self", strconv.Itoa(os.Getpid()), 1), "--system", nil, nil, manager{})
}

// A program is looked for in the PATH of the environment, and not in that of this process.
func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	test.OK(t, os.WriteFile(program, nil, 0o700))
	t.Setenv("PATH", dir)
	for path, want := range map[string]string{
		"/nowhere:" + dir: program,
		"/nowhere":        "",
		":/nowhere":       "",
		".:/nowhere":      "",
	} {
		test.Equal(t, path, LookPath("program", []string{"PATH=" + path}), want)
	}
}
