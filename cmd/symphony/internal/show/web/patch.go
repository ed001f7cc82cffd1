package web

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// operation is one of a JSON Patch (RFC 6902).
type operation map[string]any

var escapeName = strings.NewReplacer("~", "~0", "/", "~1")

// patch appends the operations that turn one decoded JSON value into another to ops. path is where the values are.
func patch(ops []operation, path string, was, now any) []operation {
	switch was := was.(type) {
	case map[string]any:
		if now, ok := now.(map[string]any); ok {
			return patchObject(ops, path, was, now)
		}
	case []any:
		if now, ok := now.([]any); ok {
			return patchList(ops, path, was, now)
		}
	}
	if !reflect.DeepEqual(was, now) {
		ops = append(ops, operation{"op": "replace", "path": path, "value": now})
	}
	return ops
}

func patchObject(ops []operation, path string, was, now map[string]any) []operation {
	names := slices.AppendSeq(slices.Collect(maps.Keys(was)), maps.Keys(now))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		old, had := was[name]
		v, has := now[name]
		switch at := path + "/" + escapeName.Replace(name); {
		case !has:
			ops = append(ops, operation{"op": "remove", "path": at})
		case !had:
			ops = append(ops, operation{"op": "add", "path": at, "value": v})
		default:
			ops = patch(ops, at, old, v)
		}
	}
	return ops
}

// patchList leaves what is equal at the beginning and at the end of both lists: mostly one element came, went or changed.
func patchList(ops []operation, path string, was, now []any) []operation {
	begin, shorter := 0, min(len(was), len(now))
	for begin < shorter && reflect.DeepEqual(was[begin], now[begin]) {
		begin++
	}
	end := 0
	for end < shorter-begin && reflect.DeepEqual(was[len(was)-1-end], now[len(now)-1-end]) {
		end++
	}
	was, now = was[begin:len(was)-end], now[begin:len(now)-end]
	for i := range max(len(was), len(now)) {
		switch at := fmt.Sprint(path, "/", begin+min(i, len(now))); {
		case i >= len(now):
			ops = append(ops, operation{"op": "remove", "path": at})
		case i >= len(was):
			ops = append(ops, operation{"op": "add", "path": at, "value": now[i]})
		default:
			ops = patch(ops, at, was[i], now[i])
		}
	}
	return ops
}
