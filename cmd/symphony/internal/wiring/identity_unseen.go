package wiring

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// lookBound is how long git may look for what agents do not see: in a huge repository on a slow
// disk that would take long, and the warning is not worth it.
const lookBound = 3 * time.Second

// Unseen is a warning about work in the repository of this directory that agents do not see,
// because it is not committed, or not pushed to the remote that they clone. It is empty if there
// is none. The files of a tracker, WORKFLOW.md and the workspaces do not count, because symphony reads them as
// they are, and neither do files with secrets, such as .env. It asks no remote.
func Unseen(ctx context.Context, p *Project, cfg *workflow.Config) string {
	dir := RepositoryAbove(filepath.Dir(p.Path))
	address := cfg.Repository.URL
	if filepath.IsAbs(address) && existsAt(filepath.Join(address, ".git")) {
		dir = address
	}
	if dir == "" || address == "" || len(cfg.Policy.Hosts) > 0 && filepath.IsAbs(address) {
		return ""
	}
	isRemote := !paths.SameDir(dir, address)
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	if isRemote && !clones(ctx, p, dir, address) {
		return ""
	}
	args := []string{"--no-optional-locks", "-c", "core.quotePath=false", "status", "--porcelain", "--branch", "--", ":/"}
	folder := cfg.Tracker.Folder // perhaps a link
	root := cfg.Workspace.Root
	for _, own := range []string{p.Path, folder, paths.Real(folder), root, paths.Real(root)} {
		inside, err := filepath.Rel(dir, own)
		if own != "" && err == nil && filepath.IsLocal(inside) {
			args = append(args, ":(top,exclude,literal)"+inside)
		}
	}
	for _, name := range secretFiles {
		args = append(args, ":(top,exclude,glob)**/"+name)
	}
	said, err := gitSays(ctx, p, dir, args...)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(said, "\n"), "\n")
	var found []string
	if changed := lines[1:]; len(changed) > 0 {
		found = append(found, "agents do not see what is not committed in "+dir+": "+
			text.Plural(len(changed), "file")+", such as "+changed[0][3:]+": commit it if they need it")
	}
	m := aheadOf().FindStringSubmatch(lines[0])
	isBase := m != nil && (cfg.Repository.Base == "" || cfg.Repository.Base == m[1])
	if isRemote && isBase {
		ahead, _ := strconv.Atoi(m[2]) // digits
		const unpushed = "agents do not see what is not pushed to %s: %s of %s in %s: push it if they need it"
		commits := text.Plural(ahead, "commit")
		found = append(found, fmt.Sprintf(unpushed, workflow.WithoutPassword(address), commits, m[1], dir))
	}
	return strings.Join(found, "; ")
}

// unknownBase is a warning about a branch in repository.base that the clone around WORKFLOW.md does
// not know of the remote. It may be newer than the clone's last fetch: only the remote knows. It is
// empty if the branch is known, or there is no such clone.
func unknownBase(ctx context.Context, p *Project, cfg *workflow.Config) string {
	dir := RepositoryAbove(filepath.Dir(p.Path))
	base := cfg.Repository.Base
	address := cfg.Repository.URL
	if dir == "" || base == "" || address == "" || filepath.IsAbs(address) || !clones(ctx, p, dir, address) {
		return ""
	}
	known, err := referencesOf(ctx, dir, p.Environ(), "--format=%(refname:lstrip=3)", "refs/remotes")
	if err != nil || len(known) == 0 || slices.Contains(known, base) {
		return ""
	}
	const message = "%s: the clone in %s knows no branch %q of the remote%s; symphony doctor asks the remote"
	near := text.DidYouMean(base, known, "%q")
	return fmt.Sprintf(message, keyAt(p, cfg, "repository.base"), dir, base, near)
}

// secretFiles are the usual names of files with keys and passwords, which belong into no commit.
var secretFiles = []string{".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", "id_ecdsa*"}

// aheadOf matches git's line about a branch with commits that its remote does not have.
var aheadOf = text.Pattern(`^## (\S+)\.\.\.\S+ \[ahead (\d+)`)

// clones reports whether a repository has a remote of that name on its host, such as acme/shop.
// Addresses of both protocols count as the same.
func clones(ctx context.Context, p *Project, dir, address string) bool {
	said, err := gitSays(ctx, p, dir, "config", "--get-regexp", `^remote\..*\.url$`)
	if err != nil {
		return false
	}
	own := repositoryName().FindString(strings.TrimSuffix(address, ".git"))
	return own != "" && slices.ContainsFunc(strings.Fields(said), func(word string) bool {
		return repositoryName().FindString(strings.TrimSuffix(word, ".git")) == own
	})
}

// repositoryName matches acme/shop at the end of git@github.com:acme/shop.
var repositoryName = text.Pattern(`[^/:]+/[^/:]+$`)

// Fate is what has become of a branch in a repository of this machine.
type Fate struct {
	Gone bool   // there is no branch of that name
	In   string // the branch with its commits: the base, or the one that is checked out
}

// FateOf looks where the commits of a branch are. base is empty if it is not known.
func FateOf(ctx context.Context, p *Project, dir, branch, commit, base string) (f Fate) {
	found, err := referencesOf(ctx, dir, p.Environ(), "--format=%(refname)", "refs/heads/"+branch)
	if err != nil {
		return f
	}
	f.Gone = len(found) == 0
	const format = "--format=%(HEAD)%(refname:lstrip=2)"
	in, err := referencesOf(ctx, dir, p.Environ(), "--contains="+commit, format, "refs/heads")
	if err != nil {
		return f
	}
	for _, name := range in {
		name, isHere := strings.CutPrefix(name, "*")
		if name != branch && (name == base || isHere && f.In == "") {
			f.In = name
		}
	}
	return f
}

// gitSays returns the output of git in a directory.
func gitSays(ctx context.Context, p *Project, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = host.Scrub(p.Environ(), host.GitRepositoryVars...)
	said, err := cmd.Output()
	return string(said), err
}
