package proc

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// New descendants are listed once, whichever thread has started them.
func TestChildScanner(t *testing.T) {
	b, err := NewChildScanner()
	must(t, err)
	if _, err := b.NewSince(); err != nil {
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
		fresh, err := b.NewSince()
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
		t.Error("this process is among its descendants")
	}
}
