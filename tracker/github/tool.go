package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Tool returns the agent's tool github_api. The token stays in this process. The tool is
// restricted to the repository of the run's issue and, if the workflow names a board, to the
// issue's item there; rules.go contains the rules.
func Tool(c *Client) reconcile.AgentTool {
	t := &tool{c: c}
	allowed := methods
	use := "read the repository, comment, and change issues, labels and pull requests"
	if c.o.ReadOnly {
		allowed = methods[:1]
		use = "read the repository (changes are refused in this project)"
	}
	places := "Only paths below /repos/OWNER/NAME of the issue's repository are allowed"
	if board := boardOf(c.o.Project); board != "" {
		places += ", and of the board GET " + board + "/fields and GET or PATCH " + board + "/items/ITEM, " +
			"with the item of the issue: GET " + board + "/items finds it"
	}
	return reconcile.AgentTool{
		Name: "github_api",
		Description: "Send one request to GitHub's REST API with the workflow's own credentials. " +
			"Use it to " + use + ". " + places + ". " +
			`Example: {"method": "GET", "path": "/repos/acme/shop/issues/12/comments", "params": {"per_page": 50}}`,
		InputSchema: agenttool.Object([]string{"method", "path"}, map[string]any{
			"method": map[string]any{"type": "string", "enum": allowed},
			"path": map[string]any{
				"type":        "string",
				"description": "A path that begins with /repos/OWNER/NAME, without a query.",
			},
			"params": map[string]any{
				"type":        []string{"object", "null"},
				"description": "The query of a GET: names and values.",
			},
			"body": map[string]any{"description": "The JSON body of a change."},
		}),
		Call:         t.call,
		ChangesIssue: t.changesIssue,
		Describes:    t.describes,
		MovesTo:      t.movesTo,
		Summary:      agenttool.RequestSummary,
	}
}

type tool struct {
	c     *Client
	spent atomic.Int64 // requests of this run
}

// call runs the tool with the agent's arguments.
func (t *tool) call(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	in, err := t.c.readCall(issue, args)
	if err != nil {
		return t.c.Refused(err)
	}
	if in.method == http.MethodGet {
		a, err := t.send(ctx, in, transport.MaxToolAnswer)
		if err != nil {
			return t.c.Refused(err)
		}
		return t.c.api.Answered(a)
	}
	if in.target.text != "" && in.target.existing {
		if err := t.checkAuthor(ctx, in); err != nil {
			return t.c.Refused(err)
		}
	}
	done := &reconcile.Mutation{
		Fields:    []string{in.method + " " + in.target.path},
		Variables: in.body,
	}
	a, err := t.send(ctx, in, transport.MaxToolAnswer)
	if err != nil {
		answer := t.c.Refused(t.c.Unsure(err))
		answer.Mutation = done
		return answer
	}
	answer := t.c.api.Answered(a)
	answer.Mutation = done
	if answer.Success {
		done.Success = true
		done.Created = created(in, a.Body)
	}
	return answer
}

// movesTo returns the states to which a call moves its issue.
func (t *tool) movesTo(ctx context.Context, issue reconcile.Issue, args json.RawMessage) ([]string, error) {
	in, err := t.c.readCall(issue, args)
	if err != nil {
		return nil, nil //nolint:nilerr // the call itself refuses such arguments
	}
	return t.c.statesAfter(ctx, issue, in)
}

// checkAuthor refuses to change or delete a comment or review that no agent wrote: its author
// may be an operator, whose answers symphony obeys, or symphony itself. It also refuses if
// GitHub does not say who wrote it, such as with status 502.
func (t *tool) checkAuthor(ctx context.Context, in toolCall) error {
	a, err := t.send(ctx, toolCall{method: http.MethodGet, target: in.target}, 0)
	if err != nil {
		return err
	}
	switch a.Status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil // GitHub answers the change with the same
	default:
		return agenttool.Refusal("mutation_refused", fmt.Sprintf(
			"nothing was changed: GitHub did not say who wrote this comment or review (HTTP %d); try again later",
			a.Status,
		))
	}
	var existing struct {
		Body string `json:"body"`
	}
	_ = json.Unmarshal(a.Body, &existing) // without a text it is not an agent's
	written, isAgents := strings.CutSuffix(strings.TrimSpace(existing.Body), agenttool.Marker)
	// A request that symphony posted may quote the agent's marker.
	if !isAgents || strings.Contains(written, reconcile.CommentMarker) {
		return agenttool.Refusal(
			"mutation_refused",
			"only comments and reviews that were written with this tool can be changed or deleted",
		)
	}
	return nil
}

