// Package confine determines what the programs of a run may use: the environments of hooks, of
// the agent and of the agent's commands, and the sandbox of a turn's commands.
//
// The environments are derived from the worker's own:
//
//   - hooks, which the operator wrote, get all variables but the tracker's key;
//   - the agent gets the same without symphony's own secrets. It needs secrets that its commands
//     don't, such as the key of its model;
//   - the agent's commands get the same without variables whose names look like secrets to the agent,
//     unless agent.pass_env names them.
//
// Hooks and the agent also get the variables that the account's login profile exports. The secrets
// in it are redacted from then on. The command may set more: therefore the environment of
// the agent is read from its process once it answers.
package confine

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Config is the part of the workflow that restricts a run.
type Config struct {
	NamedHome string // that the workflow names; "" for the agent's own default
	// HomeVar names the home to the agent; "" if it is told none.
	HomeVar string
	// Model and Effort are of the workflow; "" for the settings of the agent's home.
	Model, Effort string
	// AgentHome is the home of agents, which shares the login of LoginHome, the
	// operator's. Empty if agents have the operator's home itself.
	AgentHome, LoginHome string
	// The pass-through values of specification 5.3.6; nil if the workflow sets none.
	ApprovalPolicy    json.RawMessage
	ThreadSandbox     json.RawMessage
	TurnSandboxPolicy json.RawMessage

	// Boxed: symphony's own sandbox confines the agent, so that it needs none of its own.
	Boxed bool
	// ProtectGit: turns may not write the git directory of their repository, which is the
	// operator's own.
	ProtectGit bool
	// Unreadable are files and directories with secrets, which commands of agents may not
	// read.
	Unreadable []string

	OnQuestion      agent.QuestionPolicy
	Network         bool
	WritableRoots   []string
	RootsAreReal    bool // WritableRoots had no links when the run began
	TrustRepository bool
	// variables that the agent's commands get even if their names look like secrets
	PassEnv []string

	// Slot is the number of the run on this machine, from 0; empty for none. The login shell does not
	// get it, because runs share one.
	Slot string

	// Secrets are the names of variables that neither hooks nor the agent may see.
	// SecretValues are redacted everywhere, and removed from the environment of hooks and
	// agent under any name.
	Secrets      []string
	SecretValues []string
	// Hidden are the names of variables with secrets that hooks may see, but the agent may not,
	// because it would give them to its commands: their names do not look like secrets, such as
	// GITLAB_PAT.
	Hidden []string
}

// RunHookEnv returns the environment of a run's hooks: the worker's own without the tracker's
// key, the run's marker, the hooks' directories for temporary files and caches, and the
// variables that builds need.
func (c Config) RunHookEnv(env []string, runID string, w host.Workspace) []string {
	return c.env(env, runID, w.Hooks)
}

// StartEnv returns the environment that the agent is started with. Its directories are its own:
// The command may be a launcher, such as npx, that executes files in them.
func (c Config) StartEnv(env []string, runID string, w host.Workspace) []string {
	return c.ofAgent(c.env(env, runID, w.Agent))
}

// BoxEnv returns the environment with which an agent is started in a sandbox of symphony: as
// StartEnv, with the directories of the agent's commands. /tmp is its own there.
func (c Config) BoxEnv(env []string, runID string, w host.Workspace) []string {
	return c.ofAgent(c.env(env, runID, host.Dirs{Tmp: tmpInBox, Cache: w.CacheDir}))
}

// ofAgent removes from the environment of hooks what only hooks may see, and adds the slot.
func (c Config) ofAgent(env []string) []string {
	return slices.DeleteFunc(append(env, c.SlotVar()...), func(entry string) bool {
		name := nameOf(entry)
		return ownSecret(name) || slices.Contains(c.Hidden, name)
	})
}

// SlotVar is the variable with the slot; empty for none.
func (c Config) SlotVar() []string {
	if c.Slot == "" {
		return nil
	}
	return []string{"SYMPHONY_SLOT=" + c.Slot}
}

// tmpInBox is the directory for temporary files in a sandbox of symphony.
const tmpInBox = "/tmp"

// WithoutSecrets returns an environment without the variables whose names look like secrets,
// but those of pass_env and those in kept.
func (c Config) WithoutSecrets(env, kept []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name := nameOf(entry)
		return LooksSecret(name) && !slices.Contains(c.PassEnv, name) && !slices.Contains(kept, name)
	})
}

