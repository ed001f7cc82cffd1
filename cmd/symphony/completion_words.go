package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

// What else than the candidates fits, in the words of the scripts.
const (
	fitsPlain       = "plain"
	fitsFiles       = "files"
	fitsDirectories = "directories"
)

// candidate is a word that the typed one may become.
type candidate struct{ word, about string }

// completionAnswer is what a shell is told.
type completionAnswer struct {
	fits       string
	candidates []candidate
}

func (a completionAnswer) print(w *term.Env) {
	fmt.Fprintln(w.Stdout, cmp.Or(a.fits, fitsPlain))
	for _, c := range a.candidates {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", c.word, term.Visible(c.about))
	}
}

// typedLine is a command line up to the cursor.
type typedLine struct {
	command *cli.Command // nil before it is named
	flags   map[string]string
	plain   []string
	// flag is the one whose value is at the cursor, nil where none is; prefix is what stands before the value in the
	// same word.
	flag    cli.Flag
	prefix  string
	current string
	// only arguments follow a --.
	only bool
}

// complete says what the last of the words may become. What can be said without the state is said also where that can't
// be read.
func complete(ctx context.Context, w *term.Env, app *cli.App, words []string) (completionAnswer, error) {
	if len(words) == 0 {
		return completionAnswer{}, nil
	}
	l := readTyped(app, words)
	var a completionAnswer
	var err error
	switch {
	case l.flag != nil:
		a, err = l.flagValues(ctx, w)
	case strings.HasPrefix(l.current, "-") && !l.only:
		a.candidates = flagCandidates(l.known())
	case l.command == nil:
		a.candidates = commandCandidates(app.Commands)
	default:
		a, err = l.arguments(ctx, w, app)
	}
	for i := range a.candidates {
		a.candidates[i].word = l.prefix + a.candidates[i].word
	}
	a.candidates = slices.DeleteFunc(a.candidates, func(c candidate) bool { return !strings.HasPrefix(c.word, l.prefix+l.current) })
	return a, err
}

// readTyped understands a line as arrange does, but that nothing in it is a mistake yet.
func readTyped(app *cli.App, words []string) *typedLine {
	l := &typedLine{flags: map[string]string{}, current: words[len(words)-1]}
	var wants cli.Flag
	for _, word := range words[:len(words)-1] {
		switch {
		case wants != nil:
			l.flags[wants.Names()[0]] = word
			wants = nil
		case word == "--" && !l.only:
			l.only = true
		case strings.HasPrefix(word, "-") && !l.only:
			name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
			f := flagOf(l.known(), name)
			if f != nil && joined {
				l.flags[f.Names()[0]] = value
			} else if f != nil && takesValue(l.known(), word) {
				wants = f
			}
		default:
			l.add(app, word)
		}
	}
	l.flag = wants
	if name, value, joined := strings.Cut(l.current, "="); l.flag == nil && !l.only && joined && strings.HasPrefix(name, "-") {
		l.flag = flagOf(l.known(), strings.TrimLeft(name, "-"))
		l.prefix, l.current = name+"=", value
	}
	return l
}

// add takes a word that is neither a flag nor the value of one: the command, a command of it, or an argument.
func (l *typedLine) add(app *cli.App, word string) {
	switch {
	case l.command == nil:
		l.command = app.Command(word)
		if l.command == nil {
			l.command = &cli.Command{Name: word}
		}
	case len(l.plain) == 0 && subcommand(l.command, word) != nil:
		l.command = subcommand(l.command, word)
	default:
		l.plain = append(l.plain, word)
	}
}

func subcommand(c *cli.Command, name string) *cli.Command {
	for _, s := range c.Subcommands {
		if s.HasName(name) {
			return s
		}
	}
	return nil
}

// known is the command whose flags may stand here: before one is named, those that all share.
func (l *typedLine) known() *cli.Command {
	if l.command == nil {
		return &cli.Command{Flags: workflowFlags()}
	}
	return l.command
}

func flagCandidates(c *cli.Command) []candidate {
	list := []candidate{{"--help", "show help"}}
	for _, f := range c.Flags {
		if hiddenFlag(f) {
			continue
		}
		list = append(list, candidate{dashed(f.Names()[0]), flagUsage(f)})
	}
	return list
}

