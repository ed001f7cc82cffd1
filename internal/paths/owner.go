package paths

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/internal/text"
)

// Regain says how what an earlier sudo symphony has left becomes this account's: by chown of the
// topmost directory of another account on the way to path, which need not exist. It is empty if
// path belongs to this account, or is in no directory of this account, as below /usr.
func Regain(path string) string {
	foreign := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		switch {
		case err == nil && Ours(info) && foreign == "":
			return ""
		case err == nil && Ours(info):
			return `if symphony has run with sudo: sudo chown -R "$(id -un)" ` + text.ShellQuote(foreign)
		case err == nil:
			foreign = at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// Ours reports whether a file belongs to this account.
func Ours(info fs.FileInfo) bool {
	stat, isUnix := info.Sys().(*syscall.Stat_t)
	return isUnix && int(stat.Uid) == os.Geteuid()
}
