package githubtest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// node is an object of the GraphQL API. Its values are what becomes JSON, a time, nodes, a connection, or a resolver.
type node map[string]any

// connection is a list that a query reads in pages.
type connection []node

// resolver returns the value of a field with these arguments. It panics with a fault if there is none.
type resolver func(args map[string]any) any

// fault is an error of a field, which is null then.
type fault struct {
	Type       string         `json:"type,omitempty"`
	Code       string         `json:"code,omitempty"`
	Path       []any          `json:"path,omitempty"`
	Extensions map[string]any `json:"extensions,omitempty"`
	Message    string         `json:"message"`
}

func notFound(format string, args ...any) fault {
	return fault{Type: "NOT_FOUND", Message: "Could not resolve to " + fmt.Sprintf(format, args...)}
}

// execution is a GraphQL request while it is answered.
type execution struct {
	*call
	doc    *ast.QueryDocument
	vars   map[string]any
	path   []any
	faults []fault
}

// graphQL answers a GraphQL request. A request that the schema does not allow has no data.
func (c *call) graphQL() (out answer) {
	defer func() {
		if r := recover(); r != nil {
			f, is := r.(fault)
			if !is {
				panic(r)
			}
			out = ok(object{"errors": []fault{f}})
		}
	}()
	var asked struct {
		Query         string
		OperationName string
		Variables     map[string]any
	}
	c.decode(&asked)
	doc, err := c.parseQuery(asked.Query, asked.OperationName, asked.Variables)
	if err != nil {
		return c.mistake(err.Error() + ": " + asked.Query)
	}
	op := doc.Operations.ForName(asked.OperationName)
	if op == nil || op.Operation != ast.Query {
		return ok(object{"errors": []fault{{Message: "only one query is answered here"}}})
	}
	x := &execution{call: c, doc: doc, vars: map[string]any{}}
	for _, v := range op.VariableDefinitions {
		if v.DefaultValue != nil {
			x.vars[v.Variable], _ = v.DefaultValue.Value(nil)
		}
	}
	maps.Copy(x.vars, asked.Variables)
	body := object{"data": x.complete(c.query(), op.SelectionSet, nil)}
	if len(x.faults) > 0 {
		body["errors"] = x.faults
	}
	return ok(body)
}

// fields lists the fields of selections on a type, those of fragments included. Fields with the same key are merged.
func (x *execution) fields(set ast.SelectionSet, on node) (merged []*ast.Field) {
	var list []*ast.Field
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			if !x.excluded(s.Directives) {
				field := *s
				list = append(list, &field)
			}
		case *ast.InlineFragment:
			if on.is(s.TypeCondition) && !x.excluded(s.Directives) {
				list = append(list, x.fields(s.SelectionSet, on)...)
			}
		case *ast.FragmentSpread:
			if f := x.doc.Fragments.ForName(s.Name); f != nil && on.is(f.TypeCondition) && !x.excluded(s.Directives) {
				list = append(list, x.fields(f.SelectionSet, on)...)
			}
		}
	}
	for _, f := range list {
		i := slices.IndexFunc(merged, func(m *ast.Field) bool { return m.Alias == f.Alias })
		if i < 0 {
			merged = append(merged, f)
		} else {
			merged[i].SelectionSet = slices.Concat(merged[i].SelectionSet, f.SelectionSet)
		}
	}
	return merged
}

func (x *execution) excluded(list ast.DirectiveList) bool {
	is := func(name string) (value any, given bool) {
		if d := list.ForName(name); d != nil {
			value, _ = d.Arguments.ForName("if").Value.Value(x.vars)
			return value, true
		}
		return nil, false
	}
	skip, skips := is("skip")
	include, includes := is("include")
	return skips && skip == true || includes && include != true
}

// is reports whether an object has a type: its own, or an interface, for which an object has the key "is TYPE".
func (n node) is(typ string) bool {
	return typ == "" || typ == n["__typename"] || typ == "Node" && n["id"] != nil || n["is "+typ] != nil
}

