package githubtest

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"
)

// node is an object of the GraphQL API, with the fields that symphony asks for. Its values are
// JSON values, a time, nodes, a connection, or a resolver.
type node map[string]any

// connection is a list that a query reads in pages.
type connection []node

// resolver returns the value of a field with these arguments. It panics with a fault if there
// is none.
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
	asked  *graphqltest.Request
	path   []any
	faults []fault
}

// graphQL answers a GraphQL query. A request that the schema does not allow is answered
// without data.
func (c *call) graphQL() answer {
	var asked struct {
		Query         string
		OperationName string
		Variables     map[string]any
	}
	c.decode(&asked)
	r, err := graphqltest.Parse(asked.Query, asked.OperationName, asked.Variables)
	if err == nil && schema() != nil {
		err = errors.Join(r.Validate(schema())...)
	}
	if err != nil {
		return c.mistake(err.Error() + ": " + asked.Query)
	}
	x := &execution{call: c, asked: r}
	root := x.query()
	if r.Operation == ast.Mutation {
		root = x.mutation()
	}
	body := object{"data": x.complete(root, r.SelectionSet, nil)}
	if len(x.faults) > 0 {
		body["errors"] = x.faults
	}
	if slices.ContainsFunc(x.faults, func(f fault) bool { return f.Extensions != nil }) {
		delete(body, "data") // the query is refused
	}
	return ok(body)
}

// complete turns the value of a field into JSON: an object into its selected fields, a
// connection into a page.
func (x *execution) complete(value any, set ast.SelectionSet, args map[string]any) any {
	switch v := value.(type) {
	case time.Time:
		return stamp(v)
	case connection:
		return x.complete(pageNode(v, args), set, nil)
	case []node:
		list := make([]any, len(v))
		for i, n := range v {
			if f, hidden := n["fault"].(fault); hidden { // the token may not see it
				f.Path = append(slices.Clone(x.path), i)
				x.faults = append(x.faults, f)
				continue
			}
			list[i] = x.complete(n, set, nil)
		}
		return list
	case node:
		if v == nil {
			return nil
		}
		out := object{}
		typ, _ := v["__typename"].(string) // empty for an object with only a single possible type
		for _, f := range x.asked.Fields(set, typ) {
			x.path = append(x.path, f.Alias)
			out[f.Alias] = x.field(v, f)
			x.path = x.path[:len(x.path)-1]
		}
		return out
	}
	return value
}

// field returns the value of a field of an object; nil after a fault, which it notes.
func (x *execution) field(n node, f *ast.Field) (value any) {
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(fault)
			if !is {
				panic(r)
			}
			e.Path = slices.Clone(x.path)
			x.faults = append(x.faults, e)
			value = nil
		}
	}()
	value, served := n[f.Name]
	if !served {
		panic(fault{
			Message: fmt.Sprintf("Field '%s' doesn't exist on type '%v'", f.Name, n["__typename"]),
			Extensions: object{
				"code":      "undefinedField",
				"typeName":  n["__typename"],
				"fieldName": f.Name,
			},
		})
	}
	args := x.asked.Arguments(f.Arguments)
	if resolve, dynamic := value.(resolver); dynamic {
		value = resolve(args)
	}
	value = x.complete(value, f.SelectionSet, args)
	if f.Definition != nil && schema() != nil && !conforms(value, f.Definition.Type) {
		panic(x.mistake(fmt.Sprintf("%s is %v, not %s", f.Name, value, f.Definition.Type)))
	}
	return value
}

// pageNode cuts a list into a page, as GitHub does: the first entries after a cursor, or the
// last ones.
func pageNode(list connection, args map[string]any) node {
	if after, given := args["after"].(string); given {
		list = list[1+slices.IndexFunc(list, func(n node) bool { return cursor(n) == after }):]
	}
	if before, given := args["before"].(string); given {
		list = list[:max(0, slices.IndexFunc(list, func(n node) bool { return cursor(n) == before }))]
	}
	first := number(args["first"])
	last := number(args["last"])
	n := cmp.Or(first, last)
	switch {
	case args["first"] == nil && args["last"] == nil:
		panic(fault{
			Type: "MISSING_PAGINATION_BOUNDARIES",
			Message: "You must provide a `first` or `last` value " +
				"to properly paginate the connection.",
		})
	case n < 1 || n > 100:
		message := fmt.Sprintf(
			"Requesting %d records on the connection exceeds the `first` limit of 100 records.",
			n,
		)
		panic(fault{Type: "EXCESSIVE_PAGINATION", Message: message})
	}
	some := []node(list[:min(len(list), first)])
	if last > 0 {
		some = list[max(0, len(list)-last):]
	}
	info := node{
		"hasNextPage":     first > 0 && len(some) < len(list),
		"endCursor":       nil,
		"hasPreviousPage": last > 0 && len(some) < len(list),
		"startCursor":     nil,
	}
	if len(some) > 0 {
		info["startCursor"] = cursor(some[0])
		info["endCursor"] = cursor(some[len(some)-1])
	}
	return node{"nodes": some, "pageInfo": info, "totalCount": len(list)}
}

