package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// typedLine matches a command in a console block of a document.
var typedLine = regexp.MustCompile(`(?m)^\$ (.+)$`)

// questionCommands returns the headings of docs/questions.md and the commands below each.
func questionCommands() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "docs", "questions.md"))
	commands := map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		for _, m := range typedLine.FindAllStringSubmatch(rest, -1) {
			commands[heading] += m[1] + "\n"
		}
	}
	return commands, err
}

// questionCmd runs the commands that docs/questions.md has below a heading; each must exit with 0. With later it only
// writes them to question.sh. `question all` fails unless the script has had every heading.
//
//	question HEADING [later] | question all
func questionCmd(ts *testscript.TestScript, neg bool, args []string) {
	commands, err := questionCommands()
	ts.Check(err)
	s := stageOf(ts)
	if args[0] == "all" {
		for heading := range commands {
			if !slices.Contains(s.asked, heading) {
				ts.Fatalf("the script does not run the command of %q", heading)
			}
		}
		return
	}
	if commands[args[0]] == "" {
		ts.Fatalf("docs/questions.md has no command for %q", args[0])
	}
	s.asked = append(s.asked, args[0])
	ts.Check(os.WriteFile(ts.MkAbs("question.sh"), []byte(commands[args[0]]), 0o600))
	if len(args) == 1 {
		exitsCmd(ts, false, []string{"0", "sh", "-e", "question.sh"})
	}
}
