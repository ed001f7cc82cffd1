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
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
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
	// TellIn is a text for the agent of an issue.
	TellIn struct {
		Issue string `json:"issue" jsonschema:"such as ABC-7"`
		Text  string `json:"text" jsonschema:"what is to be changed, or other words for the agent"`
	}
	operateOut struct {
		Issue   string `json:"issue"`
		Message string `json:"message" jsonschema:"what the command has done"`
		RunID   string `json:"runId,omitempty" jsonschema:"the run that works on the issue now"`
	}
)

// issueTools operate the issues of a project.
type issueTools struct {
	env     *environ.Env
	project *wiring.Project
}

func (i issueTools) addTo(t *calls.Tools) {
	calls.Add(t, calls.Tool{
		Name:        "list_issues",
		Effect:      calls.Reads,
		Description: "List the issues of the project: what needs a person, runs, waits or is held, and why.",
	}, i.list)
	calls.Add(t, calls.Tool{
		Name:        "show_issue",
		Effect:      calls.Reads,
		Description: "Show one issue: why it runs or does not, what happens next, its runs and its workspace.",
	}, i.show)
	calls.Add(t, calls.Tool{
		Name:   "run_issue",
		Effect: calls.Works,
		Description: "Start an agent on an issue now, even if it waits for a slot or a retry, " +
			"and return immediately. retry_issue does that for a held one.",
	}, i.start)
	for _, o := range operate.Orders {
		if o.Tool != "" {
			i.addOrder(t, o)
		}
	}
}

// addOrder adds the tool of an order.
func (i issueTools) addOrder(t *calls.Tools, o operate.Order) {
	tool := calls.Tool{
		Name:        o.Name + "_issue",
		Effect:      calls.Works,
		Description: o.Tool,
	}
	if o.Name == "hold" {
		tool.Effect = calls.Sets
	}
	if o.TakesText {
		calls.Add(t, tool, func(ctx context.Context, in TellIn) (operateOut, error) {
			return i.operate(ctx, in.Issue, operate.Tell{Texts: []string{in.Text}, FromModel: true})
		})
		return
	}
	calls.Add(t, tool, func(ctx context.Context, in IssueIn) (operateOut, error) {
		return i.operate(ctx, in.Issue, o.Command(operate.Arguments{}))
	})
}

// list returns the overview, which is empty before the first pass.
func (i issueTools) list(ctx context.Context, in listIssuesIn) (view.Overview, error) {
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

func (i issueTools) show(ctx context.Context, in showIssueIn) (detail.Issue, error) {
	v, err := detail.Read(ctx, i.reopen(i.env), in.Issue, detail.Options{Offline: in.Offline})
	if err == nil && calls.SizeOf(v) > resultBytes {
		limitIssue(&v)
	}
	return v, err
}

// limitIssue cuts the long texts of an issue, which together would not fit into an answer.
func limitIssue(v *detail.Issue) {
	const most = 2 << 10 // bytes
	all := []*string{v.Issue.Description, v.LastMessage}
	if v.Tracked.Description != v.Issue.Description { // it is the same record
		all = append(all, v.Tracked.Description)
	}
	if v.Verification != nil {
		all = append(all, &v.Verification.Output)
	}
	for _, row := range v.Requests {
		for n := range row.Detail.Changes {
			all = append(all, &row.Detail.Changes[n].Diff)
		}
	}
	for _, long := range all {
		if long != nil {
			*long = cutText(*long, most, "your user sees all on the page, or by symphony show")
		}
	}
}

func (i issueTools) start(ctx context.Context, in IssueIn) (operateOut, error) {
	return i.operate(ctx, in.Issue, operate.Start{})
}

// reopen returns the project as it is now.
func (i issueTools) reopen(env *environ.Env) *wiring.Project {
	return wiring.NewProject(env, i.project.Path, i.project.StateDir)
}

// operate carries out a command about an issue.
func (i issueTools) operate(
	ctx context.Context,
	issue string,
	command operate.Command,
) (operateOut, error) {
	if issue == "" {
		return operateOut{}, reconcile.NewError(
			agents.CodeInvalid,
			"issue is empty",
			"give an identifier such as ABC-7",
		)
	}
	r, err := operate.Do(ctx, i.reopen(i.env.Silent()), command.About(issue))
	if err == nil {
		err = r.Err()
	}
	out := operateOut{
		Issue:   issue,
		RunID:   r.RunID,
		Message: strings.Join(r.Lines(i.env.Now()), "\n"),
	}
	if _, failed := errors.AsType[exit.Only](err); failed { // the reason is among the lines
		return out, reconcile.NewError("command_failed", out.Message, "")
	}
	return out, err
}
