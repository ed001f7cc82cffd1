package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

func TestMain(m *testing.M) {
	// Scripts mostly wait: for a backoff, a worker, a pass. More of them than there are processors may run at
	// once; a -parallel on the command line still wins, for it is read later.
	if f := flag.Lookup("test.parallel"); f != nil {
		if err := f.Value.Set(strconv.Itoa(scriptsAtOnce)); err != nil {
			panic(err)
		}
	}
	programs := map[string]func(){
		"symphony": steppedMain,
		"fake-codex": func() {
			os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"codex-wire": wireMain,
		"mcp-forms":  formsMain,
	}
	maps.Copy(programs, systemPrograms())
	testscript.Main(m, programs)
}

const (
	scriptsAtOnce = 6
	// suiteMargin is left before the test binary's own end: a command that hangs must fail its script.
	suiteMargin = 30 * time.Second
)

// TestScript runs the scripts in testdata/script: the manual of each command, with the real program, real
// processes and a real database. Linear is the one in this process; the agent is scripted.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, "script"))
}

// TestRealCodex runs the scripts in testdata/codex with the real codex on a mock model.
func TestRealCodex(t *testing.T) {
	if os.Getenv("SYMPHONY_TEST_CODEX") == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex; the scripts with the real one are skipped")
	}
	t.Parallel()
	testscript.Run(t, params(t, "codex"))
}

func params(t *testing.T, dir string) testscript.Params {
	deadline, bounded := t.Deadline()
	if !bounded {
		deadline = time.Now().Add(time.Hour)
	}
	return testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", dir),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Deadline:            deadline.Add(-suiteMargin),
		Setup:               setupScript,
		Cmds:                commands(),
		Condition:           condition,
	}
}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	cmds := map[string]func(*testscript.TestScript, bool, []string){
		"alive": aliveCmd, "due": dueCmd, "exits": exitsCmd, "gone": goneCmd, "hold-lock": holdLockCmd, "hold-thread": holdThreadCmd, "install-program": installProgramCmd, "json": jsonCmd, "large-state": largeStateCmd,
		"linear": linearCmd, "model": modelCmd, "no-secret": noSecretCmd, "pass": passCmd, "press": pressCmd, "question": questionCmd, "quiet": quietCmd, "release-lock": releaseLockCmd, "release-thread": releaseThreadCmd,
		"set": setCmd, "signal": signalCmd, "sql": sqlCmd, "tmux": tmuxCmd, "until": untilCmd, "wire-like": wireLikeCmd,
	}
	maps.Copy(cmds, systemCommands())
	maps.Copy(cmds, faultCommands())
	maps.Copy(cmds, gitCommands())
	maps.Copy(cmds, buildCommands())
	return cmds
}

// condition knows [root], [mount]: file systems can be mounted here, [freezer]: processes can be made immovable,
// [unshare]: a command can have a mount or pid namespace of its own, [tmux]: there is a real terminal, [bash], [zsh], [fish]:
// the program is installed.
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "mount":
		return canMount(), nil
	case "freezer":
		return canFreeze(), nil
	case "unshare":
		return canUnshare(), nil
	case "tmux":
		return hasTmux(), nil
	case "bash", "zsh", "fish":
		_, err := exec.LookPath(name)
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// stage is what belongs to one script besides its files.
type stage struct {
	linear *lineartest.Server
	other  *lineartest.Server // the workspace of Linear that linear does not steer now, nil for none
	model  *modeltest.Server  // nil without the real codex
	// registry is the server of packages, nil for none.
	registry *httptest.Server
	asked    []string     // headings of docs/questions.md whose commands have run
	holder   *holder      // the codex that hold-thread has started
	terminal *multiplexer // nil until tmux start
	// release gives up the project lock that hold-lock took.
	release func() error
}

type stageKey struct{}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

const markName = "SYMPHONY_TEST_MARK"

// standardWorkflow is what a script has that brings no WORKFLOW.md of its own. `set` changes keys of it.
const standardWorkflow = `---
tracker:
  kind: linear
  endpoint: $LINEAR_ENDPOINT
  api_key: $LINEAR_API_KEY
  project_slug: demo
workspace:
  root: ./ws
  min_free_bytes: 0
agent:
  max_retry_backoff_ms: 300
codex:
  command: $AGENT
---
{{ issue.description }}
Attempt: {{ attempt }}
`

