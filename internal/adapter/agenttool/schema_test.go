package agenttool

import (
	"context"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// A schema without required properties has an empty list of them, not null, which is no
// schema.
func TestObjectRequiresAList(t *testing.T) {
	test.Equal(
		t,
		"schema",
		string(Object(nil, map[string]any{"a": map[string]string{"type": "string"}})),
		`{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":[],"type":"object"}`,
	)
}

// People read an argument, such as a comment, perhaps in a terminal.
func TestArgumentHidesNothing(t *testing.T) {
	var got string
	comment := Change{Name: "issue_comment", Argument: "text", Do: func(
		_ context.Context, _ reconcile.Issue, text string,
	) (string, *reconcile.Created, error) {
		got = text
		return "", nil, nil
	}}
	comment.Tool().Call(t.Context(), reconcile.Issue{}, []byte(`{"text":"one\ntwo\u001b[2J"}`))
	test.Equal(t, "the text", got, "one\ntwo\\x1b[2J")
}
