package gitlab

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

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
				Limit:  transport.MaxToolAnswer,
			})
			return err
		})
	})
	if err != nil {
		return c.api.Refused(err)
	}
	return c.api.Answered(a)
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
	if err := checkQuery(in.Query); err != nil {
		return "", "", nil, err
	}
	query, err = agenttool.Query("query", in.Query)
	return at.Repo, below, query, err
}
