package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func newProcs(t *testing.T) (*ProcFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "procs")
	p, err := OpenProcs(path)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p, path
}

func readProcs(t *testing.T, path string) []reconcile.Process {
	t.Helper()
	procs, of, err := ReadProcs(path)
	must(t, err)
	if of != boot(t) {
		t.Fatalf("recorded in boot %q", of)
	}
	slices.SortFunc(procs, func(a, b reconcile.Process) int { return a.PID - b.PID })
	return procs
}

func TestProcFile(t *testing.T) {
	p, path := newProcs(t)
	if got := readProcs(t, path); len(got) != 0 {
		t.Fatalf("a new file holds %v", got)
	}
	a := reconcile.Process{PID: 10, Start: 100, Name: "sh"}
	b := reconcile.Process{PID: 11, Start: 1<<64 - 1, Name: "a) \"b\"\n\xff 5"}
	again := reconcile.Process{PID: 10, Start: 200, Name: "node"} // the same pid, later
	must(t, p.Record([]reconcile.Process{a}))
	before := size(t, path)
	must(t, p.Record([]reconcile.Process{a}))
	if size(t, path) != before {
		t.Error("a known process was written again")
	}
	must(t, p.Record([]reconcile.Process{a, b, again}))
	want := []reconcile.Process{a, again, b}
	if got := readProcs(t, path); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	st, err := os.Stat(path)
	must(t, err)
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	must(t, p.Close())
	next, err := OpenProcs(path) // a second writer goes on
	must(t, err)
	defer next.Close()
	must(t, next.Record([]reconcile.Process{{PID: 12, Start: 1, Name: "x"}}))
	if got := readProcs(t, path); len(got) != 3 {
		t.Errorf("after opening again: %+v", got)
	}
}

func TestProcFileOfAnotherBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "procs")
	must(t, os.WriteFile(path, []byte("boot before\n10 100 \"sh\"\n"), 0o600))
	procs, of, err := ReadProcs(path)
	if len(procs) != 1 || of != "before" || err != nil {
		t.Fatalf("%v, %q, %v", procs, of, err)
	}
	p, err := OpenProcs(path)
	must(t, err)
	defer p.Close()
	if got := readProcs(t, path); len(got) != 0 {
		t.Errorf("pids of another boot were kept: %v", got)
	}
}

func TestReadProcsTorn(t *testing.T) {
	whole := "boot b\n10 100 \"sh\"\n11 110 \"node\"\n"
	path := filepath.Join(t.TempDir(), "procs")
	last := 0
	for n := range len(whole) + 1 {
		must(t, os.WriteFile(path, []byte(whole[:n]), 0o600))
		procs, of, err := ReadProcs(path)
		must(t, err)
		if len(procs) < last || len(procs) > 0 && of != "b" {
			t.Fatalf("%q: %v of %q", whole[:n], procs, of)
		}
		for i, p := range procs {
			if want := []reconcile.Process{{PID: 10, Start: 100, Name: "sh"}, {PID: 11, Start: 110, Name: "node"}}[i]; p != want {
				t.Fatalf("%q: %+v", whole[:n], p)
			}
		}
		last = len(procs)
	}
	if last != 2 {
		t.Fatalf("the whole file holds %d", last)
	}
	must(t, os.WriteFile(path, []byte("boot b\n10 10\n1 5 \"init\"\n-4 5 \"x\"\n12 0 \"x\"\n\x00\x00\n13 130 sh\n14 140 \"ok\"\n"), 0o600))
	procs, _, err := ReadProcs(path)
	if len(procs) != 1 || procs[0].PID != 14 || err != nil {
		t.Errorf("damaged lines: %+v, %v", procs, err)
	}
	if procs, of, err := ReadProcs(path + "-none"); len(procs) != 0 || of != "" || err != nil {
		t.Errorf("no file: %v, %q, %v", procs, of, err)
	}
}

func TestProcFileIsBounded(t *testing.T) {
	p, path := newProcs(t)
	p.max = 8
	cmd := exec.Command("sleep", "60")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	start, err := StartTime(cmd.Process.Pid)
	must(t, err)
	alive := reconcile.Process{PID: cmd.Process.Pid, Start: start, Name: "sleep"}
	must(t, p.Record([]reconcile.Process{alive}))
	for n := range uint64(50) {
		must(t, p.Record([]reconcile.Process{{PID: 1 << 29, Start: n + 1, Name: "gone"}}))
		if got := readProcs(t, path); len(got) > 8 || !slices.Contains(got, alive) {
			t.Fatalf("round %d: %v", n, got)
		}
	}
	// More living ones than there is room for: they are not dropped in silence.
	p.max = 1
	self := reconcile.Process{PID: os.Getpid(), Start: ownStart(t), Name: "self"}
	if err := p.Record([]reconcile.Process{self}); err == nil || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("no room: %v", err)
	}
	p.max = 2
	must(t, p.Record([]reconcile.Process{self})) // was not counted as written
	if got := readProcs(t, path); !slices.Contains(got, self) {
		t.Errorf("%v", got)
	}
}

func TestProcFileTriesAgain(t *testing.T) {
	p, path := newProcs(t)
	good := p.f
	broken, err := os.Open(path) // read only: it refuses as a full disk would
	must(t, err)
	defer broken.Close()
	p.f = broken
	a := reconcile.Process{PID: 10, Start: 100, Name: "sh"}
	if err := p.Record([]reconcile.Process{a}); err == nil {
		t.Fatal("no error")
	}
	p.f = good
	must(t, p.Record([]reconcile.Process{a}))
	if got := readProcs(t, path); len(got) != 1 || got[0] != a {
		t.Errorf("%v", got)
	}
}
