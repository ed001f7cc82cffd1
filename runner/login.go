package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	// loginTimeout is how long the login profile may take.
	loginTimeout = 30 * time.Second
	// loginFresh is how long the result of the profile is used. A hook that runs later may
	// need a newer token.
	loginFresh = 5 * time.Minute
)

// shell makes the environments of the programs of a run: hooks, git and the agent. They
// contain what the login profile of the account sets.
type shell struct {
	*parts
	site *site // of the programs

	// profile is the result of the login profile at loginAt, which is zero before the first
	// login shell.
	profile host.LoginAnswer
	loginAt time.Time

	// isCodex: an agent of this run has named a release of codex.
	isCodex bool
}

// refusesGit reports whether the git that the agent runs by itself is refused. Codex needs that,
// under whatever name it is started; another program with its protocol needs its git.
func (s *shell) refusesGit(command string) bool {
	kind := s.site.Config.Agent
	return s.isCodex || strings.Contains(command, kind.Package) ||
		strings.Contains(path.Base(ProgramWord(command)), kind.Name)
}

// login returns the changes that the login profile of the account makes. It runs the profile
// only once for all programs that a run starts in a row, because a profile may take a second.
func (s *shell) login(ctx context.Context) (host.LoginAnswer, error) {
	if !s.loginAt.IsZero() && time.Since(s.loginAt) < loginFresh {
		return s.profile, nil
	}
	answer, err := s.site.host.Login(ctx, host.LoginRequest{
		Env:     s.site.Config.RunHookEnv(s.site.Env, s.run.ID, *s.site.space),
		Timeout: cmp.Or(s.site.Config.LoginTimeout, loginTimeout),
	})
	if err == nil {
		s.profile = answer
		s.loginAt = time.Now()
		s.Redactor.Add(s.site.Config.SecretsIn(answer.Set))
		return answer, nil
	}
	if s.loginAt.IsZero() || ctx.Err() != nil {
		return s.profile, err
	}
	// The work must still be pushed. A profile that hangs is not started for each hook again.
	warn(s.Log, "the login shell failed, using what it had set before", err)
	s.loginAt = time.Now()
	return s.profile, nil
}

// agent returns the request to start a command of the agent in the workspace, in the sandbox of
// symphony if it has one. The command does not get symphony's secrets, even if a startup file
// of the shell sets them.
func (s *shell) agent(ctx context.Context, command string) (q host.StartRequest, err error) {
	kind := s.site.Config.Agent
	if kind.Start == nil {
		return q, agent.UnknownKind(kind.Name)
	}
	if err := s.makeHome(ctx); err != nil {
		return q, err
	}
	profile, err := s.login(ctx)
	if err != nil {
		return q, err
	}
	if err := s.refuseLauncher(ctx); err != nil { // hooks may have brought such files
		return q, err
	}
	withheld := s.site.Config.Withheld(slices.Concat(s.site.Env, profile.Set))
	env := s.site.Config.AfterLogin(s.agentEnv(), profile, withheld)
	if s.site.Config.Sandbox != nil {
		env = s.boxEnv(env)
	}
	if kind.Env != nil {
		env = confine.WithVariables(env, kind.Env(s.site.Config.Model))
	}
	if !s.site.Config.TrustRepository {
		env = confine.WithVariables(env, kind.Untrusting.Env)
	}
	own := confine.CleanEnv(s.site.Config.AgentEnv, withheld, s.site.Config.SecretValues, nil)
	env = confine.WithVariables(env, own)
	if box := s.site.Config.Sandbox; box != nil { // where ~ is another home
		command = atHome(command, box.AccountHome)
	}
	started := command
	if s.site.Config.confinesItself() {
		started = s.site.Config.AtHome(command, s.refusesGit(command))
	}
	script := text.ShellIn(s.site.space.Path, text.ShellUnset(withheld, started))
	argv := []string{"bash", "-c", umask(profile) + script}
	if s.site.Config.Sandbox != nil {
		return s.boxes.enclose(s.site, argv, env, command)
	}
	return host.StartRequest{Argv: argv, Env: env, Dir: "/"}, nil
}

// atHome returns a shell command whose program is given below a home, without ~.
func atHome(command, home string) string {
	rest, found := strings.CutPrefix(strings.TrimSpace(command), "~/")
	if !found {
		return command
	}
	return text.ShellWord(home) + "/" + rest
}

