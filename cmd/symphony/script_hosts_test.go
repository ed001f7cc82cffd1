package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// onHost are scripts of TestScript about what passes and workers do.
var onHost = []string{
	"script/specification", "script/run", "script/prompt", "script/tick_wait", "script/tick_loop_stop", "script/tool_scope", "script/hooks",
	"script/stop_deaf", "script/stop_unseen", "script/stop_removal", "script/terminal_removal", "script/limited", "script/max_tokens",
	"script/guidance_comment", "script/guidance_answer", "script/ask_approve", "script/unknown_requests", "all/ask_question", "all/answers",
	"all/agent_faults", "all/delivery", "all/delivery_first_look", "all/pull_request_checks", "all/repository_changed", "all/retry_fresh",
	"all/workspace_adopted", "all/guard_hooks",
}

// TestScriptOnHost runs scripts whose agents work on another machine: behind a real ssh server
// here, with the same workspaces.
func TestScriptOnHost(t *testing.T) {
	if !canServeSSH() {
		t.Skip("sshd is not installed, or may not run")
	}
	runElsewhere(t, onHost, useHost)
}

// TestScriptOnSlurm runs scripts whose agents work in jobs of a Slurm cluster on this machine.
func TestScriptOnSlurm(t *testing.T) {
	if _, err := exec.LookPath("slurmctld"); err != nil {
		t.Skip("Slurm is not installed")
	}
	runElsewhere(t, onHost, useSlurm)
}

// TestScriptInContainers runs a script whose agents work in containers, with each engine of
// containers.
func TestScriptInContainers(t *testing.T) {
	programs := map[string]string{"docker": "dockerd", "podman": "podman"}
	for engine, program := range programs {
		t.Run(engine, func(t *testing.T) {
			if !canRunContainers(program) {
				t.Skipf("%s is not installed, or containers can not run here", engine)
			}
			runElsewhere(t, []string{"engine/containers"}, func(env *testscript.Env) error {
				env.Setenv("ENGINE", engine)
				return nil
			})
		})
	}
}

// runElsewhere runs scripts whose workflow a function changes.
func runElsewhere(t *testing.T, scripts []string, change func(*testscript.Env) error) {
	test.Expensive(t)
	t.Parallel()
	p := params(t, "")
	p.Dir = ""
	for _, name := range scripts {
		p.Files = append(p.Files, filepath.Join(moduleRoot, "testdata", name+".txtar"))
	}
	p.Setup = func(env *testscript.Env) error {
		if err := setupScript(env); err != nil {
			return err
		}
		return change(env)
	}
	testscript.Run(t, p)
}

// useHost makes the workflow of a script name a host.
func useHost(env *testscript.Env) error {
	cmd := exec.Command("sh", "-e", "hosts.sh")
	cmd.Dir = env.WorkDir
	cmd.Env = env.Vars
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// The account there has the author of commits.
	path := filepath.Join(env.WorkDir, "hosts", "server-near")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	with := "GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.com " +
		"GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.com HOST_NAME="
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "HOST_NAME=", with, 1)), 0o600); err != nil {
		return err
	}
	return useWorker(env, "ssh_hosts: [near]")
}

// useSlurm makes the workflow of a script name a Slurm cluster, which ends with the script.
func useSlurm(env *testscript.Env) error {
	if err := startSlurm(env.WorkDir, env.Vars, env.Defer); err != nil {
		return err
	}
	// The account there has the author of commits.
	author := []byte("[user]\nname = A\nemail = a@example.com\n")
	return errors.Join(
		os.WriteFile(filepath.Join(env.Getenv("HOME"), ".gitconfig"), author, 0o600),
		useWorker(env, "engine: {kind: slurm}"),
	)
}

// startSlurm starts a Slurm cluster in the folder of a script, and has it ended.
func startSlurm(dir string, vars []string, atEnd func(func())) error {
	vars = append(vars, "PORTS="+strings.Join(freePorts(3), " "))
	atEnd(func() { test.OK(mainT{}, runFile(dir, vars, "slurm/down")) })
	return runFile(dir, vars, "slurm.sh")
}

// runFile runs a file in the folder of a script by sh.
func runFile(dir string, vars []string, name string) error {
	cmd := exec.Command("sh", "-e", name)
	cmd.Dir = dir
	cmd.Env = vars
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// freePorts returns ports of this machine that nothing listens at. The system gives them to no
// other program by itself.
func freePorts(n int) (ports []string) {
	for len(ports) < n {
		const first, count = 20000, 10000
		port := strconv.Itoa(first + (os.Getpid()+int(triedPorts.Add(1)))%count)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			test.OK(mainT{}, l.Close())
			ports = append(ports, port)
		}
	}
	return ports
}

var triedPorts atomic.Int64

// useWorker adds a key of section worker to the workflow of a script, and its folder bin to
// PATH.
func useWorker(env *testscript.Env, key string) error {
	env.Setenv("PATH", filepath.Join(env.WorkDir, "bin")+":"+env.Getenv("PATH"))
	path := filepath.Join(env.WorkDir, "WORKFLOW.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	keys := "worker:\n  " + key + "\n  root: " + filepath.Join(env.WorkDir, "ws") + "\nworkspace:\n"
	return os.WriteFile(path, []byte(strings.Replace(string(text), "workspace:\n", keys, 1)), 0o600)
}
