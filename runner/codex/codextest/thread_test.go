package codextest

import (
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestEnvironmentOfCommands(t *testing.T) {
	env := []string{"PATH=/bin", "NPM_TOKEN=t", "npm_secret=s", "MONKEY=m", "A=a"}
	var c threadConfig
	test.Equal(t, "environment and shell flag", []any{c.environ(env), c.shellFlag()}, []any{env, "-lc"})
	c.Environment.Set = map[string]string{"NPM_TOKEN": "set"}
	c.Environment.IgnoreExcludes = new(bool)
	c.LoginShell = new(bool)
	if got := c.environ(env); !slices.Equal(got, []string{"PATH=/bin", "A=a", "NPM_TOKEN=set"}) ||
		c.shellFlag() != "-c" {
		t.Errorf("%q, bash %s", got, c.shellFlag())
	}
}
