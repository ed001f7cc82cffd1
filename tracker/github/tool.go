package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	maxToolBody   = 1 << 20 // bytes of a request
	maxToolAnswer = 1 << 20 // bytes of an answer
)

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// Tool returns the agent's tool github_api. The token stays in this process. The tool is
// restricted to the repository of the run's issue and, if the workflow names a board, to the
// issue's item there; rules.go has the rules.
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
		places += ", and of the board GET " + board + "/fields and GET or PATCH " + board + "/items/ITEM, with the item of the issue: " +
			"GET " + board + "/items finds it"
	}
	return reconcile.AgentTool{
		Name: "github_api",
		Description: "Send one request to GitHub's REST API with the workflow's own credentials. Use it to " + use +
			". " + places + ". " +
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
		Summary:      summary,
	}
}

type tool struct {
	c     *Client
	spent atomic.Int64 // requests of this run
}

// summary is the method and the path of a call.
func summary(args json.RawMessage) string {
	var in struct{ Method, Path string }
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	return strings.TrimSpace(in.Method + " " + in.Path)
}

// toolCall is a call that the rules allow.
type toolCall struct {
	method string
	target target
	params url.Values
	body   json.RawMessage // nil for none
}

// call runs the tool with the agent's arguments.
func (t *tool) call(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	in, err := t.read(issue, args)
	switch {
	case err != nil:
		return t.c.Refused(err)
	case in.method == http.MethodGet:
		return t.answer(t.send(ctx, in, maxToolAnswer))
	case in.target.text != "" && in.target.existing:
		if err := t.checkAuthor(ctx, in); err != nil {
			return t.c.Refused(err)
		}
	}
	done := &reconcile.Mutation{
		Fields:    []string{in.method + " " + in.target.path},
		Variables: in.body,
	}
	a, err := t.send(ctx, in, maxToolAnswer)
	answer := t.answer(a, t.c.Unsure(err))
	if done.Success = answer.Success; done.Success {
		done.Created = created(in, a.Body)
	}
	answer.Mutation = done
	return answer
}

// read checks a call. The error is for the agent.
func (t *tool) read(issue reconcile.Issue, args json.RawMessage) (in toolCall, err error) {
	var written struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Params map[string]any  `json:"params"`
		Body   json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(args, &written); err != nil {
		return in, agenttool.Refusal(
			"invalid_input",
			"arguments must be an object with method and path, and params an object: "+err.Error(),
		)
	}
	in.method = strings.ToUpper(strings.TrimSpace(written.Method))
	if !slices.Contains(methods, in.method) {
		return in, agenttool.Refusal("invalid_input", "method must be GET, POST, PATCH, PUT or DELETE")
	}
	if in.params, err = query(written.Params); err != nil {
		return in, err
	}
	if in.target, err = t.c.target(issue, in.method, strings.TrimSpace(written.Path)); err != nil {
		return in, err
	}
	if in.method == http.MethodGet {
		return in, nil
	}
	if t.c.o.ReadOnly {
		return in, agenttool.ReadOnly(in.method + " " + in.target.path)
	}
	if len(in.params) > 0 { // GitHub's changes have none, and a text there would escape the marker
		return in, agenttool.Refusal(
			"invalid_input",
			"params are for GET: put what "+in.method+" changes into body",
		)
	}
	if body := bytes.TrimSpace(written.Body); len(body) > 0 && string(body) != "null" {
		in.body = body
	}
	if len(in.body) > maxToolBody {
		return in, agenttool.Refusal(
			"invalid_input",
			fmt.Sprintf("the body is longer than %d bytes", maxToolBody),
		)
	}
	if in.target.text != "" {
		in.body, err = markTexts(in.body, in.target.text)
	}
	return in, err
}

// query turns the agent's params into a query. A list becomes one value with commas, as GitHub
// expects it.
func query(params map[string]any) (url.Values, error) {
	values := url.Values{}
	for name, value := range params {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		var words []string
		for _, v := range list {
			switch v := v.(type) {
			case nil:
			case string, bool:
				words = append(words, fmt.Sprint(v))
			case float64:
				words = append(words, strconv.FormatFloat(v, 'f', -1, 64))
			default:
				return nil, agenttool.Refusal("invalid_input", "params."+name+" must be a text, a number, true or false, or a list of these")
			}
		}
		if words != nil {
			values.Set(name, strings.Join(words, ","))
		}
	}
	return values, nil
}

// markTexts appends the marker to the texts of a comment or review, so that they are
// recognised as an agent's. field is that of the text; a review has further ones in a list of
// comments.
func markTexts(body json.RawMessage, field string) (json.RawMessage, error) {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		if body == nil {
			return nil, nil // GitHub reports what is missing, or it is a DELETE
		}
		return nil, agenttool.Refusal("invalid_input", "the body must be an object")
	}
	if err := markText(object, field); err != nil {
		return nil, err
	}
	if list := object["comments"]; list != nil {
		var comments []map[string]json.RawMessage
		if json.Unmarshal(list, &comments) != nil {
			return nil, agenttool.Refusal("invalid_input", "comments must be a list of objects")
		}
		for _, comment := range comments {
			if err := markText(comment, "body"); err != nil {
				return nil, err
			}
		}
		object["comments"] = text.JSON(comments)
	}
	var event string
	if json.Unmarshal(object["event"], &event) == nil && strings.EqualFold(event, "APPROVE") {
		return nil, agenttool.Refusal(
			"mutation_refused",
			"agents may not approve pull requests: use COMMENT or REQUEST_CHANGES",
		)
	}
	return text.JSON(object), nil
}

