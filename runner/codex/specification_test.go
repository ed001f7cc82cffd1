package codex

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestDocumentedMethods checks that docs/specification.md lists every request to codex, and
// every request of codex that is answered, which the specification does not name, and no
// other.
func TestDocumentedMethods(t *testing.T) {
	var source strings.Builder
	for _, file := range []string{"session.go", "turn.go", "request.go"} {
		source.Write(test.Must(os.ReadFile(file)))
	}
	_, serve, _ := strings.Cut(source.String(), "func (q *requests) serve(")
	serve, _, _ = strings.Cut(serve, "\n}\n")
	sent := regexp.MustCompile(`(?:[mM]ethod(?:: | = )|s\.read\(ctx, |s\.openThread\(ctx, )"([a-zA-Z/]+)"`)
	answered := regexp.MustCompile(`case "([a-zA-Z/]+)"`)
	inSpecification := append(
		slices.Clone(specified),
		"execCommandApproval",
		"applyPatchApproval",
		"item/commandExecution/requestApproval",
		"item/fileChange/requestApproval",
		"item/tool/call",
		"item/tool/requestUserInput",
	)
	for heading, found := range map[string][]string{
		"Requests to codex":     matches(sent, source.String()),
		"Requests of the agent": matches(answered, serve),
	} {
		found = slices.DeleteFunc(
			found,
			func(method string) bool { return slices.Contains(inSpecification, method) },
		)
		test.Equal(t, heading, documented(heading), found)
	}
}

// documented returns the first column of the table under a heading of docs/specification.md.
func documented(heading string) []string {
	_, part, _ := strings.Cut(
		string(test.Must(os.ReadFile("../../docs/specification.md"))),
		"\n### "+heading+"\n",
	)
	part, _, _ = strings.Cut(part, "\n#")
	return matches(regexp.MustCompile("(?m)^\\| `([^`]+)` "), part)
}

// matches returns what the first group of a pattern matches, sorted and each once.
func matches(pattern *regexp.Regexp, text string) []string {
	var found []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
