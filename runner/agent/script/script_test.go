package script

import (
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

const prompt = "Fix it.\n\n```agent\n# comment\nsay always\nattempt 0 turn 2:\n  say second\nattempt " +
	"1+:\nsay retry\nturn 3:\nsay third\n```\ntail"

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name    string
		prompts []string
		turn    int
		want    string
	}{
		{"no section matches", []string{prompt}, 1, "always"},
		{"attempt and turn", []string{prompt}, 2, "second"},
		{"turn", []string{prompt}, 3, "third"},
		{"attempt or more", []string{"Attempt: 7\n" + prompt}, 3, "retry"},
		{"a later attempt", []string{prompt, "- Attempt: 1\ngo on"}, 1, "retry"},
		{"in bold", []string{prompt, "**Attempt:** 5"}, 1, "retry"},
		{"no number", []string{prompt, "Attempt:\nthe Attempt: 4"}, 1, "always"},
		{"a new script resets the attempt", []string{"Attempt: 1\n" + prompt, prompt}, 1, "always"},
		{
			"the number of the guidance",
			[]string{prompt, "Continuation guidance: this is continuation turn #2 of 3."},
			9, "second",
		},
		{"an earlier script is invalid", []string{prompt, "```agent\nfly\n```", "turn 2"}, 1, "always"},
		{"no script", []string{"no script\n```go\nx\n```"}, 1, ""},
	} {
		steps, err := Steps(c.prompts, c.turn)
		got := ""
		for _, s := range steps {
			got += s.Text
		}
		test.Equal(t, c.name+": error and text", []any{err, got}, []any{nil, c.want})
	}
}

func TestInvalidScripts(t *testing.T) {
	for prompt, want := range map[string]string{
		"```agent\nsay x\n":              "agent script: no closing ```",
		"```agent\nsay x\nfly away\n```": `agent script, line 2: unknown directive "fly"`,
		"```agent\nsleep soon\n```":      `agent script, line 1: sleep: "soon" is not a valid wait`,
		"```agent\ntool x {\n```":        `agent script, line 1: tool: "{" is not a valid json`,
		"```agent\nhang on\n```":         `agent script, line 1: hang: unexpected argument "on"`,
		"```agent\ntokens 1\n```":        `agent script, line 1: tokens: "" is not a valid m`,
		"```agent\nsay\n```":             `agent script, line 1: say: "" is not a valid text`,
		"```agent\npatch\n```":           `agent script, line 1: patch: "" is not a valid name`,
	} {
		test.Equal(t, prompt, fmt.Sprint(test.Err(Steps([]string{prompt}, 1))), want)
	}
}
