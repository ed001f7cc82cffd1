package agenttool

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// RequestSummary is the method and the path of a call that sends a request; empty if the
// arguments can't be read.
func RequestSummary(args json.RawMessage) string {
	var in struct{ Method, Path string }
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	return strings.TrimSpace(in.Method + " " + in.Path)
}

// Query turns an argument of a call, such as {"per_page": 50}, into the query of a request. A
// list becomes several values. argument is its name, for the error.
func Query(argument string, given map[string]any) (url.Values, error) {
	values := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		list, isList := given[name].([]any)
		if !isList {
			list = []any{given[name]}
		}
		for _, v := range list {
			switch v := v.(type) {
			case nil:
			case string, bool:
				values.Add(name, fmt.Sprint(v))
			case float64:
				values.Add(name, strconv.FormatFloat(v, 'f', -1, 64))
			default:
				return nil, Refusal(
					"invalid_input",
					argument+"."+name+" must be a text, a number, true or false, or a list of these",
				)
			}
		}
	}
	return values, nil
}
