package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

// The manual is made from the commands: what --help says, once as man pages and once as one page of Markdown. What is
// about no single command stands in reference_general.go.

func referenceCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "reference", Hidden: true, Usage: "write the manual: man pages into a directory, or Markdown to stdout",
		UsageText: "symphony reference [flags] man DIRECTORY\n   symphony reference [flags] markdown",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "date", Usage: "the `DAY` that man pages bear, as 2006-01-02", DefaultText: "today"},
			&cli.StringFlag{Name: "release", Usage: "the `VERSION` that man pages bear", DefaultText: "this program's"},
		},
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			switch {
			case len(args) == 1 && args[0] == "markdown":
				_, err := fmt.Fprint(w.Stdout, referenceMarkdown(newApp(w)))
				return err
			case len(args) == 2 && args[0] == "man":
				return writeManPages(w, newApp(w), w.Absolute(args[1]), c.String("date"), c.String("release"))
			}
			return exit.Usage("reference: want man DIRECTORY or markdown")
		},
	}
}

// writeManPages writes symphony.1 and a page for each command.
func writeManPages(w *term.Env, app *cli.App, dir, day, release string) error {
	if day == "" {
		day = w.Now().UTC().Format(time.DateOnly)
	}
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return exit.Usage("reference: --date wants a day such as 2006-01-02, not %q", day)
	}
	if release == "" {
		release = project.Version()
	}
	for name, text := range manPages(app, day, release) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("man page: %w", err)
		}
	}
	return nil
}

// page is what the manual says about one command.
type page struct {
	name, about string
	usage       []string
	text        []paragraph
	flags       []flagEntry
}

// paragraph is running text, or lines that stand as they are.
type paragraph struct {
	lines  []string
	asIs   bool
	header bool // a line such as "Example:"
}

type flagEntry struct{ names, about string }

// pages are those of all commands that a person calls, in the order of the help.
func pages(app *cli.App) []page {
	var all []page
	for _, c := range app.Commands {
		if !c.Hidden {
			all = append(all, pageOf(c))
		}
	}
	return all
}

func pageOf(c *cli.Command) page {
	p := page{name: c.Name, about: c.Usage}
	usage, more, _ := strings.Cut(c.UsageText, "\n\n")
	for line := range strings.SplitSeq(usage, "\n") {
		p.usage = append(p.usage, strings.TrimSpace(line))
	}
	p.text = append(paragraphs(c.Description), paragraphs(more)...)
	for _, f := range c.Flags {
		if !hiddenFlag(f) {
			p.flags = append(p.flags, flagEntryOf(f))
		}
	}
	return p
}

// paragraphs divides a text of the help. Where a line begins with blanks, or several stand one below the other with gaps
// in them as in a table, the lines stay as they are.
func paragraphs(text string) []paragraph {
	var all []paragraph
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		if block == "" {
			continue
		}
		if rest, found := strings.CutPrefix(lines[0], "Example: "); found {
			all = append(all, paragraph{lines: []string{"Example:"}, header: true}, paragraph{lines: append([]string{rest}, lines[1:]...), asIs: true})
			continue
		}
		p := paragraph{lines: lines, header: block == "Example:" || block == "Examples:"}
		p.asIs = slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "  ") || strings.Contains(strings.TrimSpace(l), "   ")
		})
		all = append(all, p)
	}
	return all
}

func flagEntryOf(f cli.Flag) flagEntry {
	var names []string
	placeholder, about := "", ""
	if d, ok := f.(cli.DocGenerationFlag); ok {
		about = flagUsage(f)
		if _, rest, marked := strings.Cut(d.GetUsage(), "`"); marked {
			placeholder, _, _ = strings.Cut(rest, "`")
		} else if d.TakesValue() {
			placeholder = "VALUE"
		}
		if text := d.GetDefaultText(); d.TakesValue() && text != "" {
			about += " (default: " + strings.Trim(text, `"`) + ")"
		}
	}
	for _, name := range f.Names() {
		names = append(names, strings.TrimSpace(dashed(name)+" "+placeholder))
	}
	return flagEntry{strings.Join(names, ", "), about}
}

// dashed is a flag's name as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
