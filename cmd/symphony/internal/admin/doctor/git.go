package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
)

// gitVersion is the version that git prints.
var gitVersion = text.Pattern(`git version (\d+)\.(\d+)`)

// checkGit finds git as hooks and agents do. An old git does not know GIT_CONFIG_COUNT (see
// confine.Config.AtHome).
func checkGit(ctx context.Context, e *environment) []finding {
	list := e.checkProgram(ctx, "git", "agents can't commit, and repositories can't be cloned")
	old := gitBefore(31, list[0].Message)
	if old != "" {
		return warn(
			old+" is older than 2.31: an agent could let it run programs outside the sandbox",
			"upgrade git",
		)
	}
	if e.config.Repository.URL != "" && list[0].Status == statusWarn {
		list[0].Status = statusFail
	}
	own, err := e.shellIn(ctx, e.p.Environ, "command -v git")
	if err == nil && own == "" && list[0].Status == statusOK {
		return fail(
			"only the login shell finds git, and symphony looks for it in "+e.p.Env.Getenv("PATH")+" itself",
			"link git into a directory of that PATH, or set PATH in the crontab or the unit",
		)
	}
	return list
}

// gitBefore returns the version in a text, such as "git version 2.30", if it is older than
// 2.minor.
func gitBefore(minor int, said string) string {
	m := gitVersion().FindStringSubmatch(said)
	if m == nil {
		return ""
	}
	major, _ := strconv.Atoi(m[1]) // digits
	has, _ := strconv.Atoi(m[2])
	if major > 2 || major == 2 && has >= minor {
		return ""
	}
	return m[0]
}

// checkRepository asks the remote for the branch that work begins at, as a clone does, and for
// branches that are in the way of issues' branches: work is in the way of work/ABC-7.
func checkRepository(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if repository.URL == "" || e.lacks(ctx, "git") { // which checkGit reports
		return nil
	}
	ref := "HEAD"
	if repository.Base != "" {
		ref = "refs/heads/" + repository.Base
	}
	asked := text.ShellQuote(ref)
	for _, folder := range repository.BranchFolders() {
		asked += " " + text.ShellQuote("refs/heads/"+folder)
	}
	if !repository.Claims.On {
		asked += " '" + host.ClaimRefs + "*' " + host.UsualClaimsBranch
	}
	answer, err := e.shellIn(
		ctx,
		e.gitEnviron,
		"if said=$(git ls-remote -- "+text.ShellQuote(repository.URL)+" "+asked+" 2>&1); then "+
			"echo found $(cut -sf2 <<< \"$said\")\n"+
			`else grep -v '^Warning: ' <<< "$said"; fi`,
	)
	if errors.Is(err, context.DeadlineExceeded) {
		return fail(
			"repository_unavailable: "+repository.URL+" does not answer",
			repositoryHint(repository, answer),
		)
	}
	if err != nil {
		return failWith(err)
	}
	names := strings.Fields(answer)
	found := len(names) > 0 && names[0] == "found"
	if !found {
		return fail(
			"repository_unavailable: "+cmp.Or(answer, "git says nothing"),
			repositoryHint(repository, answer),
		)
	}
	if !slices.Contains(names, ref) {
		return fail(
			"repository_unavailable: "+repository.URL+" has no commit at "+ref,
			repositoryHint(repository, ""),
		)
	}
	for _, folder := range repository.BranchFolders() {
		if slices.Contains(names, "refs/heads/"+folder) {
			return fail(fmt.Sprintf("%s: the remote has a branch %q, so git can't make %s there",
				host.CodeBranchInTheWay, folder, repository.Branch),
				"rename that branch, or begin repository.branch with something else than "+folder+"/")
		}
	}
	if list := checkLocalClone(ctx, e, repository.URL); list != nil {
		return list
	}
	if list := checkPush(ctx, e); list != nil {
		return list
	}
	if list := claimsOfOthers(ctx, e, names); list != nil {
		return list
	}
	if e.lacksSubmodules(ctx) {
		return warn(
			repository.URL+" has submodules, whose folders are empty in new workspaces",
			"set repository.submodules: true, or set them up in hooks.after_create",
		)
	}
	return ok("%s answers", repository.URL)
}