// send sends a request within the budget of the run. A rate-limited request, which was not
// executed, is repeated if the limit ends soon; otherwise the error tells the agent when it
// ends.
func (t *tool) send(ctx context.Context, in toolCall, limit int64) (transport.Answer, error) {
	budget := int64(t.c.o.ToolBudget)
	spent := t.spent.Add(1)
	if budget > 0 && spent > budget {
		const message = "this run has made its %d requests to GitHub; say in your last message what is left to do"
		return transport.Answer{}, agenttool.Refusal("tool_budget_exceeded", fmt.Sprintf(message, budget))
	}
	r := transport.Request{
		Method: in.method,
		Path:   in.target.escaped,
		Query:  in.params,
		Limit:  limit,
	}
	if in.body != nil {
		r.Body = in.body
	}
	var a transport.Answer
	err := t.c.Patiently(ctx, func() error {
		var err error
		a, err = t.c.Ask(ctx, r)
		if err != nil || a.Status/100 != 3 {
			return err
		}
		a, err = t.follow(ctx, r, a, in.target)
		return err
	})
	return a, err
}

// follow repeats a request if GitHub answered that the repository of its path was renamed. It
// does not follow an issue that was transferred, nor a file to another host.
func (t *tool) follow(
	ctx context.Context,
	r transport.Request,
	a transport.Answer,
	at target,
) (transport.Answer, error) {
	old := "/repos/" + at.now
	moved := agenttool.Refusal(
		"github_moved",
		at.path+" is now at another place, such as another repository, where this tool does not go",
	)
	if at.repo == "" || a.Status == http.StatusFound {
		return a, moved
	}
	now, err := t.c.Do(ctx, http.MethodGet, old, nil, nil)
	if err != nil {
		return a, err
	}
	repository, err := githubapi.Decode[struct {
		ID   int64  `json:"id"`
		Name string `json:"full_name"`
	}](t.c.api, "repository", now.Body)
	if err != nil {
		return a, err
	}
	to, err := url.Parse(a.Header.Get("Location"))
	if err != nil || strings.EqualFold(repository.Name, at.now) {
		return a, moved
	}
	isByID := strings.Contains(to.Path, fmt.Sprintf("/repositories/%d/", repository.ID))
	named := strings.ToLower("/repos/" + repository.Name + "/")
	if !isByID && !strings.Contains(strings.ToLower(to.Path), named) {
		return a, moved
	}
	t.c.Rename(at.repo, repository.Name)
	r.Path = "/repos/" + repository.Name + strings.TrimPrefix(r.Path, old)
	return t.c.Ask(ctx, r)
}

// created returns the objects that a successful change created.
func created(in toolCall, body json.RawMessage) []reconcile.Created {
	if in.method != http.MethodPost || in.target.creates == "" {
		return nil
	}
	var entity struct {
		ID     int64 `json:"id"`
		Number int64 `json:"number"`
	}
	if json.Unmarshal(body, &entity) != nil || entity.ID == 0 {
		return nil
	}
	id := cmp.Or(entity.Number, entity.ID)
	return []reconcile.Created{{Kind: in.target.creates, ID: strconv.FormatInt(id, 10)}}
}

// changesIssue reports whether a call changes an issue itself (its state, assignees, labels
// …), beyond commenting.
func (t *tool) changesIssue(args json.RawMessage) bool {
	var written struct{ Method, Path string }
	if json.Unmarshal(args, &written) != nil || t.c.o.ReadOnly {
		return false
	}
	if strings.EqualFold(strings.TrimSpace(written.Method), http.MethodGet) {
		return false
	}
	parts, err := splitPath(strings.TrimSpace(written.Path))
	if err != nil || len(parts) < 3 {
		return false
	}
	if !strings.EqualFold(parts[0], "repos") { // /orgs/acme/projectsV2/4
		return strings.EqualFold(parts[2], "projectsV2")
	}
	return changesIssueAt(parts[3:])
}

// changesIssueAt reports whether a change of a path below a repository, such as issues, 12 and
// labels, changes an issue itself.
func changesIssueAt(rest []string) bool {
	if len(rest) == 0 || rest[0] != "issues" {
		return false
	}
	isComment := len(rest) > 1 && rest[1] == "comments"
	isBelow := len(rest) > 2 && (rest[2] == "comments" || rest[2] == "reactions")
	return !isComment && !isBelow
}

// describes reports whether a call may change the description of issue.
func (t *tool) describes(issue reconcile.Issue, args json.RawMessage) bool {
	in, err := t.c.readCall(issue, args)
	if err != nil || in.method != http.MethodPatch {
		return false
	}
	var body map[string]json.RawMessage
	_ = json.Unmarshal(in.body, &body) // GitHub refuses any other form
	_, isGiven := body["body"]
	below, ofIssue := in.target.belowIssue()
	return isGiven && ofIssue && below == ""
}
