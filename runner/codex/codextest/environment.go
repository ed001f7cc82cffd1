package codextest

import (
	"slices"
	"strings"
)

// environment is what a thread's config says of the environment of its commands.
type environment struct {
	set map[string]string // shell_environment_policy.set
	// excluding: what looks like a secret by its name is taken away, and set is what comes after that.
	excluding bool
	// noLogin: commands run in no login shell.
	noLogin bool
}

// environmentOf reads it; shell_environment_policy may be nested or with dots.
func environmentOf(config map[string]any) environment {
	const key = "shell_environment_policy"
	e := environment{set: map[string]string{}}
	take := func(set any) {
		m, _ := set.(map[string]any)
		for k, v := range m {
			if text, ok := v.(string); ok {
				e.set[k] = text
			}
		}
	}
	ignored := config[key+".ignore_default_excludes"]
	if policy, ok := config[key].(map[string]any); ok {
		take(policy["set"])
		if ignored == nil {
			ignored = policy["ignore_default_excludes"]
		}
	}
	take(config[key+".set"])
	for k, v := range config {
		if name, ok := strings.CutPrefix(k, key+".set."); ok {
			take(map[string]any{name: v})
		}
	}
	e.excluding = ignored == false // codex ignores them where nothing is said
	e.noLogin = config["allow_login_shell"] == false
	return e
}

// of is what commands get of the server's environment.
func (e environment) of(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, set := e.set[name]
		return set || e.excluding && looksSecret(name)
	})
	for name, value := range e.set {
		env = append(env, name+"="+value)
	}
	return env
}

func looksSecret(name string) bool {
	name = strings.ToUpper(name)
	return strings.Contains(name, "KEY") || strings.Contains(name, "SECRET") || strings.Contains(name, "TOKEN")
}

func (e environment) shellFlag() string {
	if e.noLogin {
		return "-c"
	}
	return "-lc"
}