// checkPush lets git push a commit as a delivery does, with --dry-run, so that the remote gets
// nothing: everyone can read a public repository, and a key may be for reading only.
func checkPush(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if !repository.Delivers() || filepath.IsAbs(repository.URL) {
		return nil
	}
	said, err := e.shellIn(
		ctx,
		e.gitEnviron,
		inScratch("git init -q --bare && "+
			"tree=$(git hash-object -t tree -w /dev/null) && "+
			"made=$(git -c user.name=a -c user.email=a@b commit-tree -m 'try to push' $tree) && "+
			"git push -q --dry-run --no-verify -- "+text.ShellQuote(repository.URL)+" $made:refs/heads/symphony-doctor"),
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return warn("git push --dry-run to "+repository.URL+" does not answer", "see whether git push ends in a terminal")
	case err != nil:
		return failWith(err)
	case said == "ok":
		return nil
	}
	return warn(
		"git can read "+repository.URL+", and can't push to it: "+text.Short(said, mostSaid),
		cmp.Or(host.GitHint(said), "give the key or the account of git the right to push there"),
	)
}

// lacksSubmodules reports whether the repository, as far as it is on this machine, has
// submodules that nothing sets up in workspaces.
func (e *environment) lacksSubmodules(ctx context.Context) bool {
	hooks := e.config.Hooks.AfterCreate + e.config.Hooks.BeforeRun
	if e.config.Repository.Submodules || strings.Contains(hooks, "submodule") {
		return false
	}
	dir := e.cloneHere(ctx)
	if dir == "" {
		return false
	}
	answer, err := e.shell(ctx, "git -C "+text.ShellQuote(dir)+" cat-file -e HEAD:.gitmodules && echo has")
	return err == nil && answer == "has"
}

// gitEnviron is the environment of git that talks to the remote.
func (e *environment) gitEnviron() []string {
	return wiring.RunnerConfig(e.p, e.config).GitEnv(e.p.Environ(), e.login().profile)
}

// checkLocalClone reports a repository on this machine that takes no commits. That it is whole a run checks.
func checkLocalClone(ctx context.Context, e *environment, address string) []finding {
	dir := strings.TrimPrefix(address, "file://")
	if !filepath.IsAbs(dir) || !e.config.Repository.Delivers() {
		return nil
	}
	said, err := e.shellIn(ctx, e.p.Environ, "cd "+text.ShellQuote(dir)+` || exit
[ -w "$(git rev-parse --git-path objects)" ] || echo read`)
	switch {
	case err != nil:
		return failWith(err)
	case said == "read":
		return warn(
			dir+" can't be written by this account, so that commits can't be delivered",
			cmp.Or(paths.Regain(filepath.Join(dir, ".git", "objects")), "make it writable with chown -R or chmod -R u+w"),
		)
	}
	return nil
}

// checkLargeFiles reports that git-lfs is missing, if git wants it, or if the repository has
// files of Git LFS as far as a clone here tells: git then can't check them out.
func checkLargeFiles(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if repository.URL == "" || e.lacks(ctx, "git") || !e.lacks(ctx, "git-lfs") {
		return nil
	}
	wanted, err := e.shell(ctx, "git config --get filter.lfs.process || git config --get filter.lfs.smudge")
	if err != nil {
		return failWith(err)
	}
	uses := ""
	if dir := e.cloneHere(ctx); dir != "" {
		uses, err = e.shell(ctx, "git -C "+text.ShellQuote(dir)+
			" grep -l -e filter=lfs HEAD -- .gitattributes ':(glob)**/.gitattributes'")
		if err != nil {
			return failWith(err)
		}
	}
	hint := e.hintForProgram(ctx, "git-lfs")
	switch {
	case uses != "":
		return fail("git-lfs is not found, and the repository has files of Git LFS", hint)
	case wanted != "":
		return warn("git-lfs is not found, and git is set up to use it", hint)
	}
	return nil
}