// complete turns the value of a field into JSON: an object into its selected fields, a connection into a page.
func (x *execution) complete(value any, set ast.SelectionSet, args map[string]any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case time.Time:
		return stamp(v)
	case connection:
		return x.complete(pageNode(v, args), set, nil)
	case []node:
		out := []any{}
		for i, n := range v {
			x.path = append(x.path, i)
			out = append(out, x.complete(n, set, nil))
			x.path = x.path[:len(x.path)-1]
		}
		return out
	case node:
		if v == nil {
			return nil
		}
		out := object{}
		for _, f := range x.fields(set, v) {
			x.path = append(x.path, f.Alias)
			out[f.Alias] = x.field(v, f)
			x.path = x.path[:len(x.path)-1]
		}
		return out
	}
	return value
}

// field returns the value of one field of an object; nil after a fault, which it notes.
func (x *execution) field(n node, f *ast.Field) (value any) {
	value, served := n[f.Name]
	if !served {
		panic(fault{
			Path: append([]any{"query"}, x.path...), Message: fmt.Sprintf("Field '%s' doesn't exist on type '%s'", f.Name, n["__typename"]),
			Extensions: object{"code": "undefinedField", "typeName": n["__typename"], "fieldName": f.Name},
		})
	}
	args := map[string]any{}
	for _, a := range f.Arguments {
		args[a.Name], _ = a.Value.Value(x.vars)
	}
	depth := len(x.path)
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(fault)
			if !is || e.Extensions != nil {
				panic(r)
			}
			x.path = x.path[:depth]
			e.Path = slices.Clone(x.path)
			x.faults, value = append(x.faults, e), nil
		}
	}()
	if resolve, dynamic := value.(resolver); dynamic {
		value = resolve(args)
	}
	value = x.complete(value, f.SelectionSet, args)
	if f.Definition != nil && schema() != nil && !conforms(value, f.Definition.Type) {
		panic(x.mistake(fmt.Sprintf("%s is %v, not %s", f.Name, value, f.Definition.Type)))
	}
	return value
}

// pageNode cuts a list into a page, as GitHub does.
func pageNode(list connection, args map[string]any) node {
	total := len(list)
	index := func(name string) (int, bool) {
		after, given := args[name].(string)
		return slices.IndexFunc(list, func(n node) bool { return cursor(n) == after }), given
	}
	start, end := 0, total
	if i, given := index("after"); given {
		start = i + 1
	}
	if i, given := index("before"); given {
		end = i
	}
	first, forward := number(args["first"])
	last, backward := number(args["last"])
	switch n := cmp.Or(first, last); {
	case !forward && !backward:
		panic(fault{Type: "MISSING_PAGINATION_BOUNDARIES", Message: "You must provide a `first` or `last` value to properly paginate the connection."})
	case n < 1 || n > 100:
		panic(fault{Type: "EXCESSIVE_PAGINATION", Message: fmt.Sprintf("Requesting %d records on the connection exceeds the `first` limit of 100 records.", n)})
	case forward:
		end = min(end, start+first)
	default:
		start = max(start, end-last)
	}
	some := []node(list[start:end])
	info := node{"__typename": "PageInfo", "hasNextPage": end < total, "hasPreviousPage": start > 0, "startCursor": nil, "endCursor": nil}
	if len(some) > 0 {
		info["startCursor"], info["endCursor"] = cursor(some[0]), cursor(some[len(some)-1])
	}
	return node{"__typename": "Connection", "nodes": some, "totalCount": total, "pageInfo": info}
}

func cursor(n node) string {
	return base64.StdEncoding.EncodeToString(fmt.Append(nil, "cursor:", n["id"]))
}

// number returns an argument that is a number; false if it is absent.
func number(v any) (int, bool) {
	switch v := v.(type) {
	case float64:
		return int(v), true
	case int64:
		return int(v), true
	}
	return 0, false
}

// texts returns an argument that is a list of words; nil if it is absent.
func texts(v any) (list []string) {
	some, _ := v.([]any)
	for _, one := range some {
		list = append(list, fmt.Sprint(one))
	}
	return list
}

// query returns the fields of Query.
func (c *call) query() node {
	return node{
		"__typename": "Query",
		"viewer":     c.userNode(c.user),
		"rateLimit": node{
			"__typename": "RateLimit", "cost": 1, "limit": c.points.limit, "remaining": c.points.left, "resetAt": c.points.reset,
			"used": c.points.limit - c.points.left,
		},
		"repository": resolver(func(args map[string]any) any {
			name := fmt.Sprint(args["owner"], "/", args["name"])
			for _, r := range c.repos {
				is := func(n string) bool { return strings.EqualFold(n, name) }
				if (is(r.name) || slices.ContainsFunc(r.former, is)) && !c.hidden {
					return c.repositoryNode(r)
				}
			}
			panic(notFound("a Repository with the name '%s'.", name))
		}),
		"user":         resolver(func(args map[string]any) any { return c.ownerNode("User", fmt.Sprint(args["login"])) }),
		"organization": resolver(func(args map[string]any) any { return c.ownerNode("Organization", fmt.Sprint(args["login"])) }),
	}
}

