package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func sampleBox() Box {
	return Box{
		Workspace: "/home/me/symphony/ABC-1",
		Home:      "/home/me/.local/state/symphony/agents/claude",
		Temp:      "/home/me/.local/state/symphony/p/runs/1/tmp",
		Readable:  []string{"/home/me/node/lib", "/home/me/node/bin", "/home/me/node/bin"},
		Agents:    []string{"/home/me/symphony"},
		Socket:    "/home/me/.local/state/symphony/p/runs/1/proxy.sock",
		Program:   "/usr/local/bin/symphony",
		Processes: 512,
		StatusFD:  3,
		Command:   []string{"claude-agent-acp", "--flag"},
	}
}

// TestArguments shows a whole command line.
func TestArguments(t *testing.T) {
	args, err := sampleBox().Arguments(Layout{
		Links:    []Link{{"/bin", "usr/bin"}},
		Shown:    []string{"/usr", "/opt"},
		Settings: []string{"/etc/hosts", "/etc/ssl/certs"},
		Real:     []Link{{"/home/me/node/bin", "/srv/node-24/bin"}},
		Resolver: "/run/systemd/resolve/stub-resolv.conf",
	})
	test.OK(t, err)
	got := strings.ReplaceAll(strings.Join(args, " "), " --", "\n--")
	test.Equal(t, "arguments", got+"\n", `--unshare-user
--unshare-pid
--unshare-ipc
--unshare-cgroup-try
--disable-userns
--cap-drop ALL
--die-with-parent
--as-pid-1
--new-session
--unshare-net
--json-status-fd 3
--ro-bind /usr /usr
--ro-bind /opt /opt
--symlink usr/bin /bin
--ro-bind-try /etc/hosts /etc/hosts
--ro-bind-try /etc/ssl/certs /etc/ssl/certs
--proc /proc
--ro-bind /proc/sys /proc/sys
--ro-bind-try /proc/mtrr /proc/mtrr
--ro-bind-try /proc/pressure /proc/pressure
--dev /dev
--tmpfs /run
--dir /var
--symlink ../run /var/run
--tmpfs /var/tmp
--bind /home/me/.local/state/symphony/p/runs/1/tmp /tmp
--ro-bind /srv/node-24/bin /srv/node-24/bin
--ro-bind /srv/node-24/bin /home/me/node/bin
--ro-bind /home/me/node/lib /home/me/node/lib
--bind /home/me/.local/state/symphony/agents/claude /home/me/.local/state/symphony/agents/claude
--bind /home/me/symphony/ABC-1 /home/me/symphony/ABC-1
--ro-bind /home/me/.local/state/symphony/p/runs/1/proxy.sock /run/proxy.sock
--ro-bind /usr/local/bin/symphony /run/symphony
--remount-ro /
--chdir /home/me/symphony/ABC-1
-- /run/symphony sandbox-init
--proxy /run/proxy.sock
--processes 512
--own /home/me/symphony/ABC-1
--own /tmp
-- claude-agent-acp
--flag
`)
}

// TestTemp: /tmp is in memory if bubblewrap makes anything in it, and the agent's own otherwise.
func TestTemp(t *testing.T) {
	own := "--bind /home/me/.local/state/symphony/p/runs/1/tmp /tmp "
	for name, c := range map[string]struct {
		change func(b *Box)
		layout Layout
	}{
		"workspace": {change: func(b *Box) { b.Workspace = "/tmp/symphony/ABC-1" }},
		"home":      {change: func(b *Box) { b.Home = "/tmp/state/claude" }},
		"cache":     {change: func(b *Box) { b.Cache = "/tmp/cache" }},
		"writable":  {change: func(b *Box) { b.Writable = []string{"/tmp/out"} }},
		"readable":  {change: func(b *Box) { b.Readable = []string{"/tmp/bin"} }},
		"shared":    {change: func(b *Box) { b.Shared = []string{"/tmp/mirror.git"} }},
		"target":    {change: func(*Box) {}, layout: Layout{Real: []Link{{"/home/me/node/bin", "/tmp/bin"}}}},
	} {
		b := sampleBox()
		c.change(&b)
		line := strings.Join(test.Must(b.Arguments(c.layout)), " ")
		test.Contains(t, name, line, "--tmpfs /tmp ")
		test.Lacks(t, name, line, own)
	}
	line := strings.Join(test.Must(sampleBox().Arguments(Layout{})), " ")
	test.Contains(t, "nothing below /tmp", line, own)
}