// inScratch makes a script run in a new directory. It prints ok, or the output of the failed
// script on a single line.
func inScratch(script string) string {
	return `set -f; d=$(mktemp -d) || exit; trap 'rm -rf "$d"' EXIT; cd "$d" || exit
said=$({ ` + script + `; } 2>&1 </dev/null) && echo ok || echo $said`
}

// identity sets the author of commits in the repository in which a script works.
func identity(r workflow.Repository) string {
	script := "true"
	if r.Name != "" {
		script += " && git config user.name " + text.ShellQuote(r.Name)
	}
	if r.Email != "" {
		script += " && git config user.email " + text.ShellQuote(r.Email)
	}
	return script
}

// guessed stands before an author that git made of the names of the account and the machine.
const guessed = "guessed:"

// checkCommit makes a commit in a repository of its own, as an agent would: a hook or a
// setting of the account may keep all agents from it.
func checkCommit(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if repository.URL == "" || e.lacks(ctx, "git") {
		return nil
	}
	said, err := e.shell(
		ctx,
		inScratch("git init -q && git config commit.gpgSign false && "+identity(repository)+
			" && echo try > file && git add file && git commit -q -m 'try a commit'"+
			" && { git -c user.useConfigOnly=true var GIT_AUTHOR_IDENT || git log -1 --format='"+guessed+"%an <%ae>'; }"+
			" > said 2> /dev/null && { ! grep "+guessed+" said; }"),
	)
	const mend = "set repository.git_name and repository.git_email, " +
		"or user.name and user.email with git config --global"
	switch {
	case err != nil:
		return failWith(err)
	case said == "ok":
		return nil
	case strings.HasPrefix(said, guessed):
		author := strings.TrimPrefix(said, guessed)
		return warn("git knows no author for the agents' commits, and would make one up: "+author, mend)
	case noIdentity().MatchString(said):
		return fail(host.CodeNoIdentity+": the agent's commits would have no author", mend)
	}
	return fail("git refuses a commit as an agent makes it: "+text.Short(said, mostSaid),
		"correct the setting or the hook, which git config --show-origin --list shows")
}

const mostSaid = 300 // bytes of git's output

// noIdentity matches git's message about a commit without an author.
var noIdentity = text.Pattern(`tell me who you are|no email was given|empty ident|identity unknown`)

// checkSignature signs a commit as a delivery does. Nobody can type a passphrase during a
// delivery, so the check fails if one is needed.
func checkSignature(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if !repository.Sign || !repository.Delivers() || e.lacks(ctx, "git") {
		return nil
	}
	said, err := e.shellIn(
		ctx,
		e.gitEnviron,
		"unset DISPLAY WAYLAND_DISPLAY GPG_TTY; export SSH_ASKPASS_REQUIRE=never\n"+
			inScratch("git init -q --bare && "+identity(repository)+
				" && git commit-tree -S -m 'try a signature' $(git hash-object -t tree -w /dev/null)"),
	)
	switch {
	case err != nil:
		return failWith(err)
	case said == "ok":
		return ok("git signs commits")
	}
	return fail(
		"git can't sign a commit: "+text.Short(said, mostSaid),
		"correct user.signingKey and gpg.format in your git configuration: the key must need no "+
			"passphrase, or an agent must have it",
	)
}

// repositoryHint is the next step after an answer of git ls-remote, which is empty if there is
// no such branch.
func repositoryHint(repository workflow.Repository, answer string) string {
	look := "git ls-remote " + text.ShellQuote(repository.URL)
	known := host.GitHint(answer)
	switch {
	case strings.Contains(answer, "Host key verification failed"):
		return "run " + look + " in a terminal, and confirm the key of the server"
	case known != "":
		return known
	case answer == "":
		return "make a first commit there, or set repository.base to one of the branches that " + look + " lists"
	}
	return "correct repository.url or repository.base, or see what is wrong with " + look
}

