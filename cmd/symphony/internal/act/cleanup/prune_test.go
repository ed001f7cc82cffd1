package cleanup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// An entry of the trash that can't be deleted is named in a warning, and not among the deleted
// ones.
func TestUndeletedTrashIsNotListed(t *testing.T) {
	root := test.Must(filepath.EvalSymlinks(t.TempDir()))
	file := filepath.Join(root, "no-root")
	test.OK(t, os.WriteFile(file, nil, 0o600))
	f := &PruneJSON{}
	for _, of := range []string{root, file} {
		path := filepath.Join(of, ".symphony", "trash", "ABC-1-20260101T000000.000000000Z")
		f.addTrash(TrashRow{Path: path, Bytes: 7, root: of})
	}
	test.OK(t, os.MkdirAll(f.Trash[0].rows[0].Path, 0o700))
	f.deleteTrash(t.Context())
	if len(f.Trash) != 1 || f.Trash[0].Entries != 1 || f.Trash[0].Bytes != 7 {
		t.Errorf("deleted: %+v", f.Trash)
	}
	if len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], file) {
		t.Errorf("warnings: %q", f.Warnings)
	}
}