func (s *Server) userNode(login string) node {
	if login == "" {
		return nil
	}
	return node{
		"__typename": "User", "is Actor": true, "id": fmt.Sprint("U_", s.userID(login)), "databaseId": s.userID(login), "login": login,
		"url": siteURL + login, "name": nil,
	}
}

func (s *Server) repositoryNode(r *repository) node {
	owner, name, _ := strings.Cut(r.name, "/")
	issue := func(pulls bool, what string) resolver {
		return func(args map[string]any) any {
			n, _ := number(args["number"])
			if i := r.find(n); i != nil && i.exists() && (pulls || !i.Pull) {
				return s.issueNode(i)
			}
			panic(notFound("%s with the number of %d.", what, n))
		}
	}
	return node{
		"__typename": "Repository", "id": fmt.Sprint("R_", r.id), "databaseId": r.id, "name": name, "nameWithOwner": r.name,
		"owner": s.userNode(owner), "url": siteURL + r.name, "hasIssuesEnabled": !s.NoIssues, "isArchived": false, "isPrivate": true,
		"viewerPermission":   "WRITE",
		"issue":              issue(false, "an Issue"),
		"issueOrPullRequest": issue(true, "an issue or pull request"),
		"issues":             resolver(func(args map[string]any) any { return s.issueNodes(r, args) }),
		"labels":             labelNodes(r, r.labels),
		"assignableUsers": resolver(func(args map[string]any) any {
			list := connection{}
			for _, login := range s.Users {
				if part, _ := args["query"].(string); strings.Contains(strings.ToLower(login), strings.ToLower(part)) {
					list = append(list, s.userNode(login))
				}
			}
			return list
		}),
		"pullRequests": resolver(func(args map[string]any) any { return s.pullNodes(r, args) }),
	}
}

func labelNodes(r *repository, names []string) connection {
	list := connection{}
	for _, name := range names {
		o := r.labelObject(name)
		list = append(list, node{"__typename": "Label", "id": o["node_id"], "name": name, "color": o["color"], "description": nil})
	}
	return list
}

// ordered sorts nodes as the argument orderBy says; by creation, the oldest first, by default.
func ordered(list connection, args map[string]any) connection {
	order, _ := args["orderBy"].(map[string]any)
	by := map[any]string{"UPDATED_AT": "updatedAt"}[order["field"]]
	by = cmp.Or(by, "createdAt")
	slices.SortStableFunc(list, func(a, b node) int { return a[by].(time.Time).Compare(b[by].(time.Time)) })
	if order["direction"] == "DESC" {
		slices.Reverse(list)
	}
	return list
}

func (s *Server) issueNodes(r *repository, args map[string]any) connection {
	filter, _ := args["filterBy"].(map[string]any)
	from := time.Time{}
	if text, given := filter["since"].(string); given {
		var err error
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			panic(fault{Message: err.Error(), Extensions: object{"code": "argumentLiteralsIncompatible"}})
		}
	}
	states := texts(args["states"])
	list := connection{}
	for _, i := range r.issues {
		inState := len(states) == 0 || slices.Contains(states, strings.ToUpper(i.State))
		if i.exists() && !i.Pull && inState && !i.UpdatedAt.Before(from) {
			list = append(list, s.issueNode(i))
		}
	}
	return ordered(list, args)
}

func (s *Server) listed(issues []*Issue) resolver {
	return func(map[string]any) any {
		list := connection{}
		for _, i := range issues {
			list = append(list, s.issueNode(i))
		}
		return list
	}
}

