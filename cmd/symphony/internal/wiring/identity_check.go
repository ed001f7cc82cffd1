package wiring

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// CheckReport is the result of checking a workflow.
type CheckReport struct {
	Workflow string             `json:"workflow"`
	OK       bool               `json:"ok"`
	Errors   []*reconcile.Error `json:"errors"`
	Warnings []string           `json:"warnings"`
}

// Err returns an exit.Only if the check found an error, which the caller printed.
func (out CheckReport) Err() error {
	if !out.OK {
		return exit.Only(exit.Workflow)
	}
	return nil
}

// CheckFile checks the workflow, without asking its tracker.
func CheckFile(ctx context.Context, p *Project) CheckReport {
	out, cfg := CheckResult(p)
	if cfg == nil {
		return out
	}
	out.Errors = append(out.Errors, folderFaults(p, cfg)...)
	if fault := misplacedRepository(p, cfg); fault != nil {
		out.Errors = append(out.Errors, fault)
	}
	out.Errors = append(out.Errors, agentFaults(ctx, p, cfg)...)
	_, err := MaxAgents(p)
	out.Errors = append(out.Errors, workflow.Faults(err)...)
	out.OK = len(out.Errors) == 0
	if out.OK && cfg.Tracker.Folder != "" {
		out.Warnings = append(out.Warnings, folderWarnings(ctx, p, cfg)...)
	}
	if cfg.KeyIsLiteral && cfg.Tracker.Folder == "" {
		warning := workflow.Warning{
			File: p.Path,
			Line: cfg.Lines[cfg.KeyName],
			Key:  cfg.KeyName,
			Message: fmt.Sprintf("everyone who can read the file sees the key: write %s: $%s, and put %[2]s=… into %s",
				cfg.KeyName[strings.LastIndexByte(cfg.KeyName, '.')+1:], cmp.Or(cfg.KeyVar, "TRACKER_KEY"), p.EnvPath()),
		}
		out.Warnings = append(out.Warnings, warning.String())
	}
	launcher := Launcher(ctx, p, cfg, p.Environ())
	if launcher.Program != "" && !cfg.Chosen.TrustLauncher {
		kind, _ := AgentOf(cfg.Chosen.Kind) // a run is refused without it
		warning := LauncherWarning(kind, launcher) + ": " + runner.LauncherHint(kind)
		if line := cfg.Lines[kind.CommandKey]; line > 0 {
			warning = fmt.Sprintf("%s:%d: %s", p.Path, line, warning)
		}
		out.Warnings = append(out.Warnings, warning)
	}
	return out
}

// CheckResult parses the workflow as a pass would, without the tracker's key, and checks every
// branch of the template. The configuration is nil if the workflow can't be parsed.
func CheckResult(p *Project) (CheckReport, *workflow.Config) {
	out := CheckReport{Workflow: p.Path, Warnings: []string{}, Errors: []*reconcile.Error{}}
	cfg, err := p.parseForCheck()
	for _, e := range slices.Concat(workflow.Faults(err), workflow.Faults(p.EnvErr)) {
		hint := cmp.Or(e.Hint, "correct that line")
		out.Errors = append(out.Errors, reconcile.NewError(e.Code, e.Message, hint))
	}
	if cfg != nil {
		out.Warnings = text.Map(cfg.Warnings, workflow.Warning.String)
		out.Errors = append(out.Errors, promptFaults(cfg)...)
		if cfg.Prompt != nil {
			same := cfg.Prompt.Same()
			out.Warnings = append(out.Warnings, text.Map(same, workflow.Warning.String)...)
			if len(same) == 0 && cfg.Handoff.State != "" && !cfg.Prompt.NamesHandOver {
				out.Warnings = append(out.Warnings, keyAt(p, cfg, "handoff.state")+": "+untold)
			}
		}
	}
	if err != nil {
		return out, nil
	}
	out.Errors = append(out.Errors, scriptFaults(p, cfg)...)
	out.OK = len(out.Errors) == 0
	return out, cfg
}

// parseForCheck parses the workflow without the tracker's key. The configuration comes with an
// error, too, as far as it could be parsed.
func (p *Project) parseForCheck() (*workflow.Config, error) {
	if p.SourceErr != nil {
		return nil, p.SourceErr
	}
	return p.parseWithoutKey(p.Source)
}

// untold is the warning about a prompt without the tool that hands issues over.
const untold = "the prompt does not name the tool hand_over, without which no issue gets there: write that the agent " +
	"calls hand_over {\"summary\": \"what you did\"} when the work is done and committed"

