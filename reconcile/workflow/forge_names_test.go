package workflow

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// namesGitHub are the files of the program that name GitHub, besides its packages. A forge is a
// row in package workflow and an adapter, so this list must not grow: a file that has to do
// with pull requests asks the ForgeKind.
var namesGitHub = []string{
	// the row of the forge, and the construction of its adapter
	"cmd/symphony/internal/wiring/compose_forge.go",
	"reconcile/workflow/forge.go",
	"reconcile/workflow/forge_github.go",
	// the tracker
	"cmd/symphony/init.go",
	"cmd/symphony/internal/admin/setup/answers.go",
	"cmd/symphony/internal/admin/setup/linear.go",
	"cmd/symphony/internal/admin/setup/repositories.go",
	"cmd/symphony/internal/admin/setup/setup.go",
	"cmd/symphony/internal/wiring/compose_gh.go",
	"cmd/symphony/internal/wiring/compose_tracker.go",
	"cmd/symphony/internal/wiring/state_account.go",
	"internal/adapter/graphqltest/graphqltest.go",
	"internal/text/text.go",
	"linear/created.go",
	"reconcile/fault.go",
	"reconcile/label.go",
	"reconcile/workflow/tracker.go",
	"reconcile/workflow/tracker_github.go",
	"reconcile/workflow/tracker_repositories.go",
	// examples of variables, addresses and tokens; settings and files that git meets
	"reconcile/workflow/agent_key.go",
	"reconcile/workflow/filter.go",
	"reconcile/workflow/keys.go",
	"reconcile/workflow/repository.go",
	"runner/agent/redact.go",
	"runner/config.go",
	"runner/host/local/git/guard_config.go",
	"runner/host/local/git/ignore.go",
	"runner/host/local/repository/complaint.go",
}

func TestFilesThatNameGitHub(t *testing.T) {
	own := []string{"forge/github/", "tracker/github/", "internal/adapter/githubapi/"}
	addresses := []string{"github.com", `github\.com`}
	found := test.FilesWith(t, filepath.Join("..", ".."), "github", own, addresses)
	want := slices.Sorted(slices.Values(namesGitHub))
	test.Equal(t, "files that name GitHub", strings.Join(found, "\n"), strings.Join(want, "\n"))
}
