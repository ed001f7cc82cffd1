package main

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The table of docs/mcp.md that translates the vocabulary of codex's first protocol names tools
// that are offered.
func TestSeedVocabulary(t *testing.T) {
	t.Parallel()
	table := rows(between(t, document(t, "docs/mcp.md"), "<!-- vocabulary -->", "<!-- /vocabulary -->"))[1:]
	session, _ := mcpSession(t, "2025-06-18")
	known := map[string]bool{}
	for _, tool := range test.Must(session.ListTools(t.Context(), nil)).Tools {
		known[tool.Name] = true
	}
	for _, cells := range table {
		for _, name := range codeSpans(cells[2]) {
			test.Equal(t, cells[0]+": there is the tool "+name, known[name], true)
		}
	}
}
