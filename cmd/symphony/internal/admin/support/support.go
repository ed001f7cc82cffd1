// Package support writes what explains a problem into one file: what symphony's own commands print, without secrets.
package support

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/doctor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

const passes = 50 // how many of the last ones are written

// Options are the flags of support.
type Options struct {
	File     string // empty for a name with the time in the working directory
	Issue    string // empty for none
	StateDir string // the value of --state-dir
}

// part is a file of the bundle.
type part struct {
	name, about string
	write       func(ctx context.Context, w *term.Env) error
}

// Write writes the bundle, after the operator has seen what it contains and, on a terminal, has agreed.
func Write(ctx context.Context, w *term.Env, p *project.Project, o Options) error {
	now := w.Now().UTC()
	path := w.Absolute(cmp.Or(o.File, now.Format("symphony-support-20060102-150405.tar.gz")))
	secrets := agent.NewRedactor(secretsOf(p))
	m := archive.Manifest{Kind: "support", Version: project.Version(), MadeAt: now}
	for _, part := range parts(p, o) {
		data := part.print(ctx, w, secrets)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.Files = append(m.Files, archive.File{Name: part.name, Data: data})
		fmt.Fprintf(w.Stdout, "%-14s %9s  %s\n", part.name, text.BytesText(int64(len(data))), text.Visible(part.about))
	}
	if w.OnTerminal() {
		if sure, err := term.Confirm(ctx, w, "Write "+text.Visible(path)+"? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	err := archive.Write(path, m)
	if err == nil {
		fmt.Fprintln(w.Stdout, "written to "+text.Visible(path))
	}
	return err
}

// print returns the output of a part without secrets. An error becomes part of it: a broken project needs support most.
func (t part) print(ctx context.Context, w *term.Env, secrets *agent.Redactor) []byte {
	var out bytes.Buffer
	own := *w.ForCommand()
	own.Stdout, own.Stderr, own.Width, own.Palette = &out, &out, 0, term.Palette{}
	if err := t.write(ctx, &own); err != nil {
		known := exit.From(err)
		fmt.Fprintf(&out, "symphony: %s: %s\n  %s\n", known.Code, known.Message, known.Hint)
	}
	data := secrets.Bytes(out.Bytes())
	return hidden().ReplaceAll(data, []byte("${1}${3}"+agent.Redacted+"${2}"))
}

// hidden finds what is secret by its form: the user and password of a URL, the value of a parameter named like a secret, tokens.
var hidden = text.Pattern(`(?i)(\b[a-z][a-z0-9+.-]*://)[^\s/"'\\]+(@)` +
	`|([?&][\w.-]*(?:key|token|secret|password|sig|signature)=)[^\s&"'\\]+` +
	`|\b(?:lin_api_|gh[pousr]_|github_pat_|sk-|xox[abp]-)[\w-]{8,}`)

// secretsOf returns the values that must not be in the bundle: keys, variables named like secrets, and all of the environment files.
func secretsOf(p *project.Project) []string {
	values := agent.EnvSecrets(p.Environ())
	for _, value := range p.EnvFile {
		if agent.SecretValue(value) {
			values = append(values, value)
		}
	}
	cfg, err := p.Config()
	if err != nil {
		cfg, err = p.ConfigWithoutKey()
	}
	if err != nil {
		return values
	}
	for _, name := range cfg.SecretVars {
		value, _ := p.Lookup(name)
		values = append(values, value)
	}
	return append(values, project.Secrets(p, cfg)...)
}

func parts(p *project.Project, o Options) []part {
	list := []part{
		{"version.txt", "versions and paths", func(_ context.Context, w *term.Env) error {
			_, err := fmt.Fprintf(w.Stdout, "symphony %s %s %s/%s\nworkflow %s\nstate %s\n",
				project.ReadBuild(), runtime.Version(), runtime.GOOS, runtime.GOARCH, p.Path, p.StateDir)
			return err
		}},
		{"doctor.txt", "symphony doctor -v", func(ctx context.Context, w *term.Env) error {
			return doctor.Examine(ctx, w, p, doctor.Options{StateDir: o.StateDir, Named: p.SourceErr == nil, Verbose: true})
		}},
		{"status.txt", "symphony ps --all", func(ctx context.Context, w *term.Env) error {
			v, err := view.Read(ctx, p, view.Options{All: true, Ended: project.PastRuns})
			if err != nil {
				return err
			}
			return render.Overviews(ctx, w, []view.Overview{v}, render.OverviewOptions{})
		}},
		{"passes.json", fmt.Sprintf("the last %d passes and their errors", passes), func(ctx context.Context, w *term.Env) error {
			db, err := project.OpenForReading(ctx, p)
			if err != nil {
				return err
			}
			defer db.Close()
			rows, err := project.LastPasses(ctx, db, passes)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w.Stdout, "%s\n", text.VisibleJSON(string(text.JSON(rows))))
			return err
		}},
	}
	if o.Issue == "" {
		return list
	}
	return append(list,
		part{"issue.txt", "symphony show " + o.Issue, func(ctx context.Context, w *term.Env) error {
			v, err := detail.Read(ctx, p, o.Issue, detail.Options{Offline: true})
			if err == nil {
				render.Issue(w, v)
			}
			return err
		}},
		part{"events.jsonl", "symphony logs --all --raw " + o.Issue, func(ctx context.Context, w *term.Env) error {
			return logs.Print(ctx, w, p, o.Issue, logs.Options{All: true, Raw: true})
		}},
	)
}
