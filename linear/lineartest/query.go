package lineartest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/internal/graphql"
)

const (
	defaultPage = 50
	largestPage = 250
)

// query is one request being answered.
type query struct {
	w    *workspace
	doc  graphql.Document
	op   graphql.Operation
	vars map[string]any
}

// parse reads a request. The operation is the only one, or the one that is named.
func parse(req request) (*query, error) {
	doc, err := graphql.Parse(req.Query, 50000)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(doc.Operations, func(o graphql.Operation) bool { return o.Name == req.OperationName || req.OperationName == "" })
	if i < 0 || req.OperationName == "" && len(doc.Operations) > 1 {
		return nil, errors.New("operationName must name one of the operations")
	}
	q := &query{doc: doc, op: doc.Operations[i], vars: map[string]any{}}
	for name, value := range q.op.Defaults {
		q.vars[name] = value
	}
	for name, value := range req.Variables {
		q.vars[name] = value
	}
	return q, nil
}

// answer answers the operation's root fields.
func (q *query) answer() (data map[string]any, errs []apiError) {
	resolve := q.w.root
	if q.op.Type == "mutation" {
		resolve = q.w.mutate
	}
	data = map[string]any{}
	for _, f := range q.fields(q.op.Selections) {
		value, err := resolve(f.Name, q.arguments(f))
		if err == nil {
			data[f.Alias], err = q.complete(value, f)
		}
		if err != nil { // all root fields are of types that may not be null
			e := asAPIError(err)
			e.Path = []any{f.Alias}
			return nil, []apiError{e}
		}
	}
	return data, nil
}

// root answers a field of Query.
func (w *workspace) root(name string, args map[string]any) (any, error) {
	list := connection{}
	switch name {
	case "viewer":
		return w.userObject(w.Users[0]), nil
	case "issue":
		if i := w.find(fmt.Sprint(args["id"])); i != nil {
			return w.issueObject(i), nil
		}
		return nil, notFound("Issue")
	case "issueLabels":
		return w.labelObjects(w.Labels), nil
	case "issues":
		for _, i := range w.issues {
			list = append(list, w.issueObject(i))
		}
	case "projects":
		for _, p := range w.Projects {
			list = append(list, w.projectObject(p))
		}
	case "users":
		for _, u := range w.Users {
			list = append(list, w.userObject(u))
		}
	case "workflowStates":
		for n := range w.Teams {
			list = append(list, w.teamObject(&w.Teams[n])["states"].(connection)...)
		}
	default:
		return nil, inputError(name + " is not served here")
	}
	return list, nil
}

