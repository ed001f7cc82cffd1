package lineartest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// matches evaluates a filter input on a node: and, or and null, comparators on plain fields, filters on linked
// nodes, some/every/length on lists of nodes. The schema has refused what is none of these.
func (x *execution) matches(n node, filter map[string]any) (bool, error) {
	for key, want := range filter {
		if want == nil {
			continue
		}
		ok, err := x.matchesKey(n, key, want)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (x *execution) matchesKey(n node, key string, want any) (bool, error) {
	switch key {
	case "and", "or":
		return x.combined(n, key, want)
	case "null":
		return want == false, nil // there is a node, so it isn't null
	}
	sub, ok := want.(map[string]any)
	if !ok {
		return false, fmt.Errorf("filter %s is no object", key)
	}
	value := n.get(key)
	switch v := value.(type) {
	case []node:
		return x.matchesList(v, sub)
	case node:
		return x.matches(v, sub)
	case nil:
		if isLink(n, key) {
			return sub["null"] == true, nil
		}
	}
	return compare(value, sub)
}

// isLink tells a missing linked node from a missing plain value.
func isLink(n node, key string) bool {
	switch key {
	case "assignee", "creator", "project", "parent", "lead", "user", "issue":
		return true
	case "team":
		_, isLabel := n.(*label)
		return isLabel
	}
	return false
}

func (x *execution) combined(n node, key string, want any) (bool, error) {
	// One value stands for a list of one, as GraphQL coerces it.
	list, ok := want.([]any)
	if !ok {
		list = []any{want}
	}
	for _, w := range list {
		sub, _ := w.(map[string]any)
		ok, err := x.matches(n, sub)
		if err != nil {
			return false, err
		}
		if ok != (key == "and") {
			return ok, nil
		}
	}
	return key == "and", nil
}

// matchesList: without some or every, the plain keys ask for some node that has them all.
func (x *execution) matchesList(list []node, filter map[string]any) (bool, error) {
	some := map[string]any{}
	for key, want := range filter {
		switch key {
		case "length":
			sub, _ := want.(map[string]any)
			if ok, err := compare(float64(len(list)), sub); err != nil || !ok {
				return false, err
			}
		case "every", "some":
			sub, _ := want.(map[string]any)
			if ok, err := x.quantified(list, sub, key == "every"); err != nil || !ok {
				return false, err
			}
		case "and", "or":
			if ok, err := x.combinedList(list, key, want); err != nil || !ok {
				return false, err
			}
		default:
			some[key] = want
		}
	}
	if len(some) == 0 {
		return true, nil
	}
	return x.quantified(list, some, false)
}

func (x *execution) combinedList(list []node, key string, want any) (bool, error) {
	parts, ok := want.([]any)
	if !ok {
		parts = []any{want}
	}
	for _, p := range parts {
		sub, _ := p.(map[string]any)
		ok, err := x.matchesList(list, sub)
		if err != nil {
			return false, err
		}
		if ok != (key == "and") {
			return ok, nil
		}
	}
	return key == "and", nil
}

func (x *execution) quantified(list []node, filter map[string]any, every bool) (bool, error) {
	for _, n := range list {
		ok, err := x.matches(n, filter)
		if err != nil {
			return false, err
		}
		if ok != every {
			return ok, nil
		}
	}
	return every, nil
}

// compare evaluates a comparator input on a plain value.
func compare(value any, comparator map[string]any) (bool, error) {
	for op, want := range comparator {
		if want == nil {
			continue
		}
		ok, err := compareOne(value, op, want)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func compareOne(value any, op string, want any) (bool, error) {
	switch op {
	case "null":
		return (value == nil) == (want == true), nil
	case "eq":
		return equal(value, want), nil
	case "neq":
		return !equal(value, want), nil
	case "in", "nin":
		list, ok := want.([]any)
		if !ok {
			list = []any{want}
		}
		found := slices.ContainsFunc(list, func(w any) bool { return equal(value, w) })
		return found == (op == "in"), nil
	case "lt", "lte", "gt", "gte":
		return ordered(value, op, want)
	}
	text, ok := value.(string)
	if !ok {
		return strings.HasPrefix(op, "not") || strings.HasPrefix(op, "neq"), nil
	}
	return compareText(text, op, fmt.Sprint(want))
}

func compareText(have, op, want string) (bool, error) {
	if base, ok := strings.CutSuffix(op, "IgnoreCase"); ok {
		have, want, op = strings.ToLower(have), strings.ToLower(want), base
	}
	not := false
	switch op {
	case "neq":
		return have != want, nil
	case "notContains", "notEndsWith", "notStartsWith":
		not = true
		op = strings.ToLower(op[3:4]) + op[4:]
	}
	var ok bool
	switch op {
	case "eq":
		ok = have == want
	case "contains":
		ok = strings.Contains(have, want)
	case "startsWith":
		ok = strings.HasPrefix(have, want)
	case "endsWith":
		ok = strings.HasSuffix(have, want)
	default:
		return false, fmt.Errorf("comparator %s is not served", op)
	}
	return ok != not, nil
}

func equal(value, want any) bool {
	if value == nil {
		return want == nil
	}
	if t, ok := value.(time.Time); ok {
		w, err := parseTime(want)
		return err == nil && t.Equal(w)
	}
	if a, ok := decimal(value); ok {
		b, ok := decimal(want)
		return ok && a == b
	}
	if b, ok := value.(bool); ok {
		return b == want
	}
	return fmt.Sprint(value) == fmt.Sprint(want)
}

func ordered(value any, op string, want any) (bool, error) {
	var c int
	switch v := value.(type) {
	case nil:
		return false, nil
	case time.Time:
		w, err := parseTime(want)
		if err != nil {
			return false, inputError(err.Error())
		}
		c = v.Compare(w)
	default:
		a, _ := decimal(value)
		b, ok := decimal(want)
		if !ok {
			return false, inputError(fmt.Sprintf("%v is no number", want))
		}
		switch {
		case a < b:
			c = -1
		case a > b:
			c = 1
		}
	}
	switch op {
	case "lt":
		return c < 0, nil
	case "lte":
		return c <= 0, nil
	case "gt":
		return c > 0, nil
	}
	return c >= 0, nil
}

func decimal(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case json.Number:
		f, err := strconv.ParseFloat(string(n), 64)
		return f, err == nil
	}
	return 0, false
}

// parseTime reads an ISO 8601 time. Linear also takes durations relative to now; those are refused here.
func parseTime(v any) (time.Time, error) {
	s := fmt.Sprint(v)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time this server reads", s)
}
