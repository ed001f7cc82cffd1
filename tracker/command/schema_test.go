package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// schema returns a part of docs/tracker.schema.json, with a pattern instead of each format,
// which the library does not check.
func schema(t *testing.T, def string) *jsonschema.Resolved {
	t.Helper()
	text := strings.ReplaceAll(
		string(test.Must(os.ReadFile("../../docs/tracker.schema.json"))),
		`"format": "date-time"`,
		`"pattern": "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$"`,
	)
	test.Lacks(t, "the schema", text, `"format"`)
	var whole jsonschema.Schema
	test.OK(t, json.Unmarshal([]byte(text), &whole))
	whole.Ref = "#/$defs/" + def
	return test.Must(whole.Resolve(nil))
}

// values are one or more of each JSON type, most of which are wrong for a field.
var values = []string{
	`null`,
	`true`,
	`0`,
	`2`,
	`2.0`,
	`2.5`,
	`1e30`,
	`""`,
	`" "`,
	`"text"`,
	`"2026-01-31T09:30:00Z"`,
	`"2026-01-31T09:30:00.25+02:00"`,
	`"2026-01-31"`,
	`"yesterday"`,
	`{}`,
	`{"id": "7"}`,
	`{"id": 7}`,
	`{"id": "7", "state": 1}`,
	`{"is_me": "yes"}`,
	`{"email": "kim@example.com"}`,
	`[]`,
	`["a"]`,
	`["a", 1]`,
	`[null]`,
	`[{}]`,
	`[{"id": "7", "state": null}]`,
	`[{"id": "7", "identifier": 7}]`,
	`[{"id": " "}]`,
	`[7]`,
}

// The decoder accepts exactly what the schema describes: for every field and every kind of
// value, and for a field that is absent.
func TestSchemaAndDecoderAgree(t *testing.T) {
	decoders := map[string]struct {
		whole  string
		fields []string
		decode func(raw json.RawMessage) error
	}{
		"issue": {
			`{"id": "1", "identifier": "A-1", "title": "t", "state": "Todo", "unknown": {"x": 1}}`,
			[]string{
				"id",
				"identifier",
				"title",
				"description",
				"priority",
				"state",
				"branch_name",
				"url",
				"labels",
				"blocked_by",
				"created_at",
				"updated_at", "assignee", "last_comment_at",
			},
			func(raw json.RawMessage) error { _, err := issue("issues[0]", raw); return err },
		},
		"comment": {
			`{"id": "1", "created_at": "2026-01-31T09:30:00Z"}`,
			[]string{"id", "author", "body", "created_at", "edited", "own"},
			func(raw json.RawMessage) error { _, err := comment("comments[0]", raw); return err },
		},
	}
	var document struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	test.OK(t, json.Unmarshal(test.Must(os.ReadFile("../../docs/tracker.schema.json")), &document))
	for name, d := range decoders {
		test.Equal(
			t,
			name+": fields in the schema, and tested",
			len(document.Defs[name].Properties),
			len(d.fields),
		)
		compiled := schema(t, name)
		tried := 0
		try := func(raw []byte) {
			var instance any
			test.OK(t, json.Unmarshal(raw, &instance))
			bySchema := compiled.Validate(instance)
			byDecoder := d.decode(raw)
			tried++
			if (bySchema == nil) != (byDecoder == nil) {
				t.Errorf("%s\nschema: %v\ndecoder: %v", raw, bySchema, byDecoder)
			}
		}
		for _, field := range d.fields {
			var record map[string]json.RawMessage
			for _, value := range values {
				test.OK(t, json.Unmarshal([]byte(d.whole), &record))
				record[field] = json.RawMessage(value)
				try(test.Must(json.Marshal(record)))
			}
			delete(record, field)
			try(test.Must(json.Marshal(record)))
		}
		for _, value := range values {
			try([]byte(value))
		}
		if tried < len(values)*len(d.fields) {
			t.Errorf("only %d records were tried", tried)
		}
	}
}

