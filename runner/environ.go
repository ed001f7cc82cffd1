package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Who gets what of the worker's environment:
//
//   - Nobody gets the tracker's key, under whatever name it is there (agentEnv). Hooks, which are the operator's own, get
//     the rest.
//   - codex gets that less symphony's own secrets. It needs some that its commands don't, the key of its model for one.
//   - Its commands get what codex has less what its own exclusion takes for a secret by the name, but for what
//     agent.pass_env names.
//
// What codex has is more than it was given: it is started by a login shell, whose profile may export anything, and
// codex.command may add to that. So that is looked up in the process once it answers. Its secrets are kept out of what
// is written from then on, and what is named is passed on with the value that it has there.

// taken reports whether codex's exclusion takes a variable for a secret: in letters of either case the name has one
// of these words in it.
func taken(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc([]string{"KEY", "SECRET", "TOKEN"}, func(word string) bool { return strings.Contains(name, word) })
}

// ownSecret reports whether a variable is a secret of symphony's own.
func ownSecret(name string) bool {
	rest, own := strings.CutPrefix(name, "SYMPHONY_")
	return own && (taken(rest) || strings.Contains(strings.ToUpper(rest), "PASSWORD"))
}

// codexEnv is what codex is started with.
func (a *attempt) codexEnv() []string {
	return slices.DeleteFunc(a.agentEnv(), func(entry string) bool { return ownSecret(nameOf(entry)) })
}

// keptFromCodex names the variables that the login shell must take away again where its profile sets them.
func (a *attempt) keptFromCodex() []string {
	names := slices.Clone(a.Config.Secrets)
	for _, entry := range a.Env {
		if name := nameOf(entry); ownSecret(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

// readEnviron finds out what codex has, which is alive and has answered. Where the system does not show it that is
// what it was given.
func (a *attempt) readEnviron(ctx context.Context) {
	given := a.codexEnv()
	has, err := environBelow(a.agent.child.Process())
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the agent's environment can't be read: secrets that only the login profile sets are not known",
			slog.String("error", err.Error()))
	}
	if len(has) == 0 {
		has = given
	}
	a.environ = agentEnviron{has: has, given: given}
	a.Redactor.Add(secretsAmong(has, a.Config.PassEnv))
}

// environBelow is the environment of what runs codex.command: of that process and those below it, such as codex below
// a wrapper, the later ones winning.
func environBelow(p reconcile.Process) ([]string, error) {
	below, err := proc.Descendants(p.PID)
	errs := []error{err}
	slices.SortStableFunc(below, func(a, b reconcile.Process) int { return cmp.Compare(a.Start, b.Start) })
	vars := map[string]string{}
	for _, q := range append([]reconcile.Process{p}, below...) {
		env, err := proc.Environ(q)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		maps.Copy(vars, varsOf(env))
	}
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env, errors.Join(errs...)
}

func varsOf(env []string) map[string]string {
	vars := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	return vars
}

// agentEnviron is what the agent (or a hook's shell) has of variables, and what it was given.
type agentEnviron struct{ has, given []string }

// secretsAmong are the secrets of an environment of which some variables are passed on. Who names a variable so that it
// gets by the exclusion says that it holds one, also where its name ends otherwise than those of EnvSecrets.
func secretsAmong(env, passed []string) []string {
	found := agent.EnvSecrets(env)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if taken(name) && slices.Contains(passed, name) && agent.SecretValue(value) {
			found = append(found, value)
		}
	}
	return found
}

// passed are those of the variables named that codex has, but for any that holds one of the secrets.
func (e agentEnviron) passed(names, secretValues []string) map[string]string {
	vars := varsOf(cleanEnv(e.has, nil, secretValues, nil))
	maps.DeleteFunc(vars, func(name, _ string) bool { return !slices.Contains(names, name) })
	return vars
}

// ofProfile names the variables that the login profile sets, or changes, and that codex's exclusion takes away
// unless they are among those passed.
func (e agentEnviron) ofProfile(passed []string) (names []string) {
	given := varsOf(e.given)
	for _, entry := range e.has {
		name, value, _ := strings.Cut(entry, "=")
		if before, same := given[name]; taken(name) && !slices.Contains(passed, name) && (!same || before != value) {
			names = append(names, name)
		}
	}
	return names
}

// home is where codex keeps its threads, with links resolved, so that it is the same by whatever name. Codex says so;
// a release that does not goes by the variables that this one goes by.
func (e agentEnviron) home(reported string) string {
	vars := varsOf(e.has)
	if reported = cmp.Or(reported, vars["CODEX_HOME"]); reported == "" && vars["HOME"] != "" {
		reported = filepath.Join(vars["HOME"], ".codex")
	}
	if resolved, err := filepath.EvalSymlinks(reported); err == nil && reported != "" {
		return resolved
	}
	return reported
}

// commandEnv is codex's shell_environment_policy for its commands. The exclusion is switched on, so that whatever has
// found its way into codex's environment stays there; what commands are to have all the same is set, for nothing else
// comes after the exclusion. So those values go over the pipe to codex, and from there into the environment of commands:
// it writes them neither to its home nor to a command line. The other way, to leave the exclusion off and name what
// is to be taken away, would let through what nobody knew of.
func commandEnv(runID string, passed map[string]string) map[string]any {
	set := map[string]any{}
	for name, value := range passed {
		set[name] = value
	}
	set[proc.RunMark] = runID
	return map[string]any{"ignore_default_excludes": false, "set": set}
}
