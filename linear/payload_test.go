package linear

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// A payload says what encoding/json would have written.
func TestPayload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~\n]*`))
		list := rapid.SliceOf(text)
		query := text.Draw(t, "query")
		variables := map[string]any{
			"first": rapid.Int().Draw(t, "first"), "text": text.Draw(t, "text"), "list": list.Draw(t, "list"),
			text.Draw(t, "name"): rapid.Just[any](nil).Draw(t, "nothing"), "pointer": new(text.Draw(t, "after")),
			"flag": rapid.Bool().Draw(t, "flag"), "inner": map[string]any{"none": []string(nil), "map": map[string]any(nil)},
		}
		want, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		if err != nil {
			t.Fatal(err)
		}
		got, err := payload(query, variables)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
			t.Fatalf("%s\nencoding/json writes\n%s", got, want)
		}
	})
	if got, err := payload("{ viewer { id } }", nil); err != nil || string(got) != `{"query":"{ viewer { id } }"}` {
		t.Errorf("without variables: %s, %v", got, err)
	}
	if got, err := payload("", map[string]any{"x": math.Inf(1)}); err == nil {
		t.Errorf("what has no JSON form: %s", got)
	}
}

func decoded(t *rapid.T, text []byte) (v any) {
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
