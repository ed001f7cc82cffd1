package project

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

type checkJSON struct {
	Workflow string           `json:"workflow"`
	OK       bool             `json:"ok"`
	Errors   []term.ErrorJSON `json:"errors"`
	Warnings []string         `json:"warnings"`
}

// checked parses the workflow as a pass would, but without the key, and looks into the branches of the
// template that no issue may take for months. The configuration is nil where it can't be read.
func CheckResult(p *Project) (checkJSON, *workflow.Config) {
	out := checkJSON{Workflow: p.Path, Errors: []term.ErrorJSON{}, Warnings: []string{}}
	err := p.SourceErr
	var cfg *workflow.Config
	if err == nil {
		env := p.Environment(nil)
		env.KeyOptional = true
		cfg, err = workflow.Parse(p.Source, env)
	}
	for _, e := range slices.Concat(workflow.Faults(err), workflow.Faults(p.EnvErr)) {
		out.Errors = append(out.Errors, term.ErrorJSON{Code: e.Code, Message: e.Message, Hint: cmp.Or(e.Hint, "correct it there")})
	}
	if cfg != nil {
		for _, warning := range cfg.Warnings {
			out.Warnings = append(out.Warnings, warning.String())
		}
		if cfg.Prompt != nil {
			for _, problem := range cfg.Prompt.Check() {
				out.Errors = append(out.Errors, term.ErrorJSON{Code: workflow.CodeTemplateRender, Message: problem.String(), Hint: "a run that renders it would fail"})
			}
		}
	}
	out.OK = len(out.Errors) == 0
	return out, cfg
}

func PrintCheck(p *Project, out checkJSON) {
	w := p.Env
	for _, e := range out.Errors {
		w.PrintError(&reconcile.Error{Code: e.Code, Message: e.Message, Hint: e.Hint})
	}
	for _, text := range out.Warnings {
		fmt.Fprintln(w.Stderr, "symphony: warning:", term.Visible(text))
	}
	switch {
	case w.JSON:
		w.PrintJSON(out)
	case out.OK:
		fmt.Fprintf(w.Stdout, "%s is valid; its environment file is %s\n", out.Workflow, p.EnvPath())
	}
}

// check says what is wrong with the workflow.
func CheckFile(p *Project) error {
	out, _ := CheckResult(p)
	PrintCheck(p, out)
	if !out.OK {
		return exit.Only(exit.Workflow)
	}
	return nil
}

type LastPassRow struct {
	ID         int64            `json:"id"`
	Trigger    string           `json:"trigger"`
	StartedAt  time.Time        `json:"started_at"`
	DurationMS int64            `json:"duration_ms"`
	Errors     []term.ErrorJSON `json:"errors"`
}

// exists reports whether there is something at a path, as far as that can be told.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const WaitStep = 200 * time.Millisecond

// within reports whether path is dir or lies below it.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
