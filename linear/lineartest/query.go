package lineartest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/internal/graphql"
)

const (
	defaultPage = 50
	largestPage = 250
	// largestComplexity is what Linear accepts for one request, in points.
	largestComplexity = 10000
)

type selection = graphql.Selection

// query is a request while it is answered. Its methods panic with an apiError, which answer returns.
type query struct {
	w    *workspace
	doc  graphql.Document
	op   graphql.Operation
	vars map[string]any
}

// parse parses a request. The operation is the only one, or the one that operationName names.
func parse(req request) (*query, error) {
	doc, err := graphql.Parse(req.Query, 50000)
	if err != nil {
		return &query{}, err
	}
	i := slices.IndexFunc(doc.Operations, func(o graphql.Operation) bool { return o.Name == req.OperationName || req.OperationName == "" })
	if i < 0 || req.OperationName == "" && len(doc.Operations) > 1 {
		return &query{}, errors.New("operationName must name one of the operations")
	}
	q := &query{doc: doc, op: doc.Operations[i], vars: map[string]any{}}
	maps.Copy(q.vars, q.op.Defaults)
	maps.Copy(q.vars, req.Variables)
	return q, nil
}

// answer answers the operation's root fields. Their types are not nullable, so that after one error there is no data.
func (q *query) answer() (data map[string]any, errs []apiError) {
	var path []any
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(apiError)
			if !is {
				panic(r)
			}
			e.Path = path
			data, errs = nil, []apiError{e}
		}
	}()
	resolve := q.w.root
	if q.op.Type == "mutation" {
		resolve = q.w.mutate
	}
	data = map[string]any{}
	for _, f := range q.fields(q.op.Selections) {
		path = []any{f.Alias}
		data[f.Alias] = q.complete(resolve(f.Name, q.arguments(f)), f)
	}
	return data, nil
}

// specified are the fields of an issue for section 4.1.1 of the specification, and the project, by which its section 11.2 filters.
const specified = " id identifier title description priority state branchName url labels inverseRelations createdAt updatedAt project "

