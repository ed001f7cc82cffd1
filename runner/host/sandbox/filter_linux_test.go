//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// call is what the filter sees of a call.
type call struct {
	architecture, number uint32
	arguments            [6]uint64
}

// judge runs a filter as the kernel does.
func judge(t *testing.T, code []unix.SockFilter, c call) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[atNumber:], c.number)
	binary.LittleEndian.PutUint32(data[atArchitecture:], c.architecture)
	for i, argument := range c.arguments {
		binary.LittleEndian.PutUint64(data[atFirst+8*i:], argument)
	}
	var loaded uint32
	branch := func(i unix.SockFilter, holds bool) int {
		if holds {
			return int(i.Jt)
		}
		return int(i.Jf)
	}
	for at := 0; at < len(code); at++ {
		i := code[at]
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			loaded = binary.LittleEndian.Uint32(data[i.K:])
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			at += branch(i, loaded == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			at += branch(i, loaded >= i.K)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d is %+v", at, i)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

func TestFilter(t *testing.T) {
	const high = 1 << 32 // the kernel ignores the upper half of these arguments
	code := newFilter(refusedCalls())
	for name, c := range map[string]struct {
		call call
		want verdict
	}{
		"read":                     {call{number: unix.SYS_READ}, allow},
		"clone3":                   {call{number: unix.SYS_CLONE3}, allow},
		"a call of next year":      {call{number: 9999}, allow},
		"another architecture":     {call{architecture: 0x40000003, number: unix.SYS_READ}, kill},
		"x32":                      {call{number: 1<<30 | unix.SYS_READ}, refuse},
		"no call":                  {call{number: 1<<32 - 1}, refuse},
		"a unix socket":            {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_UNIX}}, allow},
		"IPv4":                     {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_INET}}, allow},
		"IPv6":                     {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_INET6}}, allow},
		"netlink":                  {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_NETLINK}}, allow},
		"packets":                  {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_PACKET}}, refuse},
		"vsock":                    {call{number: unix.SYS_SOCKET, arguments: [6]uint64{unix.AF_VSOCK}}, refuse},
		"vsock with an upper half": {call{number: unix.SYS_SOCKET, arguments: [6]uint64{high | unix.AF_VSOCK}}, refuse},
		"size of the terminal":     {call{number: unix.SYS_IOCTL, arguments: [6]uint64{0, unix.TIOCGWINSZ}}, allow},
		"TIOCSTI":                  {call{number: unix.SYS_IOCTL, arguments: [6]uint64{0, unix.TIOCSTI}}, refuse},
		"TIOCSTI with an upper half": {
			call{number: unix.SYS_IOCTL, arguments: [6]uint64{0, high | unix.TIOCSTI}}, refuse,
		},
		"TIOCLINUX": {call{number: unix.SYS_IOCTL, arguments: [6]uint64{0, unix.TIOCLINUX}}, refuse},
	} {
		if c.call.architecture == 0 {
			c.call.architecture = architecture
		}
		test.Equal(t, name, judge(t, code, c.call), results[c.want])
	}
	for _, refused := range refusedCalls() {
		c := call{architecture: architecture, number: uint32(refused.number)}
		test.Equal(t, refused.name, judge(t, code, c), results[refuse])
	}
	if len(code) > unix.BPF_MAXINSNS {
		t.Errorf("the filter has %d instructions", len(code))
	}
}
