//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemCall is a call of the kernel that fails with EPERM in a sandbox.
type systemCall struct {
	name   string
	number int
}

// refusedCalls are calls that lead out of a sandbox, or that have been ways into the kernel. An
// agent's programs need none of them, but for debuggers.
func refusedCalls() []systemCall {
	return append([]systemCall{
		// Keys are no part of any namespace.
		{"add_key", unix.SYS_ADD_KEY},
		{"request_key", unix.SYS_REQUEST_KEY},
		{"keyctl", unix.SYS_KEYCTL},
		// Large interfaces of the kernel with a history of faults. io_uring would also reach
		// other calls past this filter.
		{"io_uring_setup", unix.SYS_IO_URING_SETUP},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER},
		{"bpf", unix.SYS_BPF},
		{"userfaultfd", unix.SYS_USERFAULTFD},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN},
		// Mounts and namespaces, and files by handles instead of names.
		{"mount", unix.SYS_MOUNT},
		{"umount2", unix.SYS_UMOUNT2},
		{"pivot_root", unix.SYS_PIVOT_ROOT},
		{"open_tree", unix.SYS_OPEN_TREE},
		{"move_mount", unix.SYS_MOVE_MOUNT},
		{"fsopen", unix.SYS_FSOPEN},
		{"fsconfig", unix.SYS_FSCONFIG},
		{"fsmount", unix.SYS_FSMOUNT},
		{"fspick", unix.SYS_FSPICK},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR},
		{"unshare", unix.SYS_UNSHARE},
		{"setns", unix.SYS_SETNS},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT},
		// Other processes, such as the first one.
		{"ptrace", unix.SYS_PTRACE},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD},
		{"kcmp", unix.SYS_KCMP},
		// The machine itself: its log, modules, swap and next kernel.
		{"syslog", unix.SYS_SYSLOG},
		{"init_module", unix.SYS_INIT_MODULE},
		{"finit_module", unix.SYS_FINIT_MODULE},
		{"delete_module", unix.SYS_DELETE_MODULE},
		{"kexec_load", unix.SYS_KEXEC_LOAD},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD},
		{"swapon", unix.SYS_SWAPON},
		{"swapoff", unix.SYS_SWAPOFF},
		{"reboot", unix.SYS_REBOOT},
		{"acct", unix.SYS_ACCT},
	}, refusedHere...)
}

// families are the kinds of sockets that a sandbox may open. Others are not confined by its
// network: vsock reaches the host of a virtual machine.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// refusedTerminal are requests to a terminal that type or paste into it.
var refusedTerminal = []uint32{unix.TIOCSTI, unix.TIOCLINUX}

// Offsets in struct seccomp_data. Arguments have 64 bits, of which the kernel uses the lower 32
// for the family of a socket and the request of ioctl. Both machines are little-endian.
const (
	atNumber       = 0
	atArchitecture = 4
	atFirst        = 16
	atSecond       = 24
)

// filter is the program that the kernel runs before each call. It jumps to one of three ends.
type filter struct {
	code  []unix.SockFilter
	jumps []jump
}

// jump is an instruction whose target is set once the program is complete.
type jump struct {
	at     int
	target verdict
}

// verdict is an end of the program: its index in results.
type verdict int

const (
	allow verdict = iota
	refuse
	kill
)

var results = []uint32{
	allow:  unix.SECCOMP_RET_ALLOW,
	refuse: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	kill:   unix.SECCOMP_RET_KILL_PROCESS,
}

// newFilter returns the filter that refuses some calls.
func newFilter(refused []systemCall) []unix.SockFilter {
	f := &filter{}
	f.load(atArchitecture)
	f.unless(architecture, kill)
	f.load(atNumber)
	f.from(foreignCalls, refuse)
	for _, call := range refused {
		f.when(uint32(call.number), refuse)
	}
	f.argument(unix.SYS_SOCKET, atFirst, func() {
		for _, family := range families {
			f.when(family, allow)
		}
		f.always(refuse)
	})
	f.argument(unix.SYS_IOCTL, atSecond, func() {
		for _, request := range refusedTerminal {
			f.when(request, refuse)
		}
		f.always(allow)
	})
	f.always(allow)
	return f.end()
}

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	f.code = append(f.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// load loads a word of struct seccomp_data.
func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset) }

// always ends the program.
func (f *filter) always(v verdict) {
	f.jumps = append(f.jumps, jump{len(f.code), v})
	f.add(unix.BPF_JMP|unix.BPF_JA, 0, 0, 0)
}

// when ends the program if the loaded word has the value.
func (f *filter) when(value uint32, v verdict) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, value)
	f.always(v)
}

// unless ends the program if the loaded word has another value.
func (f *filter) unless(value uint32, v verdict) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, value)
	f.always(v)
}

// from ends the program if the loaded word is the value or larger.
func (f *filter) from(value uint32, v verdict) {
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, value)
	f.always(v)
}

// argument looks at an argument of a call. then ends the program.
func (f *filter) argument(number int, offset uint32, then func()) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 0, uint32(number))
	test := len(f.code) - 1
	f.load(offset)
	then()
	f.code[test].Jf = uint8(len(f.code) - test - 1)
}

// end adds the ends and returns the program.
func (f *filter) end() []unix.SockFilter {
	first := len(f.code)
	for _, result := range results {
		f.add(unix.BPF_RET|unix.BPF_K, 0, 0, result)
	}
	for _, j := range f.jumps {
		f.code[j.at].K = uint32(first + int(j.target) - j.at - 1)
	}
	return f.code
}

// obey has the kernel filter the calls of all threads of this process, and of all that they
// start. It can't be undone.
func obey(code []unix.SockFilter) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("give up new privileges", err)
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	thread, _, errno := unix.Syscall(
		unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)),
	)
	if errno != 0 {
		return os.NewSyscallError("filter calls of the kernel", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter calls of the kernel: thread %d has another filter", thread)
	}
	return nil
}
