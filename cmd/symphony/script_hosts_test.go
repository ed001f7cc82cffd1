package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestScriptOnHost runs scripts whose agents work on another machine: behind a real ssh server here, with the same workspaces.
func TestScriptOnHost(t *testing.T) {
	test.Expensive(t)
	if !canServeSSH() {
		t.Skip("sshd is not installed, or may not run")
	}
	t.Parallel()
	p := params(t, "")
	p.Dir = ""
	for _, name := range onHost {
		p.Files = append(p.Files, filepath.Join(moduleRoot, "testdata", name+".txtar"))
	}
	p.Setup = func(env *testscript.Env) error {
		if err := setupScript(env); err != nil {
			return err
		}
		return useHost(env)
	}
	testscript.Run(t, p)
}

// useHost makes the workflow of a script name a host.
func useHost(env *testscript.Env) error {
	cmd := exec.Command("sh", "-e", "hosts.sh")
	cmd.Dir, cmd.Env = env.WorkDir, env.Vars
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
	env.Setenv("PATH", filepath.Join(env.WorkDir, "bin")+":"+env.Getenv("PATH"))
	path = filepath.Join(env.WorkDir, "WORKFLOW.md")
	if text, err = os.ReadFile(path); err != nil {
		return err
	}
	keys := "worker:\n  ssh_hosts: [near]\n  root: " + filepath.Join(env.WorkDir, "ws") + "\nworkspace:\n"
	return os.WriteFile(path, []byte(strings.Replace(string(text), "workspace:\n", keys, 1)), 0o600)
}
