package codextest

import (
	"reflect"
	"slices"
	"testing"
)

func TestEnvironmentOfCommands(t *testing.T) {
	env := []string{"PATH=/bin", "NPM_TOKEN=t", "npm_secret=s", "MONKEY=m", "A=a"}
	for _, c := range []struct {
		config map[string]any
		want   []string
		flag   string
	}{
		{nil, []string{"A=a", "MONKEY=m", "NPM_TOKEN=t", "PATH=/bin", "npm_secret=s"}, "-lc"},
		{
			map[string]any{"shell_environment_policy": map[string]any{"ignore_default_excludes": false, "set": map[string]any{"A": "b", "NPM_TOKEN": "set"}}},
			[]string{"A=b", "NPM_TOKEN=set", "PATH=/bin"},
			"-lc",
		},
		{
			map[string]any{"shell_environment_policy.ignore_default_excludes": true, "shell_environment_policy.set": map[string]any{"B": "b"}},
			[]string{"A=a", "B=b", "MONKEY=m", "NPM_TOKEN=t", "PATH=/bin", "npm_secret=s"},
			"-lc",
		},
		{
			map[string]any{"shell_environment_policy.ignore_default_excludes": false, "shell_environment_policy.set.B": "b", "allow_login_shell": false},
			[]string{"A=a", "B=b", "PATH=/bin"},
			"-c",
		},
	} {
		e := environmentOf(c.config)
		if got := slices.Sorted(slices.Values(e.of(env))); !reflect.DeepEqual(got, c.want) || e.shellFlag() != c.flag {
			t.Errorf("%v: %q, bash %s; want %q, %s", c.config, got, e.shellFlag(), c.want, c.flag)
		}
	}
}
