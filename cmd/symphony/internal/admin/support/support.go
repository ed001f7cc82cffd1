// Package support writes what explains a problem into one file: what symphony's own commands print, without secrets.
package support

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Options are the flags of support, and how it runs commands.
type Options struct {
	File  string // empty for a name with the time in the working directory
	Issue string // empty for none
	// Run runs a command about the same project, given its name and arguments.
	Run func(w *term.Env, command ...string) error
}

// Write writes the bundle, after the operator has seen what it contains and, on a terminal, has agreed.
func Write(ctx context.Context, w *term.Env, p *project.Project, o Options) error {
	m := archive.Manifest{Kind: "support", Version: project.Version(), MadeAt: w.Now().UTC()}
	path := w.Absolute(cmp.Or(o.File, m.MadeAt.Format("symphony-support-20060102-150405.tar.gz")))
	secrets := agent.NewRedactor(secretsOf(p))
	add := func(name, about string, data []byte) {
		data = secrets.Bytes(data)
		m.Files = append(m.Files, archive.File{Name: name, Data: data})
		fmt.Fprintf(w.Stdout, "%-14s %9s  %s\n", name, text.BytesText(int64(len(data))), text.Visible(about))
	}
	files := [][]string{{"doctor.txt", "doctor", "-v"}, {"status.txt", "ps", "--all"}}
	if o.Issue != "" {
		files = slices.Insert(files, 0, []string{"issue.txt", "show", o.Issue}, []string{"events.jsonl", "logs", "--all", "--raw", o.Issue})
	}
	for i, file := range files {
		data, err := printed(w, func(w *term.Env) error { return o.Run(w, file[1:]...) })
		if i == 0 && err != nil && exit.From(err).Code == "issue_not_found" { // other errors belong into the bundle
			return err
		}
		add(file[0], "symphony "+strings.Join(file[1:], " "), data)
	}
	passes, _ := printed(w, func(w *term.Env) error { return printPasses(ctx, w, p) })
	add("passes.json", "the last passes and their errors", passes)
	add("version.txt", "versions and paths", fmt.Appendf(nil, "symphony %s %s %s/%s\nworkflow %s\nstate %s\n",
		project.ReadBuild(), runtime.Version(), runtime.GOOS, runtime.GOARCH, p.Path, p.StateDir))
	if w.OnTerminal() {
		if sure, err := term.Confirm(ctx, w, "Write "+text.Visible(path)+"? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	err := cmp.Or(context.Cause(ctx), archive.Write(path, m))
	if err == nil {
		fmt.Fprintln(w.Stdout, "written to "+text.Visible(path))
	}
	return err
}

// printed returns what a command prints. Its error becomes part of it: a broken project needs support most.
func printed(w *term.Env, write func(w *term.Env) error) ([]byte, error) {
	var out bytes.Buffer
	own := *w.ForCommand()
	own.Stdout, own.Stderr, own.Width, own.Palette = &out, &out, 0, term.Palette{}
	err := write(&own)
	own.Exit(err)
	return out.Bytes(), err
}

// printPasses prints the newest passes as JSON.
func printPasses(ctx context.Context, w *term.Env, p *project.Project) error {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := project.LastPasses(ctx, db, 50)
	fmt.Fprintln(w.Stdout, text.VisibleJSON(string(text.JSON(rows))))
	return err
}

// secretsOf returns the values that must not be in the bundle: keys, variables named like secrets, and all of the environment files.
func secretsOf(p *project.Project) []string {
	values := agent.EnvSecrets(p.Environ())
	for _, value := range p.EnvFile {
		if agent.SecretValue(value) {
			values = append(values, value)
		}
	}
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return values
	}
	for _, name := range cfg.SecretVars {
		value, _ := p.Lookup(name)
		values = append(values, value)
	}
	return append(values, project.Secrets(p, cfg)...)
}
