//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/allowlist"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/proxy"
)

// programs are what the command of a box does in the tests of Init.
var programs = map[string]func(args []string) error{
	// awaits a signal, and exits with 40 and its number
	"signal": func([]string) error {
		got := make(chan os.Signal, 1)
		signal.Notify(got, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		fmt.Println("ready")
		os.Exit(40 + int((<-got).(unix.Signal)))
		return nil
	},
	// kills itself
	"kill": func([]string) error {
		test.OK(panics{}, unix.Kill(os.Getpid(), unix.SIGKILL))
		select {}
	},
	// holds the lock of a file
	"hold": func(args []string) error {
		f := test.Must(os.Open(args[0]))
		test.OK(panics{}, unix.Flock(int(f.Fd()), unix.LOCK_EX))
		fmt.Println("held")
		select {}
	},
	// asks the proxy for a page
	"fetch": func([]string) error {
		conn, err := net.Dial("tcp", ProxyAddress)
		if err != nil {
			return err
		}
		fmt.Fprint(conn, "question")
		test.OK(panics{}, conn.(*net.TCPConn).CloseWrite())
		answer, err := io.ReadAll(conn)
		fmt.Printf("%s\n", answer)
		return err
	},
	// gets pages, as programs do that obey the variables of the proxy
	"get": func(args []string) error {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(test.Must(os.ReadFile(args[0])))
		client := http.Client{Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: &tls.Config{RootCAs: roots},
		}}
		own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "from inside")
		}))
		for _, address := range append(args[1:], own.URL) {
			answer, err := client.Get(address)
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Printf("%s\n", test.Must(io.ReadAll(answer.Body)))
		}
		return nil
	},
	// checks whether a sandbox can be made
	"check": func(args []string) error {
		box := Box{Workspace: args[0], Home: args[1], Temp: "/tmp/of-check", Program: ProgramInside}
		test.OK(panics{}, os.Mkdir(box.Temp, 0o700))
		err := Check(context.Background(), box, os.Environ())
		refusal, is := errors.AsType[*Refusal](err)
		if !is {
			return fmt.Errorf("no refusal: %w", err)
		}
		fmt.Printf("said: %s\ncure: %s\n", refusal.Said, refusal.Cure)
		return nil
	},
	// leaves zombies to the first process, and counts those that are left
	"orphans": func([]string) error {
		for range 5 {
			if err := exec.Command("sh", "-c", "true & exec true").Run(); err != nil {
				return err
			}
		}
		for zombies := 1; zombies > 0; {
			out, err := exec.Command("sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status | wc -l").Output()
			if err != nil {
				return err
			}
			fmt.Sscan(string(out), &zombies)
		}
		fmt.Println("reaped")
		return nil
	},
}

// playProgram is the command of a box.
func playProgram(args []string) int {
	if err := programs[args[0]](args[1:]); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func program(args ...string) []string { return append([]string{ProgramInside, "program"}, args...) }

// TestExitCode: the exit code is the command's, and bubblewrap reports whether there was one.
func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		code    int
		says    string
	}{
		"success":           {[]string{"true"}, 0, ""},
		"failure":           {[]string{"sh", "-c", "exit 7"}, 7, ""},
		"the code of Init":  {[]string{"sh", "-c", "exit 125"}, exitOther, ""},
		"a signal":          {program("kill"), 128 + 9, ""},
		"no such program":   {[]string{"nothing-of-this-name"}, ExitNotFound, "nothing-of-this-name"},
		"no program at all": {[]string{"/etc/passwd"}, ExitNotRun, "/etc/passwd"},
		"empty arguments":   {[]string{"sh", "-c", `test "$#$1" = 2`, "", "", "-x"}, 0, ""},
		"flags":             {[]string{"sh", "-c", `test "$1" = --proxy`, "--", "--proxy"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.box.Command = c.command
			s.box.StatusFD = 3
			report, written, err := os.Pipe()
			test.OK(t, err)
			defer report.Close()
			s.files = []*os.File{written}
			cmd := s.command()
			var said strings.Builder
			cmd.Stderr = &said
			test.OK(t, cmd.Start())
			written.Close()
			status, err := ReadStatus(report, nil)
			test.OK(t, err)
			_ = cmd.Wait()
			test.Equal(t, "exit code", cmd.ProcessState.ExitCode(), c.code)
			if status.PID == 0 || !status.Exited || status.Code != c.code {
				t.Errorf("status %+v", status)
			}
			test.Contains(t, "stderr", said.String(), c.says)
		})
	}
}