func cursor(n node) string {
	return base64.StdEncoding.EncodeToString(fmt.Append(nil, "cursor:", n["id"]))
}

// number returns an argument that is a number; 0 if it is absent.
func number(v any) int { return int(graphqltest.Number(v)) }

// named reports whether a list of words contains a word; also if it is absent.
func named(list any, word string) bool {
	some, given := list.([]any)
	return !given || slices.Contains(some, any(word))
}

// query returns the fields of Query.
func (x *execution) query() node {
	return node{
		"viewer": userNode(x.user),
		"repository": resolver(func(args map[string]any) any {
			name := fmt.Sprint(args["owner"], "/", args["name"])
			is := func(n string) bool { return strings.EqualFold(n, name) }
			r := text.First(
				x.repos,
				func(r *repository) bool { return is(r.name) || slices.ContainsFunc(r.former, is) },
			)
			if r == nil {
				panic(notFound("a Repository with the name '%s'.", name))
			}
			return x.repositoryNode(r)
		}),
		"user": resolver(
			func(args map[string]any) any { panic(notFound("a User with the login of '%s'.", args["login"])) },
		),
		"organization": resolver(func(args map[string]any) any {
			if x.board == nil || !strings.EqualFold(x.board.Owner, fmt.Sprint(args["login"])) {
				panic(notFound("an Organization with the login of '%s'.", args["login"]))
			}
			return node{"projectV2": resolver(x.boardNode)}
		}),
	}
}

func userNode(login string) node {
	return node{"id": fmt.Sprint("U_", userID(login)), "login": login, "databaseId": userID(login)}
}

func (x *execution) repositoryNode(r *repository) node {
	return node{
		"id":                 fmt.Sprint("R_", r.id),
		"nameWithOwner":      r.name,
		"url":                siteURL + r.name,
		"hasIssuesEnabled":   !x.NoIssues,
		"isArchived":         x.Archived,
		"viewerPermission":   cmp.Or(x.Permission, "WRITE"),
		"autoMergeAllowed":   !x.NoAutoMerge,
		"mergeCommitAllowed": x.allows("merge"),
		"rebaseMergeAllowed": x.allows("rebase"),
		"squashMergeAllowed": x.allows("squash"),
		"labels":             connection(text.Map(r.labels, r.labelNode)),
		"issue": resolver(func(args map[string]any) any {
			i := r.find(number(args["number"]))
			if i == nil || !i.exists() || i.Pull {
				panic(notFound("an Issue with the number of %d.", number(args["number"])))
			}
			return x.issueNode(i)
		}),
		"issues": resolver(func(args map[string]any) any { return x.issueNodes(r, args) }),
		"assignableUsers": resolver(func(args map[string]any) any {
			part, _ := args["query"].(string)
			like := func(login string) bool { return strings.Contains(login, strings.ToLower(part)) }
			return connection(text.Map(text.Filter(users, like), userNode))
		}),
		"pullRequests": resolver(func(args map[string]any) any { return x.pullNodes(r, args) }),
		"pullRequest": resolver(func(args map[string]any) any {
			p := text.First(r.pulls, func(p *pull) bool { return p.Number == number(args["number"]) })
			if p == nil {
				panic(notFound("a PullRequest with the number of %d.", number(args["number"])))
			}
			return x.pullNode(r, p)
		}),
		"object": resolver(x.objectNode),
	}
}

func (r *repository) labelNode(name string) node {
	times := r.labelTimes[slices.Index(r.labels, name)]
	return node{
		"id":        r.labelID(name),
		"name":      name,
		"createdAt": times.created,
		"updatedAt": times.updated,
	}
}

// timelineNodes are the events of an issue. Only labels that were set are served.
func (r *repository) timelineNodes(i *Issue, args map[string]any) connection {
	types, _ := args["itemTypes"].([]any)
	if len(types) != 1 || types[0] != "LABELED_EVENT" {
		panic(fault{Message: "only LABELED_EVENT is served here"})
	}
	return text.Map(i.labeled, func(e labelEvent) node {
		actor := userNode(e.by)
		actor["__typename"] = "User"
		actor["databaseId"] = userID(e.by)
		if login, isBot := strings.CutSuffix(e.by, "[bot]"); isBot {
			actor["__typename"] = "Bot"
			actor["login"] = login
		}
		return node{
			"__typename": "LabeledEvent",
			"id":         nodeID("LE", e.id),
			"createdAt":  e.at,
			"label":      node{"id": e.label},
			"actor":      actor,
		}
	})
}

