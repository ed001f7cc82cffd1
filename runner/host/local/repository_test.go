package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// A run clones into its workspace, and a later run delivers from it. Git is started as a process of the run, and not with what an
// agent could have left in the directories for temporary files and caches. That the workspace is not trusted does not matter.
func TestCloneAndDeliver(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	test.OK(t, err)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	sh := func(at, script string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = at
		cmd.Env = append([]string{"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sh(dir, `git init -q -b main work; git -C work commit -q --allow-empty -m one; git clone -q --bare work remote.git
		printf '#!/bin/sh\nenv > `+dir+`/environ\nshift $(($#-1))\nexec sh -c "$1"\n' > ssh; chmod +x ssh`)
	env = append(env, "GIT_SSH_COMMAND="+filepath.Join(dir, "ssh"), "LC_ALL=C")

	h := &Host{}
	remote := host.Repository{URL: "host:" + filepath.Join(dir, "remote.git"), Name: "a", Email: "a@b"}
	prepare := func(id string) (host.Run, host.PrepareAnswer) {
		run := host.Run{ID: id, Dir: filepath.Join(dir, id)}
		test.OK(t, os.Mkdir(run.Dir, 0o700))
		answer, err := h.Prepare(t.Context(), host.PrepareRequest{Run: run, Root: filepath.Join(dir, "root"), Issue: host.Issue{
			ID: "1", Identifier: "ABC-1", Project: "p", StateDir: dir,
		}})
		test.OK(t, err)
		return run, answer
	}
	run, prepared := prepare("r-1")
	space := prepared.Workspace
	cloned, err := h.Clone(t.Context(), host.CloneRequest{
		Run: run, Repository: remote, Branch: "symphony/ABC-1", Timeout: time.Minute,
		Env: append([]string{"GIT_DIR=/nowhere", "XDG_CACHE_HOME=" + space.CacheDir, "TMPDIR=" + space.TmpDir, "SYMPHONY_RUN_ID=other"}, env...),
	})
	test.OK(t, err)
	test.Equal(t, "base", cloned.Base, "main")
	environ := sh(dir, "cat environ")
	for text, want := range map[string]bool{"SYMPHONY_RUN_ID=r-1\n": true, "\nXDG_CACHE_HOME=": false, "\nTMPDIR=": false, "=other": false} {
		if strings.Contains("\n"+environ+"\n", text) != want {
			t.Errorf("%q in the environment: %v\n%s", text, !want, environ)
		}
	}
	test.OK(t, h.Confirm(t.Context(), host.ConfirmRequest{Run: run}))
	test.OK(t, h.GuardGit(t.Context(), host.GuardGitRequest{Run: run, Env: env}))
	sh(space.Path, "git commit -q --allow-empty -m two; git init -q sub; git -C sub config core.fsmonitor evil") // the agent
	test.OK(t, h.Finish(t.Context(), run))

	request := host.DeliverRequest{Run: run, Repository: remote, Branch: "symphony/ABC-1", Timeout: time.Minute, Env: env}
	if _, err := h.Deliver(t.Context(), request); err == nil {
		t.Error("delivered without a workspace")
	}
	request.Run, prepared = prepare("r-2")
	_, err = h.RunHook(t.Context(), host.HookRequest{Run: request.Run, Name: "before_run", Script: "git status", Timeout: time.Minute, Env: env})
	var known *reconcile.Error
	if !errors.As(err, &known) || known.Code != host.CodeUntrusted || !strings.Contains(prepared.Git.Untrusted, "sub/.git: core.fsmonitor") {
		t.Errorf("a hook in a workspace that is not trusted: %v, %q", err, prepared.Git.Untrusted)
	}

	// The remote hangs: the limit ends git, or the caller does, and the run's processes are found meanwhile.
	sh(dir, "printf 'echo $$ > ../hanging; exec sleep 1000' > remote.git/hooks/pre-receive; chmod +x remote.git/hooks/pre-receive")
	limited := request
	limited.Timeout = time.Second
	_, err = h.Deliver(t.Context(), limited)
	if !errors.As(err, &known) || known.Code != host.CodeDeliveryFailed || !strings.HasPrefix(known.Message, "the delivery took longer than 1s") {
		t.Errorf("a remote that hangs: %v", err)
	}
	sh(dir, "rm -f hanging")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if data, _ := os.ReadFile(filepath.Join(dir, "hanging")); len(data) > 0 {
				o, err := owner(host.Owned{Run: request.Run})
				found, findErr := proc.Find(o)
				if err = errors.Join(err, findErr); err != nil || len(found) < 2 {
					t.Errorf("processes of the run: %v, %v", found, err)
				}
				return
			}
		}
	}()
	if _, err = h.Deliver(ctx, request); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by the caller: %v", err)
	}
	sh(dir, "rm remote.git/hooks/pre-receive")
	answer, err := h.Deliver(t.Context(), request)
	test.OK(t, err)
	test.Equal(t, "commits", answer.Commits, 1)
	test.Equal(t, "branch", sh(dir, "git -C remote.git rev-parse symphony/ABC-1"), answer.Commit)

	sh(dir, "mv root/ABC-1 moved; mkdir root/ABC-1")
	if _, err := h.Deliver(t.Context(), request); !errors.As(err, &known) || known.Code != "invalid_workspace_cwd" {
		t.Errorf("from another directory: %v", err)
	}
	test.OK(t, h.Finish(t.Context(), request.Run))
}