// TestBubblewrapFails: a failure of bubblewrap is not taken for one of the command.
func TestBubblewrapFails(t *testing.T) {
	s := newScene(t)
	s.box.Command = []string{"true"}
	s.box.StatusFD = 3
	report, written, err := os.Pipe()
	test.OK(t, err)
	defer report.Close()
	s.files = []*os.File{written}
	cmd := s.command(change{"--bind " + s.box.Home + " " + s.box.Home, "--bind /nowhere " + s.box.Home})
	out, err := cmd.CombinedOutput()
	written.Close()
	if err == nil {
		t.Fatal("it started")
	}
	status, err := ReadStatus(report, nil)
	test.OK(t, err)
	test.Equal(t, "exited", status.Exited, false)
	test.Contains(t, "stderr", string(out), "bwrap: Can't find source path /nowhere")
}

// TestSignals: a signal to the first process reaches the command.
func TestSignals(t *testing.T) {
	for _, sent := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		t.Run(unix.SignalName(sent), func(t *testing.T) {
			s := newScene(t)
			s.box.Command = program("signal")
			cmd, pid := s.started(t, "ready")
			test.OK(t, unix.Kill(pid, sent))
			_ = cmd.Wait()
			test.Equal(t, "exit code", cmd.ProcessState.ExitCode(), 40+int(sent))
		})
	}
}

// TestSignalsFromInside: a command does not end the first process by a signal that only means
// something to a program in Go.
func TestSignalsFromInside(t *testing.T) {
	for _, sent := range []unix.Signal{
		unix.SIGQUIT, unix.SIGABRT, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS,
		unix.SIGSTKFLT, unix.SIGUSR1, unix.SIGPROF,
	} {
		t.Run(unix.SignalName(sent), func(t *testing.T) {
			s := newScene(t)
			const script = `kill -$0 1; while grep -q '^ShdPnd:.*[1-9a-f]' /proc/1/status; do :; done; cat /dev/null; exit 7`
			s.box.Command = []string{"sh", "-c", script, strconv.Itoa(int(sent))}
			cmd := s.command()
			out, _ := cmd.CombinedOutput()
			test.Equal(t, "output", string(out), "")
			test.Equal(t, "exit code", cmd.ProcessState.ExitCode(), 7)
		})
	}
}

// started starts the command of a box, and returns when it has written a line. pid is the first
// process of the sandbox, as this machine numbers it.
func (s *scene) started(t *testing.T, line string) (cmd *exec.Cmd, pid int) {
	t.Helper()
	s.box.StatusFD = 3
	report, written, err := os.Pipe()
	test.OK(t, err)
	s.files = []*os.File{written}
	cmd = s.command()
	out, err := cmd.StdoutPipe()
	test.OK(t, err)
	test.OK(t, cmd.Start())
	written.Close()
	pids := make(chan int, 1)
	go func() {
		defer report.Close()
		_, _ = ReadStatus(report, func(pid int) { pids <- pid })
	}()
	got, err := bufio.NewReader(out).ReadString('\n')
	test.OK(t, err)
	test.Equal(t, "the line", strings.TrimSpace(got), line)
	return cmd, <-pids
}

// TestKill: the end of bubblewrap, or of the process that started it, ends the sandbox.
func TestKill(t *testing.T) {
	s := newScene(t)
	lock := lockFile(s)
	s.box.Command = program("hold", lock)
	cmd, _ := s.started(t, "held")
	test.Equal(t, "held", held(t, lock), true)
	test.OK(t, cmd.Process.Kill())
	_ = cmd.Wait()
	test.Until(t, "the end of the sandbox", func() bool { return !held(t, lock) })
}

// TestThread: bubblewrap ends with the thread that started it. Prepare says so.
func TestThread(t *testing.T) {
	s := newScene(t)
	lock := lockFile(s)
	s.box.Command = program("hold", lock)
	var cmd *exec.Cmd
	onEndingThread(func() { cmd, _ = s.started(t, "held") })
	_ = cmd.Wait()
	test.Until(t, "the end of the sandbox", func() bool { return !held(t, lock) })
}

// onEndingThread calls f on a thread that ends with it. The main thread of a process never does.
func onEndingThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onEndingThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}

// TestOrphans: the first process reaps what others leave to it.
func TestOrphans(t *testing.T) {
	s := newScene(t)
	s.box.Command = program("orphans")
	test.Equal(t, "output", test.Run(t, s.command()), "reaped")
}

// TestForward: what programs send to the proxy arrives at its socket outside.
func TestForward(t *testing.T) {
	s := newScene(t)
	s.box.Socket = filepath.Join(s.dir, "run", "proxy.sock")
	listener, err := Listen(s.box.Socket)
	test.OK(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			question, _ := io.ReadAll(conn)
			fmt.Fprintf(conn, "answer to %s", question)
			conn.Close()
		}
	}()
	s.box.Command = program("fetch")
	test.Equal(t, "output", test.Run(t, s.command()), "answer to question")
	test.OK(t, listener.Close())
	s.box.Command = program("fetch") // which sees the connection end
	out, _ := s.command().CombinedOutput()
	test.Lacks(t, "output", string(out), "answer")
}

