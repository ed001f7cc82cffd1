package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// schema is a JSON schema in the part of the language that codex's own use; check reports any other.
type schema map[string]any

// TestAnswersFitSchema holds the requests of the table, and what they are answered with under every setting, to the
// schema that the real codex prints of its protocol; and the table to its list of requests.
func TestAnswersFitSchema(t *testing.T) {
	dir := printSchema(t)
	list := readSchema(t, dir, "ServerRequest")["oneOf"].([]any)
	if len(list) < 11 {
		t.Fatalf("codex lists %d requests", len(list))
	}
	for _, entry := range list {
		members := entry.(map[string]any)["properties"].(map[string]any)
		method := members["method"].(map[string]any)["enum"].([]any)[0].(string)
		ref := members["params"].(map[string]any)["$ref"].(string)
		params := strings.TrimPrefix(ref, "#/definitions/")
		t.Run(method, func(t *testing.T) {
			asked, given := readSchema(t, dir, params), readSchema(t, dir, strings.TrimSuffix(params, "Params")+"Response")
			if len(requests[method]) == 0 {
				t.Fatal("the table has no such request")
			}
			for i, shape := range requests[method] {
				whole := complete(t, shape.params)
				if err := asked.check(whole); err != nil && !strings.Contains(shape.params, "thread_id") {
					t.Errorf("shape %d: codex never asks so: %v", i, err)
				}
				for name := range shape.want {
					synctest.Test(t, func(t *testing.T) {
						got := serveOne(t, settings[name], method, shape.params, "th")
						answer := strings.ReplaceAll(got.answer, "SECONDS", "1795160235")
						if strings.Contains(got.events, EventRequestRefused) {
							return // an error, which has a shape of its own
						}
						if err := given.check(decoded(t, answer)); err != nil {
							t.Errorf("shape %d, %s: %s: %v", i, name, answer, err)
						}
					})
				}
			}
		})
	}
}

// complete adds what codex always sends and the table leaves out.
func complete(t *testing.T, params string) any {
	t.Helper()
	members, ok := decoded(t, params).(map[string]any)
	if !ok {
		t.Fatalf("no object: %s", params)
	}
	for name, value := range map[string]any{"threadId": "th", "turnId": "tu", "startedAtMs": json.Number("1"), "isBlocking": true} {
		if members[name] == nil {
			members[name] = value
		}
	}
	return members
}

func printSchema(t *testing.T) (dir string) {
	t.Helper()
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	dir, home := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), bin, "app-server", "generate-json-schema", "--experimental", "--out", dir)
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func readSchema(t *testing.T, dir, name string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema(decoded(t, string(text)).(map[string]any))
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func (s schema) check(v any) error { return s.fits(map[string]any(s), v, "") }

// fits says where v is not as rule wants it.
func (s schema) fits(rule, v any, at string) error {
	if always, ok := rule.(bool); ok {
		if !always {
			return fmt.Errorf("%s: not allowed", at)
		}
		return nil
	}
	object, isObject := v.(map[string]any)
	list, isList := v.([]any)
	rules := rule.(map[string]any)
	for word, want := range rules {
		var err error
		switch word {
		case "title", "description", "default", "format", "$schema", "definitions":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/definitions/")
			err = s.fits(s["definitions"].(map[string]any)[name], v, at)
		case "type":
			if !slices.ContainsFunc(listOf(want), func(name any) bool { return isOf(name.(string), v) }) {
				err = fmt.Errorf("%s: %v is no %v", at, v, want)
			}
		case "enum":
			if !slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, v) }) {
				err = fmt.Errorf("%s: %v is none of %v", at, v, want)
			}
		case "minimum":
			if n, ok := v.(json.Number); ok && number(n).Cmp(number(want.(json.Number))) < 0 {
				err = fmt.Errorf("%s: %v is below %v", at, v, want)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, there := object[name.(string)]; isObject && !there {
					err = fmt.Errorf("%s: no %v", at, name)
				}
			}
		case "properties", "additionalProperties": // members, below
		case "items":
			for i, one := range list {
				if e := s.fits(want, one, fmt.Sprintf("%s[%d]", at, i)); isList && e != nil {
					err = e
				}
			}
		case "oneOf", "anyOf", "allOf":
			err = s.fitsSome(word, want.([]any), v, at)
		default:
			err = fmt.Errorf("%s: this test does not know the word %s", at, word)
		}
		if err != nil {
			return err
		}
	}
	return s.fitMembers(rules, object, at)
}

func (s schema) fitMembers(rules, object map[string]any, at string) error {
	known, _ := rules["properties"].(map[string]any)
	for name, member := range object {
		rule, ok := known[name]
		if !ok {
			rule, ok = rules["additionalProperties"]
		}
		if !ok {
			continue
		}
		if err := s.fits(rule, member, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) fitsSome(word string, rules []any, v any, at string) error {
	var failed []error
	for _, rule := range rules {
		if err := s.fits(rule, v, at); err != nil {
			failed = append(failed, err)
		}
	}
	switch fit := len(rules) - len(failed); {
	case word == "allOf" && len(failed) > 0, word == "anyOf" && fit == 0, word == "oneOf" && fit != 1:
		return fmt.Errorf("%s: %d of %s fit: %v", at, fit, word, failed)
	}
	return nil
}

func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func isOf(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case json.Number:
		return name == "number" || name == "integer" && number(v).IsInt()
	case []any:
		return name == "array"
	}
	return name == "object"
}

func number(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return new(big.Rat)
	}
	return r
}

// The judge of the test above tells good answers from bad ones.
func TestSchemaJudges(t *testing.T) {
	s := schema(decoded(t, `{"definitions":{"D":{"oneOf":[{"type":"string","enum":["a","b"]},{"type":"object","additionalProperties":false,
		"required":["x"],"properties":{"x":{"type":["integer","null"],"minimum":1}}}]}},
		"type":"object","required":["d"],"properties":{"d":{"$ref":"#/definitions/D"},"l":{"type":"array","items":{"type":"boolean"}}}}`).(map[string]any))
	for text, good := range map[string]bool{
		`{"d":"a"}`: true, `{"d":{"x":1},"other":1}`: true, `{"d":{"x":null},"l":[true]}`: true,
		`{}`: false, `[]`: false, `{"d":"c"}`: false, `{"d":{"x":0}}`: false, `{"d":{"x":1.5}}`: false, `{"d":{}}`: false,
		`{"d":{"x":1,"y":1}}`: false, `{"d":"a","l":[1]}`: false, `{"d":null}`: false,
	} {
		if err := s.check(decoded(t, text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := (schema{"pattern": "x"}).check("x"); err == nil {
		t.Error("a word that it does not know is overlooked")
	}
}