// keyAt is where the workflow has a key, as messages begin. A key that it leaves out has no line.
func keyAt(p *Project, cfg *workflow.Config, key string) string {
	if cfg.Lines[key] == 0 {
		return p.Path + ": " + key
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, cfg.Lines[key], key)
}

// keyFault is the error of an agent.key that reaches no model, because symphony does not know how
// its provider gets one; nil if there is none.
func keyFault(p *Project, cfg *workflow.Config) *reconcile.Error {
	const key = "agent.key"
	if cfg.Lines[key] == 0 {
		return nil
	}
	for _, choice := range cfg.AllAgents() {
		kind, err := AgentOf(choice.Kind)
		if err != nil || kind.Service == nil {
			continue
		}
		fault := runner.KeyFault(kind.Service(choice.Model), choice.Model)
		if fault != nil {
			fault.Message = fmt.Sprintf("%s:%d: %s", p.Path, cfg.Lines[key], fault.Message)
			return fault
		}
	}
	return nil
}

// promptFaults returns an error for each branch of the prompt with which a run that renders it
// would fail.
func promptFaults(cfg *workflow.Config) (list []*reconcile.Error) {
	if cfg.Prompt == nil {
		return nil
	}
	const hint = "correct that line of the prompt: a run that renders it fails"
	for _, problem := range cfg.Prompt.Check() {
		list = append(list, reconcile.NewError(workflow.CodeTemplateRender, problem.String(), hint))
	}
	return list
}

// script is a key with a script, and the shell that runs it.
type script struct{ key, shell, text string }

// scriptsOf returns the scripts of a workflow.
func scriptsOf(cfg *workflow.Config) []script {
	all := []script{
		{"hooks.after_create", "sh", cfg.Hooks.AfterCreate},
		{"hooks.before_run", "sh", cfg.Hooks.BeforeRun},
		{"hooks.after_run", "sh", cfg.Hooks.AfterRun},
		{"hooks.before_remove", "sh", cfg.Hooks.BeforeRemove},
		{"hooks.on_attention", "sh", cfg.Hooks.OnAttention},
		{"verify.command", "bash", cfg.Verify.Command},
	}
	return text.Filter(all, func(s script) bool { return strings.TrimSpace(s.text) != "" })
}

// scriptFaults returns an error for each script that its shell can't read. Nothing is run.
func scriptFaults(p *Project, cfg *workflow.Config) (list []*reconcile.Error) {
	for _, h := range scriptsOf(cfg) {
		message, lineOf := workspace.CheckScript(p.Env.Context(), h.shell, h.text)
		if message == "" {
			continue
		}
		line := cfg.Lines[h.key]
		more := strings.Count(strings.TrimSpace(h.text), "\n")
		if more > 0 { // the script begins on the line after its key
			line += min(lineOf, more+1)
		}
		list = append(
			list,
			reconcile.NewError(
				workflow.CodeInvalid,
				fmt.Sprintf("%s:%d: %s: %s", p.Path, line, h.key, message),
				fmt.Sprintf("correct the script, which is run by %s; %[1]s -n checks it", h.shell),
			),
		)
	}
	return list
}

// folderFaults returns an error if the folder of the issues does not exist, or is a file.
func folderFaults(p *Project, cfg *workflow.Config) []*reconcile.Error {
	folder := cfg.Tracker.Folder
	if folder == "" {
		return nil
	}
	info, err := os.Stat(folder)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		message := fmt.Sprintf("%s: tracker.provider.path: %s is not a folder", p.Path, folder)
		hint := "write the path of the folder with the files of the issues"
		return []*reconcile.Error{reconcile.NewError("tracker_project_not_found", message, hint)}
	}
	what, remedy := paths.Missing(folder)
	message := fmt.Sprintf("%s: tracker.provider.path: %s %s", p.Path, folder, what)
	hint := cmp.Or(remedy, "create the folder, or correct the path")
	return []*reconcile.Error{reconcile.NewError("tracker_project_not_found", message, hint)}
}

// folderWarnings names the files in the folder of the issues that are no issues.
func folderWarnings(ctx context.Context, p *Project, cfg *workflow.Config) (list []string) {
	warn := func(words string) {
		if !slices.Contains(list, words) {
			list = append(list, words)
		}
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{Warn: warn})
	if err != nil {
		return []string{err.Error()}
	}
	found, err := tracker.Verify(ctx, TrackerNames(cfg))
	if err != nil {
		return append(list, err.Error())
	}
	for _, e := range WrongNames(cfg, tracker.Name, found) {
		warn(e.Message + ": " + e.Hint)
	}
	if _, err := tracker.Candidates(ctx, cfg.Policy.ActiveStates); err != nil {
		return append(list, err.Error())
	}
	return list
}
