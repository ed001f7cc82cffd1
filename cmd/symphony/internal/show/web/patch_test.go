package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
)

// applied applies a patch to a decoded JSON value as RFC 6902 says.
func applied(value any, ops []operation) any {
	for _, o := range ops {
		var names []string
		if path := o["path"].(string); path != "" {
			for _, name := range strings.Split(path, "/")[1:] {
				names = append(names, strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~"))
			}
		}
		value = applyAt(value, names, o)
	}
	return value
}

func applyAt(value any, names []string, o operation) any {
	if len(names) == 0 {
		return o["value"]
	}
	last := len(names) == 1
	switch v := value.(type) {
	case map[string]any:
		_, has := v[names[0]]
		if has == (last && o["op"] == "add") {
			panic(fmt.Sprint(o, " of ", v))
		}
		if last && o["op"] == "remove" {
			delete(v, names[0])
		} else {
			v[names[0]] = applyAt(v[names[0]], names[1:], o)
		}
	case []any:
		i := test.Must(strconv.Atoi(names[0]))
		switch {
		case last && o["op"] == "add":
			return slices.Insert(v, i, o["value"])
		case last && o["op"] == "remove":
			return slices.Delete(v, i, i+1)
		}
		v[i] = applyAt(v[i], names[1:], o)
	default:
		panic(fmt.Sprint(o, " of ", v))
	}
	return value
}

// values makes JSON values that often have names and elements in common.
func values(depth int) *rapid.Generator[any] {
	plain := rapid.Map(rapid.SampledFrom([]string{"null", "1", "2", `"x"`, "[]", "{}"}), decoded)
	if depth == 0 {
		return plain
	}
	inner := values(depth - 1)
	return rapid.OneOf(plain,
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(list []any) any { return list }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "a/b", "~1", ""}), inner, 0, 4), func(m map[string]any) any { return m }))
}

func decoded(text string) (v any) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// A patch makes the new value of the old one, whatever they are.
func TestPatch(t *testing.T) {
	text := func(v any) string { return string(test.Must(json.Marshal(v))) }
	rapid.Check(t, func(t *rapid.T) {
		was, now := text(values(3).Draw(t, "was")), text(values(3).Draw(t, "now"))
		ops := patch(nil, "", decoded(was), decoded(now))
		if got := text(applied(decoded(was), ops)); got != now {
			t.Fatalf("%s\nof %s\nmakes %s\nnot %s", text(ops), was, got, now)
		}
		if was == now && len(ops) > 0 {
			t.Fatal("operations without a change: ", text(ops))
		}
	})
	// One row that came, went or changed is one operation.
	for _, c := range []struct{ was, now, want string }{
		{`{"rows":[1,2,3]}`, `{"rows":[1,9,2,3]}`, `[{"op":"add","path":"/rows/1","value":9}]`},
		{`{"rows":[1,2,3]}`, `{"rows":[2,3]}`, `[{"op":"remove","path":"/rows/0"}]`},
		{`{"rows":[{"a/b":1},2]}`, `{"rows":[{"a/b":null},2]}`, `[{"op":"replace","path":"/rows/0/a~1b","value":null}]`},
	} {
		test.Equal(t, c.was+" to "+c.now, text(patch(nil, "", decoded(c.was), decoded(c.now))), c.want)
	}
}
