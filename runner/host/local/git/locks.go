package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// mostSearched is how many entries of a git directory are searched for locks.
const mostSearched = 100_000

// objectFolder matches a folder with the objects whose names begin with two digits.
var objectFolder = text.Pattern(`^[0-9a-f]{2}$`)

// withoutLocks reports whether a directory below a git directory is git's own and contains no
// locks of git: hooks, lfs and the objects themselves, such as objects/5f. A folder of branches
// may have the same name: refs/heads/hooks.
func withoutLocks(gitDir, path string) bool {
	above, name := filepath.Split(path)
	above = filepath.Clean(above)
	if filepath.Base(above) == "objects" && objectFolder().MatchString(name) {
		return isBare(filepath.Join(gitDir, filepath.Dir(above)))
	}
	if name != "hooks" && name != "lfs" {
		return false
	}
	return isBare(filepath.Join(gitDir, above)) // such as modules/NAME of a submodule
}

// RemoveLocks removes the locks that git commands of an agent have left when they were killed,
// such as index.lock, and returns their names: with them no later command of an agent could
// commit. Nothing may use the workspace. It follows no links.
func RemoveLocks(workspace string) ([]string, error) {
	repo, ok, err := openRepository(workspace)
	if err != nil || !ok || !repo.inTree {
		return nil, err
	}
	dir, err := os.OpenRoot(repo.gitDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var removed []string
	seen := 0
	err = fs.WalkDir(dir.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // git reports what can't be read
		}
		seen++
		if seen > mostSearched {
			return fs.SkipAll
		}
		if entry.IsDir() && withoutLocks(repo.gitDir, path) {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || !strings.HasSuffix(path, ".lock") {
			return nil
		}
		if err := dir.Remove(path); err != nil {
			return fmt.Errorf("remove a lock of git: %w", err)
		}
		removed = append(removed, filepath.Join(".git", path))
		return nil
	})
	return removed, err
}