// fields lists the fields of selections, those of fragments included, without what @skip and @include exclude. Fields
// with the same key are merged.
func (q *query) fields(selections []graphql.Selection) []graphql.Selection {
	var list []graphql.Selection
	for _, s := range selections {
		if q.excluded(s) {
			continue
		}
		switch {
		case s.Name == "" && s.Spread == "":
			list = append(list, q.fields(s.Selections)...)
		case s.Name == "":
			list = append(list, q.fields(q.doc.Fragments[s.Spread])...)
		default:
			list = append(list, s)
		}
	}
	var merged []graphql.Selection
	for _, s := range list {
		same := func(m graphql.Selection) bool { return m.Alias == s.Alias }
		if i := slices.IndexFunc(merged, same); i >= 0 {
			merged[i].Selections = slices.Concat(merged[i].Selections, s.Selections)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func (q *query) excluded(s graphql.Selection) bool {
	skip, include := s.Directives["skip"], s.Directives["include"]
	return skip != nil && q.value(skip["if"]) == true || include != nil && q.value(include["if"]) != true
}

// arguments are a field's arguments with the values of the variables. A variable without a value is left out.
func (q *query) arguments(f graphql.Selection) map[string]any {
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
		list := make([]any, len(v))
		for i := range v {
			list[i] = q.value(v[i])
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for key, value := range v {
			if name, isVariable := value.(graphql.Variable); isVariable {
				if _, given := q.vars[string(name)]; !given {
					continue
				}
			}
			object[key] = q.value(value)
		}
		return object
	}
	return v
}

// complete turns the value of a field into JSON: of an object the fields that are selected, of a connection a page.
func (q *query) complete(value any, f graphql.Selection) (any, error) {
	switch v := value.(type) {
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z"), nil
	case connection:
		page, err := q.page(v, q.arguments(f))
		if err != nil {
			return nil, err
		}
		return q.complete(page, f)
	case object:
		out := map[string]any{}
		for _, sub := range q.fields(f.Selections) {
			field, err := v.field(sub.Name)
			if err != nil {
				return nil, err
			}
			if out[sub.Alias], err = q.complete(field, sub); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []object:
		out := []any{}
		for _, o := range v {
			item, err := q.complete(o, f)
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
		return out, nil
	}
	return value, nil
}

// page filters, sorts (newest first) and cuts a list as Linear does. Archived entries are left out unless asked for.
func (q *query) page(list connection, args map[string]any) (object, error) {
	filter, _ := args["filter"].(map[string]any)
	var kept []object
	for _, o := range list {
		if o["archivedAt"] != nil && args["includeArchived"] != true {
			continue
		}
		ok, err := matches(o, filter)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, o)
		}
	}
	slices.Reverse(kept)
	by := "createdAt"
	if args["orderBy"] == "updatedAt" {
		by = "updatedAt"
	}
	slices.SortStableFunc(kept, func(a, b object) int { return b[by].(time.Time).Compare(a[by].(time.Time)) })
	first, given := number(args["first"])
	if !given {
		first = defaultPage
	}
	if first < 1 || first > largestPage {
		return nil, inputError(fmt.Sprintf("a page has 1 to %d entries", largestPage))
	}
	if after, ok := args["after"].(string); ok {
		i := slices.IndexFunc(kept, func(o object) bool { return cursor(o) == after })
		if i < 0 {
			return nil, inputError("after is no cursor of this list")
		}
		kept = kept[i+1:]
	}
	page := kept[:min(int(first), len(kept))]
	info := object{"__typename": "PageInfo", "hasNextPage": len(page) < len(kept), "endCursor": nil}
	if len(page) > 0 {
		info["endCursor"] = cursor(page[len(page)-1])
	}
	return object{"__typename": "Connection", "nodes": page, "pageInfo": info}, nil
}

func cursor(o object) string { return base64.RawURLEncoding.EncodeToString([]byte(o["id"].(string))) }

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

// matches evaluates a filter: and, or, filters of linked entities, and comparators of plain fields.
func matches(o object, filter map[string]any) (bool, error) {
	for key, want := range filter {
		ok, err := matchesKey(o, key, want)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func matchesKey(o object, key string, want any) (bool, error) {
	if want == nil {
		return true, nil
	}
	if key == "and" || key == "or" {
		list, ok := want.([]any)
		if !ok {
			list = []any{want}
		}
		for _, part := range list {
			sub, _ := part.(map[string]any)
			if ok, err := matches(o, sub); err != nil || ok == (key == "or") {
				return ok, err
			}
		}
		return key == "and", nil
	}
	sub, ok := want.(map[string]any)
	if !ok {
		return false, inputError("filter " + key + " is no object")
	}
	value, err := o.field(key)
	if err != nil {
		return false, err
	}
	switch v := value.(type) {
	case nil:
		return sub["null"] == true, nil
	case object:
		return matches(v, sub)
	case connection:
		for _, item := range v {
			if ok, err := matches(item, sub); err != nil || ok {
				return ok, err
			}
		}
		return false, nil
	default:
		for op, operand := range sub {
			if ok, err := compare(v, op, operand); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	}
}

// compare evaluates one comparator.
func compare(value any, op string, want any) (bool, error) {
	if t, ok := value.(time.Time); ok {
		w, err := time.Parse(time.RFC3339Nano, fmt.Sprint(want))
		if err != nil {
			return false, inputError(err.Error())
		}
		value, want = float64(t.UnixNano()), float64(w.UnixNano())
	}
	if base, ok := strings.CutSuffix(op, "IgnoreCase"); ok {
		return compare(strings.ToLower(fmt.Sprint(value)), base, strings.ToLower(fmt.Sprint(want)))
	}
	switch op {
	case "eq":
		return value == want, nil
	case "in":
		list, _ := want.([]any)
		return slices.Contains(list, value), nil
	case "null":
		return want != true, nil
	case "gt":
		a, _ := number(value)
		b, _ := number(want)
		return a > b, nil
	}
	return false, inputError("the comparator " + op + " is not served here")
}

// largestComplexity is what Linear accepts for one request, in points.
const largestComplexity = 10000

// complexity is the price of a query as Linear counts it: a plain field 0.1 points, an object 1, and a connection multiplies
// what it contains by its first, or by 50.
func (q *query) complexity() float64 { return math.Ceil(q.price(q.op.Selections) - 1e-9) }

func (q *query) price(selections []graphql.Selection) (points float64) {
	for _, f := range q.fields(selections) {
		if len(f.Selections) == 0 {
			points += 0.1
			continue
		}
		inner := q.price(f.Selections)
		isList := func(s graphql.Selection) bool { return s.Name == "nodes" || s.Name == "edges" }
		if slices.ContainsFunc(q.fields(f.Selections), isList) {
			first, given := number(q.arguments(f)["first"])
			if !given {
				first = defaultPage
			}
			inner *= first
		}
		points += 1 + inner
	}
	return points
}