// homeVars are variables that lead programs to directories of the account, which a sandbox of
// symphony does not have.
var homeVars = []string{
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "BASH_ENV", "ENV",
}

// boxEnv returns the environment of an agent in a sandbox of symphony: without the secrets that
// it does not need, and at home in the sandbox.
func (s *shell) boxEnv(env []string) []string {
	c := s.site.Config
	kept := c.service().LoginVars
	if c.Sandbox.Key != "" {
		env = host.Scrub(env, kept...)
		kept = nil
	}
	env = host.Scrub(c.WithoutSecrets(env, kept), slices.Concat(homeVars, c.Agent.HomeVars)...)
	own := []string{
		host.RunMark + "=" + s.run.ID, // which Scrub removes
		"HOME=" + c.Sandbox.Home,
		"TMPDIR=/tmp",
	}
	if c.Agent.Sandboxes {
		own = append(own, c.Agent.HomeVar+"="+c.AgentHome)
	}
	return confine.WithVariables(env, own)
}

// agentEnv returns the environment of the agent before the login profile changes it.
func (s *shell) agentEnv() []string {
	if s.site.Config.Sandbox != nil {
		return s.site.Config.BoxEnv(s.site.Env, s.run.ID, *s.site.space)
	}
	return s.site.Config.StartEnv(s.site.Env, s.run.ID, *s.site.space)
}

// makeHome makes the home of agents, with the login of the operator.
func (s *shell) makeHome(ctx context.Context) error {
	c := s.site.Config
	q := host.HomeRequest{Kind: c.Agent.Name, Agents: c.AgentHome, Operators: c.LoginHome}
	if c.Sandbox != nil {
		q.Agents = c.Sandbox.Home
		q.Operators = c.Sandbox.LoginHome
		q.Boxed = true
	}
	withoutLogin := c.Sandbox != nil && q.Operators == ""
	if q.Agents == "" || withoutLogin {
		return nil
	}
	err := s.site.host.MakeHome(ctx, q)
	if err != nil && c.Sandbox != nil {
		return fmt.Errorf("home of agents: %w", err)
	}
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*reconcile.Error)) {
		return incompatible(
			c.Agent.Title+" home of agents: "+err.Error(),
			"correct the file in the message, so that "+c.Agent.Title+" can use it too",
		)
	}
	return err
}

// LaunchRequest asks which program the agent's command starts in an environment. Besides
// workspaces, which are below root, an agent can write directories that the workflow opens to
// it.
func (c Config) LaunchRequest(env []string, root string) host.LaunchRequest {
	_, opened := c.AgentWrites()
	return host.LaunchRequest{
		Command:  c.Command,
		Path:     host.Variable(env, "PATH"),
		Home:     host.Variable(env, "HOME"),
		Writable: append([]string{root}, opened...),
	}
}

// refuseLauncher returns agent_command_unsafe if files that an agent can write decide which
// program its command starts. It is the fault of a single issue: an agent that leaves such
// files must not keep other issues from starting.
func (s *shell) refuseLauncher(ctx context.Context) error {
	if s.site.Config.TrustLauncher {
		return nil
	}
	profile, err := s.login(ctx)
	if err != nil {
		return err
	}
	env := s.site.Config.AfterLogin(s.agentEnv(), profile, nil)
	q := s.site.Config.LaunchRequest(env, s.site.space.Root)
	q.Dir = s.site.space.Path
	l, err := s.site.Machine.Launcher(ctx, q)
	if err != nil || len(l.Files) == 0 {
		return err
	}
	names := listed(l.Files, launcherFiles)
	kind := s.site.Config.Agent
	where := ""
	if s.site.Config.confinesItself() {
		where = ", outside the sandbox,"
	}
	message := fmt.Sprintf(
		"%s starts %s, which would run%s files that an agent can write: it depends on %s in %s",
		kind.CommandKey,
		l.Program,
		where,
		names,
		s.site.space.Path,
	)
	return &reconcile.Error{Code: "agent_command_unsafe", Message: message, Hint: LauncherHint(kind)}
}

// launcherFiles is how many files an error names.
const launcherFiles = 5

// listed names at most so many of a list.
func listed(names []string, most int) string {
	more := len(names) - most
	if more <= 0 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
}

// LauncherHint suggests a command to replace a launcher.
func LauncherHint(kind agent.Kind) string {
	if !kind.Sandboxes {
		return kind.Install + "; and write the full path of what it installs into " + kind.CommandKey
	}
	return fmt.Sprintf(
		"install %s (npm install -g %s) and write its full path into %s; or, if no agent can change what it starts, %s: true",
		kind.Title,
		kind.Package,
		kind.CommandKey,
		kind.Key("trust_launcher"),
	)
}

