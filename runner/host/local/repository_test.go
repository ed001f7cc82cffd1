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
	"github.com/symphony-cron/symphony/runner/host/local/tree"
)

// cloned is a workspace that run r-1 has cloned from a remote behind ssh. Its agent made a
// commit, and a repository below that is not trusted.
type cloned struct {
	t       *testing.T
	dir     string
	env     []string
	machine Machine
	answer  host.CloneAnswer
	deliver host.DeliverRequest
}

// newCloned clones with an environment that names another repository, and the agent's
// directories for temporary files and caches.
func newCloned(t *testing.T) *cloned {
	t.Helper()
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	c := &cloned{
		t:       t,
		dir:     dir,
		machine: Machine{StateDir: dir},
		env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"},
	}
	c.sh(
		dir,
		`git init -q -b main work; git -C work commit -q --allow-empty -m one; git clone -q --bare work remote.git
		printf '#!/bin/sh\nenv > `+dir+`/environ\nshift $(($#-1))\nexec sh -c "$1"\n' > ssh; chmod +x ssh`,
	)
	c.env = append(c.env, "GIT_SSH_COMMAND="+filepath.Join(dir, "ssh"), "LC_ALL=C")
	run, prepared := c.prepare("r-1")
	space := prepared.Workspace
	c.deliver = host.DeliverRequest{
		Repository: host.Repository{
			URL:   "host:" + filepath.Join(dir, "remote.git"),
			Name:  "a",
			Email: "a@b",
		},
		Branch: "symphony/ABC-1", Timeout: test.Patience(), Env: c.env,
	}
	c.answer = test.Must(run.Clone(t.Context(), host.CloneRequest{
		Repository: c.deliver.Repository, Branch: c.deliver.Branch, Timeout: test.Patience(),
		Env: append([]string{
			"GIT_DIR=/nowhere", "GIT_INDEX_FILE=/nowhere", "XDG_CACHE_HOME=" + space.CacheDir,
			"TMPDIR=" + space.TmpDir, "SYMPHONY_RUN_ID=other",
		}, c.env...),
	}))
	test.OK(t, run.Confirm(t.Context(), host.ConfirmRequest{}))
	test.OK(t, run.GuardGit(t.Context(), host.GuardGitRequest{Env: c.env}))
	c.sh(
		space.Path,
		"git commit -q --allow-empty -m two; git init -q sub; git -C sub config core.fsmonitor evil",
	)
	test.OK(t, run.Finish(t.Context()))
	return c
}

func (c *cloned) sh(at, script string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "sh", "-ec", script)
	cmd.Dir = at
	cmd.Env = append(
		[]string{
			"GIT_AUTHOR_NAME=a",
			"GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@b",
		},
		c.env...)
	return test.Run(c.t, cmd)
}

// prepare prepares the workspace for a run.
func (c *cloned) prepare(id string) (host.Run, host.PrepareAnswer) {
	c.t.Helper()
	run := c.machine.Run(id)
	test.OK(c.t, os.MkdirAll(host.RunDir(c.dir, id), 0o700))
	answer, err := run.Prepare(c.t.Context(), host.PrepareRequest{
		Root: filepath.Join(c.dir, "root"),
		Issue: host.Issue{
			ID: "1", Identifier: "ABC-1", Project: "p", StateDir: c.dir,
		},
	})
	test.OK(c.t, err)
	return run, answer
}

func (c *cloned) wantCode(err error, code string) {
	c.t.Helper()
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != code {
		c.t.Errorf("error %v, want code %s", err, code)
	}
}

// A run clones into its workspace, and a later run delivers from it. Git is started as a
// process of the run, and not with what an agent could have left. That the workspace is not
// trusted does not matter.
func TestCloneAndDeliver(t *testing.T) {
	c := newCloned(t)
	test.Equal(t, "base", c.answer.Base, "main")
	environ := "\n" + c.sh(c.dir, "cat environ") + "\n"
	for text, want := range map[string]bool{
		"SYMPHONY_RUN_ID=r-1\n": true,
		"\nXDG_CACHE_HOME=":     false,
		"\nTMPDIR=":             false,
		"=other":                false,
	} {
		test.Equal(t, text+" is in the environment", strings.Contains(environ, text), want)
	}
	test.Equal(
		t,
		"delivered without a workspace",
		test.Err(c.machine.Run("r-2").Deliver(t.Context(), c.deliver)) == nil,
		false,
	)
	run, prepared := c.prepare("r-2")
	_, err := run.RunHook(t.Context(), host.HookRequest{
		Name:    "before_run",
		Script:  "git status",
		Timeout: test.Patience(),
		Env:     c.env,
	})
	c.wantCode(err, host.CodeUntrusted)
	test.Contains(t, "what is not trusted", prepared.Git.Untrusted, "sub/.git: core.fsmonitor")
	answer := test.Must(run.Deliver(t.Context(), c.deliver))
	test.Equal(t, "commits", answer.Commits, 1)
	test.Equal(t, "branch", c.sh(c.dir, "git -C remote.git rev-parse symphony/ABC-1"), answer.Commit)

	c.sh(c.dir, "mv root/ABC-1 moved; mkdir root/ABC-1")
	c.wantCode(test.Err(run.Deliver(t.Context(), c.deliver)), "invalid_workspace_cwd")
	test.OK(t, run.Finish(t.Context()))
}

// The remote hangs: the limit ends git, or the caller does, and the run's processes are found
// meanwhile.
func TestDeliveryHangs(t *testing.T) {
	c := newCloned(t)
	run, _ := c.prepare("r-2")
	c.sh(
		c.dir,
		"printf 'echo $$ > ../hanging; exec sleep 1000' > remote.git/hooks/pre-receive; chmod +x "+
			"remote.git/hooks/pre-receive",
	)
	limited := c.deliver
	limited.Timeout = time.Second
	_, err := run.Deliver(t.Context(), limited)
	c.wantCode(err, host.CodeDeliveryFailed)
	test.Contains(t, "the error", err.Error(), ": the delivery took longer than 1s")
	c.sh(c.dir, "rm -f hanging")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if data, _ := os.ReadFile(filepath.Join(c.dir, "hanging")); len(data) > 0 {
				o, err := c.machine.owner(host.LeftRequest{RunID: "r-2"})
				found, findErr := tree.Find(o)
				if err != nil || findErr != nil || len(found) < 2 {
					t.Errorf("processes of the run: %v, %v, %v", found, err, findErr)
				}
				return
			}
		}
	}()
	_, err = run.Deliver(ctx, c.deliver)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended by the caller: %v", err)
	}
	test.OK(t, run.Finish(t.Context()))
}
