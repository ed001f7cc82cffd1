package workflow

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// specifiedKeys are those of section 6.4 of the specification, without those of a group that
// is documented as a whole.
const specifiedKeys = `tracker.kind tracker.endpoint tracker.api_key tracker.project_slug
	tracker.active_states tracker.terminal_states polling.interval_ms workspace.root worker.ssh_hosts
	worker.max_concurrent_agents_per_host hooks.after_create hooks.before_run hooks.after_run
	hooks.before_remove hooks.timeout_ms codex.command codex.approval_policy codex.thread_sandbox
	codex.turn_sandbox_policy codex.turn_timeout_ms codex.read_timeout_ms codex.stall_timeout_ms server.port`

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
		if slices.Contains(strings.Fields(specifiedKeys), k.Name) {
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
