package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/symphony-cron/symphony/internal/paths"
)

// maxLogin is more than any file with a login has.
const maxLogin = 1 << 20

// CopyLogin copies a file with a login of the operator's into a home of agents, unless theirs is
// newer: they may have renewed it.
func CopyLogin(from string, dir *os.Root, name string) error {
	file, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := paths.OpenAbove(dir, name); err != nil {
		return err
	}
	own, err := dir.Lstat(name)
	if err == nil && own.Mode().IsRegular() && !own.ModTime().Before(info.ModTime()) {
		return nil
	}
	if info.Size() > maxLogin {
		return fmt.Errorf("%s has more than %d bytes", from, maxLogin)
	}
	login, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return paths.WriteBeneath(dir, name, login)
}
