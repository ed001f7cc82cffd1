package jira

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// restTool is the agent's tool jira_rest, by which it sends requests of its own. It is restricted
// to the project; rest_rules.go contains the rules.
func (c *client) restTool() reconcile.AgentTool {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}
	use := "read the project, and change its issues, their comments and links"
	if c.o.ReadOnly {
		use = "read the project (changes are refused; POST only searches)"
	}
	t := restTool{c}
	return reconcile.AgentTool{
		Name: "jira_rest",
		Description: "Send one request to Jira's REST API with the workflow's own credentials. Use it to " + use +
			". A search, POST /rest/api/3/search/jql with the body {\"jql\": …, \"fields\": […]}, finds issues of the " +
			"project only. The body of a comment and a description may be Markdown in place of a document. " +
			"Example: {\"method\": \"GET\", \"path\": \"/rest/api/3/issue/" + c.o.Project + "-12/comment\"}",
		InputSchema: agenttool.Object([]string{"method", "path"}, map[string]any{
			"method": map[string]any{"type": "string", "enum": methods},
			"path": map[string]any{
				"type":        "string",
				"description": "A path that begins with /rest/api/3/, without a query.",
			},
			"query": map[string]any{
				"type":        []string{"object", "null"},
				"description": "The query of a GET: names and texts.",
			},
			"body": map[string]any{"description": "The JSON body of a POST or PUT."},
		}),
		Call:         t.call,
		ChangesIssue: t.changesIssue,
		Describes:    t.describes,
		MovesTo:      t.movesTo,
		Summary:      agenttool.RequestSummary,
	}
}

type restTool struct{ c *client }

// written is a call as the agent wrote it.
type written struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Query  map[string]string `json:"query"`
	Body   json.RawMessage   `json:"body"`
}

// restCall is a call that the rules allow, as it is sent.
type restCall struct {
	rule
	method string
	path   string   // below /rest/api/3
	parts  []string // of the path
	query  url.Values
	body   map[string]json.RawMessage // nil for none
}

// call runs the tool with the agent's arguments.
func (t restTool) call(ctx context.Context, issue reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
	in, err := t.read(args)
	if err == nil {
		err = t.checkIssues(ctx, issue, in)
	}
	if err == nil {
		err = t.checkValues(ctx, in)
	}
	if err == nil && in.ofComment() {
		err = t.checkComment(ctx, in)
	}
	if err == nil && in.existing {
		err = t.checkAuthor(ctx, in)
	}
	if err == nil && in.moves {
		err = t.settle(ctx, in)
	}
	if err != nil {
		return t.c.api.Refused(err)
	}
	r := transport.Request{Method: in.method, Path: in.path, Query: in.query, Limit: transport.MaxToolAnswer}
	if in.body != nil {
		r.Body = in.body
	}
	var a transport.Answer
	err = t.c.api.Patiently(ctx, func() error {
		var err error
		a, err = t.c.ask(ctx, r)
		return err
	})
	if in.reads {
		if err != nil {
			return t.c.api.Refused(err)
		}
		if in.searches {
			a.Body = t.c.onlyOurs(a.Body)
		}
		a.Body = forEverybody(a.Body)
		return t.c.api.Answered(a)
	}
	done := &reconcile.Mutation{Fields: []string{in.method + " " + in.path}, Variables: text.JSON(in.body)}
	if err != nil {
		answer := t.c.api.Refused(t.c.api.Unsure(err))
		answer.Mutation = done
		return answer
	}
	answer := t.c.api.Answered(a)
	done.Success = true
	var made struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(a.Body, &made) // most changes create nothing
	if in.creates != "" && made.ID != "" {
		done.Created = []reconcile.Created{{Kind: in.creates, ID: made.ID}}
	}
	answer.Mutation = done
	return answer
}

