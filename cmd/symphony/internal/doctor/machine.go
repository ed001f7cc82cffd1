package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// checkGit looks for git as hooks and agents do.
func checkGit(ctx context.Context, e *environment) []finding {
	return e.checkProgram(ctx, "git", "agents can't commit, and hooks can't clone")
}

// ghBound is enough for gh, which asks GitHub whether its login is valid.
const ghBound = 5 * time.Second

// checkGh looks for gh, and whether it is logged in, if the workflow mentions it.
func checkGh(ctx context.Context, e *environment) []finding {
	if !regexp.MustCompile(`\bgh\b`).Match(e.config.Redacted) {
		return nil
	}
	found := e.checkProgram(ctx, "gh", "the workflow names it")
	if found[0].Status != statusOK {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, ghBound)
	defer cancel()
	answer, err := e.shell(ctx, "if gh auth status >/dev/null 2>&1; then echo in; else echo out; fi")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return warn("gh auth status does not answer", "try it; without a network it can't know")
	case err != nil:
		return failWith(err)
	case answer == "in":
		return found
	}
	return warn("gh is not logged in to GitHub, and the workflow names it",
		"log in with gh auth login, as this account, or put GH_TOKEN=… into "+e.p.EnvPath())
}

// checkProgram finds a program and its version. If it is missing, missing says what that means.
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
		return warn(path+" does not say its version", "try it: "+path+" --version")
	}
	return ok("%s, %s", path, version)
}

// checkRoot looks at the directory of the workspaces.
func checkRoot(_ context.Context, e *environment) (list []finding) {
	root := project.Resolve(e.config.Workspace.Root)
	if err := project.RootFits(e.p, e.config, true); err != nil {
		return failWith(err)
	}
	free, err := workspace.FreeBytes(root)
	if err != nil {
		return failWith(err)
	}
	if least := e.config.Policy.MinFreeBytes; free < least {
		list = append(list, fail(fmt.Sprintf("disk_low: %s has %s free, and workspace.min_free_bytes wants %s", root, term.BytesText(free), term.BytesText(least)),
			"free space there; until then nothing is started")...)
	}
	if temporary := project.TemporaryAbove(root, e.p.Env.Getenv("TMPDIR")); temporary != "" {
		list = append(list, warn(root+" lies below "+temporary+", which the system may clear: work that is not pushed is lost then",
			"set workspace.root to a folder on a local disk, such as ~/symphony")...)
	}
	switch {
	case list != nil:
		return list
	case !project.Exists(root):
		return ok("%s, which the first pass makes; %s free", root, term.BytesText(free))
	}
	return ok("%s, %s free", root, term.BytesText(free))
}

// checkCodex finds codex as a worker does, and starts it.
func checkCodex(ctx context.Context, e *environment) []finding {
	path := ""
	if found := programWord.FindStringSubmatch(e.config.Codex.Command); found != nil {
		var err error
		if path, err = e.program(ctx, found[1]); err != nil {
			return failWith(err)
		}
		if path == "" {
			return fail("not found: bash -lc knows no "+found[1], e.hintForProgram(ctx, found[1])+"; or write its path into codex.command")
		}
		path = ", " + path
	}
	i, err := e.agent()
	if err != nil {
		return failWith(err)
	}
	return ok("%s%s", cmp.Or(i.Server.Version, "of an unknown version"), path)
}

// programWord finds the word of a shell command that names the program, unless only a shell can tell.
var programWord = regexp.MustCompile(`^\s*(?:(?:exec|env|\w+=[\w./~@:,-]*)\s+)*([\w./~@+-]+)(?:\s|$)`)

// loginHint is the command that logs codex in, in the codex home of agents.
func (e *environment) loginHint() string {
	home := e.codexHome()
	command := "codex login"
	if home != filepath.Join(e.p.Env.Home, ".codex") {
		command = fmt.Sprintf("mkdir -p %s && CODEX_HOME=%[1]s codex login", term.ShellQuote(home))
	}
	return command + ", as this account"
}

// checkLogin asks codex for its login. Without one a thread starts, and its first turn fails.
func checkLogin(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	login, err := i.Session.Login(ctx, i.Cwd)
	switch {
	case err != nil:
		return failWith(err)
	case login.Account != "":
		return ok("%s", login.Account)
	case login.Needed:
		return fail("agent_auth: no login in "+i.Server.Home, e.loginHint())
	case login.EnvKey == "":
		return ok("not needed by the model provider %s", cmp.Or(login.Provider, "that is set"))
	}
	// A model provider that wants a key of its own.
	set, err := e.shell(ctx, "printenv -- "+term.ShellQuote(login.EnvKey)+" >/dev/null && echo set")
	switch {
	case err != nil:
		return failWith(err)
	case set == "":
		return fail(fmt.Sprintf("agent_auth: the model provider %s wants %s, which is not set", login.Provider, login.EnvKey), "put it into "+e.p.EnvPath())
	}
	return ok("the model provider %s has its key in %s", login.Provider, login.EnvKey)
}