// TestEmpty: a directory that is shown does not show those of agents and of symphony in it.
func TestEmpty(t *testing.T) {
	b := sampleBox()
	b.Readable = []string{"/srv/link"}
	args, err := b.Arguments(Layout{
		Shown: []string{"/opt"},
		Real:  []Link{{"/srv/link", "/data"}},
		Empty: []string{"/opt/workspaces", "/home/me/symphony", "/data/state"},
	})
	test.OK(t, err)
	line := strings.Join(args, " ")
	test.Contains(
		t, "arguments", line,
		"--tmpfs /data/state --tmpfs /opt/workspaces --bind ", "--remount-ro /opt/workspaces --remount-ro / ",
	)
	test.Lacks(t, "arguments", line, "--tmpfs /home")
}

// TestSecret: a home below a directory that every box shows is empty, but for programs in it.
func TestSecret(t *testing.T) {
	b := sampleBox()
	b.Readable = []string{"/opt/me/bin"}
	args, err := b.Arguments(Layout{
		Shown:  []string{"/opt"},
		Secret: []Hidden{{Path: "/home/you", Dir: true}, {Path: "/opt/key"}, {Path: "/opt/me", Dir: true}},
	})
	test.OK(t, err)
	line := strings.Join(args, " ")
	test.Contains(
		t, "arguments", line,
		"--ro-bind /opt /opt --ro-bind /dev/null /opt/key --tmpfs /opt/me --proc", "--remount-ro /opt/me --remount-ro / ",
	)
	test.Lacks(t, "arguments", line, "/home/you")
	if strings.Index(line, "--tmpfs /opt/me ") > strings.Index(line, "/opt/me/bin") {
		t.Error("the programs are hidden")
	}
}

// TestOwnPlaces: symphony shows some of its own directories, also below those that are empty.
func TestOwnPlaces(t *testing.T) {
	b := sampleBox()
	b.Cache = "/home/me/symphony/.symphony/work/ABC-1/cache"
	b.Shared = []string{"/home/me/symphony/.symphony/mirrors/a.git"}
	b.Tools = "/home/me/.local/state/symphony/p/runs/1/sandbox/tools"
	args, err := b.Arguments(Layout{Shown: []string{"/home/me"}, Empty: []string{"/home/me/symphony"}})
	test.OK(t, err)
	test.Contains(
		t, "arguments", strings.Join(args, " "),
		"--tmpfs /home/me/symphony --ro-bind "+b.Shared[0]+" "+b.Shared[0]+" ",
		" --bind "+b.Cache+" "+b.Cache+" ",
		" --ro-bind "+b.Tools+" /run/tools ",
	)
	b.Shared = []string{b.Workspace + "/.git"}
	_, err = b.Arguments(Layout{})
	test.Equal(t, "an agent could replace it", err != nil, true)
}

// TestHostNetwork: with the network of the machine there is no way through Init, and names are
// resolved as outside.
func TestHostNetwork(t *testing.T) {
	b := sampleBox()
	b.Network = HostNetwork
	b.Dir = b.Workspace + "/web"
	args, err := b.Arguments(Layout{Resolver: "/run/resolv.conf"})
	test.OK(t, err)
	line := strings.Join(args, " ")
	test.Contains(t, "arguments", line, "--ro-bind /run/resolv.conf /run/resolv.conf", "--chdir "+b.Dir+" --")
	test.Lacks(t, "arguments", line, "--unshare-net", "--proxy")
	test.Equal(t, "environment", b.Environ([]string{"HTTPS_PROXY=http://company"}), []string{"HTTPS_PROXY=http://company"})
}

func TestEnviron(t *testing.T) {
	got := sampleBox().Environ([]string{
		"PATH=/bin", "https_proxy=http://company", "ALL_PROXY=socks5://x", "NO_PROXY=*", "KEY=a=b",
	})
	test.Equal(t, "environment", got, append([]string{"PATH=/bin", "KEY=a=b"}, proxyVariables...))
	test.Equal(t, "the address of a model", ModelURL("claude"), "http://127.0.0.1:3128/model/claude")
}

