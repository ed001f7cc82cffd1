package web

import (
	"fmt"
	"net"
	"os"
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
