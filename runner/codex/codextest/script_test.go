package codextest

import (
	"reflect"
	"slices"
	"testing"
)

func TestSelect(t *testing.T) {
	prompt := "Fix it.\n\n```agent\n# comment\nsay always\nattempt 0 turn 2:\n  say second\nattempt 1+:\nsay retry\nturn 3:\nsay third\n```\ntail"
	s, found, err := Parse(prompt)
	if err != nil || !found {
		t.Fatalf("Parse: %v, %v", found, err)
	}
	for _, c := range []struct {
		attempt, turn int
		want          string
	}{
		{0, 1, "always"},
		{0, 2, "second"},
		{0, 3, "third"},
		{1, 1, "retry"},
		{7, 3, "retry"},
	} {
		steps := s.Steps(c.attempt, c.turn)
		if len(steps) != 1 || steps[0].Text != c.want {
			t.Errorf("attempt %d turn %d: %v, want %q", c.attempt, c.turn, steps, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ prompt, want string }{
		{"```agent\nsay x\n", "agent script: no closing ```"},
		{"```agent\nsay x\nfly away\n```", `agent script, line 2: unknown directive "fly"`},
		{"```agent\nsleep soon\n```", `agent script, line 1: sleep: not a duration such as 300ms: "soon"`},
		{"```agent\ntool x {\n```", `agent script, line 1: tool: not JSON: "{"`},
		{"```agent\nhang on\n```", `agent script, line 1: hang: takes nothing, not "on"`},
		{"```agent\ntokens 1\n```", `agent script, line 1: tokens: not a number: ""`},
		{"```agent\nsay\n```", `agent script, line 1: say: needs a text`},
		{"```agent\npatch\n```", `agent script, line 1: patch: needs a name and a text`},
	} {
		_, found, err := Parse(c.prompt)
		if !found || err == nil || err.Error() != c.want {
			t.Errorf("Parse(%q): %v, want %s", c.prompt, err, c.want)
		}
	}
	if _, found, err := Parse("no script\n```go\nx\n```"); found || err != nil {
		t.Errorf("a prompt without a script: %v, %v", found, err)
	}
}

func TestReadsPrompt(t *testing.T) {
	for _, c := range []struct {
		prompt string
		n      int
		found  bool
	}{
		{"Attempt: 2\n", 2, true},
		{"- Attempt: 3", 3, true},
		{"Attempt:\n", 0, false},
		{"the Attempt: 4", 0, false},
		{"**Attempt:** 5", 5, true},
	} {
		if n, found := Attempt(c.prompt); n != c.n || found != c.found {
			t.Errorf("Attempt(%q) = %d, %v", c.prompt, n, found)
		}
	}
	if n, ok := Turn("Continuation guidance: this is continuation turn #2 of 3."); n != 2 || !ok {
		t.Errorf("Turn = %d, %v", n, ok)
	}
	if _, ok := Turn("turn 2"); ok {
		t.Error("Turn found a number in other text")
	}
}

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