// umask returns a shell command that sets the umask of the login profile.
func umask(profile host.LoginAnswer) string {
	if profile.Umask == "" {
		return ""
	}
	return "umask " + profile.Umask + "; "
}

// noShell returns the error for a command of an agent that could not be started.
func noShell(kind agent.Kind, err error) error {
	code, _ := codeOf(err)
	if code == reconcile.CodeResourceLimit || code == string(agent.CodeSandboxUnavailable) {
		return err
	}
	return &reconcile.Error{
		Code:    string(kind.NotFound),
		Message: "starting bash for " + kind.CommandKey + ": " + err.Error(),
		Hint:    kind.CommandKey + " is run with bash; install it",
		Err:     err,
	}
}

// incompatible returns the error for settings with which the agent can't be used.
func incompatible(message, hint string) error {
	return reconcile.NewError(string(agent.CodeIncompatible), message, hint)
}

// gitEnv returns the environment of git and gh for the remote, which is reached from this
// machine.
func (s *shell) gitEnv(ctx context.Context) ([]string, error) {
	if s.site.gitHere == nil {
		profile, err := s.login(ctx)
		return s.site.Config.GitEnv(s.site.Env, profile), err
	}
	here := s.site.here
	profile, err := s.site.gitHere.Login(ctx, host.LoginRequest{
		Env:     here.Config.HookEnv(here.Env),
		Timeout: cmp.Or(here.Config.LoginTimeout, loginTimeout),
	})
	s.Redactor.Add(here.Config.SecretsIn(profile.Set))
	return here.Config.GitEnv(here.Env, profile), err
}

// checkoutEnv returns the environment of git for a checkout on the machine of the workspace.
// Another machine gets no token of this machine.
func (s *shell) checkoutEnv(ctx context.Context) ([]string, error) {
	if s.site.gitHere == nil {
		return s.gitEnv(ctx)
	}
	profile, err := s.login(ctx)
	return s.site.Config.AfterLogin(s.site.Config.HookEnv(s.site.Env), profile, s.site.Config.Secrets), err
}

// GitEnv returns the environment of git and gh for the remote, given the environment of a pass.
// It is the environment of hooks, where a login profile may name an ssh agent or a credential
// helper, without the variables of a run. Unlike hooks, git gets the repository's token, which
// the operator's credential helper may use. Nothing that git starts can ask a person and wait:
// see unattended.
func (c Config) GitEnv(env []string, profile host.LoginAnswer) []string {
	own := c.Repository
	with := c.Config
	with.Secrets = text.Filter(c.Secrets, func(name string) bool { return name != own.TokenVar })
	with.SecretValues = text.Filter(c.SecretValues, func(value string) bool { return value != own.Token })
	return unattended(with.AfterLogin(with.HookEnv(env), profile, with.Secrets), own.AskPass)
}

// withoutToken returns the environment of git without the token, for a command that is not git.
func (r Repository) withoutToken(env []string) []string {
	return text.Filter(env, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return name != r.TokenVar && (r.Token == "" || value != r.Token)
	})
}

// unattended returns an environment in which no git, ssh, gpg or credential helper waits for a
// person. Without a display and a terminal, a dialog for a password and the pinentry of gpg
// fail at once, while a program of the operator that prints a password still works.
// SSH_ASKPASS_REQUIRE stays if the operator set it: only the operator knows that SSH_ASKPASS
// is such a program. askPass is the program that git asks for a password, empty for none: a
// GIT_ASKPASS of the terminal in which a pass was started, and core.askPass, may wait for a person.
func unattended(env []string, askPass string) []string {
	asking := []string{"GIT_ASKPASS", "DISPLAY", "WAYLAND_DISPLAY", "GPG_TTY", "GIT_TERMINAL_PROMPT", "GCM_INTERACTIVE"}
	kept := host.Scrub(env, asking...)
	isSet := func(entry string) bool { return strings.HasPrefix(entry, "SSH_ASKPASS_REQUIRE=") }
	if !slices.ContainsFunc(kept, isSet) {
		kept = append(kept, "SSH_ASKPASS_REQUIRE=never")
	}
	return append(kept, "GIT_ASKPASS="+askPass, "GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never")
}
