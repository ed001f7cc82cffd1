package detail

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// Review is how a person goes on with the result of an agent: looks at it, takes it, or sends
// it back.
type Review struct {
	// Result is where the result is: the address of the pull request, the branch or the
	// workspace.
	Result string   `json:"result"`
	Look   []string `json:"look"` // commands that show it
	Take   []string `json:"take"` // steps that take it over
	// SendBack is the command that sends it back to an agent; empty if the issue
	// is closed, or its file was deleted.
	SendBack string `json:"send_back"`
}

// review returns how to go on with the result of the issue; nil if its agent has not handed it
// over.
func (r *issueReader) review(ctx context.Context, v Issue) *Review {
	if r.Config == nil || !r.handsOver(v) {
		return nil
	}
	out := &Review{
		Look:     []string{},
		SendBack: "symphony tell " + r.identifier + ` "what is to be changed"`,
	}
	workspace := text.First(r.runs, func(run reconcile.Run) bool { return run.WorkspacePath != "" })
	pull := v.PullRequestAddress()
	d := v.Delivered
	switch {
	case pull != "":
		out.Result = pull
		out.Look = []string{"symphony show " + r.identifier + " --web --pr"}
		out.Take = []string{"merge the " + v.pullWords().Name}
	case d != nil && paths.Inside(d.URL, filepath.Dir(r.Project.Path)):
		// The repository around WORKFLOW.md has the branch already.
		r.addFate(ctx, out, *d)
	case d != nil:
		repository := workflow.WithoutPassword(d.URL)
		out.Result = "branch " + d.Branch + " of " + repository
		out.Look = []string{
			fmt.Sprintf("git fetch %s %s", text.ShellQuote(repository), text.ShellQuote(d.Branch)),
			"git log -p ..FETCH_HEAD",
		}
		out.Take = []string{"git merge FETCH_HEAD", "push it"}
	case workspace.ID != "":
		out.Result = "workspace " + workspace.WorkspaceWhere()
		out.Take = []string{"copy or push it from there"}
	default:
		return nil
	}
	if workspace.ID != "" && (v.Workspace == nil || v.Workspace.Exists && v.Workspace.Git != nil) {
		out.Look = slices.Insert(out.Look, 0, "symphony diff "+r.identifier)
	}
	if r.lacksFile(v) {
		out.SendBack = ""
		return out
	}
	if r.Config.Policy.Terminal(text.OrEmpty(v.Issue.State)) {
		out.SendBack = ""
	}
	out.Take = append(out.Take, r.closing(v, pull != "")...)
	return out
}

// addFate says where the branch is that was delivered to the repository around WORKFLOW.md. A
// person may have merged it already, or deleted it.
func (r *issueReader) addFate(ctx context.Context, out *Review, d reconcile.Delivered) {
	fate := wiring.FateOf(ctx, r.Project, d.URL, d.Branch, d.Commit, r.Config.Repository.Base)
	out.Result = "branch " + d.Branch + " of " + d.URL
	out.Look = []string{"git log -p .." + text.ShellQuote(d.Branch)}
	out.Take = []string{"git merge " + text.ShellQuote(d.Branch)}
	if fate.Gone {
		out.Result += ", which was deleted"
		out.Look = []string{"git show " + text.ShellQuote(d.Commit)}
		out.Take = []string{"git merge " + text.ShellQuote(d.Commit) + ", if it was not merged"}
	}
	if fate.In != "" {
		out.Result += "; its commits are in " + fate.In
		out.Look = []string{"git show " + text.ShellQuote(d.Commit)}
		out.Take = []string{}
	}
}

// handsOver reports whether the agent has handed the issue over, also if no pass has released
// it since.
func (r *issueReader) handsOver(v Issue) bool {
	if v.Status == reconcile.StatusHandedOver {
		return true
	}
	last := r.lastOfAgent()
	if last.Outcome != reconcile.Succeeded || last.MovedTo == "" || last.Delivery.Handover.AsksHelp() {
		return false
	}
	// A pass settles the run, and releases the issue when the tracker has answered.
	settling := r.claim != nil && r.claim.Kind == reconcile.Continuation
	return (!last.Settled || settling) && !r.Config.Policy.Active(last.MovedTo)
}

// closing is the last step of taking a result, which closes its issue; none if it is closed.
func (r *issueReader) closing(v Issue, hasPull bool) []string {
	terminal := r.Config.Policy.TerminalStates
	state := text.OrEmpty(v.Issue.State)
	if len(terminal) == 0 || r.Config.Policy.Terminal(state) {
		return nil
	}
	if hasPull && v.WaitsFor != nil && r.Config.Feedback.MergedState != "" {
		return []string{"a pass then moves the issue to " + r.Config.Feedback.MergedState}
	}
	return []string{"symphony done " + r.identifier}
}

// Steps are the steps of taking the result, in a sentence.
func (r Review) Steps() string { return strings.Join(r.Take, ", then ") }