// read checks a call, as far as that needs no request.
func (t restTool) read(args json.RawMessage) (restCall, error) {
	var in written
	if err := json.Unmarshal(args, &in); err != nil {
		return restCall{}, agenttool.Refusal(
			"invalid_input",
			"arguments must be an object with method and path, and query an object of texts: "+err.Error(),
		)
	}
	parts, err := agenttool.SplitPath(strings.TrimSpace(in.Path), "with "+apiPath+"/", "query")
	if err != nil {
		return restCall{}, err
	}
	call := restCall{method: strings.ToUpper(strings.TrimSpace(in.Method))}
	top := strings.Split(apiPath, "/")[1:]
	if len(parts) <= len(top) || !slices.Equal(parts[:len(top)], top) {
		return call, agenttool.Refusal("path_refused", "path must begin with "+apiPath+"/")
	}
	call.parts = parts[len(top):]
	for _, part := range call.parts {
		call.path += "/" + url.PathEscape(part)
	}
	call.rule, err = t.c.ruleFor(call.method, call.parts)
	if err != nil {
		return call, err
	}
	if !call.reads && t.c.o.ReadOnly {
		return call, agenttool.ReadOnly(call.method + " " + call.path)
	}
	if len(in.Query) > 0 {
		if call.method != http.MethodGet {
			return call, agenttool.Refusal("invalid_input", "query is for GET: put what changes into body")
		}
		call.query = url.Values{}
		for name, value := range in.Query {
			if !slices.Contains(queryNames, name) {
				return call, agenttool.Refusal("invalid_input", "query may have "+strings.Join(queryNames, ", "))
			}
			call.query.Set(name, value)
		}
	}
	if len(in.Body) > transport.MaxToolBody {
		return call, agenttool.Refusal(
			"invalid_input",
			fmt.Sprintf("the body is longer than %d bytes", transport.MaxToolBody),
		)
	}
	if call.method == http.MethodGet || call.method == http.MethodDelete {
		return call, nil
	}
	if json.Unmarshal(in.Body, &call.body) != nil || call.body == nil {
		return call, agenttool.Refusal("invalid_input", "the body must be an object")
	}
	for name := range call.body {
		if !slices.Contains(call.allowed, name) {
			return call, agenttool.Refusal(
				"invalid_input",
				fmt.Sprintf("the body may not have %q; it may have %s", name, strings.Join(call.allowed, ", ")),
			)
		}
	}
	for name, keys := range map[string][]string{
		"transition":   {"id"},
		"inwardIssue":  {"id", "key"},
		"outwardIssue": {"id", "key"},
	} {
		if err := onlyName(call.body, name, keys); err != nil {
			return call, err
		}
	}
	if call.prepare == nil {
		return call, nil
	}
	return call, call.prepare(t.c, call.body)
}

// onlyName replaces an object that names something by one with a single text, such as {"id":"31"}:
// of {"id":"31","ID":"11"}, 031 or 31.0 Jira could understand another id than symphony.
func onlyName(body map[string]json.RawMessage, name string, keys []string) error {
	if body[name] == nil {
		return nil
	}
	refused := agenttool.Refusal(
		"invalid_input",
		fmt.Sprintf("%s must be an object with %s, and nothing else", name, strings.Join(keys, " or ")),
	)
	var given map[string]json.RawMessage
	if json.Unmarshal(body[name], &given) != nil || len(given) != 1 {
		return refused
	}
	for key, raw := range given {
		value := string(raw) // of a number, as it is written
		if json.Unmarshal(raw, &value) != nil && !text.IsNumber(value) {
			return refused
		}
		isNumber := text.IsNumber(value) && !strings.HasPrefix(value, "0")
		if !slices.Contains(keys, key) || (key == "id") != isNumber {
			return refused
		}
		body[name] = text.JSON(map[string]string{key: value})
	}
	return nil
}

// checkIssues refuses a call about issues of other projects. The run's issue needs no look.
func (t restTool) checkIssues(ctx context.Context, issue reconcile.Issue, in restCall) error {
	names, err := t.c.issuesIn(in)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == issue.ID || strings.EqualFold(name, issue.Identifier) {
			continue
		}
		found, err := t.c.existing(ctx, name)
		if err != nil {
			return err
		}
		if found.ID == issue.ID { // an earlier key, by which isOwn would not know it
			return agenttool.Refusal("invalid_input", name+" is the issue that you work on: call it "+issue.Identifier)
		}
	}
	return nil
}

// ofComment reports whether a call is about a single comment.
func (in restCall) ofComment() bool { return strings.HasSuffix(in.rule.path, "/comment/*") }

