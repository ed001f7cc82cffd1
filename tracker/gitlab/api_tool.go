package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const maxToolAnswer = 1 << 20 // bytes of an answer

// apiTool returns the agent's tool gitlab_api, which reads the project of the run's issue. The
// token stays in this process. What changes anything is refused: issue_update and issue_comment do
// that.
func (c *client) apiTool() reconcile.AgentTool {
	return reconcile.AgentTool{
		Name: "gitlab_api",
		Description: "Read with one GET request to GitLab's REST API with the workflow's own credentials. " +
			"Only paths below /projects/GROUP%2FPROJECT are allowed, the project of the issue, and there: " +
			strings.Join(subjects, ", ") + ". " +
			`Example: {"path": "/projects/` + strings.ReplaceAll(c.o.Projects[0], "/", "%2F") +
			`/issues/12/notes", "query": {"per_page": 50}}`,
		InputSchema: agenttool.Object([]string{"path"}, map[string]any{
			"method": map[string]any{"type": "string", "enum": []string{http.MethodGet}},
			"path": map[string]any{
				"type":        "string",
				"description": "A path that begins with /projects/ and the project's name with %2F, without a query.",
			},
			"query": map[string]any{
				"type":        []string{"object", "null"},
				"description": "Names and values.",
			},
		}),
		Call:         c.callAPI,
		ChangesIssue: func(json.RawMessage) bool { return false },
		Summary: func(args json.RawMessage) string {
			var in struct{ Path string }
			_ = json.Unmarshal(args, &in) // it says nothing then
			return strings.TrimSpace("GET " + in.Path)
		},
	}
}

// callAPI runs the tool with the agent's arguments.
func (c *client) callAPI(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	project, below, query, err := c.readCall(issue, args)
	if err != nil {
		return c.api.Refused(err)
	}
	var a transport.Answer
	err = c.api.Patiently(ctx, func() error {
		return c.within(ctx, project, func(base string) error {
			var err error
			a, err = c.api.Ask(ctx, transport.Request{
				Method: http.MethodGet,
				Path:   base + below,
				Query:  query,
				Limit:  maxToolAnswer,
			})
			return err
		})
	})
	if err != nil {
		return c.api.Refused(err)
	}
	body := json.RawMessage(bytes.TrimSpace(a.Body))
	switch {
	case len(body) == 0:
		body = json.RawMessage("null")
	case !json.Valid(body): // the log of a job
		body = text.JSON(strings.ToValidUTF8(string(body), "\uFFFD"))
	}
	answer := text.JSON(struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{a.Status, body})
	return reconcile.ToolAnswer{Text: c.api.Scrub(string(answer)), Success: true}
}

// readCall checks a call. It returns the project, the path below it, which is built anew from its
// parts, and the query. The error is for the agent.
func (c *client) readCall(
	issue reconcile.Issue,
	args json.RawMessage,
) (project, below string, query url.Values, err error) {
	var in struct {
		Method string         `json:"method"`
		Path   string         `json:"path"`
		Query  map[string]any `json:"query"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return "", "", nil, agenttool.Refusal(
			"invalid_input",
			"arguments must be an object with path, and query an object: "+err.Error(),
		)
	}
	method := strings.ToUpper(strings.TrimSpace(in.Method))
	if method != "" && method != http.MethodGet {
		return "", "", nil, agenttool.Refusal(
			"mutation_refused",
			"this tool only reads: use issue_update and issue_comment for changes of your issue",
		)
	}
	at, err := c.IssueOf(issue.ID)
	if err != nil {
		return "", "", nil, err
	}
	parts, err := agenttool.SplitPath(strings.TrimSpace(in.Path), "with /projects/GROUP%2FPROJECT", "query")
	if err != nil {
		return "", "", nil, err
	}
	isOurs := func(name string) bool {
		return strings.EqualFold(name, at.Repo) || strings.EqualFold(name, c.Present(at.Repo))
	}
	if len(parts) < 2 || parts[0] != "projects" || !isOurs(parts[1]) {
		return "", "", nil, agenttool.Refusal(
			"path_refused",
			"only paths below "+gitlabapi.ProjectPath(at.Repo)+" are allowed, the project of this run's issue",
		)
	}
	rest := parts[2:]
	if !mayRead(rest) {
		return "", "", nil, agenttool.Refusal(
			"path_refused",
			"below the project this tool reads only "+strings.Join(subjects, ", ")+
				", and of these neither variables nor files of artifacts",
		)
	}
	for _, part := range rest {
		below += "/" + url.PathEscape(part)
	}
	query, err = queryOf(in.Query)
	return at.Repo, below, query, err
}

// queryOf turns the agent's query into one of an address. A list has its name several times.
func queryOf(given map[string]any) (url.Values, error) {
	values := url.Values{}
	for name, value := range given {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, v := range list {
			switch v := v.(type) {
			case nil:
			case string, bool:
				values.Add(name, fmt.Sprint(v))
			case float64:
				values.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
			default:
				return nil, agenttool.Refusal(
					"invalid_input",
					"query."+name+" must be a text, a number, true or false, or a list of these",
				)
			}
		}
	}
	return values, nil
}