// ordered sorts nodes by the argument orderBy; by creation, the oldest first, by default.
func ordered(list connection, args map[string]any) connection {
	order, _ := args["orderBy"].(map[string]any)
	by := "createdAt"
	if order["field"] == "UPDATED_AT" {
		by = "updatedAt"
	}
	slices.SortStableFunc(list, func(a, b node) int { return a[by].(time.Time).Compare(b[by].(time.Time)) })
	if order["direction"] == "DESC" {
		slices.Reverse(list)
	}
	return list
}

func (x *execution) issueNodes(r *repository, args map[string]any) connection {
	filter, _ := args["filterBy"].(map[string]any)
	since, _ := filter["since"].(string)
	from, _ := time.Parse(time.RFC3339, since) // zero without the argument
	list := text.Filter(r.issues, func(i *Issue) bool {
		return i.exists() && !i.Pull && named(args["states"], strings.ToUpper(i.State)) &&
			!i.UpdatedAt.Before(from)
	})
	return ordered(text.Map(list, x.issueNode), args)
}

func (x *execution) issueNode(i *Issue) node {
	r := x.repository(i.Repository)
	comments := text.Map(i.Comments, func(c Comment) node {
		return node{
			"id":        nodeID("IC", c.ID),
			"createdAt": c.CreatedAt,
		}
	})
	blockers := text.Map(x.blockers(i), func(b *Issue) node {
		return node{
			"id":         nodeID("I", b.ID),
			"number":     b.Number,
			"state":      strings.ToUpper(b.State),
			"repository": node{"nameWithOwner": b.Repository},
		}
	})
	closing := func(args map[string]any) any { return x.closingNodes(i, args["includeClosedPrs"] == true) }
	n := node{
		"__typename":                     "Issue",
		"id":                             nodeID("I", i.ID),
		"databaseId":                     i.ID,
		"fullDatabaseId":                 fmt.Sprint(i.ID),
		"number":                         i.Number,
		"title":                          i.Title,
		"body":                           i.Body,
		"url":                            fmt.Sprint(siteURL, r.name, "/issues/", i.Number),
		"state":                          strings.ToUpper(i.State),
		"createdAt":                      i.CreatedAt,
		"updatedAt":                      i.UpdatedAt,
		"repository":                     node{"nameWithOwner": r.name},
		"assignees":                      connection(text.Map(i.Assignees, userNode)),
		"labels":                         connection(text.Map(i.Labels, r.labelNode)),
		"comments":                       connection(comments),
		"blockedBy":                      connection(blockers),
		"projectItems":                   x.itemsOf(i),
		"closedByPullRequestsReferences": resolver(closing),
		"timelineItems": resolver(
			func(args map[string]any) any { return r.timelineNodes(i, args) },
		),
	}
	return n
}

// closingNodes are the pull requests of all repositories that close an issue, without closed
// ones unless they are wanted.
func (x *execution) closingNodes(i *Issue, closed bool) connection {
	if x.NoPulls {
		panic(graphQLRefusals[FailForbidden])
	}
	list := connection{}
	for _, r := range x.repos {
		for _, p := range r.pulls {
			if !slices.Contains(p.Closes, i.Ref()) || p.issue.State != "open" && !closed {
				continue
			}
			author := node{
				"__typename": accountType(p.Bot),
				"login":      p.issue.Author,
			}
			if p.issue.Author == "ghost" {
				author = nil
			}
			list = append(list, node{
				"__typename":        "PullRequest",
				"id":                nodeID("PR", p.issue.ID),
				"url":               fmt.Sprint(siteURL, r.name, "/pull/", p.Number),
				"state":             strings.ToUpper(p.issue.State),
				"headRefName":       p.Branch,
				"isCrossRepository": p.Foreign,
				"viewerDidAuthor":   p.issue.Author == users[0],
				"author":            author,
			})
		}
	}
	return list
}

func accountType(isBot bool) string {
	if isBot {
		return "Bot"
	}
	return "User"
}

func (x *execution) pullNodes(r *repository, args map[string]any) connection {
	hidden := x.Next(func(f *Failure) bool { return f.Kind == FailHideNext }) != nil
	late := func(p *pull) bool { return hidden && p.Base == x.defaultBranch(x.r.Context()) }
	list := text.Filter(r.pulls, func(p *pull) bool { return args["headRefName"] == p.Branch && !late(p) })
	return ordered(text.Map(list, func(p *pull) node { return x.pullNode(r, p) }), args)
}