// checkComment refuses a comment that is not one of the issue, which Jira may find by the id alone,
// and to read one that not everybody sees. A change keeps who sees it.
func (t restTool) checkComment(ctx context.Context, in restCall) error {
	id := in.parts[len(in.parts)-1]
	isThere := false
	var found wireComment
	_, err := t.c.newest(ctx, in.parts[1], func(w wireComment) bool {
		isThere = w.ID == id
		found = w
		return !isThere
	})
	if err == nil && (!isThere || in.reads && found.isRestricted()) {
		err = agenttool.Refusal("path_refused", "the issue "+in.parts[1]+" has no comment "+id)
	}
	if err == nil && in.body != nil && found.audience() != nil {
		in.body["visibility"] = found.audience()
	}
	return err
}

// checkAuthor refuses to change or delete a comment that no agent wrote: its author may be an
// operator, whose answers symphony obeys, or symphony itself.
func (t restTool) checkAuthor(ctx context.Context, in restCall) error {
	id := in.parts[len(in.parts)-1]
	marks, err := t.c.marksOf(ctx, []wireComment{{ID: id}})
	if err != nil {
		return err
	}
	if !slices.Equal(marks[id], []string{agenttool.Marker}) {
		return agenttool.Refusal(
			"mutation_refused",
			"only comments that were written with the tools of agents can be changed or deleted",
		)
	}
	return nil
}

// changesIssue reports whether a call changes an issue beyond commenting.
func (t restTool) changesIssue(args json.RawMessage) bool {
	in, err := t.read(args)
	return err == nil && !in.reads && !in.comments
}

// isOwn reports whether a call is about the run's issue.
func (in restCall) isOwn(issue reconcile.Issue) bool {
	return len(in.parts) > 1 && in.parts[0] == "issue" &&
		(in.parts[1] == issue.ID || strings.EqualFold(in.parts[1], issue.Identifier))
}

// describes reports whether a call may change the description of issue.
func (t restTool) describes(issue reconcile.Issue, args json.RawMessage) bool {
	in, err := t.read(args)
	if err != nil || !in.isOwn(issue) {
		return false
	}
	for _, name := range []string{"fields", "update"} {
		var given map[string]json.RawMessage
		_ = json.Unmarshal(in.body[name], &given) // Jira refuses any other form
		if _, is := given["description"]; is {
			return true
		}
	}
	return false
}

// movesTo returns the state to which a call moves its issue.
func (t restTool) movesTo(ctx context.Context, issue reconcile.Issue, args json.RawMessage) ([]string, error) {
	in, err := t.read(args)
	if err != nil || !in.isOwn(issue) || !in.moves {
		return nil, nil //nolint:nilerr // the call itself refuses such arguments
	}
	way, err := t.chosen(ctx, in)
	if err != nil {
		return nil, err
	}
	return []string{way.To.Name}, nil
}

// chosen returns the transition that a call names. It is one of those that the issue has now.
func (t restTool) chosen(ctx context.Context, in restCall) (transition, error) {
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(in.body["transition"], &named) != nil {
		return transition{}, agenttool.Refusal("invalid_input", "transition must be an object with id")
	}
	list, err := t.c.transitions(ctx, in.parts[1])
	if err != nil {
		return transition{}, err
	}
	fitting := text.Filter(list, func(way transition) bool { return way.ID == named.ID })
	if len(fitting) != 1 {
		ways := text.Map(list, func(way transition) string { return way.ID + " to " + way.To.Name })
		return transition{}, agenttool.Refusal(
			"invalid_input",
			fmt.Sprintf("the issue has no transition with the id %q now; it has %s", named.ID, strings.Join(ways, ", ")),
		)
	}
	return fitting[0], nil
}

// settle puts the id of the transition, as Jira wrote it, into a call.
func (t restTool) settle(ctx context.Context, in restCall) error {
	way, err := t.chosen(ctx, in)
	if err == nil {
		in.body["transition"] = text.JSON(map[string]string{"id": way.ID})
	}
	return err
}

// commentOf replaces the text of a comment by a document, and marks the comment as an agent's.
func commentOf(_ *client, body map[string]json.RawMessage) error {
	var markdown string
	var doc any
	tooLong := agenttool.Refusal("invalid_input", fmt.Sprintf("the comment is longer than %d bytes", maxComment))
	if json.Unmarshal(body["body"], &markdown) == nil {
		if len(markdown) > maxComment {
			return tooLong
		}
		doc = adf.Document(markdown)
	} else {
		doc = adf.WithoutMentions(body["body"])
	}
	sent := text.JSON(doc)
	shown := adf.Markdown(sent)
	if strings.TrimSpace(shown) == "" {
		return agenttool.Refusal("invalid_input", "body must be Markdown, or a document that is not empty")
	}
	if len(shown) > maxComment {
		return tooLong
	}
	// symphony reads the comment as Markdown; Jira and other programs read every part of it
	for _, words := range append(adf.Strings(sent), shown) {
		_, err := agenttool.Sign(words)
		if err != nil {
			return err
		}
	}
	body["body"] = sent
	body["properties"] = text.JSON([]property{{
		Key:   propertyKey,
		Value: markers{Marks: []string{agenttool.Marker}},
	}})
	return nil
}

