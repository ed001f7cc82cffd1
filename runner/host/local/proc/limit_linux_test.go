package proc

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

func TestLimitReached(t *testing.T) {
	for err, want := range map[error]bool{
		fmt.Errorf("start bash: %w", &os.PathError{Op: "fork/exec", Path: "/bin/bash", Err: syscall.EAGAIN}): true,
		fmt.Errorf("open: %w", syscall.EMFILE): true,
		fmt.Errorf("open: %w", syscall.ENFILE): true,
		syscall.ENOMEM:                         true,
		syscall.ENOSPC:                         false,
		syscall.EACCES:                         false,
	} {
		if LimitReached(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
