package linear_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestDocumentedRequests checks that docs/specification.md lists every request that the
// specification does not name, and no other.
func TestDocumentedRequests(t *testing.T) {
	specified := []string{"SymphonyCandidates", "SymphonyIssuesByIDs"}
	operation := regexp.MustCompile(`(?m)^(?:query|mutation) (\w+)`)
	var made []string
	for _, file := range test.Must(filepath.Glob("query/*.graphql")) {
		if m := operation.FindStringSubmatch(string(test.Must(os.ReadFile(file)))); m != nil &&
			!slices.Contains(specified, m[1]) {
			made = append(made, m[1])
		}
	}
	_, part, _ := strings.Cut(
		string(test.Must(os.ReadFile("../docs/specification.md"))),
		"\n## What Linear is asked\n",
	)
	part, _, _ = strings.Cut(part, "\n#")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` ").FindAllStringSubmatch(part, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(made)
	slices.Sort(documented)
	test.Equal(t, "requests", documented, made)
}