// settable are the fields of an issue that a call may set, beside the fields that a site has added.
// Not among them are comments, which have a path of their own where they are marked; links, made
// where both issues are looked at; and what takes an issue out of the project or out of people's
// sight, or says that somebody else wrote it.
var settable = []string{
	"assignee", "components", "description", "duedate", "environment", "fixVersions", "issuetype",
	"labels", "priority", "resolution", "summary", "timetracking", "versions",
}

var customField = text.Pattern(`^customfield_[0-9]+$`)

// fieldsOf checks the fields that a call sets.
func fieldsOf(_ *client, body map[string]json.RawMessage) error {
	for _, name := range []string{"fields", "update"} {
		if body[name] == nil {
			continue
		}
		var given map[string]json.RawMessage
		if json.Unmarshal(body[name], &given) != nil {
			return agenttool.Refusal("invalid_input", name+" must be an object")
		}
		for field, value := range given {
			if !slices.Contains(settable, field) && !customField().MatchString(field) {
				return agenttool.Refusal(
					"mutation_refused",
					fmt.Sprintf("%s.%s can't be set by this call, which sets %s and custom fields",
						name, field, strings.Join(settable, ", ")),
				)
			}
			given[field] = text.JSON(adf.WithoutMentions(value))
			var markdown string
			if field == "description" && name == "fields" && json.Unmarshal(value, &markdown) == nil {
				given[field] = text.JSON(adf.Document(markdown))
			}
		}
		body[name] = text.JSON(given)
	}
	return nil
}

// issueKey is a text that may name an issue. Some custom fields, such as the one with the epic of
// an issue, accept it with key: before it.
var issueKey = text.Pattern(`^(?:(?i:key):)?([A-Za-z][A-Za-z0-9_]*-[0-9]+)$`)

// checkValues refuses a custom field that names an issue of another project: it may make that one
// the parent, of which Jira then shows the title.
func (t restTool) checkValues(ctx context.Context, in restCall) error {
	const most = 20 // requests
	asked := 0
	for _, name := range []string{"fields", "update"} {
		var given map[string]json.RawMessage
		_ = json.Unmarshal(in.body[name], &given) // fieldsOf has checked it
		for field, value := range given {
			if !customField().MatchString(field) {
				continue
			}
			for _, words := range adf.Strings(value) {
				key := issueKey().FindStringSubmatch(strings.TrimSpace(words))
				if key == nil {
					continue
				}
				asked++
				if asked > most {
					return agenttool.Refusal("invalid_input", fmt.Sprintf("the fields name more than %d issues", most))
				}
				isElsewhere, err := t.c.isElsewhere(ctx, key[1])
				if err != nil {
					return err
				}
				if isElsewhere {
					return agenttool.Refusal("mutation_refused", name+"."+field+" names an issue of another project")
				}
			}
		}
	}
	return nil
}

// newIssue puts a new issue into the project.
func newIssue(c *client, body map[string]json.RawMessage) error {
	var given map[string]json.RawMessage
	if json.Unmarshal(body["fields"], &given) != nil || given == nil {
		return agenttool.Refusal("invalid_input", "fields must be an object")
	}
	in := struct{ Key string }{c.key()}
	if given["project"] != nil {
		in.Key = ""
		_ = json.Unmarshal(given["project"], &in) // any other form names no project
	}
	if !c.isKey(in.Key) {
		return agenttool.Refusal(
			"mutation_refused",
			fmt.Sprintf("issues can be made in this project only: {\"project\": {\"key\": %q}}", c.key()),
		)
	}
	delete(given, "project")
	body["fields"] = text.JSON(given)
	if err := fieldsOf(c, body); err != nil {
		return err
	}
	_ = json.Unmarshal(body["fields"], &given) // it was written just now
	given["project"] = text.JSON(map[string]string{"key": c.key()})
	body["fields"] = text.JSON(given)
	return nil
}
