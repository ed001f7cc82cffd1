package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/urfave/cli/v2"
)

// The help of every command ends with an example, and what it shows can be typed: the command is there, with these flags
// and arguments.
func TestExamplesParse(t *testing.T) {
	app := newApp(testWorld())
	for _, p := range pages(app) {
		examples := p.examples()
		if len(examples) == 0 {
			t.Errorf("%s: its help has no example", p.name)
		}
		for _, line := range continued(examples) {
			for _, call := range calls(line) {
				tryExample(t, p.name, call)
			}
		}
	}
}

// continued joins lines that end with a backslash.
func continued(lines []string) []string {
	return strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", ""), "\n")
}

// calls are the calls of symphony in a shell's line.
func calls(line string) [][]string {
	line = strings.NewReplacer("<(", " ", ")", " ", "&&", "\n", "|", "\n", ";", "\n", ">", "\n").Replace(line)
	var all [][]string
	for part := range strings.SplitSeq(line, "\n") {
		if _, call, found := strings.Cut(part, "symphony "); found && !strings.Contains(part, "/symphony") {
			all = append(all, splitLine("symphony "+strings.TrimSpace(call), testWorld()))
		}
	}
	return all
}

// tryExample gives a call to the program with the command's action taken out: what is left is whether it is understood.
func tryExample(t *testing.T, of string, words []string) {
	t.Helper()
	app := newApp(testWorld())
	reached := ""
	for _, c := range app.Commands {
		disarm(c, &reached)
	}
	args := append([]string{"symphony"}, words...)
	arranged, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(t.Context(), arranged)
	}
	if err != nil || reached == "" {
		t.Errorf("%s: its example %q is not understood: %v", of, strings.Join(args, " "), err)
	}
}

func disarm(c *cli.Command, reached *string) {
	c.Before = nil
	c.Action = func(c *cli.Context) error {
		usage := strings.Fields(strings.SplitN(c.Command.UsageText, "\n", 2)[0])
		if len(usage) > 2 && c.NArg() > 0 && len(placeholders(c.Command, nil)) == 0 {
			return exit.Usage("%s takes no argument", c.Command.Name)
		}
		*reached = c.Command.Name
		return nil
	}
	for _, s := range c.Subcommands {
		disarm(s, reached)
	}
}

// A command's own help shows what the manual shows.
func TestHelpShowsTheExamples(t *testing.T) {
	for _, p := range pages(newApp(testWorld())) {
		var out bytes.Buffer
		w := testWorld()
		w.Stdout = &out
		if code := run(t.Context(), w, []string{"symphony", p.name, "--help"}); code != exit.OK {
			t.Errorf("%s --help ends with %d", p.name, code)
		}
		for _, line := range append(p.examples(), p.usage...) {
			if !strings.Contains(out.String(), line) {
				t.Errorf("%s --help lacks %q", p.name, line)
			}
		}
	}
}

const commandReference = "../../docs/commands.md"

// TestCommandReference holds docs/commands.md to the commands. UPDATE_REFERENCE=1 writes it.
func TestCommandReference(t *testing.T) {
	want := referenceMarkdown(newApp(testWorld()))
	if os.Getenv("UPDATE_REFERENCE") != "" {
		if err := os.WriteFile(commandReference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(commandReference)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/commands.md is not what the commands say: UPDATE_REFERENCE=1 go test ./cmd/symphony -run TestCommandReference")
	}
}

// The exit codes of the manual are those of the README.
func TestManualExitCodes(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range manualExitCodes() {
		if !strings.Contains(string(readme), "\n| "+code.word+" | "+code.text) {
			t.Errorf("README.md does not say that %s is %q", code.word, code.text)
		}
	}
}

// Man pages are such that their readers find nothing to complain about, and show what the help says.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	w := testWorld()
	all := manPages(newApp(w), "2026-11-20", "v1.2.3")
	if err := writeManPages(w, newApp(w), dir, "2026-11-20", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(newApp(w)) {
		text := all["symphony-"+p.name+".1"]
		for _, f := range p.flags {
			if !strings.Contains(text, manFlag(f)) {
				t.Errorf("symphony-%s.1 lacks %s", p.name, f.names)
			}
		}
		if !strings.Contains(all["symphony.1"], bold("symphony-"+p.name)) {
			t.Errorf("symphony.1 lacks %s", p.name)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(files) != len(all) {
		t.Fatalf("%d files, %v; want %d", len(files), err, len(all))
	}
	for name, args := range map[string][]string{"mandoc": {"-T", "lint", "-W", "warning"}, "groff": {"-ww", "-man", "-T", "utf8", "-z"}} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Logf("there is no %s here", name)
			continue
		}
		for _, file := range files {
			if said, err := exec.CommandContext(t.Context(), program, append(args, file)...).CombinedOutput(); err != nil || len(said) > 0 {
				t.Errorf("%s %s: %v\n%s", name, filepath.Base(file), err, said)
			}
		}
	}
}

// Text that looks like a request or an escape of roff is shown as it is.
func TestEscapeRoff(t *testing.T) {
	for text, want := range map[string]string{
		".sh": `\&.sh`, `a\b`: `a\eb`, "--x": `\-\-x`, "'q'": `\(aqq\(aq`, "~/x": `\(ti/x`,
	} {
		if got := escapeRoff(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// examples are the lines of a page that can be typed.
func (p page) examples() []string {
	var list []string
	for i, para := range p.text {
		if !para.header || i+1 == len(p.text) {
			continue
		}
		for _, line := range p.text[i+1].lines {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}