// TestNetwork: programs in a sandbox reach the hosts that are allowed, and their own servers.
func TestNetwork(t *testing.T) {
	s := newScene(t)
	internet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s with %s", r.Host, r.Header.Get("X-Api-Key"))
	}))
	defer internet.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: internet.Certificate().Raw})
	test.Write(t, filepath.Join(s.box.Workspace, "ca.pem"), string(certificate))
	roots := x509.NewCertPool()
	roots.AddCert(internet.Certificate())

	s.box.Socket = filepath.Join(s.dir, "run", "proxy.sock")
	listener, err := Listen(s.box.Socket)
	test.OK(t, err)
	refusals := make(chan proxy.Refusal, 10)
	network := proxy.New(proxy.Config{
		List: test.Must(allowlist.Parse([]string{"example.com=192.0.2.1"})),
		Models: []proxy.Model{{
			Kind:   "claude",
			URL:    test.Must(url.Parse("https://example.com")),
			Header: "X-Api-Key",
			Value:  "the key",
			Roots:  roots,
		}},
		Refused: func(r proxy.Refusal) { refusals <- r },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, internet.Listener.Addr().String())
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- network.Serve(ctx, listener) }()

	s.env = s.box.Environ(nil)
	s.box.Command = program(
		"get", "ca.pem", "https://example.com/", "https://evil.com/", "http://evil.com/", ModelURL("claude")+"/v1",
	)
	test.Equal(t, "output", strings.Split(test.Run(t, s.command()), "\n"), []string{
		"example.com with ",
		`Get "https://evil.com/": Forbidden`,
		"symphony: evil.com:80: not allowed; agent.network.allow in WORKFLOW.md lacks evil.com",
		"",
		"example.com with the key",
		"from inside",
	})
	stop()
	test.OK(t, <-served)
	close(refusals)
	var refused []proxy.Refusal
	for r := range refusals {
		refused = append(refused, r)
	}
	test.Equal(t, "refused", refused, []proxy.Refusal{
		{Host: "evil.com", Port: 443, Reason: proxy.NotListed},
		{Host: "evil.com", Port: 80, Reason: proxy.NotListed},
	})
}

// TestListenAtLongPath: a socket's name is limited to 107 bytes, a run's directory is not.
func TestListenAtLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	test.OK(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "proxy.sock")
	listener, err := Listen(path)
	test.OK(t, err)
	info, err := os.Lstat(path)
	test.OK(t, err)
	test.Equal(t, "mode", info.Mode(), os.ModeSocket|0o600)
	test.OK(t, listener.Close())
	test.Equal(t, "exists", test.Exists(t, path), false)
}

// TestInitOutside: the filter and the other walls would hit whatever started Init.
func TestInitOutside(t *testing.T) {
	code, err := Init(InitOptions{Command: []string{"true"}})
	test.Equal(t, "code", code, ExitInitFailed)
	if err == nil || !strings.Contains(err.Error(), "is started by symphony in a sandbox") {
		t.Errorf("error %v", err)
	}
	_, err = ParseInit([]string{"--proxy", "/run/proxy.sock"})
	if err == nil {
		t.Error("no command was accepted")
	}
}

// TestFiles shows what a command sees of files.
func TestFiles(t *testing.T) {
	s := newScene(t)
	tools := filepath.Join(s.dir, "tools")
	test.Write(t, filepath.Join(tools, "v1", "bin", "tool"), "tool\n")
	test.OK(t, os.Symlink("v1", filepath.Join(tools, "current")))
	s.box.Readable = []string{filepath.Join(tools, "current", "bin")}
	s.box.Writable = []string{filepath.Join(s.dir, "cache")}
	test.OK(t, os.Mkdir(s.box.Writable[0], 0o700))
	for script, want := range map[string]string{
		"pwd":                                s.box.Workspace,
		"cat " + tools + "/current/bin/tool": "tool",
		"cat " + tools + "/v1/bin/tool":      "tool",
		"echo x 2>/dev/null >" + tools + "/v1/bin/tool || echo no": "no",
		"echo x 2>/dev/null >/usr/new || echo no":                  "no",
		"echo x 2>/dev/null >/etc/new || echo no":                  "no",
		"echo x 2>/dev/null >/new || echo no":                      "no",
		"ls " + s.dir + "/outside 2>/dev/null || echo no":          "no",
		"ls /sys 2>/dev/null || echo no":                           "no",
		"ls " + s.dir + "/workspaces":                              "ABC-1",
		"echo a >a && echo b >~/b && echo c >/tmp/c && echo yes":   "yes",
		"echo d >" + s.box.Writable[0] + "/d && echo yes":          "yes",
		"echo $$ >/dev/null; echo x >/dev/shm/x && cat /dev/shm/x": "x",
		"uname -n": test.Must(os.Hostname()), // which /etc/hosts may know
	} {
		s.box.Command = []string{"sh", "-c", script}
		test.Equal(t, script, test.Run(t, s.command()), want)
	}
	test.Equal(t, "workspace", test.Read(t, filepath.Join(s.box.Workspace, "a")), "a\n")
	test.Equal(t, "home", test.Read(t, filepath.Join(s.box.Home, "b")), "b\n")
	entries := test.Must(os.ReadDir(s.box.Workspace))
	test.Equal(t, "files in the workspace", len(entries), 1)
}

