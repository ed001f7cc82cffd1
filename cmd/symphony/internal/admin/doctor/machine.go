package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// gitVersion is the version that git prints.
var gitVersion = text.Pattern(`git version (\d+)\.(\d+)`)

// checkGit finds git as hooks and agents do. An old git does not know GIT_CONFIG_COUNT (see
// confine.Config.AtHome).
func checkGit(ctx context.Context, e *environment) []finding {
	list := e.checkProgram(ctx, "git", "agents can't commit, and repositories can't be cloned")
	if m := gitVersion().FindStringSubmatch(list[0].Message); m != nil {
		major, _ := strconv.Atoi(m[1]) // digits
		minor, _ := strconv.Atoi(m[2])
		if major < 2 || major == 2 && minor < 31 {
			return warn(
				m[0]+" is older than 2.31: codex would let it run programs of an agent outside the sandbox",
				"upgrade git",
			)
		}
	}
	if e.config.Repository.URL != "" && e.lacks(ctx, "git") {
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

// checkRepository asks the remote for the branch that work begins at, as a clone does, and for
// branches beside which those of issues can't exist.
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
	env := func() []string { return wiring.RunnerConfig(e.p, e.config).GitEnv(e.p.Environ(), e.login().profile) }
	answer, err := e.shellIn(
		ctx,
		env,
		"if said=$(git ls-remote -- "+text.ShellQuote(repository.URL)+" "+asked+" 2>&1); then "+
			"echo found $(cut -sf2 <<< \"$said\")\n"+
			`else grep -v '^Warning: ' <<< "$said"; fi`,
	)
	if errors.Is(err, context.DeadlineExceeded) {
		list := fail(
			"repository_unavailable: "+repository.URL+" does not answer",
			repositoryHint(repository, answer),
		)
		list[0].network = true
		return list
	}
	if err != nil {
		return failWith(err)
	}
	names := strings.Fields(answer)
	found := len(names) > 0 && names[0] == "found"
	if !found {
		list := fail(
			"repository_unavailable: "+cmp.Or(answer, "git says nothing"),
			repositoryHint(repository, answer),
		)
		list[0].network = gitUnreachable().MatchString(answer)
		return list
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
	return ok("%s answers", repository.URL)
}

// checkLocalClone finds what a clone on this machine lacks, if it is the remote.
func checkLocalClone(ctx context.Context, e *environment, address string) []finding {
	dir := strings.TrimPrefix(address, "file://")
	if !filepath.IsAbs(dir) {
		return nil
	}
	lacks, err := e.shellIn(ctx, e.p.Environ, "export GIT_NO_LAZY_FETCH=1\ncd "+text.ShellQuote(dir)+` || exit
[ "$(git rev-parse --is-shallow-repository)" != true ] || { echo history; exit; }
git config --get-regexp '^remote\..*\.promisor$' >/dev/null || exit
git rev-list --objects --missing=print --all | grep -q '^?' && echo files`)
	switch {
	case err != nil:
		return failWith(err)
	case lacks == "history":
		return fail(
			"repository_unavailable: "+dir+" is a shallow clone, which lacks the beginning of its history",
			"git -C "+dir+" fetch --unshallow",
		)
	case lacks == "files":
		return fail(
			"repository_unavailable: "+dir+" is a partial clone, which lacks files",
			"git -C "+dir+" fetch --refetch --no-filter",
		)
	}
	return nil
}

// inScratch makes a script run in a new directory. It prints ok, or in one line what the
// script has said.
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
			" && echo try > file && git add file && git commit -q -m 'try a commit'"),
	)
	switch {
	case err != nil:
		return failWith(err)
	case said == "ok":
		return nil
	case noIdentity().MatchString(said):
		return fail(
			host.CodeNoIdentity+": the agent's commits would have no author",
			"set repository.git_name and repository.git_email, or user.name and user.email with git config --global",
		)
	}
	return fail("git refuses a commit as an agent makes it: "+text.Short(said, mostSaid),
		"correct the setting or the hook, which git config --show-origin --list shows")
}

const mostSaid = 300 // bytes of what git has said

// noIdentity matches what git says about a commit without an author.
var noIdentity = text.Pattern(`tell me who you are|no email was given|empty ident|identity unknown`)

// checkSignature signs a commit as a delivery does, where nobody could type a passphrase.
func checkSignature(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if !repository.Sign || !repository.Delivers() || e.lacks(ctx, "git") {
		return nil
	}
	env := func() []string { return wiring.RunnerConfig(e.p, e.config).GitEnv(e.p.Environ(), e.login().profile) }
	said, err := e.shellIn(
		ctx,
		env,
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
		"correct user.signingKey and gpg.format in your git configuration: the key must need no passphrase, or an agent must have it",
	)
}

