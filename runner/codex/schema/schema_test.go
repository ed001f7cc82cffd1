package schema

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) Schema {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const example = `{"definitions":{
	"D":{"oneOf":[{"type":"string","enum":["a","b"]},
		{"type":"object","additionalProperties":false,"required":["x"],"properties":{"x":{"type":["integer","null"],"minimum":1}}}]},
	"Kinds":{"type":"object","properties":{"id":{"type":"string"}},"oneOf":[
		{"type":"object","required":["type"],"properties":{"type":{"enum":["one"]},"n":{"type":"integer"}}},
		{"type":"object","required":["type"],"properties":{"type":{"enum":["two"]},"s":{"type":"string"}}}]},
	"Loop":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/definitions/Loop"},{"type":"null"}]}}},
	"Round":{"$ref":"#/definitions/Round"},
	"Wide":{"oneOf":[{"$ref":"#/definitions/Wide2"},{"$ref":"#/definitions/Wide2"}]},
	"Wide2":{"properties":{"a":{"$ref":"#/definitions/Wide"},"b":{"$ref":"#/definitions/Wide"}}},
	"nested":{"Inner":{"type":"boolean"}}},
	"type":"object","required":["d"],"description":"words for people","properties":{
		"d":{"$ref":"#/definitions/D"},"l":{"type":"array","items":{"type":"boolean"}},
		"k":{"anyOf":[{"$ref":"#/definitions/Kinds"},{"type":"null"}]},"loop":{"$ref":"#/definitions/Loop"},"c":{"const":"it"},
		"in":{"$ref":"#/definitions/nested/Inner"},"free":{"type":"object"},"map":{"additionalProperties":{"type":"integer"}},
		"all":{"allOf":[{"$ref":"#/definitions/D"}],"default":"a"},"round":{"$ref":"#/definitions/Round"},"lost":{"$ref":"#/definitions/None"},
		"never":false,"any":true,"tree":{"$ref":"#/definitions/Wide"}}}`

// Good values have no problem, bad ones are told by where they are bad and what would be right.
func TestCheck(t *testing.T) {
	s := parse(t, example)
	for text, want := range map[string]string{
		`{"d":"a"}`:                                   "",
		`{"d":{"x":1}}`:                               "",
		`{"d":{"x":2.0}}`:                             "",
		`{"d":{"x":null},"l":[true]}`:                 "",
		`{"d":"a","k":null}`:                          "",
		`{"d":"a","k":{"type":"two","s":"x"}}`:        "",
		`{"d":"a","k":{"type":"two","id":"x"}}`:       "",
		`{"d":"a","loop":{"next":{"next":null}}}`:     "",
		`{"d":"a","c":"it","in":true,"free":{"a":1}}`: "",
		`{"d":"a","map":{"a":1,"b":2},"any":[1]}`:     "",
		`{"d":"a","all":"b","round":1,"lost":"x"}`:    "",

		`{}`:                                    "d is missing",
		`[]`:                                    "the value must be object",
		`{"d":"c"}`:                             "d must be a, b, x",
		`{"d":{"x":0}}`:                         "d.x must be at least 1",
		`{"d":{"x":1.5}}`:                       "d.x must be integer or null",
		`{"d":{}}`:                              "d must be a, b, x",
		`{"d":{"x":1,"y":1}}`:                   "d.y is unknown",
		`{"d":7}`:                               "d must be string or object",
		`{"d":null}`:                            "d must be string or object",
		`{"d":"a","l":[1,true,"x"]}`:            "l[0] must be boolean; l[2] must be boolean",
		`{"d":"a","x":1}`:                       "x is unknown",
		`{"d":"a","k":{"type":"three"}}`:        "k.type must be one, two",
		`{"d":"a","k":{"type":"two","s":1}}`:    "k.s must be string",
		`{"d":"a","k":{}}`:                      "k.type is missing",
		`{"d":"a","k":7}`:                       "k must be object",
		`{"d":"a","loop":{"next":{"next":1}}}`:  "loop.next.next must be object",
		`{"d":"a","c":"that"}`:                  "c must be it",
		`{"d":"a","in":1}`:                      "in must be boolean",
		`{"d":"a","map":{"a":"b"}}`:             "map.a must be integer",
		`{"d":"a","all":"z"}`:                   "all must be a, b, x",
		`{"d":"a","never":1}`:                   "never is unknown",
		`{"d":"a","free":1,"loop":{"other":1}}`: "free must be object; loop.other is unknown",
	} {
		v, err := Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range s.Check(v) {
			got = append(got, p.String())
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	s := parse(t, example)
	for path, want := range map[string][]string{
		"d": {"string", "object"}, "d.x": {"integer", "null"}, "l[]": {"boolean"}, "k.type": {"string"}, "k.n": {"integer"}, "k.id": {"string"},
		"k(one).n": {"integer"}, "k(two).n": nil, "k(three).n": nil, "nothing": nil, "d.nothing": nil, "loop.next.next": {"object"}, "in": {"boolean"},
	} {
		var got []string
		for _, rule := range s.Find(path) {
			for _, name := range rule.Types() {
				if !slices.Contains(got, name) {
					got = append(got, name)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if got := WordsOf(s.Find("k.type")); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("kinds %q", got)
	}
	if got := s.Find("d")[0].Ref(); got != "D" {
		t.Errorf("ref %q", got)
	}
	if rule := s.Find("d.x")[0]; !rule.Takes("integer") || !rule.Takes("null") || rule.Takes("string") {
		t.Error("types are not told apart")
	}
}

// What is kept judges like what it was made of, without what it refers to, and stays small whatever that is.
func TestCompact(t *testing.T) {
	s := parse(t, example)
	for _, name := range []string{"d", "k", "all"} {
		kept, ok := s.Find(name)[0].Compact().(map[string]any)
		if !ok {
			t.Fatalf("%s is no rule", name)
		}
		text := New(kept).String()
		if strings.Contains(text, "$ref") || strings.Contains(text, "default") {
			t.Errorf("%s is not whole: %s", name, text)
		}
		for _, value := range []string{`"a"`, `"c"`, `{"x":0}`, `{"x":1}`, `{"type":"one","n":"x"}`, `{"type":"z"}`, `null`, `7`} {
			v, err := Decode([]byte(value))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.Find(name)[0].Check(v), New(kept).Check(v)); diff != "" {
				t.Errorf("%s %s: %s", name, value, diff)
			}
		}
	}
	for _, name := range []string{"loop", "round", "tree"} {
		kept, _ := s.Find(name)[0].Compact().(map[string]any)
		if size := len(New(kept).String()); size > 200<<10 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

func TestOverlooked(t *testing.T) {
	if got := parse(t, example).Overlooked(); got != nil {
		t.Errorf("overlooked: %q", got)
	}
	s := parse(t, `{"pattern":"x","properties":{"a":{"not":{"type":"string"}},"title":{"oneOf":[{"maxLength":1}]}}}`)
	if got := s.Overlooked(); !slices.Equal(got, []string{"maxLength", "not", "pattern"}) {
		t.Errorf("overlooked: %q", got)
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "7", "true", `{} {}`, `{"a":1}x`} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken for a schema", text)
		}
	}
}
