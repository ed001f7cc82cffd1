package codex

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What oldNames lets pass would have been spelled the same after decoding it.
func TestOldNamesMissesNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOf(rapid.SampledFrom([]rune{'a', 'Z', '_', '"', '\\', ':', ' ', '{', 'ä'}))
		name := rapid.OneOf(rapid.SampledFrom(nested), rapid.SampledFrom([]string{"thread_id", "threadId", "_meta", "exit_code"}), word)
		var value func(depth int) any
		value = func(depth int) any {
			switch rapid.IntRange(0, 4-min(depth, 2)).Draw(t, "kind") {
			case 0:
				return word.Draw(t, "text")
			case 1:
				return rapid.Bool().Draw(t, "truth")
			case 2:
				return rapid.Int32().Draw(t, "number")
			case 3:
				return []any{value(depth + 1), value(depth + 1)}
			}
			return map[string]any{name.Draw(t, "name"): value(depth + 1), name.Draw(t, "name"): value(depth + 1)}
		}
		members := map[string]any{name.Draw(t, "name"): value(0), name.Draw(t, "name"): value(0)}
		raw, err := json.MarshalIndent(members, "", rapid.SampledFrom([]string{"", " \t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		if out, changed := camelObject(raw, camelDepth); changed && !oldNames(raw) {
			t.Fatalf("%s has no old names, and becomes %s", raw, out)
		}
	})
}

// A line without end, or with nothing but quotes, ends the search as well.
func TestOldNames(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"threadId":"a_b","item":{"id":"msg_1"}}`:  false,
		`{"threadId":"a_b","item":{"item_id":"1"}}`: true,
		`{"_meta":{"x":"a_b"}}`:                     false,
		`{"a":"\"b_c\":"}`:                          false,
		`{"a\u005fb":"_"}`:                          true, // what decoding will tell
		`{"a_b`:                                     false,
		`"`:                                         false,
		`{"a":"b\\","c_d" : 1}`:                     true,
	} {
		if got := oldNames([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// What is nested without end costs a few looks, not one for each level.
func TestCamelKeysDepth(t *testing.T) {
	const levels = 5000
	raw := strings.Repeat(`{"msg":`, levels) + `{"a_b":1}` + strings.Repeat("}", levels)
	out, changed := camelKeys(json.RawMessage(raw))
	if changed || string(out) != raw {
		t.Error("a name that nobody reads was spelled anew")
	}
	raw = strings.Repeat(`{"msg":`, camelDepth-1) + `{"a_b":1}` + strings.Repeat("}", camelDepth-1)
	if out, changed := camelKeys(json.RawMessage(raw)); !changed || !strings.Contains(string(out), `{"aB":1}`) {
		t.Errorf("%s", out)
	}
}
