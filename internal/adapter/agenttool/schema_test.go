package agenttool

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
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