// checkSandbox has codex try the sandbox that a turn would get.
func checkSandbox(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	if !agent.Confines(i.Policy) {
		return warn("codex.turn_sandbox_policy has codex sandbox nothing: agents can do what confines symphony itself lets them",
			"leave it out, unless this is a container or virtual machine of its own")
	}
	err := i.TrySandbox(ctx)
	switch {
	case errors.Is(err, agent.ErrNoProbe):
		return warn("could not be tried: "+err.Error(), "try again; runs begin all the same")
	case err != nil:
		return failWith(err)
	}
	return ok("tried, it works")
}

// checkTokens warns about tokens of GitHub that hooks get and agents do not.
func checkTokens(_ context.Context, e *environment) (list []finding) {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN"} {
		if value, _ := e.p.Lookup(name); value != "" && !slices.Contains(e.config.Agent.PassEnv, name) {
			list = append(list, warn(name+" is set, and agents do not get it: hooks do", "add it to agent.pass_env if agents use gh or push to GitHub")...)
		}
	}
	return list
}

// checkState looks whether the database exists, belongs to this workflow and is sound, and whether it says that nothing may be
// started. It creates nothing.
func checkState(ctx context.Context, e *environment) (list []finding) {
	dir := e.p.StateDir
	exists, err := state.CheckDir(dir)
	if err != nil {
		return failWith(err)
	}
	db, err := state.OpenReadOnly(ctx, dir)
	switch {
	case !exists || errors.Is(err, state.ErrNoState):
		return ok("%s, which the first pass makes", dir)
	case err != nil:
		list = failWith(err)
		if list[0].code == "state_outdated" { // the next pass migrates it
			list[0].Status = statusWarn
		}
		return list
	}
	defer db.Close()
	_, ownerErr := project.OwnerPath(ctx, e.p, db)
	_, copyErr := project.OriginalPath(ctx, e.p, db)
	for _, err := range []error{ownerErr, copyErr, db.Newer(), db.QuickCheck(ctx)} {
		if err != nil {
			list = append(list, failWith(err)...)
		}
	}
	if list == nil {
		list = ok("%s, schema %d, sound", dir, db.Schema())
	}
	rec, err := db.Store.State(ctx)
	if block := project.BlockedBy(rec); err == nil && block != nil {
		list = append(list, warn("blocked by "+block.Reason+": "+block.Message, "symphony ps shows when it is tried again")...)
	}
	if err == nil && rec.Paused {
		list = append(list, warn("the project is paused: nothing new is started", "symphony resume")...)
	}
	return list
}

// checkSchedule says whether passes run by themselves, what is wrong with the installed schedule, and how the last pass went.
func checkSchedule(ctx context.Context, e *environment) (list []finding) {
	st, err := schedule.ReadStatus(ctx, e.p)
	if err != nil || e.as != asCalled {
		return nil // checkState reports the error; the schedule is the same in both environments
	}
	which, now := " -w "+term.ShellQuote(e.p.Path), e.p.Env.Now()
	hint := "symphony schedule install" + which + ", or keep symphony tick --loop" + which + " running"
	if len(st.Timers) > 0 || st.Cron != nil {
		hint = "it is installed: symphony schedule status" + which + " says what it does"
	}
	last, run := st.LastPass, st.LastRun
	switch {
	case last == nil:
		list = warn("no pass has run yet", hint)
	case st.Loop:
		list = ok("symphony tick --loop is running")
	case run == nil:
		list = warn("no pass was ever run by cron, a timer or --loop: only what you run yourself is started", hint)
	case st.Alive:
		list = ok("alive, last pass %s ago (%s)", term.Age(now, run.StartedAt), run.Trigger)
	default:
		list = warn(fmt.Sprintf("it has stopped: the last pass of %s began %s ago", run.Trigger, term.Age(now, run.StartedAt)), hint)
	}
	if last != nil && len(last.Errors) > 0 {
		var errs []string
		for _, e := range last.Errors {
			errs = append(errs, e.Code+": "+e.Message)
		}
		list = append(list, warn(fmt.Sprintf("the last pass, %s ago by %s, said: %s", term.Age(now, last.StartedAt), last.Trigger, strings.Join(errs, "; ")),
			"symphony tick runs one now, with what to do")...)
	}
	for _, text := range st.Problems {
		list = append(list, warn(text, "")...) // the problem names the next step
	}
	return list
}

// checkWorkers asks whether a worker that is started here outlives its pass.
func checkWorkers(ctx context.Context, e *environment) []finding {
	runners := &workers.Local{StateDir: e.p.StateDir, Scopes: &proc.ScopeManager{Env: e.p.Env.Environ}}
	if err := runners.Shelter(ctx); err != nil {
		return failWith(err)
	}
	if host := proc.ReadHostUnit(e.p.Env.Environ); host.Booted && host.Manager && !host.Root && !host.Lingers {
		return warn("your user does not linger: timers of yours, and what they start, end with your last logout", "loginctl enable-linger")
	}
	return ok("live on when their pass ends")
}