// ghBound is enough for gh, which asks the forge whether its login is valid.
const ghBound = 5 * time.Second

// mentionsGh matches a workflow in which gh is a word.
var mentionsGh = text.Pattern(`\bgh\b`)

// checkGh finds gh, and whether it is logged in, if the workflow mentions it.
func checkGh(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	needed := repository.OpensPullRequests() && repository.ForgeKind().Gh && repository.Token == ""
	if !needed && !mentionsGh().Match(e.config.Redacted) {
		return nil
	}
	found := e.checkProgram(ctx, "gh", "the workflow uses it")
	if found[0].Status != statusOK {
		return found
	}
	status := "gh auth status"
	login := "gh auth login"
	where := ""
	variable := "GH_TOKEN"
	if name := ghHost(e.config); name != "" {
		ofHost := " --hostname " + text.ShellQuote(name)
		status += ofHost
		login += ofHost
		where = " to " + name
		variable = workflow.GhTokenVar(name)
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ghBound))
	defer cancel()
	answer, err := e.shell(ctx, "if "+status+" >/dev/null 2>&1; then echo in; else echo out; fi")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return warn(status+" does not answer", "run it yourself; it needs the network")
	case err != nil:
		return failWith(err)
	case answer == "in":
		return found
	}
	return warn("gh is not logged in"+where+", and the workflow uses it",
		"run "+login+" as this account, or put "+variable+"=… into "+e.p.EnvPath())
}

// checkForge reads a pull request with the token that opens them, and looks whether its account
// may merge. Where people log in with gh, checkGh looks at the login.
func checkForge(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	merges := e.config.Feedback.Merge.On()
	connect := wiring.NewForge(e.p, e.config, nil)
	if connect == nil || repository.ForgeKind().Gh && !merges {
		return nil
	}
	forge, err := connect(ctx, e.gitEnviron())
	if err != nil && repository.ForgeKind().Gh {
		return nil
	}
	if err != nil {
		return failWith(err)
	}
	if err := wiring.CheckForge(ctx, e.config, forge); err != nil {
		return failWith(err)
	}
	if repository.ForgeKind().Gh {
		return ok("%s lets the account merge in %s", repository.ForgeKind().Title, repository.OwnerName)
	}
	return ok("%s shows those of %s to $%s", repository.ForgeKind().Title, repository.OwnerName, repository.TokenVar)
}

// ghHost returns the host that the project uses with gh, such as github.com; empty if it is
// not known, as that of a hook with a repository of its own. gh fails if it is asked about all
// hosts and logged out of one of them.
func ghHost(cfg *workflow.Config) string {
	if cfg.Repository.OpensPullRequests() && cfg.Repository.ForgeKind().Gh {
		return workflow.GhHost(cfg.Repository.API)
	}
	if _, gh := workflow.KeyVars(cfg.Tracker.Kind); gh {
		return workflow.GhHost(cfg.Tracker.Endpoint)
	}
	return ""
}

// cloneHere returns a directory with the repository, or with a clone of it around WORKFLOW.md;
// empty if there is none.
func (e *environment) cloneHere(ctx context.Context) string {
	repository := strings.TrimPrefix(e.config.Repository.URL, "file://")
	if filepath.IsAbs(repository) {
		return repository
	}
	dir := filepath.Dir(e.p.Path)
	origin, err := e.shell(ctx, "git -C "+text.ShellQuote(dir)+" remote get-url origin")
	if err != nil || !sameRepository(origin, e.config.Repository.URL) {
		return ""
	}
	return dir
}

// sameRepository reports whether two addresses lead to the same repository.
func sameRepository(a, b string) bool {
	bare := func(address string) string { return strings.TrimSuffix(strings.TrimRight(address, "/"), ".git") }
	return b != "" && (bare(a) == bare(b) || workflow.SameRepository(a, b))
}
