package workflow

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestDocumentedDifferences checks that docs/specification.md lists every key that the
// specification does not have, by its name or with its group, and nothing that is no key.
func TestDocumentedDifferences(t *testing.T) {
	_, part, _ := strings.Cut(string(test.Must(os.ReadFile("../../docs/specification.md"))), "\n## Added\n")
	var listed []string
	for _, m := range regexp.MustCompile("`([a-z_]+\\.[a-z_.]*\\*?)`").FindAllStringSubmatch(part, -1) {
		listed = append(listed, m[1])
	}
	used := map[string]bool{}
	for _, k := range Keys() {
		if slices.Contains(specified, k.Name) && !strings.HasPrefix(k.Name, "tracker.provider.") {
			continue
		}
		at := slices.IndexFunc(listed, func(name string) bool {
			group, all := strings.CutSuffix(name, "*")
			return name == k.Name || all && strings.HasPrefix(k.Name, group)
		})
		if at < 0 {
			t.Errorf("%s is not in the list of docs/specification.md", k.Name)
			continue
		}
		used[listed[at]] = true
	}
	for _, name := range listed {
		if !used[name] {
			t.Errorf("docs/specification.md lists %s, which is no key, or one of the specification", name)
		}
	}
}
