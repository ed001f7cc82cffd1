package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

const handOverName = "hand_over"

// handOverTool returns the agent's tool by which it asks that its issue is handed over.
func handOverTool() agent.Tool {
	return agent.Tool{
		Name: handOverName,
		Description: "Hand over the issue that you work on, when its work is done and committed: " +
			"symphony then delivers the commits, comments on the issue and moves it. " +
			`Example: {"summary": "Fixed the total; the tests pass."} ` +
			"If you can't go on without a person: " +
			`{"blocked": "I need access to the staging database."} ` +
			`If nothing has to change, or the issue is a question: {"summary": "It is right, because ...", ` +
			`"no_change": true}. Then end your turn.`,
		InputSchema: agenttool.Object(nil, map[string]any{
			"summary": map[string]string{
				"type":        "string",
				"description": "What you have done, in Markdown, for the people who review it.",
			},
			"blocked": map[string]string{
				"type":        "string",
				"description": "What you need from a person, if the work is not done.",
			},
			"no_change": map[string]string{
				"type":        "boolean",
				"description": "Nothing is to be delivered: summary is the answer.",
			},
			"leave": map[string]any{
				"type":        "array",
				"items":       map[string]string{"type": "string"},
				"description": "Branches, stashes and files that a refusal has named and that are meant as they are.",
			},
		}),
	}
}

const (
	longestHandover = 16 << 10 // bytes of a summary
	longestNote     = 200      // bytes of the text in the event log
)

// handovers decides whether the work of the agent may be handed over.
type handovers struct {
	*parts
	branch   *issueBranch
	refusals refusals
}

// accept reads the agent's request for a handover, and returns an error for the agent if its
// work can't be handed over.
func (h *handovers) accept(ctx context.Context, args json.RawMessage) (reconcile.Handover, error) {
	wish, err := h.read(args)
	if err != nil || wish.Blocked != "" {
		return wish, err
	}
	err = h.checkWork(ctx, &wish)
	return wish, err
}

// read reads the arguments of the tool.
func (h *handovers) read(args json.RawMessage) (reconcile.Handover, error) {
	invalid := func(why string) (reconcile.Handover, error) {
		return reconcile.Handover{}, agenttool.Refusal("invalid_input", why)
	}
	var in struct {
		Summary, Blocked string
		NoChange         bool `json:"no_change"`
		Leave            []string
	}
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return invalid("arguments must be an object with summary or blocked: " + err.Error())
	}
	wish := reconcile.Handover{
		RunID:    h.run.ID,
		At:       h.Now(),
		Summary:  text.VisibleLines(h.Redactor.Text(strings.TrimSpace(in.Summary))),
		Blocked:  text.VisibleLines(h.Redactor.Text(strings.TrimSpace(in.Blocked))),
		NoChange: in.NoChange,
		Leave:    in.Leave,
		Delivers: h.site.Config.Repository.Deliver && !in.NoChange,
		Verifies: h.site.Config.Verify.Command != "" && !in.NoChange,
	}
	wish.State = h.site.Config.Handoff.stateFor(wish)
	if (wish.Summary == "") == (wish.Blocked == "") {
		return invalid("give either summary or blocked, as a text that is not empty")
	}
	if wish.NoChange && wish.Blocked != "" {
		return invalid("give no_change together with summary, not with blocked")
	}
	words := wish.Summary + wish.Blocked + strings.Join(wish.Leave, "")
	if len(words) > longestHandover {
		return invalid(fmt.Sprintf("the text is longer than %d bytes", longestHandover))
	}
	if strings.Contains(words, reconcile.CommentMarker) {
		return invalid("the text contains " + reconcile.CommentMarker +
			", which only symphony writes: leave it out")
	}
	return wish, nil
}

// checkWork returns an error for the agent if something in the workspace is not committed, if
// nothing is, or if HEAD lacks some of it.
func (h *handovers) checkWork(ctx context.Context, wish *reconcile.Handover) error {
	found, err := h.site.Machine.Inspect(ctx, host.WorkspaceRequest{Path: h.site.space.Path, Hashed: true})
	if err != nil {
		return err
	}
	if found.Git == nil && h.site.Config.Repository.Deliver {
		return agenttool.Refusal(
			"no_repository",
			"the workspace has no git repository any more, and nothing in it can be delivered: restore its .git",
		)
	}
	if found.Git == nil {
		return nil
	}
	if refusal := uncommitted(found.Git); refusal != nil {
		return refusal
	}
	if refusal := leftOut(found.Git, wish.Leave); refusal != nil {
		return refusal
	}
	ahead := found.Git.Ahead
	switch {
	case !h.site.Config.Repository.Deliver || ahead == nil:
	case wish.NoChange:
		return h.checkUnchanged(ctx, wish, found.Git)
	case *ahead == 0:
		return agenttool.Refusal(
			"no_commit",
			"the branch has no commit of yours: commit the work, say with no_change that nothing has to "+
				"change, or say with blocked what you need",
		)
	}
	return h.tryDelivery(ctx, wish.Leave)
}

// lookElsewhere is leftOut for an agent that does not hand over.
func (h *handovers) lookElsewhere(ctx context.Context) error {
	found, err := h.site.Machine.Inspect(ctx, host.WorkspaceRequest{Path: h.site.space.Path, Hashed: true})
	if err != nil || found.Git == nil || !h.site.Config.Repository.Deliver {
		warn(h.Log, "the workspace was not examined", err)
		return nil
	}
	return leftOut(found.Git, nil)
}

