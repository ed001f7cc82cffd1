package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The reason not to begin takes the place of a heartbeat, in a file that grows no larger by it.
func TestRefusal(t *testing.T) {
	for _, code := range []string{"disk_full", "resource_limit", "state_unsupported_filesystem", strings.Repeat("x", 200)} {
		path := filepath.Join(t.TempDir(), "alive")
		fatal := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		fatal(CreateAlive(path))
		alive, err := HoldAlive(path, time.Second)
		fatal(err)
		fatal(alive.Beat(7, time.Hour))
		fatal(alive.Refuse(code))
		fatal(alive.Close())
		pulse, err := ProbeAlive(path)
		fatal(err)
		if want := code[:min(len(code), maxCode)]; pulse != (Pulse{State: AliveFree, Refused: want}) {
			t.Errorf("%q reads as %+v", want, pulse)
		}
		info, err := os.Stat(path)
		fatal(err)
		if info.Size() != AliveSize {
			t.Errorf("the file has %d bytes", info.Size())
		}
		fatal(NoteUnstarted(path, "disk_full"))
		if pulse, err = ProbeAlive(path); err != nil || pulse.Refused != "disk_full" {
			t.Errorf("after the note: %+v, %v", pulse, err)
		}
	}
	if err := NoteUnstarted(filepath.Join(t.TempDir(), "none"), "disk_full"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made for it, or %v", err)
	}
	half := string(refusalLine("disk_full"))[:16] + strings.Repeat(" ", AliveSize-17) + "\n"
	if p, ok := parseAlive(half); ok {
		t.Errorf("a torn line reads as %+v", p)
	}
}

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
