// Package support writes a file that explains a problem: the output of symphony's own
// commands, without secrets.
package support

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/doctor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Options are the flags of support.
type Options struct {
	File  string // empty for a name with the time in the working directory
	Issue string // empty for none
	// StateDir is the value of --state-dir, which a schedule may not have.
	StateDir string
}

// bundle is a bundle that is being made.
type bundle struct {
	w        *term.Env
	p        *wiring.Project
	options  Options
	secrets  *agent.Redactor
	manifest archive.Manifest
}

// Write writes the bundle, after it showed the contents to the operator and, on a terminal,
// the operator agreed.
func Write(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	b := &bundle{
		w:       w,
		p:       p,
		options: o,
		secrets: agent.NewRedactor(secretsOf(p)),
		manifest: archive.Manifest{
			Kind:    "support",
			Version: wiring.Version(),
			MadeAt:  w.Now().UTC(),
		},
	}
	name := b.manifest.MadeAt.Format("symphony-support-20060102-150405.tar.gz")
	path := w.Absolute(cmp.Or(o.File, name))
	if err := archive.Refuse(path, b.manifest.Kind); err != nil {
		return err
	}
	var issue detail.Issue
	var issueErr error
	if o.Issue != "" {
		issue, issueErr = readIssue(ctx, p, o.Issue)
		if isNotFound(issueErr) { // other errors belong into the bundle
			return issueErr
		}
	}
	b.addProject(ctx)
	if o.Issue != "" {
		b.addIssue(ctx, issue, issueErr)
	}
	if w.OnTerminal() {
		if err := term.Confirm(ctx, w, "Write "+text.Visible(path)+"? [y]es, [N]o: "); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := archive.Write(path, b.manifest); err != nil {
		return err
	}
	fmt.Fprintln(w.Stdout, "written to "+text.Visible(path))
	return nil
}

// readIssue reads an issue, and asks the tracker only for an issue of which no pass knows.
func readIssue(ctx context.Context, p *wiring.Project, name string) (detail.Issue, error) {
	issue, err := detail.Read(ctx, p, name, detail.Options{Offline: true})
	if isNotFound(err) {
		return detail.Read(ctx, p, name, detail.Options{})
	}
	return issue, err
}

func isNotFound(err error) bool { return err != nil && exit.From(err).Code == "issue_not_found" }

// add adds the output of a command as a file, and shows what it is about.
func (b *bundle) add(name, about string, write func(w *term.Env) error) {
	data := printed(b.w, b.secrets, write)
	b.manifest.Files = append(b.manifest.Files, archive.File{Name: name, Data: data})
	size := text.BytesText(int64(len(data)))
	fmt.Fprintf(b.w.Stdout, "%-14s %9s  %s\n", name, size, text.Visible(about))
}

// addProject adds the files about the project.
func (b *bundle) addProject(ctx context.Context) {
	b.add("version.txt", "versions and paths", func(w *term.Env) error {
		_, err := fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\nworkflow %s\nstate %s\n",
			wiring.ReadBuild(), runtime.Version(), runtime.GOOS, runtime.GOARCH, b.p.Path, b.p.StateDir)
		return err
	})
	b.add("doctor.txt", "symphony doctor --all", func(w *term.Env) error {
		return doctor.Examine(ctx, w, b.p, doctor.Options{
			StateDir: b.options.StateDir,
			Named:    b.p.SourceErr == nil,
			Verbose:  true,
		})
	})
	b.add("status.txt", "symphony ps --all", func(w *term.Env) error {
		v, err := view.Read(ctx, b.p, view.Options{All: true, Ended: wiring.PastRuns})
		if err != nil {
			return err
		}
		return render.Overviews(ctx, w, []view.Overview{v}, render.OverviewOptions{})
	})
	b.add("passes.json", "the last passes and their errors", func(w *term.Env) error {
		return printPasses(ctx, w, b.p)
	})
}

// addIssue adds the files about the issue of the options. readErr is why it was not read.
func (b *bundle) addIssue(ctx context.Context, issue detail.Issue, readErr error) {
	name := b.options.Issue
	b.add("issue.txt", "symphony show "+name, func(w *term.Env) error {
		if readErr != nil {
			return readErr
		}
		render.Issue(w, issue)
		return nil
	})
	b.add("events.jsonl", "symphony logs --all --raw "+name, func(w *term.Env) error {
		return logs.Print(ctx, w, b.p, name, logs.Options{All: true, Raw: true})
	})
}

// printed returns the output of a command, without secrets. An error becomes part of it: a
// broken project needs support most.
func printed(w *term.Env, secrets *agent.Redactor, write func(w *term.Env) error) []byte {
	var out bytes.Buffer
	own := *w.ForCommand()
	own.Stdout = &out
	own.Stderr = &out
	own.Width = 0
	own.Palette = term.Palette{}
	err := write(&own)
	if _, printed := errors.AsType[exit.Only](err); err != nil && !printed {
		known := exit.From(err)
		fmt.Fprintf(&out, "symphony: %s: %s\n  %s\n", known.Code, known.Message, known.Hint)
	}
	return secrets.Bytes(out.Bytes())
}

// printPasses prints the newest passes as JSON.
func printPasses(ctx context.Context, w *term.Env, p *wiring.Project) error {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := wiring.LastPasses(ctx, db, 50)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.Stdout, text.VisibleJSON(string(text.JSON(rows))))
	return nil
}

// secretsOf returns the values that must not be in the bundle: keys, variables named like
// secrets, and all of the environment files.
func secretsOf(p *wiring.Project) []string {
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
	return append(values, wiring.Secrets(p, cfg)...)
}