// TestRefusedBoxes: a box does not show, and lets no agent replace, more than it names.
func TestRefusedBoxes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Box)
		want   string
	}{
		"nothing to start":       {func(b *Box) { b.Command = nil }, "no command"},
		"a relative path":        {func(b *Box) { b.Workspace = "ABC-1" }, "not an absolute path"},
		"no home":                {func(b *Box) { b.Home = "" }, "not an absolute path"},
		"a path with dots":       {func(b *Box) { b.Readable = []string{"/opt/../etc"} }, "not an absolute path"},
		"everything to read":     {func(b *Box) { b.Readable = []string{"/"} }, "can't show /"},
		"everything to write":    {func(b *Box) { b.Writable = []string{"/"} }, "can't show /"},
		"a system to write":      {func(b *Box) { b.Writable = []string{"/usr"} }, "it contains /usr"},
		"all processes to write": {func(b *Box) { b.Workspace = "/proc" }, "it contains /proc"},
		"to read in what it may write": {
			func(b *Box) { b.Readable = []string{b.Workspace + "/tools"} }, "where an agent writes",
		},
		"to write in what it may write": {
			func(b *Box) { b.Writable = []string{b.Home + "/cache"} }, "where an agent writes",
		},
		"its home in the workspace": {
			func(b *Box) { b.Home = b.Workspace + "/home" }, "where an agent writes",
		},
		"to read in another workspace": {
			func(b *Box) { b.Readable = []string{"/home/me/symphony/ABC-2/bin"} }, "where an agent writes",
		},
		"to write in another workspace": {
			func(b *Box) { b.Writable = []string{"/home/me/symphony/ABC-2"} }, "where an agent writes",
		},
		"the socket in the workspace": {
			func(b *Box) { b.Socket = b.Workspace + "/proxy.sock" }, "where an agent writes",
		},
		"symphony in the workspace": {
			func(b *Box) { b.Program = b.Workspace + "/symphony" }, "where an agent writes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := sampleBox()
			c.change(&b)
			_, err := b.Arguments(Layout{})
			if err == nil {
				t.Fatal("the box is accepted")
			}
			test.Contains(t, "the error", err.Error(), c.want)
		})
	}
}

// TestSecretsInPath: a secret in a directory of programs is hidden after that is shown.
func TestSecretsInPath(t *testing.T) {
	b := sampleBox()
	b.Readable = []string{"/home/me/work"}
	args := strings.Join(test.Must(b.Arguments(Layout{Secret: []Hidden{
		{Path: "/home/me", Dir: true},
		{Path: "/home/me/work/auth.json"},
		{Path: "/home/me/work/keys", Dir: true},
	}})), " ")
	shown := strings.Index(args, "--ro-bind /home/me/work /home/me/work")
	file := strings.Index(args, "--ro-bind /dev/null /home/me/work/auth.json")
	dir := strings.Index(args, "--tmpfs /home/me/work/keys")
	if shown < 0 || file < shown || dir < shown || strings.Contains(args, "--tmpfs /home/me ") {
		t.Error(args)
	}
}

// TestRefusedLinks: a directory to write is what its name says.
func TestRefusedLinks(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	b := sampleBox()
	b.Agents = nil
	b.Readable = nil
	b.Home = filepath.Join(dir, "home")
	b.Temp = filepath.Join(dir, "tmp")
	b.Workspace = filepath.Join(dir, "link")
	for _, made := range []string{b.Home, b.Temp, filepath.Join(dir, "workspace")} {
		test.OK(t, os.Mkdir(made, 0o700))
	}
	test.OK(t, os.Symlink("workspace", b.Workspace))
	_, err := Prepare(b)
	if err == nil {
		t.Fatal("the link is accepted")
	}
	test.Contains(t, "the error", err.Error(), "it leads to "+filepath.Join(dir, "workspace"))
}