// setup gives each script a home, a Linear and an agent of its own, and at its end looks for processes
// that it has left.
func setupScript(env *testscript.Env) error {
	server := lineartest.New(lineartest.Config{Validate: linearschema.Validate, Key: "lin_api_" + strings.Repeat("secret", 3)})
	seed := lineartest.DefaultSeed()
	seed.Projects = append(seed.Projects, lineartest.SeedProject{Name: "Second", SlugID: "second"})
	if err := server.Load(seed); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	env.Defer(func() { server.Close() })
	set := &stage{linear: server}
	env.Values[stageKey{}] = set
	home, codexHome := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "codex-home")
	for _, dir := range []string{home, codexHome} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	mark := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	env.Setenv(markName, mark)
	env.Defer(func() { sweep(env.T(), mark, env.WorkDir) })
	// By its path, because login shells have a PATH of their own.
	fake, err := inPath(env.Getenv("PATH"), "fake-codex")
	if err != nil {
		return err
	}
	program, err := inPath(env.Getenv("PATH"), "symphony")
	if err != nil {
		return err
	}
	agent := fake + " app-server --home " + codexHome
	if path := os.Getenv("SYMPHONY_TEST_CODEX"); path != "" {
		if set.model, err = setupCodex(env, path, codexHome); err != nil {
			return err
		}
	}
	for k, v := range map[string]string{
		"HOME": home, "CODEX_HOME": codexHome, "AGENT": agent, "PROGRAM": program, "TMPDIR": env.WorkDir + "/.tmp",
		"XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "STATE": filepath.Join(env.WorkDir, "state"),
		"SYMPHONY_STATE_DIR": filepath.Join(env.WorkDir, "state"),
		clockVar:             filepath.Join(env.WorkDir, ".clock"),
		"LINEAR_API_KEY":     server.Key(), "LINEAR_ENDPOINT": server.Endpoint(), "LINEAR_URL": server.URL(),
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		env.Setenv(k, v)
	}
	workflow := filepath.Join(env.WorkDir, "WORKFLOW.md")
	if _, err := os.Stat(workflow); os.IsNotExist(err) {
		if err := os.WriteFile(workflow, []byte(standardWorkflow), 0o600); err != nil {
			return err
		}
	}
	return fillIn(env)
}

// setupCodex gives a script a codex whose model is a mock.
func setupCodex(env *testscript.Env, path, home string) (*modeltest.Server, error) {
	model := modeltest.New()
	env.Defer(model.Close)
	if err := modeltest.WriteHome(home, model.URL); err != nil {
		return nil, err
	}
	env.Setenv("REAL_CODEX", path+" app-server")
	wire, err := inPath(env.Getenv("PATH"), "codex-wire")
	if err != nil {
		return nil, err
	}
	forms, err := inPath(env.Getenv("PATH"), "mcp-forms")
	if err != nil {
		return nil, err
	}
	env.Setenv("MCP_FORMS", forms)
	env.Setenv("RECORDED_CODEX", wire+" "+filepath.Join(env.WorkDir, "wire")+" "+path+" app-server")
	return model, nil
}

// fillIn puts addresses and commands into the workflows, where a workflow itself expands no variables.
func fillIn(env *testscript.Env) error {
	files, err := filepath.Glob(filepath.Join(env.WorkDir, "*.md"))
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range []string{"LINEAR_ENDPOINT", "AGENT", "REAL_CODEX"} {
			data = bytes.ReplaceAll(data, []byte("$"+name), []byte(env.Getenv(name)))
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sweepBound is more than a worker takes that is asked to end, on a machine that has much else to do.
const sweepBound = 20 * time.Second

// sweep ends what a script has left, and says so: a script must end its processes itself.
func sweep(t testscript.T, mark, work string) {
	for end := time.Now().Add(sweepBound); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if len(marked(mark, work)) == 0 {
			return
		}
	}
	for pid, cmdline := range marked(mark, work) {
		t.Log(fmt.Sprintf("left behind: %d %s", pid, cmdline))
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
		defer t.FailNow()
	}
}

// marked finds the processes of a script: by their environment, and, since a worker's can be read by root only,
// by the script's directory in their arguments. It looks twice: a worker that starts a pass and ends while the
// list is read hides both.
func marked(mark, work string) map[int]string {
	found := scan(mark, work)
	maps.Copy(found, scan(mark, work))
	return found
}

func scan(mark, work string) map[int]string {
	found := map[int]string{}
	dirs, _ := os.ReadDir("/proc")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", dir.Name(), "cmdline"))
		if err != nil || len(cmdline) == 0 { // a zombie has none
			continue
		}
		if bytes.Contains(cmdline, []byte(work+"/")) || hasMark(pid, mark) {
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// hasMark says whether a process has the environment of the script.
func hasMark(pid int, mark string) bool {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return bytes.Contains(environ, []byte(markName+"="+mark))
}
