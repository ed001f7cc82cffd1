package web

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/test"
)

// TestListenErrors: the hint is about what keeps the server from listening.
func TestListenErrors(t *testing.T) {
	for number, want := range map[syscall.Errno]string{
		syscall.EADDRINUSE:    "another program uses the port",
		syscall.EACCES:        "ports below 1024 need root",
		syscall.EADDRNOTAVAIL: "names an address of this machine",
	} {
		err := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", number)}
		test.Contains(t, fmt.Sprint(number), exit.From(listenError(err)).Hint, want)
	}
}

// TestPathTooLongForSocket: the socket is made in a directory beside its path, which can be too
// long although the path is not.
func TestPathTooLongForSocket(t *testing.T) {
	dir := test.Must(os.MkdirTemp("/tmp", "s"))
	t.Cleanup(func() { test.OK(t, os.RemoveAll(dir)) })
	for _, length := range []int{95, 200} {
		inside := filepath.Join(dir, strings.Repeat("d", length-len(dir)-len("//s")))
		test.OK(t, os.Mkdir(inside, 0o700))
		_, err := listenSocket(t.Context(), filepath.Join(inside, "s"))
		test.Contains(t, fmt.Sprint(length), exit.From(err).Hint, "at most 80 characters")
	}
}

// TestLacksIPv6: only two errors mean that no program can listen at ::1. After any other one
// the server gets no secret name.
func TestLacksIPv6(t *testing.T) {
	for number, want := range map[syscall.Errno]bool{
		syscall.EADDRNOTAVAIL: true,
		syscall.EAFNOSUPPORT:  true,
		syscall.EADDRINUSE:    false,
		syscall.EACCES:        false,
		syscall.EMFILE:        false,
	} {
		err := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", number)}
		test.Equal(t, fmt.Sprint(number), lacksIPv6(err), want)
	}
}