// TestPublic: what is not for every account of the machine is not for agents of root.
func TestPublic(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"hosts", "sub/open", "sub/key", "whole/open", "private/a/key"} {
		test.Write(t, filepath.Join(dir, name), "")
		test.OK(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	test.OK(t, os.Chmod(filepath.Join(dir, "sub", "key"), 0o600))
	test.OK(t, os.Chmod(filepath.Join(dir, "sub"), 0o755))
	test.OK(t, os.Chmod(filepath.Join(dir, "whole"), 0o755))
	test.OK(t, os.Chmod(filepath.Join(dir, "private"), 0o700))
	test.OK(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	l, whole, err := publicParts(dir)
	test.OK(t, err)
	test.Equal(t, "whole", whole, false)
	in := func(name string) string { return filepath.Join(dir, name) }
	test.Equal(t, "shown", l.Settings, []string{in("hosts"), in("sub/open"), in("whole")})
	test.Equal(t, "links", l.Links, []Link{{in("link"), "nowhere"}})
	_, whole, err = publicParts(in("whole"))
	test.OK(t, err)
	test.Equal(t, "a directory without secrets", whole, true)
}

// TestProgramDirs: a program runs with what belongs to it, and nothing else of a home is shown.
func TestProgramDirs(t *testing.T) {
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	in := func(path string) string { return filepath.Join(home, path) }
	for _, made := range []string{
		"bin", "lib", "libexec", ".local/bin", ".local/lib", ".local/share/keyrings", ".local/share/claude/versions/2",
		"node/bin", "node/lib/node_modules/agent/node_modules/part", "go/bin", "go/pkg",
	} {
		test.OK(t, os.MkdirAll(in(made), 0o755))
	}
	test.Write(t, in("node/lib/node_modules/agent/node_modules/part/main.js"), "")
	test.Write(t, in(".local/share/claude/versions/2/claude"), "")
	test.OK(t, os.Symlink("../lib/node_modules/agent/node_modules/part/main.js", in("node/bin/agent")))
	test.OK(t, os.Symlink("../share/claude/versions/2/claude", in(".local/bin/claude")))
	test.OK(t, os.Symlink("/usr/bin", in("profile")))
	path := strings.Join([]string{
		in("profile"), "/usr/bin", "", ".", "bin", in("missing"), home, filepath.Dir(home), in("go/bin"), in("bin"),
	}, ":")
	dirs, err := ProgramDirs(path, home, in("node/bin/agent"), in(".local/bin/claude"), "/usr/bin/env")
	test.OK(t, err)
	test.Equal(t, "directories", dirs, []string{
		in("profile"), in("go/bin"), in("bin"),
		in("node/bin"), in("node/lib"), in("node/lib/node_modules"),
		in(".local/bin"), in(".local/lib"), in(".local/share/claude/versions/2"),
	})
}

func TestReadStatus(t *testing.T) {
	var started []int
	status, err := ReadStatus(
		strings.NewReader(`{"child-pid": 7, "cgroup-namespace": 1}`+"\n"+`{"exit-code": 0}`+"\n"),
		func(pid int) { started = append(started, pid) },
	)
	test.OK(t, err)
	test.Equal(t, "status", status, Status{PID: 7, Exited: true})
	test.Equal(t, "started", started, []int{7})

	status, err = ReadStatus(strings.NewReader(`{"child-pid": 7}`), nil)
	test.OK(t, err)
	test.Equal(t, "status", status, Status{PID: 7})

	_, err = ReadStatus(strings.NewReader("bwrap: no"), nil)
	if err == nil {
		t.Error("no JSON was accepted")
	}
}

// TestCures: for each sentence of bubblewrap there is a next step.
func TestCures(t *testing.T) {
	const noUsers = "bwrap: No permissions to create a new namespace, likely because the kernel does not allow " +
		"non-privileged user namespaces."
	for _, c := range []struct {
		said     string
		settings switches
		cure     string
	}{
		{"bwrap: Unknown option --disable-userns", switches{}, newerCure},
		{noUsers, switches{unprivileged: "0"}, unprivilegedCure},
		{noUsers, switches{unprivileged: "1", most: "0"}, mostCure},
		{"bwrap: Creating new namespace failed: nesting depth or ... exceeded (ENOSPC)", switches{most: "0"}, mostCure},
		{"bwrap: setting up uid map: Permission denied", switches{appArmor: "1"}, appArmorCure},
		{"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", switches{appArmor: "1"}, appArmorCure},
		{noUsers, switches{most: "1000"}, containerCure},
		{"bwrap: Can't mount proc on /newroot/proc: Operation not permitted", switches{most: "1000"}, containerCure},
		{"wall of the sandbox (sockets): " + noLandlock, switches{}, landlockCure},
		{"bwrap: Can't find source path /a: No such file or directory", switches{appArmor: "1"}, otherCure},
	} {
		test.Equal(t, "the cure of "+c.said, cureOf(c.said, c.settings), c.cure)
	}
}