// TestShownAbove: the directory above all workspaces is shown, and other workspaces are not.
func TestShownAbove(t *testing.T) {
	s := newScene(t)
	test.Write(t, filepath.Join(s.dir, "workspaces", "ABC-2", "file"), "")
	s.box.Readable = []string{s.dir}
	s.box.Private = []string{filepath.Join(s.dir, "outside"), filepath.Join(s.dir, "missing")}
	s.box.Command = []string{"sh", "-c", "cd ../..; ls . workspaces outside; touch workspaces/new outside/new x; true"}
	workspaces := filepath.Join(s.dir, "workspaces")
	got := strings.Fields(test.Run(t, s.command()))
	test.Equal(t, "listed", strings.Join(got[:9], " "), ".: home outside run workspaces outside: workspaces: ABC-1 touch:")
	test.Equal(t, "refused", strings.Count(strings.Join(got, " "), "Read-only file system"), 3)
	s.box.Command = []string{"ls", ".."}
	without := []change{{"--tmpfs " + workspaces, ""}, {"--remount-ro " + workspaces, ""}}
	got = strings.Fields(test.Run(t, s.command(without...)))
	test.Equal(t, "listed without the mask", got, []string{"ABC-1", "ABC-2"})

	link := filepath.Join(s.dir, "link")
	test.OK(t, os.Symlink("outside", link))
	s.box.Private = []string{link}
	_, err := Prepare(s.box)
	if err == nil || !strings.Contains(err.Error(), "can't show or hide "+link+": it leads to") {
		t.Errorf("error %v", err)
	}
}

// TestPrivileges: a command has none, and gets none by a set-uid program.
func TestPrivileges(t *testing.T) {
	s := newScene(t)
	s.box.Command = []string{"grep", "-E", "^(Cap|NoNewPrivs|Seccomp:)", "/proc/self/status"}
	got := strings.Fields(test.Run(t, s.command()))
	const none = "0000000000000000"
	test.Equal(t, "privileges", got, []string{
		"CapInh:", none, "CapPrm:", none, "CapEff:", none, "CapBnd:", none, "CapAmb:", none,
		"NoNewPrivs:", "1", "Seccomp:", "2",
	})
}

// TestFewerProcesses runs in an account that has fewer processes than the sandbox would allow.
func TestFewerProcesses(t *testing.T) {
	s := newScene(t)
	s.start = []string{"prlimit", "--nproc=3000:3000"}
	s.box.Processes = 4096
	s.box.Command = []string{"true"}
	test.Run(t, s.command())
}

// TestCheck: the check passes where a box can be made, and says with bubblewrap why not
// elsewhere.
func TestCheck(t *testing.T) {
	s := newScene(t)
	env := []string{"PATH=" + os.Getenv("PATH")}
	test.OK(t, Check(t.Context(), s.box, env))

	err := Check(t.Context(), s.box, []string{"PATH=" + s.dir})
	refusal, is := errors.AsType[*Refusal](err)
	if !is {
		t.Fatalf("error %v", err)
	}
	test.Contains(t, "the cure", refusal.Cure, "apt-get install bubblewrap")

	// An agent put a bubblewrap of its own into its workspace.
	planted := filepath.Join(s.box.Workspace, "bin")
	test.Write(t, filepath.Join(planted, bubblewrap), "#!/bin/sh\n")
	test.OK(t, os.Chmod(filepath.Join(planted, bubblewrap), 0o700))
	err = Check(t.Context(), s.box, []string{"PATH=" + planted + ":" + os.Getenv("PATH")})
	if err == nil || !strings.Contains(err.Error(), "where an agent writes") {
		t.Errorf("error %v", err)
	}
}

// TestCheckWithoutNamespaces: in a sandbox no other one can be made, as on a machine where user
// namespaces are off.
func TestCheckWithoutNamespaces(t *testing.T) {
	s := newScene(t)
	s.box.Command = program("check", s.box.Workspace, s.box.Home)
	out := test.Run(t, s.command())
	test.Contains(t, "output", out, "said: bwrap: Creating new namespace failed", "cure: "+containerCure)
}
