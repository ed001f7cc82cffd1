package lineartest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

const (
	defaultPage = 50
	largestPage = 250
)

// connection filters, sorts and cuts a list as Linear does: archived ones left out unless asked for, newest first.
func (x *execution) connection(typ string, list []node, args map[string]any) (any, error) {
	filter, _ := args["filter"].(map[string]any)
	var kept []node
	for _, n := range list {
		if !n.meta().archived.IsZero() && args["includeArchived"] != true {
			continue
		}
		if u, ok := n.(*user); ok && u.inactive && args["includeDisabled"] != true {
			continue
		}
		ok, err := x.matches(n, filter)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, n)
		}
	}
	sortNewest(kept, args["orderBy"] == "updatedAt")
	page, before, after, err := cut(kept, args)
	if err != nil {
		return nil, err
	}
	return connectionRecord(typ, page, before, after), nil
}

func sortNewest(list []node, byUpdate bool) {
	slices.SortStableFunc(list, func(a, b node) int {
		ma, mb := a.meta(), b.meta()
		c := mb.created.Compare(ma.created)
		if byUpdate {
			c = mb.updated.Compare(ma.updated)
		}
		if c == 0 {
			c = mb.seq - ma.seq
		}
		return c
	})
}

func connectionRecord(typ string, page []node, before, after bool) record {
	of := strings.TrimSuffix(typ, "Connection")
	edges := []any{}
	info := map[string]any{"hasNextPage": after, "hasPreviousPage": before}
	for _, n := range page {
		edges = append(edges, record{of + "Edge", map[string]any{"cursor": cursor(n), "node": n}})
	}
	if len(page) > 0 {
		info["startCursor"], info["endCursor"] = cursor(page[0]), cursor(page[len(page)-1])
	}
	return record{typ, map[string]any{
		"edges": edges, "nodes": page, "pageInfo": record{"PageInfo", info},
	}}
}

func cursor(n node) string { return base64.RawURLEncoding.EncodeToString([]byte(n.meta().id)) }

// cut takes the page that first, after, last and before ask for.
func cut(list []node, args map[string]any) (page []node, before, after bool, err error) {
	start, end := 0, len(list)
	if c, ok := args["after"].(string); ok {
		i := slices.IndexFunc(list, func(n node) bool { return cursor(n) == c })
		if i < 0 {
			return nil, false, false, inputError("after is no cursor of this list")
		}
		start = i + 1
	}
	if c, ok := args["before"].(string); ok {
		i := slices.IndexFunc(list, func(n node) bool { return cursor(n) == c })
		if i < 0 {
			return nil, false, false, inputError("before is no cursor of this list")
		}
		end = max(start, i)
	}
	first, hasFirst := integer(args["first"])
	last, hasLast := integer(args["last"])
	if hasFirst && hasLast {
		return nil, false, false, inputError("first and last exclude each other")
	}
	for _, n := range []int{first, last} {
		if n < 0 || n > largestPage {
			return nil, false, false, inputError(fmt.Sprintf("a page has 1 to %d entries", largestPage))
		}
	}
	switch {
	case hasLast:
		start = max(start, end-last)
	case hasFirst:
		end = min(end, start+first)
	default:
		end = min(end, start+defaultPage)
	}
	return list[start:end], start > 0, end < len(list), nil
}

func integer(v any) (int, bool) {
	switch n := v.(type) {
	case int64:
		return int(n), true
	case int:
		return n, true
	case float64:
		return int(n), true
	}
	return 0, false
}