func (c Config) env(env []string, runID string, dirs host.Dirs) []string {
	own := []string{host.RunMark + "=" + runID, "TMPDIR=" + dirs.Tmp, "XDG_CACHE_HOME=" + dirs.Cache}
	return CleanEnv(env, c.Secrets, c.SecretValues, slices.Concat(own, c.ownHome(), c.buildEnv(env, dirs)))
}

// AtHome returns a command of the agent with a prefix that sets the home of agents, whatever a
// startup file of the shell sets. With refuseGit it also makes every git that the agent runs by
// itself fail: codex runs git status in the workspace at each turn, outside the sandbox, and git
// runs the filters that an agent configured there.
func (c Config) AtHome(command string, refuseGit bool) string {
	vars := ""
	if refuseGit {
		vars += " " + gitSettings + "=refused"
	}
	if c.AgentHome != "" {
		vars += " " + c.HomeVar + "=" + text.ShellWord(c.AgentHome)
	}
	if vars == "" {
		return command
	}
	return "export" + vars + " || exit 78; " + command
}

// gitSettings is the number of settings in git's environment. Git fails before it reads a
// repository if it is not a number.
const gitSettings = "GIT_CONFIG_COUNT"

// AfterLogin returns env as the login profile changes it, without the secrets of names. The
// profile changes no variable of a run. Hooks and the agent work in the workspace, so relative
// directories, in which an agent could leave a program, are removed from PATH and the like.
func (c Config) AfterLogin(env []string, l host.LoginAnswer, names []string) []string {
	set := CleanEnv(l.Set, names, c.SecretValues, nil)
	gone := append(host.Scrub(l.Unset), text.Map(set, nameOf)...)
	isGone := func(entry string) bool { return slices.Contains(gone, nameOf(entry)) }
	env = slices.DeleteFunc(slices.Clone(env), isGone)
	return absolutePaths(append(env, set...))
}

// searchPaths are variables with lists of directories in which programs and libraries are
// looked up.
var searchPaths = []string{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH"}

// absolutePaths removes relative directories from searchPaths, also empty ones, which mean the
// working directory.
func absolutePaths(env []string) (kept []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(searchPaths, name) {
			dirs := text.Filter(filepath.SplitList(value), filepath.IsAbs)
			if len(dirs) == 0 {
				continue
			}
			entry = name + "=" + strings.Join(dirs, ":")
		}
		kept = append(kept, entry)
	}
	return kept
}

// HookEnv returns the environment of hooks that do not belong to a run, given the environment
// of a pass.
func (c Config) HookEnv(env []string) []string {
	return CleanEnv(env, c.Secrets, c.SecretValues, c.ownHome())
}

func (c Config) ownHome() []string {
	if c.NamedHome == "" {
		return nil
	}
	return []string{c.HomeVar + "=" + c.NamedHome}
}

// Withheld returns the names of the variables that the agent does not get: the secrets of the
// tracker and of forges, and symphony's own. Its shell must unset them, because a login profile
// may set them again.
func (c Config) Withheld(env []string) []string {
	own := text.Filter(text.Map(env, nameOf), ownSecret)
	names := slices.Concat(own, c.Secrets, c.Hidden)
	slices.Sort(names)
	return slices.Compact(names)
}

// CleanEnv returns env with the variables in own, but without the variables of a run, the
// named secrets, and variables that contain a secret value. No variable occurs twice, because
// programs differ in which of the two they use.
func CleanEnv(env, secretNames, secretValues, own []string) []string {
	drop := slices.Concat(secretNames, crash.Variables(), text.Map(own, nameOf))
	kept := slices.DeleteFunc(host.Scrub(env, drop...), func(entry string) bool {
		_, value, _ := strings.Cut(entry, "=")
		hasSecret := func(secret string) bool { return secret != "" && strings.Contains(value, secret) }
		return slices.ContainsFunc(secretValues, hasSecret)
	})
	return append(kept, own...)
}

// WithVariables returns env with the variables in own, which replace those of the same name.
func WithVariables(env, own []string) []string {
	names := text.Map(own, nameOf)
	kept := text.Filter(env, func(entry string) bool { return !slices.Contains(names, nameOf(entry)) })
	return append(kept, own...)
}

// LooksSecret reports whether the agent takes a variable for a secret because of its name.
func LooksSecret(name string) bool {
	name = strings.ToUpper(name)
	isIn := func(word string) bool { return strings.Contains(name, word) }
	return slices.ContainsFunc([]string{"KEY", "SECRET", "TOKEN"}, isIn)
}

