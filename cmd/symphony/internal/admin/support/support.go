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
	File     string // empty for a name with the time in the working directory
	Issue    string // empty for none
	StateDir string // the value of --state-dir
}

// Write writes the bundle, after it showed the contents to the operator and, on a terminal,
// the operator agreed.
func Write(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	m := archive.Manifest{Kind: "support", Version: wiring.Version(), MadeAt: w.Now().UTC()}
	path := w.Absolute(cmp.Or(o.File, m.MadeAt.Format("symphony-support-20060102-150405.tar.gz")))
	secrets := agent.NewRedactor(secretsOf(p))
	var issue detail.Issue
	var issueErr error
	if o.Issue != "" {
		missing := func() bool { return issueErr != nil && exit.From(issueErr).Code == "issue_not_found" }
		issue, issueErr = detail.Read(ctx, p, o.Issue, detail.Options{Offline: true})
		if missing() {
			issue, issueErr = detail.Read(ctx, p, o.Issue, detail.Options{})
		}
		if missing() { // other errors belong into the bundle
			return issueErr
		}
	}
	add := func(name, about string, write func(w *term.Env) error) {
		data := printed(w, secrets, write)
		m.Files = append(m.Files, archive.File{Name: name, Data: data})
		fmt.Fprintf(w.Stdout, "%-14s %9s  %s\n", name, text.BytesText(int64(len(data))), text.Visible(about))
	}
	add("version.txt", "versions and paths", func(w *term.Env) error {
		_, err := fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\nworkflow %s\nstate %s\n",
			wiring.ReadBuild(), runtime.Version(), runtime.GOOS, runtime.GOARCH, p.Path, p.StateDir)
		return err
	})
	add("doctor.txt", "symphony doctor -v", func(w *term.Env) error {
		return doctor.Examine(ctx, w, p, doctor.Options{
			StateDir: o.StateDir,
			Named:    p.SourceErr == nil,
			Verbose:  true,
		})
	})
	add("status.txt", "symphony ps --all", func(w *term.Env) error {
		v, err := view.Read(ctx, p, view.Options{All: true, Ended: wiring.PastRuns})
		if err != nil {
			return err
		}
		return render.Overviews(ctx, w, []view.Overview{v}, render.OverviewOptions{})
	})
	add(
		"passes.json",
		"the last passes and their errors",
		func(w *term.Env) error { return printPasses(ctx, w, p) },
	)
	if o.Issue != "" {
		add("issue.txt", "symphony show "+o.Issue, func(w *term.Env) error {
			if issueErr == nil {
				render.Issue(w, issue)
			}
			return issueErr
		})
		add("events.jsonl", "symphony logs --all --raw "+o.Issue, func(w *term.Env) error {
			return logs.Print(ctx, w, p, o.Issue, logs.Options{All: true, Raw: true})
		})
	}
	if w.OnTerminal() {
		sure, err := term.Confirm(ctx, w, "Write "+text.Visible(path)+"? [y]es, [N]o: ")
		if err != nil || !sure {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := archive.Write(path, m); err != nil {
		return err
	}
	fmt.Fprintln(w.Stdout, "written to "+text.Visible(path))
	return nil
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
