package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/acp/acptest"
)

// scriptsAtOnce is how many scripts run at once. They mostly wait, so it exceeds the number of
// processors.
const scriptsAtOnce = 6

// TestMain makes this binary each of the programs of the scripts, by the name with which it is
// started, otherwise the tests.
func TestMain(m *testing.M) {
	debug.SetGCPercent(-1) // most processes of the scripts end before they have much garbage
	debug.SetMemoryLimit(256 << 20)
	cli.HelpFlag = ownHelp{cli.HelpFlag.(*cli.BoolFlag)}
	all := programs()
	if program := all[filepath.Base(os.Args[0])]; program != nil {
		program()
		os.Exit(0)
	}
	// A -parallel on the command line wins, because it is read later.
	if f := flag.Lookup("test.parallel"); f != nil {
		test.OK(mainT{}, f.Value.Set(strconv.Itoa(scriptsAtOnce)))
	}
	// What nohup or a shell's background job ignores, the programs would ignore, too. Go
	// resets a signal that it handles itself.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	// else the folders of a script may be writable for others, and a workspace root must not
	// be
	syscall.Umask(0o022)
	dir := test.Must(os.MkdirTemp("", "symphony-programs-"))
	exe := test.Must(os.Executable())
	for name := range all {
		if at := filepath.Join(dir, name); os.Link(exe, at) != nil { // another file system
			test.OK(mainT{}, exec.Command("cp", exe, at).Run())
		}
	}
	linkPython(filepath.Join(dir, "python3"))
	tools := test.Must(os.MkdirTemp("", "symphony-tools-"))
	test.OK(mainT{}, os.Chmod(tools, 0o755)) // scripts also run programs as another account
	linkTools(tools)
	test.OK(mainT{}, os.Setenv(toolsVar, tools))
	pathBefore = os.Getenv("PATH")
	test.OK(mainT{}, os.Setenv("PATH", dir+string(filepath.ListSeparator)+tools))
	code := m.Run()
	giteatest.Stop()
	test.OK(mainT{}, os.RemoveAll(dir))
	test.OK(mainT{}, os.RemoveAll(tools))
	os.Exit(code)
}

// toolsVar names the directory with the programs of this machine that tests may use. It is the
// whole PATH of a script's login shells.
const toolsVar = "SYMPHONY_TEST_TOOLS"

// pathBefore is the PATH of whoever runs the tests, for a machine of its own that does not see
// toolsVar.
var pathBefore string

// kindsOfAgent are programs that people install and that tests must not find: a script has a
// codex only if it makes one.
var kindsOfAgent = []string{"codex", "claude", "gemini", "opencode", "symphony"}

// linkTools links every program on the PATH except agents, so that a test finds the same
// programs whoever runs it.
func linkTools(dir string) {
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, err := os.ReadDir(from)
		if err != nil {
			continue // a directory on the PATH need not exist
		}
		for _, e := range entries {
			if slices.Contains(kindsOfAgent, e.Name()) {
				continue
			}
			err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name()))
			if !errors.Is(err, fs.ErrExist) { // the first one counts, as in a PATH
				test.OK(mainT{}, err)
			}
		}
	}
}

// linkPython links the interpreter, because the python3 of a version manager is a script that
// starts a dozen processes each time.
func linkPython(at string) {
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err == nil { // else Python is not installed, and [python3] is false
		test.OK(mainT{}, os.Symlink(string(out), at))
	}
}

// mainT lets test.OK end TestMain.
type mainT struct{}

// Helper does nothing.
func (mainT) Helper() {}

// Fatal panics.
func (mainT) Fatal(args ...any) { panic(args) }

// programs returns the programs that scripts start.
func programs() map[string]func() {
	all := map[string]func(){
		"symphony":     func() { os.Exit(mainCode(underTest)) },
		"fake-codex":   codexMain,
		"fake-acp":     func() { os.Exit(acptest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"codex-wire":   wireMain,
		"mcp-forms":    formsMain,
		"mcp-prints":   mcpPrintsMain,
		"json-tracker": trackerMain,
	}
	for name, program := range systemPrograms() {
		all[name] = program
	}
	return all
}

// underTest gives the program a wall clock that its script can set, even while the program
// runs, and the script's account. It lets it write the documents that it prints to the
// script's file.
func underTest(w *term.Env) {
	w.Now = stepped(w.Getenv(clockVar))
	w.SinceBoot = sinceBoot(w.Getenv(uptimeVar))
	w.Printed = recordDocuments(w.Getenv(recordVar), os.Args)
	w.AccountHome = w.Getenv(accountHomeVar)
}

// accountHomeVar is the home directory of the script's account in the password database;
// without it there is no such entry.
const accountHomeVar = "SYMPHONY_TEST_ACCOUNT_HOME"

// reading are the commands that only read the state. Scripts run them in the process of the
// test, because the start of a process costs more than they do. The others start and end
// processes, or change what a signal or a lock is for, and run as the real program.
var reading = []string{
	"check", "complete", "completion", "diff", "help", "issues", "logs", "prompt", "ps", "report", "show", "status", "trash", "version",
}

func isReading(args []string) bool {
	return slices.ContainsFunc(
		args[:min(1, len(args))],
		func(arg string) bool { return slices.Contains(reading, arg) },
	)
}

// symphonyCmd runs the program, a command that only reads in this process. exec symphony
// always starts a process. [!] symphony ARG...
func symphonyCmd(ts *testscript.TestScript, neg bool, args []string) {
	if _, _, code := execute(ts, slices.Concat([]string{"symphony"}, args)); neg != (code != 0) {
		ts.Fatalf("symphony %s ended with %d", strings.Join(args, " "), code)
	}
}

// ownHelp is the flag --help, which the library's apps share: reading it writes to it.
// Programs that run at once in this process copy it.
type ownHelp struct{ *cli.BoolFlag }

func (h ownHelp) Apply(set *flag.FlagSet) error {
	own := *h.BoolFlag
	return own.Apply(set)
}

// runInProcess runs the program with the script's environment, without a terminal and with an
// empty stdin.
func runInProcess(ts *testscript.TestScript, args []string) (stdout, stderr []byte, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	var out, errOut bytes.Buffer
	args = slices.Concat([]string{"symphony"}, args)
	w := &term.Env{
		Env: environ.Env{
			Environ: scriptEnv(ts),
			Dir:     ts.MkAbs("."),
			Home:    ts.Getenv("HOME"),
			Now:     stepped(ts.Getenv(clockVar)),
		},
		Stdin:   strings.NewReader(""),
		Stdout:  &out,
		Stderr:  &errOut,
		Printed: recordDocuments(ts.Getenv(recordVar), args),
	}
	code = run(ctx, w, args)
	return out.Bytes(), errOut.Bytes(), code
}
