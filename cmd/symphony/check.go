package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

func checkCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check WORKFLOW.md; needs no key, network or state, so it fits CI and pre-commit",
		UsageText:   usageText("check", "[WORKFLOW]"),
		Description: exampleText("symphony check WORKFLOW.md"),
		Flags:       workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			_, positional, err := arguments(c)
			if err != nil {
				return err
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return checkFile(p)
		},
	}
}

type checkJSON struct {
	Workflow string           `json:"workflow"`
	OK       bool             `json:"ok"`
	Errors   []term.ErrorJSON `json:"errors"`
	Warnings []string         `json:"warnings"`
}

// check says what is wrong with the workflow.
func checkFile(p *project.Project) error {
	out, _ := checkResult(p)
	printCheck(p, out)
	if !out.OK {
		return exit.Only(exit.Workflow)
	}
	return nil
}

// checked parses the workflow as a pass would, but without the key, and looks into the branches of the
// template that no issue may take for months. The configuration is nil where it can't be read.
func checkResult(p *project.Project) (checkJSON, *workflow.Config) {
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

func printCheck(p *project.Project, out checkJSON) {
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
