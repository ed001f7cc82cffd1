package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"symphony": main,
		"fake-codex": func() {
			os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScript runs the scripts in testdata/script: the manual of each command, with the real program, real
// processes and a real database. Linear is the one in this process; the agent is scripted.
func TestScript(t *testing.T) {
	testscript.Run(t, params("script"))
}

// TestRealCodex runs the scripts in testdata/codex with the real codex on a mock model.
func TestRealCodex(t *testing.T) {
	if os.Getenv("SYMPHONY_TEST_CODEX") == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex; the scripts with the real one are skipped")
	}
	testscript.Run(t, params("codex"))
}

func params(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 filepath.Join("..", "..", "testdata", dir),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"linear": linearCmd, "until": untilCmd, "quiet": quietCmd, "signal": signalCmd, "sql": sqlCmd, "no-secret": noSecretCmd,
		},
	}
}

type linearKey struct{}

const markName = "SYMPHONY_TEST_MARK"

// setup gives each script a home, a Linear and an agent of its own, and at its end looks for processes
// that it has left.
func setup(env *testscript.Env) error {
	server := lineartest.New(lineartest.Config{Key: "lin_api_" + strings.Repeat("secret", 3)})
	if err := server.Start(); err != nil {
		return err
	}
	env.Defer(func() { server.Close() })
	env.Values[linearKey{}] = server
	home, codexHome := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "codex-home")
	for _, dir := range []string{home, codexHome} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	mark := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	env.Setenv(markName, mark)
	env.Defer(func() { sweep(env.T(), mark) })
	// By its path, because login shells have a PATH of their own.
	fake, err := inPath(env.Getenv("PATH"), "fake-codex")
	if err != nil {
		return err
	}
	agent := fake + " app-server --home " + codexHome
	if real := os.Getenv("SYMPHONY_TEST_CODEX"); real != "" {
		model := modeltest.New()
		env.Defer(model.Close)
		if err := modeltest.WriteHome(codexHome, model.URL); err != nil {
			return err
		}
		env.Setenv("REAL_CODEX", real+" app-server")
	}
	for k, v := range map[string]string{
		"HOME": home, "CODEX_HOME": codexHome, "AGENT": agent, "TMPDIR": env.WorkDir + "/.tmp",
		"XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "STATE": filepath.Join(env.WorkDir, "state"),
		"SYMPHONY_STATE_DIR": filepath.Join(env.WorkDir, "state"),
		"LINEAR_API_KEY":     server.Key(), "LINEAR_ENDPOINT": server.Endpoint(), "LINEAR_URL": server.URL(),
		"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		env.Setenv(k, v)
	}
	return fillIn(env)
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

// sweep ends what a script has left, and says so: a script must end its processes itself.
func sweep(t testscript.T, mark string) {
	for range 50 {
		left := marked(mark)
		if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // workers that are just ending
	}
	for pid, cmdline := range marked(mark) {
		t.Log(fmt.Sprintf("left behind: %d %s", pid, cmdline))
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
		defer t.FailNow()
	}
}

// marked finds the processes of a script. A worker's environment can be read by root only.
func marked(mark string) map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		if err == nil && pid != os.Getpid() && bytes.Contains(data, []byte(markName+"="+mark)) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found[pid] = strings.ReplaceAll(string(cmdline), "\x00", " ")
		}
	}
	return found
}
