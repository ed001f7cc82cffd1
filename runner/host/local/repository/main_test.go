package repository

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// place is a remote repository with one commit on main, and the workspaces that are cloned
// from it.
type place struct {
	t                    *testing.T
	dir, remote, mirrors string
	env                  []string // the operator's environment
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	p := &place{
		t:       t,
		dir:     dir,
		remote:  filepath.Join(dir, "remote.git"),
		mirrors: filepath.Join(dir, "mirrors"),
	}
	p.env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(dir, "home"),
		"GIT_CONFIG_NOSYSTEM=1",
	}
	test.OK(t, os.Mkdir(filepath.Join(dir, "home"), 0o700))
	identity := "[user]\n\tname = operator\n\temail = operator@example.org\n"
	test.OK(t, os.WriteFile(filepath.Join(dir, "home", ".gitconfig"), []byte(identity), 0o600))
	p.sh(`git init -q --bare -b main remote.git; git clone -q remote.git person 2>/dev/null; cd person
		git checkout -q -b main; echo one > file; git add .; git commit -qm one; git push -q origin main`)
	return p
}

// sh runs a script, which must succeed, and returns its output.
func (p *place) sh(script string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Dir = p.dir
	cmd.Env = append([]string{
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org",
		"LC_ALL=C",
	}, p.env...)
	return test.Run(p.t, cmd)
}

func (p *place) mirror() *Mirror { return p.mirrorOf(host.Repository{URL: p.remote}) }

func (p *place) mirrorOf(remote host.Repository) *Mirror {
	return New(p.mirrors, remote, p.env, func(files ...*os.File) []*os.File { return files })
}

// clone clones into a new workspace with a branch of the same name.
func (p *place) clone(name, delivered string) (host.CloneAnswer, error) {
	p.t.Helper()
	test.OK(p.t, os.Mkdir(filepath.Join(p.dir, name), 0o700))
	return p.mirror().Clone(p.t.Context(), filepath.Join(p.dir, name), "work/"+name, delivered)
}

func (p *place) mustClone(name string) host.CloneAnswer {
	p.t.Helper()
	return test.Must(p.clone(name, ""))
}

// commit makes a commit in a work tree and returns it.
func (p *place) commit(name, message string) string {
	p.t.Helper()
	return p.sh(
		"cd " + name + "; echo " + message + " >> work.txt; git add .; git commit -qm '" + message +
			"'; git rev-parse HEAD",
	)
}

func (p *place) deliver(name, delivered string) (host.DeliverAnswer, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), test.Patience())
	defer cancel()
	return p.mirror().
		DeliverWorkspace(ctx, filepath.Join(p.dir, name), host.Origin{URL: p.remote}, host.DeliverRequest{
			Branch:    "work/" + name,
			Delivered: delivered,
		})
}

func (p *place) mustDeliver(name, delivered string) host.DeliverAnswer {
	p.t.Helper()
	return test.Must(p.deliver(name, delivered))
}

// wantRemote checks all branches of the remote, as lines with a commit and a name.
func (p *place) wantRemote(want ...string) {
	p.t.Helper()
	got := p.sh("git -C remote.git for-each-ref --format='%(objectname) %(refname:short)'")
	test.Equal(p.t, "remote", got, strings.Join(want, "\n"))
}

// wantFault checks the code of an error and parts of its message.
func wantFault(t *testing.T, err error, code string, parts ...string) {
	t.Helper()
	known, is := errors.AsType[*reconcile.Error](err)
	if !is || known.Code != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	test.Contains(t, "the message", known.Message, parts...)
}
