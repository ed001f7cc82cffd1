//go:build !linux

package local

import (
	"os"
	"os/exec"
)

// foreground lets the command share the process group of this process, and its terminal.
type foreground struct{}

func newForeground(*exec.Cmd, *os.File) *foreground { return &foreground{} }

func (*foreground) follow(int) {}
func (*foreground) close()     {}
