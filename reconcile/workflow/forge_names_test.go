package workflow

import (
	"maps"
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
	"cmd/symphony/internal/admin/setup/repositories.go",
	"cmd/symphony/internal/admin/setup/setup.go",
	"cmd/symphony/internal/wiring/compose_gh.go",
	"cmd/symphony/internal/wiring/compose_tracker.go",
	"internal/adapter/graphqltest/graphqltest.go",
	"internal/text/text.go",
	"reconcile/workflow/tracker.go",
	"reconcile/workflow/tracker_github.go",
	"reconcile/workflow/tracker_repositories.go",
	// examples of variables, addresses and tokens; settings and files that git meets
	"reconcile/workflow/agent_key.go",
	"reconcile/workflow/keys.go",
	"runner/agent/redact.go",
	"runner/config.go",
	"runner/host/local/git/guard_config.go",
	"runner/host/local/git/ignore.go",
	"runner/host/git_error.go",
}

// namesOthers are the files that name each of the other forges, besides its packages.
var namesOthers = map[string][]string{
	"gitlab": {
		// the row of the forge, and the construction of its adapter
		"cmd/symphony/internal/wiring/compose_forge.go",
		"reconcile/workflow/forge.go",
		"reconcile/workflow/forge_gitlab.go",
		// the tracker
		"cmd/symphony/init.go",
		"cmd/symphony/internal/admin/setup/repositories.go",
		"cmd/symphony/internal/admin/setup/setup.go",
		"cmd/symphony/internal/wiring/compose_tracker.go",
		"reconcile/workflow/tracker.go",
		"reconcile/workflow/tracker_gitlab.go",
		"reconcile/workflow/tracker_repositories.go",
		// examples of variables and addresses, and what all adapters share
		"internal/adapter/transport/explain.go",
		"internal/adapter/transport/forge.go",
		"internal/adapter/transport/limit.go",
		"runner/confine/environ.go",
	},
	"gitea": {
		// the row of the forge, and the construction of its adapter
		"cmd/symphony/internal/wiring/compose_forge.go",
		"reconcile/workflow/forge.go",
		"reconcile/workflow/forge_gitea.go",
		// the tracker
		"cmd/symphony/init.go",
		"cmd/symphony/internal/admin/setup/repositories.go",
		"cmd/symphony/internal/admin/setup/setup.go",
		"cmd/symphony/internal/wiring/compose_tracker.go",
		"reconcile/workflow/tracker.go",
		"reconcile/workflow/tracker_gitea.go",
		"reconcile/workflow/tracker_repositories.go",
	},
}

func TestFilesThatNameForges(t *testing.T) {
	names := maps.Clone(namesOthers)
	names["github"] = namesGitHub
	for word, files := range names {
		own := []string{"forge/" + word + "/", "tracker/" + word + "/", "internal/adapter/" + word + "api/"}
		addresses := []string{word + ".com", word + `\.com`}
		found := test.FilesWith(t, filepath.Join("..", ".."), word, own, addresses)
		want := slices.Sorted(slices.Values(files))
		test.Equal(t, "files that name "+word, strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}