func markText(object map[string]json.RawMessage, field string) error {
	if object[field] == nil {
		return nil
	}
	var written string
	if json.Unmarshal(object[field], &written) != nil {
		return agenttool.Refusal("invalid_input", field+" must be a text")
	}
	if written = strings.TrimRight(strings.ReplaceAll(written, agenttool.Marker, ""), " \r\n"); written == "" {
		return nil
	}
	if strings.Contains(written, reconcile.CommentMarker) {
		return agenttool.Refusal(
			"mutation_refused",
			"the text contains "+reconcile.CommentMarker+", which only symphony writes: leave it out",
		)
	}
	object[field] = text.JSON(written + "\n\n" + agenttool.Marker)
	return nil
}

// checkAuthor refuses to change or delete a comment or review that no agent has written: its
// author may be an operator, whose answers symphony obeys, or symphony itself.
func (t *tool) checkAuthor(ctx context.Context, in toolCall) error {
	a, err := t.send(ctx, toolCall{method: http.MethodGet, target: in.target}, 0)
	if err != nil {
		return err
	}
	var existing struct {
		Body string `json:"body"`
	}
	text := ""
	isAgents := false
	if json.Unmarshal(a.Body, &existing) == nil {
		text, isAgents = strings.CutSuffix(strings.TrimSpace(existing.Body), agenttool.Marker)
	}
	// A request that symphony has posted may quote the agent's marker.
	if a.Status == http.StatusOK && (!isAgents || strings.Contains(text, reconcile.CommentMarker)) {
		return agenttool.Refusal(
			"mutation_refused",
			"only comments and reviews that were written with this tool can be changed or deleted",
		)
	}
	return nil // GitHub reports that there is none
}

// send sends a request within the budget of the run. A rate-limited request, which was not
// executed, is repeated if the limit ends soon; otherwise the error tells the agent when it
// ends.
func (t *tool) send(ctx context.Context, in toolCall, limit int64) (a transport.Answer, err error) {
	if budget := int64(t.c.o.ToolBudget); budget > 0 && t.spent.Add(1) > budget {
		return a, agenttool.Refusal(
			"tool_budget_exceeded",
			fmt.Sprintf("this run has made its %d requests to GitHub "+
				"(tracker.provider.tool_budget); say in your last message what is left to do", budget),
		)
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
	err = t.c.Patiently(ctx, func() (err error) {
		if a, err = t.c.Ask(ctx, r, false); err == nil && a.Status/100 == 3 {
			a, err = t.follow(ctx, r, a, in.target)
		}
		return err
	})
	return a, err
}

// follow repeats a request if GitHub has answered that the repository of its path has another
// name now. It does not follow an issue that was transferred, nor a file to another host.
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
	if err != nil || strings.EqualFold(repository.Name, at.now) ||
		!strings.Contains(to.Path, fmt.Sprintf("/repositories/%d/", repository.ID)) &&
			!strings.Contains(strings.ToLower(to.Path), strings.ToLower("/repos/"+repository.Name+"/")) {
		return a, moved
	}
	t.c.rename(at.repo, repository.Name)
	r.Path = "/repos/" + repository.Name + strings.TrimPrefix(r.Path, old)
	return t.c.Ask(ctx, r, false)
}

// created returns what a successful change has created.
func created(in toolCall, body json.RawMessage) []reconcile.Created {
	var entity struct {
		ID     int64 `json:"id"`
		Number int64 `json:"number"`
	}
	if in.method != http.MethodPost || in.target.creates == "" || json.Unmarshal(body, &entity) != nil ||
		entity.ID == 0 {
		return nil
	}
	return []reconcile.Created{{
		Kind: in.target.creates,
		ID:   strconv.FormatInt(cmp.Or(entity.Number, entity.ID), 10),
	}}
}

// changesIssue reports whether a call changes an issue itself (its state, assignees, labels
// …), beyond commenting.
func (t *tool) changesIssue(args json.RawMessage) bool {
	var written struct{ Method, Path string }
	return json.Unmarshal(args, &written) == nil && !t.c.o.ReadOnly && !strings.EqualFold(strings.TrimSpace(written.Method), http.MethodGet) &&
		(strings.Contains(written.Path, "/issues") || strings.Contains(written.Path, "/projectsV2/")) &&
		!strings.Contains(written.Path, "/comments") &&
		!strings.Contains(written.Path, "/reactions")
}

// describes reports whether a call may change the description of issue.
func (t *tool) describes(issue reconcile.Issue, args json.RawMessage) bool {
	in, err := t.read(issue, args)
	path, ofIssue := t.c.issuePath(issue.ID)
	return err == nil && ofIssue == nil && in.method == http.MethodPatch && in.target.rule == "issues/#" &&
		in.target.path == path &&
		bytes.Contains(in.body, []byte(`"body"`))
}

// answer returns GitHub's answer as upstream's tool does: {"status": 200, "body": …}.
func (t *tool) answer(a transport.Answer, err error) reconcile.ToolAnswer {
	if err != nil {
		return t.c.Refused(err)
	}
	body := json.RawMessage(bytes.TrimSpace(a.Body))
	switch {
	case len(body) == 0:
		body = json.RawMessage("null")
	case !json.Valid(body):
		body = text.JSON(string(body))
	}
	answer := text.JSON(struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{a.Status, body})
	return reconcile.ToolAnswer{Text: t.c.Scrub(string(answer)), Success: a.Status/100 == 2}
}