// repositoryHint is the next step after an answer of git ls-remote, which is empty if there is
// no such branch.
func repositoryHint(repository workflow.Repository, answer string) string {
	look := "git ls-remote " + text.ShellQuote(repository.URL)
	switch {
	case strings.Contains(answer, "could not read Username"):
		return "git has no password for it: run gh auth setup-git, or configure another credential helper"
	case strings.Contains(answer, "Permission denied (publickey"):
		return "give the server the public key of this account, which ssh-keygen makes, or write an https address into repository.url"
	case strings.Contains(answer, "Host key verification failed"):
		return "run " + look + " in a terminal, and confirm the key of the server"
	case answer == "" && repository.Base == "":
		return "push a first commit to it, or set repository.base to a branch that has one"
	case answer == "":
		return "correct repository.base: " + strings.Replace(
			look,
			"ls-remote",
			"ls-remote --heads",
			1,
		) + " lists the branches"
	}
	return "correct repository.url or repository.base, or see what is wrong with " + look
}

// ghBound is enough for gh, which asks GitHub whether its login is valid.
const ghBound = 5 * time.Second

// checkGh finds gh, and whether it is logged in, if the workflow mentions it.
func checkGh(ctx context.Context, e *environment) []finding {
	repository := e.config.Repository
	if needed := repository.OpensPullRequests() && repository.Token == ""; !needed &&
		!regexp.MustCompile(`\bgh\b`).Match(e.config.Redacted) {
		return nil
	}
	found := e.checkProgram(ctx, "gh", "the workflow uses it")
	if found[0].Status != statusOK {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, ghBound)
	defer cancel()
	answer, err := e.shell(ctx, "if gh auth status >/dev/null 2>&1; then echo in; else echo out; fi")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		list := warn("gh auth status does not answer", "run it yourself; it needs the network")
		list[0].network = true
		return list
	case err != nil:
		return failWith(err)
	case answer == "in":
		return found
	}
	return warn("gh is not logged in to GitHub, and the workflow uses it",
		"run gh auth login as this account, or put GH_TOKEN=… into "+e.p.EnvPath())
}

// checkProgram finds a program and its version. missing is the consequence if there is none.
func (e *environment) checkProgram(ctx context.Context, name, missing string) []finding {
	path, err := e.program(ctx, name)
	switch {
	case err != nil:
		return failWith(err)
	case path == "":
		return warn("not found: "+missing, e.hintForProgram(ctx, name))
	}
	version, err := e.shell(ctx, name+" --version | head -n 1")
	switch {
	case err != nil:
		return failWith(err)
	case version == "":
		return warn(path+" does not print its version", "run it yourself: "+path+" --version")
	}
	return ok("%s, %s", path, version)
}

// checkRoot checks the workspace root.
func checkRoot(ctx context.Context, e *environment) (list []finding) {
	root := paths.Real(e.config.Workspace.Root)
	if err := wiring.RootFits(ctx, e.p, e.config, true); err != nil {
		return failWith(err)
	}
	machine := wiring.ThisMachine()
	if err := machine.TryRoot(ctx, host.RootRequest{Root: root}); err != nil {
		return failWith(err)
	}
	found, err := machine.Root(ctx, host.RootRequest{Root: root})
	if err != nil {
		return failWith(err)
	}
	free := found.FreeBytes
	if free < 0 {
		return warn("the free space of "+root+" can't be read", "see what df says about it")
	}
	if least := e.config.Policy.MinFreeBytes; free < least {
		list = append(
			list,
			fail(fmt.Sprintf("disk_low: %s has %s free, less than workspace.min_free_bytes (%s)",
				root, text.BytesText(free), text.BytesText(least)),
				"free space there; until then no run starts")...)
	}
	if top := repositoryAbove(root); top != "" {
		list = append(list, warn(root+" is in the git repository "+top+": there its files look untracked, "+
			"and what an agent runs may take that repository for its own",
			"set workspace.root to a directory outside, such as ~/symphony/"+filepath.Base(top))...)
	}
	if temporary := wiring.TemporaryAbove(root, e.p.Env); temporary != "" {
		list = append(
			list,
			warn(
				root+" is below "+temporary+", which the system may clear: work that is not pushed would be lost",
				"set workspace.root to a directory on a local disk, such as ~/symphony",
			)...)
	}
	switch {
	case list != nil:
		return list
	case !wiring.Exists(root):
		return ok("%s, which the first pass creates; %s free", root, text.BytesText(free))
	}
	return ok("%s, %s free", root, text.BytesText(free))
}

// repositoryAbove returns the work tree of git that contains a directory, empty if there is
// none.
func repositoryAbove(dir string) string {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if wiring.Exists(filepath.Join(dir, ".git")) {
			return dir
		}
	}
	return ""
}

