package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Children belong to the thread that forked them, so all threads are asked.
func TestBroodListsTheNewOnesOnce(t *testing.T) {
	b, err := NewBrood()
	must(t, err)
	if _, err := b.Fresh(); err != nil {
		t.Fatal(err)
	}
	h := start(t, nil, "spawn", "setsid,clear", "idle")
	want := pids(nil)
	want[h.up().PID], want[h.up().PID] = true, true
	var mu sync.Mutex
	var threads, started sync.WaitGroup
	over := make(chan struct{})
	defer threads.Wait()
	defer close(over)
	for range 4 {
		started.Add(1)
		threads.Go(func() {
			runtime.LockOSThread() // to the end of the test: with the thread its children would become another's
			defer func() { <-over }()
			defer started.Done()
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			mu.Lock()
			defer mu.Unlock()
			want[cmd.Process.Pid] = true
		})
	}
	started.Wait()
	got := map[int]bool{}
	eventually(t, "all that is new", func() bool {
		fresh, err := b.Fresh()
		must(t, err)
		for _, p := range fresh {
			if got[p.PID] || p.Name == "" || !living(p) {
				t.Errorf("listed again, or wrongly: %+v", p)
			}
			got[p.PID] = true
		}
		for pid := range want {
			if !got[pid] {
				return false
			}
		}
		return true
	})
	if got[os.Getpid()] {
		t.Error("we are among our descendants")
	}
}

// BenchmarkBrood looks when somebody has been born on the machine.
func BenchmarkBrood(b *testing.B) {
	brood, err := NewBrood()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		brood.born = 0
		if _, err := brood.Fresh(); err != nil {
			b.Fatal(err)
		}
	}
}

// A container's /proc/loadavg may be a file of somebody else's making, which stands still for seconds.
func TestBroodBelievesNoOtherLoadavg(t *testing.T) {
	file := filepath.Join(t.TempDir(), "loadavg")
	must(t, os.WriteFile(file, []byte("0.00 0.00 0.00 1/100 4242\n"), 0o644))
	out, err := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$1" /proc/loadavg || exit 77; shift; exec "$@"`, "-",
		file, os.Args[0], "-test.run=^TestBroodListsTheNewOnesOnce$").CombinedOutput()
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == 77 || strings.Contains(string(out), "unshare: ") {
		t.Skipf("no mounts of our own to be had: %s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
