package git

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestRemoveLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := t.TempDir()
	for _, name := range []string{
		"HEAD", "index.lock", "refs/heads/a/b.lock", "objects/5f/x.lock", "hooks/y.lock", "refs/heads/hooks/c.lock",
		"refs/heads/lfs/d.lock",
		"objects/maintenance.lock", "objects/info/commit-graph.lock", "objects/pack/multi-pack-index.lock",
		"objects/info/commit-graphs/commit-graph-chain.lock",
		"modules/m/HEAD", "modules/m/refs/z", "modules/m/objects/5f/x.lock", "modules/m/index.lock",
		"modules/m/objects/maintenance.lock",
	} {
		path := filepath.Join(dir, ".git", name)
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.OK(t, os.WriteFile(path, nil, 0o600))
	}
	test.Write(t, filepath.Join(outside, "kept.lock"), "")
	test.OK(t, os.Symlink(outside, filepath.Join(dir, ".git", "link")))
	test.OK(t, os.Symlink(filepath.Join(outside, "kept.lock"), filepath.Join(dir, ".git", "config.lock")))
	removed := test.Must(RemoveLocks(dir))
	slices.Sort(removed)
	test.Equal(t, "removed", removed, []string{
		".git/index.lock", ".git/modules/m/index.lock", ".git/modules/m/objects/maintenance.lock",
		".git/objects/info/commit-graph.lock", ".git/objects/info/commit-graphs/commit-graph-chain.lock",
		".git/objects/maintenance.lock", ".git/objects/pack/multi-pack-index.lock",
		".git/refs/heads/a/b.lock", ".git/refs/heads/hooks/c.lock",
		".git/refs/heads/lfs/d.lock",
	})
	for _, name := range []string{
		".git/HEAD", ".git/objects/5f/x.lock", ".git/hooks/y.lock", ".git/modules/m/objects/5f/x.lock",
	} {
		test.Equal(t, name, test.Exists(t, filepath.Join(dir, name)), true)
	}
	test.Equal(t, "outside", test.Exists(t, filepath.Join(outside, "kept.lock")), true)
	test.Must(RemoveLocks(outside))
}
