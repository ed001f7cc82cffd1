package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// SocketPath returns the address of a unix socket in an open directory. On Linux it leads
// through the descriptor, because an address has at most 107 bytes.
func SocketPath(dir *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	}
	return filepath.Join(dir.Name(), name)
}
