package project

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// CheckReport is the result of a check of a workflow.
type CheckReport struct {
	Workflow string             `json:"workflow"`
	OK       bool               `json:"ok"`
	Errors   []*reconcile.Error `json:"errors"`
	Warnings []string           `json:"warnings"`
}

// CheckResult parses the workflow as a pass would, without the tracker's key, and checks every branch of the template. The
// configuration is nil where the workflow can't be parsed.
func CheckResult(p *Project) (CheckReport, *workflow.Config) {
	out := CheckReport{Workflow: p.Path, Errors: []*reconcile.Error{}, Warnings: []string{}}
	err := p.SourceErr
	var cfg *workflow.Config
	if err == nil {
		env := p.Environment(nil)
		env.KeyOptional = true
		cfg, err = workflow.Parse(p.Source, env)
	}
	for _, e := range slices.Concat(workflow.Faults(err), workflow.Faults(p.EnvErr)) {
		out.Errors = append(out.Errors, exit.Fault(e.Code, e.Message, cmp.Or(e.Hint, "correct it there")))
	}
	if cfg != nil {
		for _, warning := range cfg.Warnings {
			out.Warnings = append(out.Warnings, warning.String())
		}
		if cfg.Prompt != nil {
			for _, problem := range cfg.Prompt.Check() {
				out.Errors = append(out.Errors, exit.Fault(workflow.CodeTemplateRender, problem.String(), "a run that renders it would fail"))
			}
		}
	}
	out.OK = len(out.Errors) == 0
	if err != nil {
		cfg = nil
	}
	return out, cfg
}

// Print prints the result of a check.
func (out CheckReport) Print(p *Project) {
	w := p.Env
	for _, e := range out.Errors {
		w.PrintError(e)
	}
	for _, text := range out.Warnings {
		w.Note(slog.LevelWarn, text)
	}
	switch {
	case w.JSON:
		w.PrintJSON(out)
	case out.OK:
		fmt.Fprintf(w.Stdout, "%s is valid; its environment file is %s\n", out.Workflow, p.EnvPath())
	}
}

// CheckFile checks the workflow and prints the result.
func CheckFile(p *Project) error {
	out, _ := CheckResult(p)
	out.Print(p)
	if !out.OK {
		return exit.Only(exit.Workflow)
	}
	return nil
}
