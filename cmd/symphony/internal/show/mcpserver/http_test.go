package mcpserver

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// An address that names groups of tools twice chooses all of them, as ?tools=lean,issues does.
func TestGroupsOfAddress(t *testing.T) {
	h := NewHTTP(nil, nil, Options{})
	_, err := h.optionsFor(httptest.NewRequest("POST", "/mcp?tools=lean&tools=issues", nil))
	test.Contains(t, "the error", fmt.Sprint(err), "the group issues need a workflow")
}