func (x *execution) pullNode(r *repository, p *pull) node {
	state := strings.ToUpper(p.State)
	if p.Merged {
		state = "MERGED"
	}
	mergeable := func(map[string]any) any {
		switch {
		case p.State != "open" || p.unsure:
			p.unsure = false
			return "UNKNOWN"
		case p.Conflict:
			return "CONFLICTING"
		}
		return "MERGEABLE"
	}
	comments := text.Map(p.issue.Comments, func(o Comment) node {
		return node{"id": nodeID("IC", o.ID), "body": o.Body, "viewerDidAuthor": o.Author == x.user}
	})
	reviews := connection{}
	for i, r := range p.Reviews {
		reviews = append(reviews, r.node(int64(1000*p.Number+i)))
	}
	opinions := func(args map[string]any) any {
		writersOnly, _ := args["writersOnly"].(bool)
		return p.opinions(reviews, writersOnly)
	}
	n := node{
		"__typename":               "PullRequest",
		"id":                       nodeID("PR", p.issue.ID),
		"number":                   p.Number,
		"url":                      fmt.Sprint(siteURL, r.name, "/pull/", p.Number),
		"state":                    state,
		"isDraft":                  p.Draft,
		"isCrossRepository":        p.Foreign,
		"reviewDecision":           orNull(p.Review),
		"createdAt":                p.issue.CreatedAt,
		"headRefName":              p.Branch,
		"headRefOid":               p.Commit,
		"baseRefName":              p.Base,
		"mergeable":                resolver(mergeable),
		"comments":                 connection(comments),
		"commits":                  resolver(func(args map[string]any) any { return x.commitNodes(p, args) }),
		"reviews":                  reviews,
		"latestOpinionatedReviews": resolver(opinions),
	}
	maps.Copy(n, x.mergeNode(p))
	return n
}

// commitNodes are the commits of a pull request, the oldest first. Without a Remote only the
// newest is known.
func (x *execution) commitNodes(p *pull, args map[string]any) connection {
	ids := []string{p.Commit}
	if x.remote != "" && number(args["last"]) > 1 {
		ids = strings.Fields(x.git(x.r.Context(), "rev-list", "--reverse", p.Commit, "^refs/heads/"+p.Base))
	}
	list := connection{}
	for _, id := range ids {
		state := ""
		if id == p.Commit {
			state = p.Checks
		}
		list = append(list, node{
			"id":     nodeID("PRC", p.issue.ID) + id,
			"commit": x.commitNode(id, state),
		})
	}
	return list
}

// opinions are the last approval or request for changes of each person; only of people who may
// push if writersOnly.
func (p *pull) opinions(reviews connection, writersOnly bool) connection {
	list := connection{}
	seen := map[string]bool{}
	for i, r := range slices.Backward(p.Reviews) {
		opinion := r.State == "APPROVED" || r.State == "CHANGES_REQUESTED" || r.State == "DISMISSED"
		if opinion && !seen[r.Author] && (r.Writer || !writersOnly) {
			seen[r.Author] = true
			list = append(list, reviews[i])
		}
	}
	slices.Reverse(list)
	return list
}

func (r Review) node(id int64) node {
	author := node(nil)
	commit := node(nil)
	at := any(r.At)
	lines := connection{}
	if r.Author != "" {
		author = node{
			"__typename": accountType(r.Bot),
			"login":      r.Author,
		}
	}
	if r.Commit != "" {
		commit = node{"__typename": "Commit", "oid": r.Commit}
	}
	if r.State == "PENDING" {
		at = nil
	}
	for i, l := range r.Lines {
		line := any(l.Line)
		if l.Line == 0 {
			line = nil
		}
		lines = append(lines, node{
			"id":   nodeID("PRRC", int64(i)),
			"path": l.Path,
			"line": line,
			"body": l.Body,
		})
	}
	return node{
		"id":                        nodeID("PRR", id),
		"author":                    author,
		"authorAssociation":         cmp.Or(r.Role, "NONE"),
		"authorCanPushToRepository": r.Writer,
		"state":                     r.State,
		"submittedAt":               at,
		"body":                      r.Body,
		"commit":                    commit,
		"comments":                  lines,
	}
}

var pointsGone = fault{
	Type:    "RATE_LIMIT",
	Code:    "graphql_rate_limit",
	Message: "API rate limit already exceeded for user ID 1.",
}

// isGraphQL reports whether a request is made to the GraphQL API.
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
