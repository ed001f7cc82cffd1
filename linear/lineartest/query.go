package lineartest

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"
)

const (
	defaultPage = 50
	largestPage = 250
	// largestComplexity is the price of the most expensive request that Linear accepts, in
	// points.
	largestComplexity = 10000
)

// query is a request while it is answered. Its methods panic with an apiError, which answer
// returns.
type query struct {
	w *workspace
	*graphqltest.Request
}

// answer answers the operation's root fields. Their types are not nullable, so that after any
// error there is no data.
func (q *query) answer() (data map[string]any, errs []apiError) {
	var path []any
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(apiError)
			if !is {
				panic(r)
			}
			e.Path = path
			data = nil
			errs = []apiError{e}
		}
	}()
	resolve := q.w.root
	if q.Operation == ast.Mutation {
		resolve = q.w.mutate
	}
	data = map[string]any{}
	for _, f := range q.fields(q.SelectionSet) {
		path = []any{f.Alias}
		data[f.Alias] = q.complete(resolve(f.Name, q.Arguments(f.Arguments)), f)
	}
	return data, nil
}

// specified are the fields of an issue for section 4.1.1 of the specification, and the
// project, by which its section 11.2 filters.
const specified = " id identifier title description priority state branchName url labels " +
	"inverseRelations createdAt updatedAt project "

// beyond returns the first field that a query asks for beside issues with these fields, or "a
// list without $after"; empty for neither.
func (q *query) beyond() string {
	for _, root := range q.fields(q.SelectionSet) {
		issue := q.fields(root.SelectionSet)
		if root.Name == "issues" {
			if _, given := q.Arguments(root.Arguments)["after"]; !given { // null for the first page
				return "a list without $after"
			}
			at := slices.IndexFunc(issue, func(f *ast.Field) bool { return f.Name == "nodes" })
			issue = q.fields(issue[at].SelectionSet)
		} else if root.Name != "issue" && q.Operation == ast.Query {
			return root.Name
		}
		for _, f := range issue {
			if !strings.Contains(specified, " "+f.Name+" ") && q.Operation == ast.Query {
				return f.Name
			}
		}
	}
	return ""
}

// root answers a field of Query.
func (w *workspace) root(name string, args map[string]any) any {
	switch name {
	case "viewer":
		return w.userObject(w.Users[0])
	case "issue":
		return w.issueObject(w.existing(args["id"]))
	case "issueLabels":
		return w.labelObjects(w.Labels)
	case "issues":
		return connection(text.Map(w.issues, w.issueObject))
	case "projects":
		return connection(text.Map(w.Projects, w.projectObject))
	case "teams":
		list := connection{}
		for n := range w.Teams {
			list = append(list, w.teamObject(&w.Teams[n]))
		}
		return list
	case "users":
		return connection(text.Map(w.Users, w.userObject))
	case "workflowStates":
		list := connection{}
		for n := range w.Teams {
			list = append(list, w.teamObject(&w.Teams[n])["states"].(connection)...)
		}
		return list
	}
	panic(inputError(name + " is not served here"))
}

// fields lists the fields that a selection selects; of fragments on any type, because most
// payloads have no type here.
func (q *query) fields(set ast.SelectionSet) []*ast.Field { return q.Fields(set, "") }

// complete turns the value of a field into JSON: an object into its selected fields, a
// connection into a page.
func (q *query) complete(value any, f *ast.Field) any {
	switch v := value.(type) {
	case func() any:
		return q.complete(v(), f)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z")
	case connection:
		return q.complete(page(v, q.Arguments(f.Arguments)), f)
	case object:
		out := map[string]any{}
		for _, sub := range q.fields(f.SelectionSet) {
			out[sub.Alias] = q.complete(v.field(sub.Name), sub)
		}
		return out
	case []object:
		return text.Map(v, func(o object) any { return q.complete(o, f) })
	}
	return value
}

