package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

type (
	// ListIssuesIn are the arguments of list_issues.
	ListIssuesIn struct {
		Issues []string `json:"issues,omitempty" jsonschema:"only these identifiers"`
		All    bool     `json:"all,omitempty" jsonschema:"also issues that were not started, and runs that have ended"`
	}
	// ShowIssueIn are the arguments of show_issue.
	ShowIssueIn struct {
		Issue   string `json:"issue" jsonschema:"an identifier such as ABC-7"`
		Offline bool   `json:"offline,omitempty" jsonschema:"do not ask the tracker"`
	}
	// IssueIn names an issue.
	IssueIn struct {
		Issue string `json:"issue" jsonschema:"an identifier such as ABC-7"`
	}
	// OperateOut is the result of a command about an issue.
	OperateOut struct {
		Issue   string `json:"issue"`
		Message string `json:"message" jsonschema:"what the command has done"`
		RunID   string `json:"runId,omitempty" jsonschema:"the run that works on the issue now"`
	}
)

// addIssueTools registers the tools about the issues of a project.
func (s *Server) addIssueTools() {
	addTool(s, &mcp.Tool{
		Name: "list_issues", Annotations: reads(),
		Description: "List the issues of the project: what needs a person, what runs, what waits, what is held, and why. As symphony ps --json.",
	}, s.listIssues)
	addTool(s, &mcp.Tool{
		Name: "show_issue", Annotations: reads(),
		Description: "Show one issue: why it runs or does not, what happens next, its runs and its workspace. As symphony show --json.",
	}, s.showIssue)
	addTool(s, &mcp.Tool{
		Name: "run_issue", Annotations: works(),
		Description: "Start an agent on an issue now, in spite of slots, a backoff or a block, and return immediately. " +
			"show_issue shows its progress.",
	}, s.runIssue)
	addTool(s, &mcp.Tool{
		Name: "retry_issue", Annotations: works(),
		Description: "Clear the hold, counters and backoff of an issue, so that it is due now.",
	}, s.retryIssue)
	addTool(s, &mcp.Tool{
		Name: "hold_issue", Annotations: hints(false, false, true),
		Description: "Start no further run of an issue. A current run may end.",
	}, s.holdIssue)
}

func (s *Server) listIssues(ctx context.Context, _ *mcp.CallToolRequest, in ListIssuesIn) (*mcp.CallToolResult, view.Overview, error) {
	p := project.New(s.env, s.Project.Path, s.Project.StateDir) // as it is now
	v, err := view.Read(ctx, p, view.Options{All: in.All, Ended: project.PastRuns, Issues: in.Issues})
	return nil, v, err
}

func (s *Server) showIssue(ctx context.Context, _ *mcp.CallToolRequest, in ShowIssueIn) (*mcp.CallToolResult, detail.Issue, error) {
	p := project.New(s.env, s.Project.Path, s.Project.StateDir)
	v, err := detail.Read(ctx, p, in.Issue, detail.Options{Offline: in.Offline})
	return nil, v, err
}

func (s *Server) retryIssue(ctx context.Context, _ *mcp.CallToolRequest, in IssueIn) (*mcp.CallToolResult, OperateOut, error) {
	return s.operate(in.Issue, func(p *project.Project) (operate.Result, error) {
		return operate.Apply(ctx, p, operate.Command{Verb: reconcile.VerbRetry, Issue: in.Issue})
	})
}

func (s *Server) holdIssue(ctx context.Context, _ *mcp.CallToolRequest, in IssueIn) (*mcp.CallToolResult, OperateOut, error) {
	return s.operate(in.Issue, func(p *project.Project) (operate.Result, error) {
		return operate.Apply(ctx, p, operate.Command{Verb: reconcile.VerbHold, Issue: in.Issue})
	})
}

func (s *Server) runIssue(ctx context.Context, _ *mcp.CallToolRequest, in IssueIn) (*mcp.CallToolResult, OperateOut, error) {
	return s.operate(in.Issue, func(p *project.Project) (operate.Result, error) { return operate.StartIssue(ctx, p, in.Issue, "") })
}

// operate carries out a command about an issue of the project as it is now.
func (s *Server) operate(issue string, do func(*project.Project) (operate.Result, error)) (*mcp.CallToolResult, OperateOut, error) {
	if issue == "" {
		return nil, OperateOut{}, exit.Fault(agents.CodeInvalid, "issue is empty", "give an identifier such as ABC-7")
	}
	p := project.New(s.env.Silent(), s.Project.Path, s.Project.StateDir)
	r, err := do(p)
	out := OperateOut{Issue: issue, RunID: r.RunID, Message: strings.Join(r.Lines(s.env.Now()), "\n")}
	var failed exit.Only // the reason is among the lines
	if errors.As(cmp.Or(err, r.Err()), &failed) {
		err = exit.Fault("command_failed", out.Message, "")
	}
	return nil, out, err
}