// beyond returns what a query asks for beside issues with these fields, or that it asks for a list without $after; empty for neither.
func (q *query) beyond() string {
	for _, root := range q.fields(q.op.Selections) {
		issue := q.fields(root.Selections)
		if root.Name == "issues" {
			if _, given := q.vars["after"]; !given { // null for the first page
				return "a list without $after"
			}
			at := slices.IndexFunc(issue, func(f selection) bool { return f.Name == "nodes" })
			issue = q.fields(issue[at].Selections)
		} else if root.Name != "issue" && q.op.Type == "query" {
			return root.Name
		}
		for _, f := range issue {
			if !strings.Contains(specified, " "+f.Name+" ") && q.op.Type == "query" {
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

// fields lists the fields of selections, those of fragments included, without those that @skip and @include exclude. Fields with
// the same key are merged.
func (q *query) fields(selections []selection) (merged []selection) {
	var list []selection
	for _, s := range selections {
		switch {
		case q.excluded(s):
		case s.Name == "" && s.Spread == "":
			list = append(list, q.fields(s.Selections)...)
		case s.Name == "":
			list = append(list, q.fields(q.doc.Fragments[s.Spread])...)
		default:
			list = append(list, s)
		}
	}
	for _, s := range list {
		same := func(m selection) bool { return m.Alias == s.Alias }
		if i := slices.IndexFunc(merged, same); i >= 0 {
			merged[i].Selections = slices.Concat(merged[i].Selections, s.Selections)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func (q *query) excluded(s selection) bool {
	skip, include := s.Directives["skip"], s.Directives["include"]
	return skip != nil && q.value(skip["if"]) == true || include != nil && q.value(include["if"]) != true
}

// arguments returns a field's arguments with the values of the variables. A variable without a value is omitted.
func (q *query) arguments(f selection) map[string]any {
	args, _ := q.value(f.Arguments).(map[string]any)
	return args
}

func (q *query) value(v any) any {
	switch v := v.(type) {
	case graphql.Variable:
		return q.vars[string(v)]
	case graphql.Enum:
		return string(v)
	case []any:
		return text.Map(v, q.value)
	case map[string]any:
		object := map[string]any{}
		for key, value := range v {
			name, isVariable := value.(graphql.Variable)
			if _, given := q.vars[string(name)]; given || !isVariable {
				object[key] = q.value(value)
			}
		}
		return object
	}
	return v
}

// complete turns the value of a field into JSON: an object into its selected fields, a connection into a page.
func (q *query) complete(value any, f selection) any {
	switch v := value.(type) {
	case func() any:
		return q.complete(v(), f)
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z")
	case connection:
		return q.complete(page(v, q.arguments(f)), f)
	case object:
		out := map[string]any{}
		for _, sub := range q.fields(f.Selections) {
			out[sub.Alias] = q.complete(v.field(sub.Name), sub)
		}
		return out
	case []object:
		return text.Map(v, func(o object) any { return q.complete(o, f) })
	}
	return value
}

// page filters a list, sorts it (newest first) and cuts it into a page, as Linear does. Archived entries are omitted unless the
// query includes them.
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
		return number(first)
	}
	return defaultPage
}

func number(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	n, _ := v.(float64)
	return n
}

// matches evaluates a filter: and, or, filters of linked entities, and comparators of plain fields.
func matches(o object, filter map[string]any) bool {
	for key, want := range filter {
		switch list, _ := want.([]any); {
		case want == nil:
		case key == "or" || key == "and":
			one := func(part any) bool { sub, _ := part.(map[string]any); return matches(o, sub) == (key == "or") }
			if slices.ContainsFunc(list, one) != (key == "or") {
				return false
			}
		default:
			sub, ok := want.(map[string]any)
			if !ok {
				panic(inputError("filter " + key + " is no object"))
			}
			if !matchesValue(o.field(key), sub) {
				return false
			}
		}
	}
	return true
}

func matchesValue(value any, filter map[string]any) bool {
	switch v := value.(type) {
	case func() any:
		return matchesValue(v(), filter)
	case nil:
		return filter["null"] == true
	case object:
		return matches(v, filter)
	case connection:
		return slices.ContainsFunc(v, func(o object) bool { return matches(o, filter) })
	}
	for op, operand := range filter {
		if !compare(value, op, operand) {
			return false
		}
	}
	return true
}

// compare evaluates one comparator.
func compare(value any, op string, want any) bool {
	if t, ok := value.(time.Time); ok {
		w, err := time.Parse(time.RFC3339Nano, fmt.Sprint(want))
		if err != nil {
			panic(inputError(err.Error()))
		}
		value, want = float64(t.UnixNano()), float64(w.UnixNano())
	}
	if base, ok := strings.CutSuffix(op, "IgnoreCase"); ok {
		return compare(strings.ToLower(fmt.Sprint(value)), base, strings.ToLower(fmt.Sprint(want)))
	}
	switch op {
	case "eq":
		return value == want
	case "in":
		list, _ := want.([]any)
		return slices.Contains(list, value)
	case "null":
		return want != true
	case "gt":
		return number(value) > number(want)
	}
	panic(inputError("the comparator " + op + " is not served here"))
}

// complexity returns the price of a query as Linear computes it: a plain field costs 0.1 points, an object 1, and a connection
// multiplies the price of its contents by its argument first, or by 50.
func (q *query) complexity() float64 { return math.Ceil(q.price(q.op.Selections) - 1e-9) }

func (q *query) price(selections []selection) (points float64) {
	for _, f := range q.fields(selections) {
		if len(f.Selections) == 0 {
			points += 0.1
			continue
		}
		inner := q.price(f.Selections)
		isList := func(s selection) bool { return s.Name == "nodes" || s.Name == "edges" }
		if slices.ContainsFunc(q.fields(f.Selections), isList) {
			inner *= pageSize(q.arguments(f))
		}
		points += 1 + inner
	}
	return points
}
