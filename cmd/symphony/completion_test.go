package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// A line of usage says what may come next.
func TestPlaceholders(t *testing.T) {
	for _, c := range []struct{ usage, typed, want string }{
		{"symphony c [flags] ISSUE [WORKFLOW]", "", "ISSUE"},
		{"symphony c [flags] ISSUE [WORKFLOW]", "A", "WORKFLOW"},
		{"symphony c [flags] ISSUE [WORKFLOW]", "A B", ""},
		{"symphony c [flags] [ISSUE...] [WORKFLOW]", "", "ISSUE WORKFLOW"},
		{"symphony c [flags] [ISSUE...] [WORKFLOW]", "A B C", "ISSUE WORKFLOW"},
		{"symphony c [flags] [A] B C", "", "A B"},
		{"symphony c show|install [WORKFLOW]", "", "install show"},
		{"symphony c show|install [WORKFLOW]", "show", "WORKFLOW"},
		{"symphony c [--json]", "", ""},
		{"symphony c [flags] ISSUE|--all [WORKFLOW]", "", "--all ISSUE"},
		{"symphony c [flags]\n   symphony c remove [flags] PATH", "", "remove"},
		{"symphony c [flags]\n   symphony c remove [flags] PATH", "remove", "PATH"},
		{"symphony c [flags]\n   symphony c remove [flags] PATH", "other", ""},
		{"symphony c REQUEST\n\nREQUEST is what symphony ps shows", "R", ""},
		{`symphony c REQUEST "TEXT"...`, "R T", "TEXT"},
	} {
		got := placeholders(&cli.Command{Name: "c", UsageText: c.usage}, strings.Fields(c.typed))
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s behind %q: %v, want %s", c.usage, c.typed, got, c.want)
		}
	}
}

// Every argument that a command's usage names is one that completion knows, or is known to be anything.
func TestPlaceholdersAreKnown(t *testing.T) {
	known := []string{"FILE", "WORKFLOW", "PATH", "DIRECTORY", "ISSUE", "REQUEST", "ID", "TEXT", "--all"}
	for _, c := range newApp(testWorld()).Commands {
		for n := range 3 {
			for _, name := range placeholders(c, slices.Repeat([]string{"x"}, n)) {
				if !slices.Contains(known, name) && name != strings.ToLower(name) {
					t.Errorf("%s: completion does not know %s", c.Name, name)
				}
			}
		}
		if !c.Hidden && !strings.HasPrefix(c.UsageText, "symphony "+c.Name) {
			t.Errorf("%s: its usage is %q", c.Name, c.UsageText)
		}
	}
}

// A line is cut as a shell cuts it, and nothing in it is executed.
func TestSplitLine(t *testing.T) {
	w := testWorld()
	w.Home, w.Environ = "/home/ann", []string{"WORK=/srv/here"}
	for line, want := range map[string]string{
		"symphony":                        "",
		"symphony ":                       "<>",
		"symphony ps":                     "<ps>",
		"symphony ps ":                    "<ps><>",
		"symphony  ps\t-w ~/a/W.md ":      "<ps><-w></home/ann/a/W.md><>",
		"symphony --workflow=~/W.md ":     "<--workflow=/home/ann/W.md><>",
		`symphony -w "a b/W.md" x`:        "<-w><a b/W.md><x>",
		`symphony -w a\ b '' "c`:          "<-w><a b><><c>",
		`symphony -w $WORK/W "${WORK}"/x`: "<-w></srv/here/W></srv/here/x>",
		`symphony -w '$WORK' \$WORK`:      "<-w><$WORK><$WORK>",
		"symphony -w $(touch x) `id` ":    "<-w><$(touch><x)><`id`><>",
	} {
		var got strings.Builder
		for _, word := range splitLine(line, w) {
			got.WriteString("<" + word + ">")
		}
		if got.String() != want {
			t.Errorf("%s: %s, want %s", line, got.String(), want)
		}
	}
}

// Every flag of which a list of values is kept names each of them in its help, and the other way round: a flag whose help
// lists words has them completed.
func TestFixedValues(t *testing.T) {
	kept := 0
	for _, c := range newApp(testWorld()).Commands {
		for _, f := range c.Flags {
			values := fixedValues(c.Name, f.Names()[0])
			for _, value := range values {
				kept++
				if !strings.Contains(flagUsage(f), value) {
					t.Errorf("%s --%s: its help does not name %s", c.Name, f.Names()[0], value)
				}
			}
			d, ok := f.(cli.DocGenerationFlag)
			list := regexp.MustCompile(`[a-z]+(, [a-z]+)* or [a-z]+$`)
			if ok && !c.Hidden && d.TakesValue() && values == nil && list.MatchString(flagUsage(f)) {
				t.Errorf("%s --%s: the values in %q are not completed", c.Name, f.Names()[0], flagUsage(f))
			}
		}
	}
	if kept < 15 {
		t.Errorf("%d values are known", kept)
	}
}