// checkUnchanged returns an error for an agent that says that it changed nothing, if it made
// commits since the last delivery. Delivered commits are handed over again.
func (h *handovers) checkUnchanged(ctx context.Context, wish *reconcile.Handover, g *host.GitStatus) error {
	if *g.Ahead == 0 {
		return nil
	}
	_, last, err := h.branch.name(ctx)
	if err != nil {
		return err
	}
	if text.OrEmpty(g.Commit) != last.Commit {
		return agenttool.Refusal(
			"has_commits",
			"the branch has "+text.Plural(*g.Ahead, "commit")+": hand over without no_change, "+
				"or remove them with git reset",
		)
	}
	wish.Delivers = true
	wish.Verifies = h.site.Config.Verify.Command != ""
	return nil
}

// leftOut returns an error for the agent if the work has commits that HEAD lacks and no remote
// has, unless it says that they are meant to stay where they are.
func leftOut(g *host.GitStatus, leave []string) error {
	places := text.Filter(g.Elsewhere, func(name string) bool { return !slices.Contains(leave, name) })
	if len(places) == 0 {
		return nil
	}
	return agenttool.Refusal("commits_elsewhere", fmt.Sprintf(
		"HEAD (%s) lacks commits that no remote has: %s; bring them to HEAD (git merge, git stash pop), remove them, "+
			`or hand over with "leave": %s if they are meant to stay there`,
		headName(g),
		strings.Join(places, ", "),
		text.JSON(places),
	))
}

// tryDelivery returns an error for the agent if its commits can't be delivered because of what
// they contain: a clone would lack some of their files, a merge is not finished, or they are
// not on top of the base. Other faults of a delivery are none of the agent's, and the delivery
// reports them.
func (h *handovers) tryDelivery(ctx context.Context, leave []string) error {
	if !h.site.Config.Repository.Deliver {
		return nil
	}
	look, err := h.branch.deliverable(ctx)
	known, _ := errors.AsType[*reconcile.Error](err)
	if known != nil && (reconcile.Delivery{Code: known.Code}).OfContent() {
		return agenttool.Refusal(known.Code, strings.TrimSuffix(known.Message+": "+known.Hint, ": "))
	}
	if err != nil {
		warn(h.Log, "the delivery was not tried", err)
		return nil
	}
	if look.Unrelated {
		return agenttool.Refusal(
			"no_common_history",
			"your commits have no common history with the base: put them on top of it, for example "+
				"git rebase --onto origin/HEAD --root",
		)
	}
	marked := text.Filter(look.Markers, func(name string) bool { return !slices.Contains(leave, name) })
	if len(marked) > 0 {
		return agenttool.Refusal("conflict_markers", fmt.Sprintf(
			"a merge has left its marks (<<<<<<<) in %s: finish it and commit, or hand over with "+
				`"leave": %s if they are meant`,
			strings.Join(marked, ", "),
			text.JSON(marked),
		))
	}
	return nil
}

// checkMove returns an error for an agent that moves its issue out of the active states, if it
// must hand it over instead.
func (h *handovers) checkMove(ctx context.Context, tool reconcile.AgentTool, args json.RawMessage) error {
	if h.site.Config.Handoff.State == "" || tool.MovesTo == nil {
		return nil
	}
	states, err := tool.MovesTo(ctx, h.rec.get().Issue, args)
	if err != nil {
		return err
	}
	leaves := func(state string) bool { return !h.site.Config.Policy.Active(state) }
	if !slices.ContainsFunc(states, leaves) {
		return nil
	}
	return agenttool.Refusal(
		"use_hand_over",
		"nothing was changed: use the tool hand_over, and symphony moves the issue after your turn",
	)
}

// maxRefusals is how often hand_over, or the delivery, is refused for the same reason before the
// run ends. An agent that can't commit, because a hook of git fails for example, would try until
// its last turn.
const maxRefusals = 3

// refusals are what hand_over, or the delivery, was refused for in this run.
type refusals struct {
	mu         sync.Mutex
	bySentence map[string]*refusal
	end        error // why the run ends; nil as long as it goes on
}

// refusal is one reason, such as "1 change not committed: ? left.txt".
type refusal struct {
	count   int
	content string // the fingerprint of the workspace at the first
	changed bool   // since then
}

// countRefusal counts a refusal of hand_over, or of the delivery at the end of the run. It
// reports whether the run must end because of it. If nothing has changed meanwhile, the issue
// is held at once; otherwise another run may do better.
func (h *handovers) countRefusal(ctx context.Context, what string, why error) bool {
	_, sentence := codeOf(why)
	content, err := h.site.Machine.Fingerprint(ctx, h.site.space.Path)
	warn(h.Log, "state of the workspace", err)
	all := &h.refusals
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.bySentence[sentence]
	if r == nil {
		r = &refusal{content: content}
		all.bySentence[sentence] = r
	}
	r.count++
	r.changed = r.changed || content != r.content
	if r.count < maxRefusals || all.end != nil {
		return false
	}
	message := fmt.Sprintf("%s was refused %d times", what, r.count)
	if !r.changed {
		message += ", and nothing has changed meanwhile"
	}
	message += ": " + sentence + h.rec.failedCommit()
	all.end = &reconcile.Error{Code: reconcile.HoldRefused, Message: message}
	if r.changed {
		all.end = runEnd{reconcile.EndedRun, reconcile.HoldRefused, message}
	}
	return true
}

// hopeless returns the error with which the run ends because of refusals, nil if it goes on.
func (h *handovers) hopeless() error {
	h.refusals.mu.Lock()
	defer h.refusals.mu.Unlock()
	return h.refusals.end
}

// headName returns the branch of HEAD, or its commit if it is detached.
func headName(g *host.GitStatus) string {
	if g.Branch != nil {
		return *g.Branch
	}
	return fmt.Sprintf("detached at %.12s", text.OrEmpty(g.Commit))
}