// What the adapter sends is what the schema describes.
func TestRequestsFollowTheSchema(t *testing.T) {
	sent := map[string][]byte{}
	c := &client{Options: Options{
		Command: []string{"./x"}, Timeout: time.Minute, Redact: func(s string) string { return s },
		Run: func(_ context.Context, argv []string, stdin []byte, _ int) (Output, error) {
			sent[argv[1]] = stdin
			return Output{Stdout: []byte(`{"issues": [], "comments": []}`)}, nil
		},
	}}
	ctx := t.Context()
	_ = test.Must(c.Candidates(ctx, []string{"Todo"}))
	_ = test.Must(c.ByIDs(ctx, []string{"1"}))
	test.OK(t, c.move(ctx, "1", "Done"))
	_, _, err := c.updateTool().Do(ctx, reconcile.Issue{
		ID:         "1",
		Identifier: "A-1",
		Title:      "t",
		State:      "Todo",
	}, "Done")
	test.OK(t, err)
	_ = test.Must(c.comments(ctx, "1", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	for _, verb := range []string{verbCandidates, verbByIDs, verbTool, verbMove, verbComment} {
		var instance any
		test.OK(t, json.Unmarshal(sent[verb], &instance))
		test.OK(t, schema(t, verb+".request").Validate(instance))
	}
}

// An error names the place in the answer.
func TestPlacesInAnswers(t *testing.T) {
	good := func(fields string) string { return `{"id": "1", "title": "t", "state": "Todo"` + fields + `}` }
	for answer, want := range map[string]string{
		`[` + good("") + `, ` + good(`, "priority": "high"`) + `]`: `issues[1].id is "1", as in issues[0]`,
		`[{"id": "1"}]`:                                       `issues[0].title is missing (issue "1")`,
		`[` + good(`, "priority": "high"`) + `]`:              `issues[0].priority must be a whole number, is "high" (issue "1")`,
		`[` + good(`, "labels": ["a", {}]`) + `]`:             `issues[0].labels[1] must be a string, is {} (issue "1")`,
		`[` + good(`, "labels": "a"`) + `]`:                   `issues[0].labels must be a list, is "a" (issue "1")`,
		`[` + good(`, "blocked_by": [{"id": "2"}, {}]`) + `]`: `issues[0].blocked_by[1].id is missing (issue "1")`,
		`[` + good(`, "blocked_by": ["2"]`) + `]`:             `issues[0].blocked_by[0] must be an object, is "2" (issue "1")`,
		`[` + good(`, "assignee": {"is_me": 1}`) + `]`:        `issues[0].assignee.is_me must be true or false, is 1 (issue "1")`,
		`[` + good(`, "created_at": "1 May"`) + `]`:           `issues[0].created_at must be a time such as 2026-01-31T09:30:00Z, is "1 May" (issue "1")`,
		`[7]`:                          `issues[0] must be an object, is 7`,
		`{}`:                           `issues must be a list, is {}`,
		`[{"id": 7, "identifier": 8}]`: `issues[0].id must be a string, is 7`,
		`[{"id": "2", "title": "t", "state": "Todo"}]`: `issues[0].id is "2", which was not asked for`,
	} {
		c := &client{Options: Options{
			Command: []string{"./x"},
			Timeout: time.Minute,
			Redact:  func(s string) string { return s },
			Run:     answering(`{"issues": ` + answer + `}`),
		}}
		test.Equal(
			t,
			answer,
			fmt.Sprint(test.Err(c.ByIDs(t.Context(), []string{"1"}))),
			"command_answer_invalid: ./x by-ids: "+want,
		)
	}
}

// A candidate that is malformed is skipped, with its place; the others are not.
func TestMalformedCandidates(t *testing.T) {
	c := &client{Options: Options{
		Command: []string{"./x"}, Timeout: time.Minute, Redact: func(s string) string { return s },
		Run: answering(
			`{"issues": [{"id": "1", "title": "t", "state": " todo "}, {"title": "t"}, 5, {"id": "4", "identifier": "A-4", "title": "t", "state": "Todo", "url": 1},
			{"id": "5", "title": "t", "state": "Done"}]}`,
		),
	}}
	found := test.Must(c.Candidates(t.Context(), []string{"Todo"}))
	got := []string{}
	for _, i := range found {
		got = append(got, strings.Join([]string{i.ID, i.Identifier, i.State, i.Malformed}, "|"))
	}
	test.Equal(t, "candidates", got, []string{
		"1|1|todo|",
		"issues[1]|issues[1]||issues[1].id is missing",
		"issues[2]|issues[2]||issues[2] must be an object, is 5",
		"4|A-4||issues[3].url must be a string, is 1",
	})
}

// Each definition compiles, also those that no other test uses.
func TestDefinitionsOfTheSchema(t *testing.T) {
	for _, def := range []string{
		"candidates.answer",
		"by-ids.answer",
		"tool.answer",
		"comment.list.answer",
		"comment.post.answer",
		"comment.edit.answer",
		"move.answer",
		"limit",
	} {
		schema(t, def)
	}
}
