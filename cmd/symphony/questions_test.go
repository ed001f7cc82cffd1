package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// docs/questions.md holds what people ask, each with the command that answers it and what that says. The script
// questions.txtar prepares what the answers speak of and has them given: what is here reads the document.

var questionsFile = filepath.Join(moduleRoot, "docs", "questions.md")

// theQuestions are those that the document must answer.
var theQuestions = []string{
	"What runs now?", "What waits, for what?", "Why is ABC-7 not running?", "When will it?", "What did it do last night?",
	"What did it cost?", "Which issues are held?", "Why?", "Let it go.", "Stop ABC-7.", "Stop everything now.",
	"Start nothing new.", "Go on.", "What wants an answer from me?", "Approve it.", "Say no, and why.",
	"Show me the last command it ran.", "Follow it live.", "Where is its workspace?", "What did it change?",
	"Which thread is it?", "Let me take over.", "What would the next pass do?", "Is the schedule alive?",
	"What would break under cron?", "Is my WORKFLOW.md right?", "Show me the prompt for ABC-7.",
	"What is on this disk because of symphony?", "Remove what is done.", "Remove symphony.",
}

// documented is a command as the document shows it, with lines of what it says.
type documented struct {
	command string
	says    []string
}

var (
	questionHead = regexp.MustCompile(`^### (.+)$`)
	consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
)

// answersIn reads the document: what is typed for each question.
func answersIn(text string) map[string][]documented {
	all := map[string][]documented{}
	for _, part := range strings.Split("\n"+text, "\n### ")[1:] {
		question, rest, _ := strings.Cut(part, "\n")
		rest, _, _ = strings.Cut(rest, "\n## ")
		all[question] = nil
		for _, m := range consoleBlock.FindAllStringSubmatch(rest, -1) {
			all[question] = append(all[question], commandsOf(m[1])...)
		}
	}
	return all
}

func commandsOf(block string) []documented {
	var list []documented
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			list = append(list, documented{command: command})
		} else if len(list) > 0 {
			list[len(list)-1].says = append(list[len(list)-1].says, line)
		}
	}
	return list
}

// varies are the parts of an answer that are others each time: moments, durations, sizes, ids. "…" stands for anything.
var varies = []struct{ in, out string }{
	{`…`, `.*`},
	{`\d{8}T\d{6}\.\d{3}-[a-z0-9]+`, `\d{8}T\d{6}\.\d{3}-[a-z0-9]+`},
	{`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`, `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`},
	{`\d{4}-\d\d-\d\d`, `\d{4}-\d\d-\d\d`},
	{`\b\d\d:\d\d(?::\d\d)?\b`, `\d\d:\d\d(?::\d\d)?`},
	{`\b[\d.]+(?:ms|[smhd])(?:\d+[msh])*\b`, `[\d.]+(?:ms|[smhd])(?:\d+[msh])*`},
	{`\b[\d.]+ (?:bytes|[KMGT]iB)`, `[\d.]+ (?:bytes|[KMGT]iB)`},
	{`\b[0-9a-f]{10,12}\b`, `[0-9a-f]{10,12}`},
}

// likeLine makes a pattern of a documented line: blanks count as one, and what varies may be another.
func likeLine(line string) *regexp.Regexp {
	var any []string
	for _, v := range varies {
		any = append(any, "("+v.in+")")
	}
	var b strings.Builder
	b.WriteString(`(?m)^\s*`)
	for i, word := range strings.Fields(maskWith(line, regexp.MustCompile(strings.Join(any, "|")))) {
		if i > 0 {
			b.WriteString(`\s+`)
		}
		b.WriteString(unmask(word))
	}
	b.WriteString(`\s*$`)
	return regexp.MustCompile(b.String())
}

// A masked part is a rune of the private area, one for each kind, so that what is left can be quoted.
const maskBase = '\uE000'

func maskWith(line string, any *regexp.Regexp) string {
	var b strings.Builder
	last := 0
	for _, at := range any.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(line[last:at[0]])
		for kind := range varies {
			if at[2*kind+2] >= 0 {
				b.WriteRune(maskBase + rune(kind))
			}
		}
		last = at[1]
	}
	return b.String() + line[last:]
}

func unmask(word string) string {
	var b strings.Builder
	for _, r := range word {
		if kind := int(r - maskBase); kind >= 0 && kind < len(varies) {
			b.WriteString(varies[kind].out)
			continue
		}
		b.WriteString(regexp.QuoteMeta(string(r)))
	}
	return b.String()
}

func readQuestions() (string, error) {
	text, err := os.ReadFile(questionsFile)
	return string(text), err
}

// Every question stands in the document, with one command and a line of its answer at least. Removing symphony takes more.
func TestQuestions(t *testing.T) {
	text, err := readQuestions()
	if err != nil {
		t.Fatal(err)
	}
	found := answersIn(text)
	for _, q := range theQuestions {
		list, ok := found[q]
		switch {
		case !ok:
			t.Errorf("nobody answers %q", q)
		case len(list) == 0 || len(list) > 1 && q != "Remove symphony.":
			t.Errorf("%q is answered by %d commands", q, len(list))
		case len(list[0].says) == 0:
			t.Errorf("%q: it is not shown what %q says", q, list[0].command)
		}
	}
	for line := range strings.Lines(text) {
		if m := questionHead.FindStringSubmatch(strings.TrimSpace(line)); m != nil && !slices.Contains(theQuestions, m[1]) {
			t.Errorf("the document answers %q, which the test does not know", m[1])
		}
	}
}

func TestLikeLine(t *testing.T) {
	for _, c := range []struct {
		line, said string
		want       bool
	}{
		{"why  blocked by ABC-3", "why        blocked by ABC-3", true},
		{"why  blocked by ABC-3", "why        blocked by ABC-4", false},
		{"why  blocked by ABC-3", "why        blocked by ABC-3, and more", false},
		{"next in 4m10s", "next in 10s", true},
		{"next in 4m10s", "next in a moment", false},
		{"1 running, 2 waiting", "2 running, 2 waiting", false},
		{"20:14:07  agent: well", "23:59:00  agent: well", true},
		{"run 20260224T201012.345-tvlt32 ended", "run 20270101T000000.000-aaaaaa ended", true},
		{"gone 4.0 KiB …", "gone 12 bytes (x)", true},
		{"in /home/ann/x-1a2b3c4d5e6f", "in /home/ann/x-000000000000", true},
		{"in /home/ann/x-1a2b3c4d5e6f", "in /home/ann/y-000000000000", false},
	} {
		if got := likeLine(c.line).MatchString("before\n" + c.said + "\nafter"); got != c.want {
			t.Errorf("%q like %q: %v", c.said, c.line, got)
		}
	}
}

// answeredCmd asks questions of the document, each of which must be answered without an error: answered QUESTION...
func answeredCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || neg {
		ts.Fatalf("usage: answered QUESTION...")
	}
	text, err := readQuestions()
	ts.Check(err)
	answers := answersIn(text)
	for _, question := range args {
		list := answers[question]
		if len(list) != 1 {
			ts.Fatalf("the document has %d commands for %q", len(list), question)
		}
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", list[0].command)
		cmd.Dir, cmd.Env = ts.MkAbs("."), scriptEnv(ts)
		if out, err := cmd.CombinedOutput(); err != nil {
			ts.Fatalf("%s: %v: %s", list[0].command, err, out)
		}
	}
}
