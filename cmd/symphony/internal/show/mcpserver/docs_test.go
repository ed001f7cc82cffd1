package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/internal/test"
)

// The table of tools in docs/mcp.md is what the server offers. UPDATE_REFERENCE=1 writes it.
func TestDocumentedTools(t *testing.T) {
	const begin, end = "<!-- tools -->", "<!-- /tools -->"
	path := filepath.Join("..", "..", "..", "..", "..", "docs", "mcp.md")
	data := test.Must(os.ReadFile(path))
	before, rest, _ := strings.Cut(string(data), begin)
	got, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatal("docs/mcp.md has no table of tools")
	}
	want := "\n| tool | arguments, [optional] | effect | |\n|---|---|---|---|\n"
	host, _ := toolHost(t, Options{Deliver: true}, true)
	for _, tool := range test.Must(host.ListTools(t.Context(), nil)).Tools {
		input := string(test.Must(json.Marshal(tool.InputSchema)))
		if strings.Contains(input, `"type":[`) || strings.Contains(input, `"description":""`) {
			t.Errorf("the arguments of %s: %s", tool.Name, input)
		}
		if tool.Description == "" {
			t.Errorf("%s is not described", tool.Name)
		}
		want += fmt.Sprintf(
			"| `%s` | %s | %s | %s |\n",
			tool.Name,
			argumentsOf(t, tool),
			effectOf(tool),
			tool.Description,
		)
	}
	if got == want {
		return
	}
	if os.Getenv("UPDATE_REFERENCE") == "" {
		t.Fatalf("docs/mcp.md is not up to date: run with UPDATE_REFERENCE=1; want %s", want)
	}
	test.OK(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
}

// docs/mcp.schemas.json has the schemas of results, which the list of tools leaves out.
// UPDATE_REFERENCE=1 writes it.
func TestDocumentedResults(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "..", "docs", "mcp.schemas.json")
	failure := test.Must(jsonschema.For[calls.Failure](nil))
	schemas := map[string]json.RawMessage{"error": test.Must(json.Marshal(failure))}
	host, _ := toolHost(t, Options{Deliver: true, outputSchemas: true}, true)
	for _, tool := range test.Must(host.ListTools(t.Context(), nil)).Tools {
		if tool.Name == "list_issues" || tool.Name == "show_issue" {
			continue // their results are those of ps and show, in docs/schemas
		}
		schemas[tool.Name] = test.Must(json.Marshal(tool.OutputSchema))
	}
	want := append(test.Must(json.MarshalIndent(schemas, "", " ")), '\n')
	if got, err := os.ReadFile(path); os.Getenv("UPDATE_REFERENCE") == "" && !bytes.Equal(got, want) {
		t.Fatalf("docs/mcp.schemas.json is not up to date: run with UPDATE_REFERENCE=1 (%v)", err)
	}
	test.OK(t, os.WriteFile(path, want, 0o644))
}

// argumentsOf lists the arguments of a tool, those in params, too.
func argumentsOf(t *testing.T, tool *mcp.Tool) string {
	data := test.Must(json.Marshal(tool.InputSchema))
	schema := &jsonschema.Schema{}
	test.OK(t, json.Unmarshal(data, schema))
	names := membersIn(schema)
	if params := schema.Properties["params"]; params != nil {
		nested := "`params`: " + membersIn(params)
		names = strings.NewReplacer("[`params`]", nested, "`params`", nested).Replace(names)
	}
	return names
}

func membersIn(schema *jsonschema.Schema) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		shown := "`" + name + "`"
		if !slices.Contains(schema.Required, name) {
			shown = "[" + shown + "]"
		}
		names = append(names, shown)
	}
	return strings.Join(names, ", ")
}

// effectOf returns what the annotations of a tool promise.
func effectOf(tool *mcp.Tool) string {
	a := tool.Annotations
	switch {
	case a.ReadOnlyHint:
		return "reads"
	case *a.DestructiveHint:
		return "destructive"
	}
	return "changes"
}

// Codex shows its model only the first line of the instructions, and of that line the first
// 200 characters. Its model looks for tools by these words.
func TestInstructions(t *testing.T) {
	test.Lacks(t, "the instructions", instructions, "\n")
	test.Contains(t, "their beginning", instructions[:200],
		"Symphony", "delegates", "background", "parallel", "worktree")
}

// A list of tools takes little of what a model reads.
func TestSizeOfTools(t *testing.T) {
	for _, c := range []struct {
		name        string
		hasWorkflow bool
		tools, most int
	}{
		{"without a workflow", false, 12, 10_000},
		{"with a workflow", true, 18, 16_000},
	} {
		host, _ := toolHost(t, Options{Deliver: true}, c.hasWorkflow)
		list := test.Must(host.ListTools(t.Context(), nil))
		size := len(test.Must(json.Marshal(list)))
		t.Logf("%s: %d tools, %d bytes", c.name, len(list.Tools), size)
		if len(list.Tools) > c.tools || size > c.most {
			t.Errorf("%s: %d tools of %d, %d bytes of %d", c.name, len(list.Tools), c.tools, size, c.most)
		}
	}
}
