package mcpserver

import (
	"context"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
	listIssuesIn struct {
		Issues []string `json:"issues,omitempty" jsonschema:"only these"`
		All    bool     `json:"all,omitempty" jsonschema:"also what was not started or has ended"`
	}
	showIssueIn struct {
		Issue   string `json:"issue" jsonschema:"such as ABC-7"`
		Offline bool   `json:"offline,omitempty" jsonschema:"do not ask the tracker"`
	}
	// IssueIn names an issue.
	IssueIn struct {
		Issue string `json:"issue" jsonschema:"such as ABC-7"`
	}
	operateOut struct {
		Issue   string `json:"issue"`
		Message string `json:"message" jsonschema:"what the command has done"`
		RunID   string `json:"runId,omitempty" jsonschema:"the run that works on the issue now"`
	}
)

// issues operates the issues of a project.
type issues struct {
	env     *environ.Env
	project *wiring.Project
}

// addIssueTools registers the tools about the issues of a project.
func addIssueTools(t *tools, i issues) {
	addTool(t, "list_issues", reads(), i.list,
		"List the issues of the project: what needs a person, runs, waits or is held, and why. "+
			"Use it for an overview. Do not use it for one issue: show_issue has more.")
	addTool(t, "show_issue", reads(), func(ctx context.Context, in showIssueIn) (detail.Issue, error) {
		return detail.Read(ctx, i.reopen(i.env), in.Issue, detail.Options{Offline: in.Offline})
	}, "Show one issue: why it runs or does not, what happens next, its runs and its workspace. Use it "+
		"before you retry or hold one. Do not use it to look for issues: list_issues does.")
	addTool(t, "run_issue", works(), func(ctx context.Context, in IssueIn) (operateOut, error) {
		return i.operate(
			in.Issue,
			func(p *wiring.Project) (operate.Result, error) { return operate.StartIssue(ctx, p, in.Issue, "") },
		)
	}, "Start an agent on an issue now, even if it waits for a slot or a retry, and return immediately. "+
		"Use it if the issue is urgent; show_issue shows its progress. Do not use it for a held issue: retry_issue does that.")
	command := func(verb reconcile.Verb) func(context.Context, IssueIn) (operateOut, error) {
		return func(ctx context.Context, in IssueIn) (operateOut, error) {
			return i.operate(in.Issue, func(p *wiring.Project) (operate.Result, error) {
				return operate.Apply(ctx, p, operate.Command{Verb: verb, Issue: in.Issue})
			})
		}
	}
	addTool(
		t,
		"retry_issue",
		works(),
		command(reconcile.VerbRetry),
		"Clear the hold, counters and backoff of an issue. Use it after the cause of a hold is gone. Do not use it "+
			"to start an issue that waits for a slot: run_issue does.",
	)
	addTool(
		t,
		"hold_issue",
		hints(false, true),
		command(reconcile.VerbHold),
		"Start no further run of an issue. Use it to postpone an issue. Do not use it to end the current run, which continues.",
	)
}

// list returns the overview, which is empty before the first pass.
func (i issues) list(ctx context.Context, in listIssuesIn) (view.Overview, error) {
	p := i.reopen(i.env)
	v, err := view.Read(ctx, p, view.Options{
		All:    in.All,
		Ended:  wiring.PastRuns,
		Issues: in.Issues,
	})
	if err != nil && exit.From(err).Code == "no_state" {
		return view.ReadUnstarted(ctx, p)
	}
	return v, err
}

// reopen returns the project as it is now.
func (i issues) reopen(env *environ.Env) *wiring.Project {
	return wiring.NewProject(env, i.project.Path, i.project.StateDir)
}

// operate carries out a command about an issue.
func (i issues) operate(issue string, do func(*wiring.Project) (operate.Result, error)) (operateOut, error) {
	if issue == "" {
		return operateOut{}, reconcile.NewError(
			agents.CodeInvalid,
			"issue is empty",
			"give an identifier such as ABC-7",
		)
	}
	r, err := do(i.reopen(i.env.Silent()))
	out := operateOut{
		Issue:   issue,
		RunID:   r.RunID,
		Message: strings.Join(r.Lines(i.env.Now()), "\n"),
	}
	if err == nil {
		err = r.Err()
	}
	if _, failed := errors.AsType[exit.Only](err); failed { // the reason is among the lines
		return out, reconcile.NewError("command_failed", out.Message, "")
	}
	return out, err
}