func hiddenFlag(f cli.Flag) bool {
	v, ok := f.(cli.VisibleFlag)
	return ok && !v.IsVisible()
}

// flagUsage is a flag's line of help without the marks of its placeholder.
func flagUsage(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok {
		return strings.ReplaceAll(d.GetUsage(), "`", "")
	}
	return ""
}

func commandCandidates(commands []*cli.Command) []candidate {
	var list []candidate
	for _, c := range commands {
		if !c.Hidden {
			list = append(list, candidate{c.Name, c.Usage})
		}
	}
	return list
}

// flagValues says what values the flag at the cursor takes: those of a fixed list, or what its placeholder names.
func (l *typedLine) flagValues(ctx context.Context, w *term.Env) (completionAnswer, error) {
	if values := fixedValues(l.known().Name, l.flag.Names()[0]); values != nil {
		return completionAnswer{candidates: plainCandidates(values)}, nil
	}
	d, ok := l.flag.(cli.DocGenerationFlag)
	if !ok {
		return completionAnswer{}, nil
	}
	_, rest, _ := strings.Cut(d.GetUsage(), "`")
	placeholder, _, _ := strings.Cut(rest, "`")
	return l.named(ctx, w, placeholder)
}

// fixedValues are those of a flag that takes a few words only.
func fixedValues(command, flag string) []string {
	switch command + " --" + flag {
	case "tick --trigger":
		return []string{project.TriggerCron, project.TriggerTimer, project.TriggerManual, project.TriggerCommand, project.TriggerWorker}
	case "tick --log-format":
		return pass.LogFormats()
	case "tick --log-level":
		return pass.LogLevelNames()
	case "demo --agent":
		return []string{"scripted", "codex"}
	case "init --example":
		return setup.ExampleNames
	case "logs --last":
		return logs.LastNames()
	case "takeover --then":
		return []string{"retry", "hold"}
	}
	return nil
}

func plainCandidates(words []string) []candidate {
	var list []candidate
	for _, word := range words {
		list = append(list, candidate{word: word})
	}
	return list
}

// arguments says what the argument at the cursor may be, by the placeholders in the command's line of usage.
func (l *typedLine) arguments(ctx context.Context, w *term.Env, app *cli.App) (completionAnswer, error) {
	var a completionAnswer
	switch {
	case len(l.plain) > 0:
	case l.command.Name == "help": // which the library adds
		a.candidates = commandCandidates(app.Commands)
	default:
		a.candidates = commandCandidates(l.command.Subcommands)
	}
	for _, name := range placeholders(l.command, l.plain) {
		more, err := l.named(ctx, w, name)
		a.fits = cmp.Or(a.fits, strings.TrimPrefix(more.fits, fitsPlain))
		a.candidates = append(a.candidates, more.candidates...)
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// placeholders gives what may stand behind the arguments that are typed already, in the words of the command's lines of
// usage: ISSUE, or each of show|install.
func placeholders(c *cli.Command, typed []string) []string {
	var names []string
	for line := range strings.SplitSeq(c.UsageText, "\n") {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "symphony" && words[1] == c.Name {
			names = append(names, placeholdersOf(words[2:], typed)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// placeholdersOf does so for one line. What may be left out or repeated leaves its place to what follows, too.
func placeholdersOf(words, typed []string) []string {
	var names []string
	at, open := 0, false // open: an earlier one may be left out or repeated
	for _, word := range words {
		bare, repeats := strings.CutSuffix(strings.Trim(word, `[]"`), "...")
		bare = strings.Trim(bare, `[]"`)
		if bare == "flags" || strings.HasPrefix(bare, "-") {
			continue
		}
		alternatives := strings.Split(bare, "|")
		if at < len(typed) && bare == strings.ToLower(bare) && !slices.Contains(alternatives, typed[at]) {
			return nil // the line is about another verb
		}
		if at == len(typed) || at > len(typed) && open || at < len(typed) && (repeats || open) {
			names = append(names, alternatives...)
		}
		open = at <= len(typed) && (open || repeats || strings.HasPrefix(word, "["))
		at++
	}
	return names
}
