package git

import (
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// maxIgnore bounds the file with the account's patterns, in bytes. All templates that GitHub
// collects make 100 KB.
const maxIgnore = 1 << 20

// ignore lets git also ignore the patterns in a file of the account, beside the repository's
// own. Like git, it treats a file that can't be read as empty: the files then count as work.
func (r *reader) ignore(path string) error {
	if path == "" {
		return nil
	}
	patterns, err := files.ReadRegular(path, maxIgnore)
	if err != nil {
		return nil //nolint:nilerr // as git does
	}
	return os.WriteFile(filepath.Join(r.scratch, "info", "exclude"), patterns, 0o600)
}