// checkLoginShell reports how long a login shell takes.
func checkLoginShell(_ context.Context, e *environment) []finding {
	login := e.login()
	switch {
	case login.err != nil:
		return failWith(login.err)
	case login.took > slowLogin:
		return warn(
			fmt.Sprintf("bash -lc true takes %.1f s, and each run waits for it", login.took.Seconds()),
			"see which command of the login profile is slow with bash -xlc true",
		)
	}
	return ok("ends within two seconds")
}

// checkState checks whether the database exists, belongs to this workflow and is intact, and
// whether its state keeps runs from starting. It creates nothing.
func checkState(ctx context.Context, e *environment) (list []finding) {
	dir := e.p.StateDir
	exists, err := state.CheckDir(dir)
	if err != nil {
		return failWith(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	switch {
	case !exists || errors.Is(err, state.ErrNoState):
		return ok("%s, which the first pass creates", dir)
	case err != nil:
		list = failWith(err)
		if list[0].code == "state_outdated" { // the next pass migrates it
			list[0].Status = statusWarn
		}
		return list
	}
	defer db.Close()
	_, ownerErr := wiring.OwnerPath(ctx, e.p, db)
	_, copyErr := wiring.OriginalPath(ctx, e.p, db)
	for _, err := range []error{ownerErr, copyErr, db.Newer(), db.QuickCheck(ctx)} {
		if err != nil {
			list = append(list, failWith(err)...)
		}
	}
	if list == nil {
		list = ok("%s, schema %d, intact", dir, db.Schema())
	}
	rec, err := db.Store.State(ctx)
	if block := wiring.BlockedBy(rec); err == nil && block != nil {
		list = append(
			list,
			warn(
				"blocked by "+block.Reason+": "+block.Message,
				"symphony ps shows when it is tried again",
			)...)
	}
	if err == nil && rec.Paused {
		list = append(list, warn("the project is paused: no new run starts", "symphony resume")...)
	}
	return list
}

// checkSchedule reports whether a schedule runs passes, what is wrong with it, and how the
// last pass ended.
func checkSchedule(ctx context.Context, e *environment) (list []finding) {
	if e.machine && e.as == asCalled {
		return checkScheduler(ctx, e)
	}
	st, err := schedule.ReadStatus(ctx, e.p)
	if err != nil || e.as != asCalled {
		return nil // checkState reports the error; the schedule is the same in both environments
	}
	which := " -w " + text.ShellQuote(e.p.Path)
	now := e.p.Env.Now()
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(st.Timers) > 0 || st.Launchd != nil || st.Cron != nil {
		hint = "it is installed; see symphony schedule status" + which
	}
	last := st.LastPass
	run := st.LastRun
	switch {
	case last == nil:
		list = warn("no pass has run yet", hint)
	case st.Loop:
		list = ok("symphony tick --loop is running")
	case run == nil:
		list = warn(
			"neither cron nor a timer nor --loop has run a pass yet: runs start only when you run a pass yourself",
			hint,
		)
	case st.Alive:
		list = ok("active, last pass %s ago (%s)", text.Age(now, run.StartedAt), run.Trigger)
	default:
		list = warn(
			fmt.Sprintf(
				"it has stopped: the last pass of %s began %s ago",
				run.Trigger,
				text.Age(now, run.StartedAt),
			),
			hint,
		)
	}
	if last != nil && len(last.Errors) > 0 {
		errs := text.Map(last.Errors, func(e reconcile.Error) string { return e.Code + ": " + e.Message })
		list = append(list, warn(fmt.Sprintf("the last pass (%s ago, by %s) had errors: %s",
			text.Age(now, last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			"run symphony tick, which prints the next step")...)
	}
	for _, text := range st.Problems {
		list = append(list, warn(text, "")...) // the problem names the next step
	}
	return list
}

// checkScheduler reports which schedules this machine can have.
func checkScheduler(ctx context.Context, e *environment) []finding {
	kinds, err := schedule.Supported(ctx, e.p)
	if len(kinds) > 0 {
		return ok("%s can run passes", strings.Join(kinds, " or "))
	}
	list := failWith(err)
	list[0].Status = statusWarn
	return list
}

// checkWorkers checks whether a worker that is started here outlives its pass.
func checkWorkers(ctx context.Context, e *environment) []finding {
	runners := &workers.Local{
		StateDir: e.p.StateDir,
		Scopes:   &proc.ScopeManager{Env: e.p.Env.Environ},
	}
	if err := runners.Shelter(ctx); err != nil {
		return failWith(err)
	}
	if host := proc.ReadHostUnit(e.p.Env.Environ); host.Booted && host.Manager && !host.Root &&
		!host.Lingers {
		return warn(
			"your user does not linger: your timers and the workers that they start end with your last logout",
			"loginctl enable-linger",
		)
	}
	return ok("outlive their pass")
}

// checkSharing names the other projects with the same project of the tracker.
func checkSharing(_ context.Context, e *environment) []finding {
	others := wiring.NewOthers(e.p, nil).Sharing(e.config.Policy.Project)
	if len(others) == 0 {
		return nil
	}
	return ok(
		"%s has the same project of the tracker; an issue that one has claimed is not started by another",
		strings.Join(others, ", "),
	)
}

// checkAccount warns about root, whose agents can read every file of the machine.
func checkAccount(_ context.Context, e *environment) []finding {
	if os.Geteuid() != 0 || e.as != asCalled {
		return nil
	}
	return warn(
		"symphony runs as root: its agents can read the files of all accounts, and what leaves the sandbox can change them",
		"run symphony under an account of its own",
	)
}

// checkRelease looks for a newer release, if the operator has set where to ask.
func checkRelease(ctx context.Context, e *environment) []finding {
	address := e.p.Env.Getenv(wiring.ReleasesVar)
	if address == "" || e.as != asCalled {
		return nil
	}
	newest, err := wiring.NewestRelease(ctx, address)
	if err != nil {
		known := exit.From(err)
		return warn(known.Error(), known.Hint)
	}
	if wiring.ReadBuild().OlderThan(newest) {
		return warn(newest+" is newer than this "+wiring.Version(), wiring.UpgradeHint)
	}
	return ok("no release is newer than %s", wiring.Version())
}

// checkHosts asks each machine on which agents work.
func checkHosts(ctx context.Context, e *environment) []finding {
	hosts := e.config.Policy.Hosts
	list := make([][]finding, len(hosts))
	var asked sync.WaitGroup
	for i, name := range hosts {
		asked.Go(func() { list[i] = e.checkHost(ctx, name) })
	}
	asked.Wait()
	return slices.Concat(list...)
}

// checkEngine runs a trial job, if that was asked for.
func checkEngine(ctx context.Context, e *environment) []finding {
	if !e.tryEngine {
		return nil
	}
	hosts := e.config.Policy.Hosts
	if len(hosts) != 1 || !workflow.IsEngine(hosts[0]) {
		return fail(
			"--engine: the workflow names no engine that starts jobs",
			"set worker.engine.kind, or leave --engine out",
		)
	}
	began := time.Now()
	root, err := wiring.TryEngine(ctx, e.p, hosts[0])
	if err != nil {
		known := exit.From(err)
		return fail("trial job: "+known.Error(), known.Hint)
	}
	return ok("a trial job was started, reached and ended within %v; it could make a workspace in %s",
		time.Since(began).Round(100*time.Millisecond), root)
}

func (e *environment) checkHost(ctx context.Context, name string) []finding {
	a, err := wiring.AskHost(ctx, e.p, name)
	// another program may be a codex, too
	own := strings.HasPrefix(e.config.Codex.Command, "codex ")
	repository := e.config.Repository
	switch {
	case err != nil:
		known := exit.From(err)
		return fail(known.Error(), known.Hint)
	case workflow.IsEngine(name):
		return ok(
			"%s answers within %v; what its machines have was not examined",
			name,
			a.Latency.Round(100*time.Millisecond),
		)
	case a.NoRoot != "":
		return fail(fmt.Sprintf("%s: worker.root can't be made or written: %s", name, a.NoRoot),
			"correct worker.root, or the directory there")
	case own && a.Codex == "":
		return fail(
			name+": a login shell does not find codex",
			"install it there: npm install -g @openai/codex; then run codex login there",
		)
	case own && strings.HasPrefix(a.Login, "Not logged in"):
		return warn(
			name+": codex is not logged in",
			"run codex login there, unless its model provider needs no login",
		)
	case a.Git == "" && repository.URL != "":
		return fail(
			name+": a login shell does not find git, with which workspaces are cloned",
			"install it there",
		)
	case repository.URL != "" && a.Author == "" && (repository.Name == "" || repository.Email == ""):
		return fail(
			name+": git does not know an author for the agents' commits",
			"set repository.git_name and repository.git_email, or user.name and user.email with git config --global there",
		)
	case a.Git == "":
		return warn(
			name+": a login shell does not find git",
			"install it there, unless hooks and agents need none",
		)
	}
	codex := ""
	if own {
		codex = "codex " + a.Codex + ", "
	}
	return ok(
		"%s",
		fmt.Sprintf(
			"%s: %sgit %s, answers within %v",
			name,
			codex,
			a.Git,
			a.Latency.Round(100*time.Millisecond),
		),
	)
}
