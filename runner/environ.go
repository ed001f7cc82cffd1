package runner

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// From the worker's variables those of the programs of a run are derived:
//
//   - hooks, which are the operator's own, get all but the tracker's key;
//   - codex gets that without symphony's own secrets. It needs some that its commands don't, as the key of its model;
//   - codex's commands get that without what codex's own exclusion takes for a secret by the name. Variables named by
//     agent.pass_env are passed all the same.
//
// Codex is started by a login shell, whose profile may export more. So what codex has is read from its process once it
// answers, and its secrets are redacted from then on.

// env is what hooks and codex both get: the worker's variables without the tracker's key, the run's marker, directories of the
// workspace's own for temporary files and caches, and what builds need.
func (j *job) env() []string {
	own := []string{host.RunMark + "=" + j.run.ID, "TMPDIR=" + j.space.TmpDir, "XDG_CACHE_HOME=" + j.space.CacheDir}
	own = slices.Concat(own, j.Config.codexHome(), j.Config.buildEnv(j.Env, j.space))
	return cleanEnv(j.Env, j.Config.Secrets, j.Config.SecretValues, own)
}

// hookEnv is a hook's environment. Issue text reaches hooks as values only, never as a script's source.
func (j *job) hookEnv(outcome reconcile.Outcome) []string {
	issue := j.rec.get().Issue
	value := func(s string) string { return j.exact.Text(strings.ReplaceAll(s, "\x00", "")) }
	env := append(j.env(),
		"SYMPHONY_ISSUE_ID="+issue.ID,
		"SYMPHONY_ISSUE_IDENTIFIER="+issue.Identifier,
		"SYMPHONY_ISSUE_TITLE="+value(issue.Title),
		"SYMPHONY_ISSUE_STATE="+value(issue.State),
		"SYMPHONY_ISSUE_URL="+value(textOf(issue.URL)),
		"SYMPHONY_ISSUE_BRANCH="+value(textOf(issue.BranchName)),
		"SYMPHONY_ATTEMPT="+strconv.Itoa(j.run.Attempt),
		"SYMPHONY_WORKSPACE="+j.space.Path,
	)
	if outcome != "" {
		env = append(env, "SYMPHONY_OUTCOME="+string(outcome))
	}
	return env
}

// codexEnv is the environment that codex is started with.
func (j *job) codexEnv() []string {
	return slices.DeleteFunc(j.env(), func(entry string) bool { return ownSecret(nameOf(entry)) })
}

// codexHome returns the variable that names the workflow's codex home, if it has one.
func (c Config) codexHome() []string {
	if c.CodexHome == "" {
		return nil
	}
	return []string{"CODEX_HOME=" + c.CodexHome}
}

// Environ returns the environment of hooks, without the variables of a run, if env is that of a pass.
func (c Config) Environ(env []string) []string {
	return cleanEnv(env, c.Secrets, c.SecretValues, c.codexHome())
}

// withheld names the variables that codex does not get: the tracker's and symphony's own secrets. The login shell must
// unset them, for its profile may set them again.
func (c Config) withheld(env []string) []string {
	names := slices.Clone(c.Secrets)
	for _, entry := range env {
		if name := nameOf(entry); ownSecret(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cleanEnv is env with the variables in own, and without those of a run, the named secrets, and those that contain a secret
// value. A variable must not stand twice: programs differ in which one they see.
func cleanEnv(env, secretNames, secretValues, own []string) []string {
	drop := slices.Concat(secretNames, crash.Variables())
	for _, entry := range own {
		drop = append(drop, nameOf(entry))
	}
	kept := slices.DeleteFunc(host.Scrub(env, drop...), func(entry string) bool {
		_, value, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(secretValues, func(s string) bool { return s != "" && strings.Contains(value, s) })
	})
	return append(kept, own...)
}

// excludedByCodex reports whether codex's exclusion takes a variable for a secret: its name contains one of these words.
func excludedByCodex(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "SECRET", "TOKEN"}, func(word string) bool { return strings.Contains(name, word) })
}

// ownSecret reports whether a variable is a secret of symphony's own.
func ownSecret(name string) bool {
	rest, own := strings.CutPrefix(name, "SYMPHONY_")
	return own && (excludedByCodex(rest) || strings.Contains(strings.ToUpper(rest), "PASSWORD"))
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// secretsAmong returns the secrets of an environment. An operator who passes on a variable that codex excludes says that it
// is a secret, even if its name does not end like those of agent.EnvSecrets.
func secretsAmong(env, passed []string) []string {
	found := agent.EnvSecrets(env)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if excludedByCodex(name) && slices.Contains(passed, name) && agent.SecretValue(value) {
			found = append(found, value)
		}
	}
	return found
}

// readEnviron reads the environment of codex, which has answered. If the system does not show it, codex counts as
// having what it was given.
func (g *agentProcess) readEnviron(ctx context.Context) {
	// Of codex.command and what runs below it, such as codex below a wrapper.
	found, err := g.Host.List(ctx, host.ListRequest{Below: g.child.Process(), Environ: true})
	g.warn("the agent's environment can't be read: secrets that only the login profile sets are not known", err)
	if g.environ = found.Environ; len(g.environ) == 0 {
		g.environ = g.codexEnv()
	}
	g.Redactor.Add(secretsAmong(g.environ, g.Config.PassEnv))
}

// passedEnv returns those of the named variables that codex has, without any that contains one of the secrets.
func passedEnv(environ, names, secretValues []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range cleanEnv(environ, nil, secretValues, nil) {
		if name, value, _ := strings.Cut(entry, "="); slices.Contains(names, name) {
			vars[name] = value
		}
	}
	return vars
}

// commandEnv returns codex's shell_environment_policy. Codex's exclusion is on, so that only secrets that agent.pass_env
// names reach commands. These are set after it, with their values. Codex writes the values neither to its home nor to a
// command line.
func commandEnv(runID string, passed map[string]string) map[string]any {
	set := map[string]any{}
	for name, value := range passed {
		set[name] = value
	}
	set[host.RunMark] = runID
	return map[string]any{"ignore_default_excludes": false, "set": set}
}