func (s *Server) issueNode(i *Issue) node {
	r := s.repository(i.Repository)
	n := node{
		"__typename": "Issue", "id": nodeID("I", i.ID), "databaseId": i.ID, "fullDatabaseId": fmt.Sprint(i.ID), "number": i.Number,
		"title": i.Title, "body": i.Body, "url": fmt.Sprint(siteURL, r.name, "/issues/", i.Number), "state": strings.ToUpper(i.State),
		"stateReason": nil, "createdAt": i.CreatedAt, "updatedAt": i.UpdatedAt, "closedAt": i.ClosedAt, "author": s.userNode(i.Author),
		"repository": resolver(func(map[string]any) any { return s.repositoryNode(r) }), "labels": labelNodes(r, i.Labels),
		"blockedBy": s.listed(s.blockers(i)), "blocking": s.listed(s.blocks(i)),
		"projectItems": resolver(func(map[string]any) any { return s.itemsOf(i) }),
	}
	if i.Reason != "" {
		n["stateReason"] = strings.ToUpper(i.Reason)
	}
	assignees, comments := connection{}, connection{}
	for _, login := range i.Assignees {
		assignees = append(assignees, s.userNode(login))
	}
	for _, c := range i.Comments {
		comments = append(comments, node{
			"__typename": "IssueComment", "id": nodeID("IC", c.ID), "databaseId": c.ID, "body": c.Body, "author": s.userNode(c.Author),
			"createdAt": c.CreatedAt, "updatedAt": c.UpdatedAt,
		})
	}
	n["assignees"], n["comments"] = assignees, comments
	if s.NoDependencies {
		delete(n, "blockedBy")
		delete(n, "blocking")
	}
	return n
}

func (s *Server) pullNodes(r *repository, args map[string]any) connection {
	states, list := texts(args["states"]), connection{}
	for _, p := range r.pulls {
		n := s.pullNode(r, p)
		if head, given := args["headRefName"].(string); given && p.Branch != head {
			continue
		}
		if len(states) == 0 || slices.Contains(states, n["state"].(string)) {
			list = append(list, n)
		}
	}
	return ordered(list, args)
}

func (s *Server) pullNode(r *repository, p *pull) node {
	none := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	rollup := node(nil)
	if p.Checks != "" {
		rollup = node{"__typename": "StatusCheckRollup", "id": nodeID("SCR", p.issue.ID), "state": p.Checks}
	}
	state := strings.ToUpper(p.State)
	if p.Merged {
		state = "MERGED"
	}
	commit := node{"__typename": "Commit", "id": "C_" + p.Commit, "oid": p.Commit, "statusCheckRollup": rollup}
	return node{
		"__typename": "PullRequest", "id": nodeID("PR", p.issue.ID), "number": p.Number, "title": p.Title, "body": p.Body, "state": state,
		"url": fmt.Sprint(siteURL, r.name, "/pull/", p.Number), "isDraft": p.Draft, "isCrossRepository": false,
		"reviewDecision": none(p.Review), "headRefName": p.Branch, "headRefOid": p.Commit, "baseRefName": p.Base,
		"createdAt": p.issue.CreatedAt, "updatedAt": p.issue.UpdatedAt, "author": s.userNode(p.issue.Author), "statusCheckRollup": rollup,
		"commits": connection{{"__typename": "PullRequestCommit", "id": nodeID("PRC", p.issue.ID), "commit": commit}},
	}
}

// refusal returns what a failure answers to a GraphQL request, where it differs from REST: status 200 with an error.
func (c *call) refusal(f *Failure) (answer, bool) {
	var e fault
	switch f.Kind {
	case FailRateLimit:
		e = pointsGone
	case FailForbidden:
		e = fault{Type: "FORBIDDEN", Message: "Resource not accessible by personal access token"}
	case FailScope:
		e = fault{
			Type: "INSUFFICIENT_SCOPES", Message: "Your token has not been granted the required scopes to execute this query. The 'projectV2' " +
				"field requires one of the following scopes: ['read:project'], but your token has only been granted the: ['repo'] scopes. " +
				"Please modify your token's scopes at: https://github.com/settings/tokens.",
		}
	case FailNotFound:
		c.hidden = true
		return answer{}, false
	default:
		return answer{}, false
	}
	return ok(object{"errors": []fault{e}}), true
}

var pointsGone = fault{Type: "RATE_LIMIT", Code: "graphql_rate_limit", Message: "API rate limit already exceeded for user ID 1."}

// isGraphQL reports whether a request is one to the GraphQL API.
func (c *call) isGraphQL() bool {
	return c.r.Method == http.MethodPost && strings.HasSuffix(c.r.URL.Path, "/graphql")
}

// allowance returns the allowance that the request uses.
func (c *call) allowance() *allowance {
	if c.isGraphQL() {
		return &c.points
	}
	return &c.rest
}
