package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
)

// help returns what a command prints with --help.
func help(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	w := testWorld()
	w.Stdout = &out
	if code := run(t.Context(), w, []string{"symphony", command, "--help"}); code != exit.OK {
		t.Fatalf("%s --help ends with %d", command, code)
	}
	return out.String()
}

// docs/commands.md holds the help of every command; a release makes the man page from it. UPDATE_REFERENCE=1 writes it.
func TestCommandReference(t *testing.T) {
	const file = "../../docs/commands.md"
	var b strings.Builder
	b.WriteString("# Commands\n\nThis is what `symphony COMMAND --help` prints.\n")
	for _, c := range newApp(testWorld()).Commands {
		if !c.Hidden {
			fmt.Fprintf(&b, "\n## symphony %s\n\n```\n%s\n```\n", c.Name, strings.TrimSpace(help(t, c.Name)))
		}
	}
	if os.Getenv("UPDATE_REFERENCE") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Error("docs/commands.md is not what the commands print: UPDATE_REFERENCE=1 go test ./cmd/symphony -run TestCommandReference")
	}
}

// The help of every command has an example, and the command line of each example is accepted.
func TestExamplesParse(t *testing.T) {
	for _, c := range newApp(testWorld()).Commands {
		if c.Hidden {
			continue
		}
		_, examples, found := strings.Cut(strings.ReplaceAll(help(t, c.Name), "\\\n", ""), "Example")
		examples, _, _ = strings.Cut(examples, "\nOPTIONS:")
		if !found {
			t.Errorf("%s: its help has no example", c.Name)
		}
		for _, line := range strings.FieldsFunc(examples, func(r rune) bool { return strings.ContainsRune("\n|&;<>()", r) }) {
			if call, ok := strings.CutPrefix(strings.TrimSpace(line), "symphony "); ok {
				checkExample(t, strings.Fields(strings.NewReplacer("~", "/home", `"`, "", "'", "").Replace(call)))
			}
		}
	}
}

// checkExample parses a command line with the command's action left out.
func checkExample(t *testing.T, words []string) {
	t.Helper()
	app := newApp(testWorld())
	reached := false
	for _, c := range app.Commands {
		c.Before, c.Action = nil, func(*cli.Context) error { reached = true; return nil }
	}
	args, err := arrange(app, append([]string{"symphony"}, words...))
	if err == nil {
		err = app.RunContext(t.Context(), args)
	}
	if err != nil || !reached {
		t.Errorf("symphony %s is not accepted: %v", strings.Join(words, " "), err)
	}
}