// ownSecret reports whether a variable is a secret of symphony.
func ownSecret(name string) bool {
	rest, own := strings.CutPrefix(name, "SYMPHONY_")
	return own && (LooksSecret(rest) || strings.Contains(strings.ToUpper(rest), "PASSWORD"))
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// SecretsIn returns the secrets in an environment: the results of agent.EnvSecrets, and
// variables that the agent would exclude but agent.pass_env names.
func (c Config) SecretsIn(env []string) []string {
	found := agent.EnvSecrets(env)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if LooksSecret(name) && slices.Contains(c.PassEnv, name) && agent.SecretValue(value) {
			found = append(found, value)
		}
	}
	return found
}

// ExecEnv returns the variables to change in agentEnv for a command that the agent runs without a
// turn, where the thread's shell_environment_policy does not apply. The value nil removes a
// variable.
func (c Config) ExecEnv(
	ctx context.Context, m host.Paths, runID string, w host.Workspace, agentEnv []string,
) (map[string]any, error) {
	repository, err := hasGit(ctx, m, w.Path)
	if err != nil {
		return nil, err
	}
	env := c.commandVars(runID, w, repository, agentEnv)
	for _, entry := range agentEnv {
		name := nameOf(entry)
		if _, known := env[name]; !known && LooksSecret(name) {
			env[name] = nil
		}
	}
	return env, nil
}

// hasGit reports whether a workspace contains a .git.
func hasGit(ctx context.Context, m host.Paths, workspace string) (bool, error) {
	existing, err := m.Existing(ctx, []string{filepath.Join(workspace, ".git")})
	return len(existing) > 0, err
}

// commandVars are the variables that commands of the agent get besides the agent's own: directories,
// and the variables in agent.pass_env, with the values in agentEnv. The agent writes these values
// neither to its home nor to a command line. repository: the workspace contains a .git.
func (c Config) commandVars(
	runID string,
	w host.Workspace,
	repository bool,
	agentEnv []string,
) map[string]any {
	if c.Boxed {
		w.TmpDir = tmpInBox
	}
	// The caches that StartEnv chose are left out: they are the agent's own, and its commands get
	// others. What remains of these variables is the operator's choice.
	agentsOwn := c.buildEnv(nil, w.Agent)
	isAgents := func(entry string) bool { return slices.Contains(agentsOwn, entry) }
	operators := slices.DeleteFunc(slices.Clone(agentEnv), isAgents)
	set := map[string]any{}
	for _, entry := range CleanEnv(operators, nil, c.SecretValues, nil) {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(c.PassEnv, name) {
			set[name] = value
		}
	}
	// After agent.pass_env: no entry of it gives commands a directory of the agent's own.
	set["TMPDIR"] = w.TmpDir
	set["XDG_CACHE_HOME"] = w.CacheDir
	for _, entry := range c.buildEnv(operators, host.Dirs{Tmp: w.TmpDir, Cache: w.CacheDir}) {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = value
	}
	// While a command runs, the agent keeps an empty .git in a workspace that is not a repository.
	// go build takes it for a broken repository.
	if !repository && c.confines() && !isSet(operators, "GOFLAGS") {
		set["GOFLAGS"] = "-buildvcs=false"
	}
	set[host.RunMark] = runID
	set[gitSettings] = "0" // see AtHome
	return set
}

// buildEnv returns the variables that build tools need in the sandbox. Caches that do not
// follow XDG_CACHE_HOME, such as the caches of pip, go build, yarn 1 and uv, are moved to the
// cache directory of dirs. Variables that the operator set do not change.
func (c Config) buildEnv(env []string, dirs host.Dirs) (vars []string) {
	if !c.confines() {
		return nil // the agent can write everything that the account can write
	}
	if !isSet(env, "npm_config_cache") { // npm writes packages, locks and logs there
		vars = append(vars, "npm_config_cache="+filepath.Join(dirs.Cache, "npm"))
	}
	// without network go reads the account's modules
	if !isSet(env, "GOMODCACHE") && c.ClosesNetwork() == "" {
		vars = append(vars, "GOMODCACHE="+filepath.Join(dirs.Cache, "go-mod"))
	}
	return vars
}

// confines reports whether turns have a sandbox.
func (c Config) confines() bool {
	return c.TurnSandboxPolicy == nil || Confines(c.TurnSandboxPolicy)
}

// isSet reports whether a variable is set to a value. Like npm, it ignores the case of the
// name.
func isSet(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool {
		n, v, _ := strings.Cut(entry, "=")
		return strings.EqualFold(n, name) && v != ""
	})
}