// page filters a list, sorts it (newest first) and cuts it into a page, as Linear does.
// Archived entries are omitted unless the query includes them.
func page(list connection, args map[string]any) object {
	filter, _ := args["filter"].(map[string]any)
	var kept []object
	for _, o := range slices.Backward(list) {
		if (o["archivedAt"] == nil || args["includeArchived"] == true) && matches(o, filter) {
			kept = append(kept, o)
		}
	}
	by := "createdAt"
	if args["orderBy"] == "updatedAt" {
		by = "updatedAt"
	}
	slices.SortStableFunc(kept, func(a, b object) int { return b[by].(time.Time).Compare(a[by].(time.Time)) })
	first := pageSize(args)
	if first < 1 || first > largestPage {
		panic(inputError(fmt.Sprintf("a page has 1 to %d entries", largestPage)))
	}
	if after, ok := args["after"].(string); ok {
		i := slices.IndexFunc(kept, func(o object) bool { return cursor(o) == after })
		if i < 0 {
			panic(inputError("after is no cursor of this list"))
		}
		kept = kept[i+1:]
	}
	page := kept[:min(int(first), len(kept))]
	info := object{"__typename": "PageInfo", "hasNextPage": len(page) < len(kept), "endCursor": nil}
	if len(page) > 0 {
		info["endCursor"] = cursor(page[len(page)-1])
	}
	return object{"__typename": "Connection", "nodes": page, "pageInfo": info}
}

func cursor(o object) string { return base64.RawURLEncoding.EncodeToString([]byte(o["id"].(string))) }

func pageSize(args map[string]any) float64 {
	if first, given := args["first"]; given {
		return graphqltest.Number(first)
	}
	return defaultPage
}

// matches evaluates a filter: or, filters of linked entities, and comparators of plain fields.
func matches(o object, filter map[string]any) bool {
	for key, want := range filter {
		sub, _ := want.(map[string]any)
		one := func(part any) bool { sub, _ := part.(map[string]any); return matches(o, sub) }
		if list, isList := want.([]any); isList && key == "or" {
			if !slices.ContainsFunc(list, one) {
				return false
			}
		} else if !matchesValue(o.field(key), sub) {
			return false
		}
	}
	return true
}

func matchesValue(value any, filter map[string]any) bool {
	switch v := value.(type) {
	case func() any:
		return matchesValue(v(), filter)
	case nil:
		return false
	case object:
		return matches(v, filter)
	}
	for op, operand := range filter {
		if !compare(value, op, operand) {
			return false
		}
	}
	return true
}

// compare evaluates a comparator.
func compare(value any, op string, want any) bool {
	if t, ok := value.(time.Time); ok {
		w, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(want)) // the schema knows that it is a time
		value = float64(t.UnixNano())
		want = float64(w.UnixNano())
	}
	if base, ok := strings.CutSuffix(op, "IgnoreCase"); ok {
		return compare(strings.ToLower(fmt.Sprint(value)), base, strings.ToLower(fmt.Sprint(want)))
	}
	switch op {
	case "eq":
		return value == want
	case "in":
		list, _ := want.([]any)
		return slices.ContainsFunc(list, func(one any) bool { return compare(value, "eq", one) })
	case "gt":
		return graphqltest.Number(value) > graphqltest.Number(want)
	}
	panic(inputError("the comparator " + op + " is not served here"))
}

// complexity returns the price of a query as Linear computes it: a plain field costs 0.1
// points, an object 1, and a connection multiplies the price of its contents by its argument
// first, or by 50.
func (q *query) complexity() float64 { return math.Ceil(q.price(q.SelectionSet) - 1e-9) }

func (q *query) price(set ast.SelectionSet) (points float64) {
	for _, f := range q.fields(set) {
		if len(f.SelectionSet) == 0 {
			points += 0.1
			continue
		}
		inner := q.price(f.SelectionSet)
		isList := func(s *ast.Field) bool { return s.Name == "nodes" || s.Name == "edges" }
		if slices.ContainsFunc(q.fields(f.SelectionSet), isList) {
			inner *= pageSize(q.Arguments(f.Arguments))
		}
		points += 1 + inner
	}
	return points
}
