package proc

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestFamily(t *testing.T) {
	me := os.Getpid()
	entries := []entry{
		{pid: 1, ppid: 0, start: 1, name: "init"},
		{pid: 100, ppid: 1, start: 10, name: "agent"},
		{pid: 101, ppid: 100, start: 11},
		{pid: 102, ppid: 101, start: 12},
		{pid: 103, ppid: 100, start: 5}, // older than its parent: the pid changed hands
		{pid: 200, ppid: 1, start: 20},
		{pid: 201, ppid: 200, start: 20},
		{pid: 202, ppid: 201, start: 21},
		{pid: 300, ppid: 301, start: 30}, // a circle, read while pids changed hands
		{pid: 301, ppid: 300, start: 30},
		{pid: 400, ppid: 1, start: 40},
		{pid: me, ppid: 400, start: 41},
		{pid: 402, ppid: me, start: 42},
	}
	for _, c := range []struct {
		name string
		o    Owner
		want []int
	}{
		{"nothing", Owner{}, nil},
		{"recorded and below", Owner{Recorded: []reconcile.Process{{PID: 100, Start: 10}}}, []int{100, 101, 102}},
		{"recorded, another start", Owner{Recorded: []reconcile.Process{{PID: 100, Start: 9}}}, nil},
		{"recorded, gone", Owner{Recorded: []reconcile.Process{{PID: 999, Start: 9}}}, nil},
		{"below a root", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}}, []int{201, 202}},
		{"root, another start", Owner{Roots: []reconcile.Process{{PID: 200, Start: 19}}}, nil},
		{"excluded with all below", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{201: true}}, nil},
		{"below an excluded one, recorded", Owner{
			Roots:    []reconcile.Process{{PID: 200, Start: 20}},
			Recorded: []reconcile.Process{{PID: 202, Start: 21}},
			Exclude:  map[int]bool{201: true},
		}, []int{202}},
		{"excluded, but false", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{201: false}}, []int{201, 202}},
		{"recorded and excluded", Owner{Recorded: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{200: true}}, nil},
		{"a circle", Owner{Recorded: []reconcile.Process{{PID: 300, Start: 30}}}, []int{300, 301}},
		{"own ancestor", Owner{Recorded: []reconcile.Process{{PID: 400, Start: 40}}}, []int{402}},
		{"init", Owner{Recorded: []reconcile.Process{{PID: 1, Start: 1}}}, []int{100, 101, 102, 200, 201, 202, 402}},
	} {
		var got []int
		for _, p := range newProcessTree(entries, c.o).list() {
			got = append(got, p.PID)
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A pass may find itself in the scope of the run that it looks at: its worker has started it. What it starts in turn,
// workers of other runs, is not the run's.
func TestFamilyOfAScopeThatWeAreIn(t *testing.T) {
	me := os.Getpid()
	f := newProcessTree([]entry{
		{pid: 1, start: 1},
		{pid: 100, ppid: 1, start: 10},
		{pid: 101, ppid: 100, start: 11},
		{pid: me, ppid: 1, start: 41},
		{pid: 402, ppid: me, start: 42},
	}, Owner{})
	if err := f.claimScope(func() ([]int, error) { return []int{1, 100, me}, nil }); err != nil {
		t.Fatal(err)
	}
	if got := pids(f.list()); len(got) != 2 || !got[100] || !got[101] {
		t.Errorf("found %v, want 100 and 101", got)
	}
	if !f.mixed() {
		t.Error("the scope would be killed with us in it")
	}
}

func TestFamilyMarks(t *testing.T) {
	entries := []entry{
		{pid: 1, start: 1},
		{pid: 10, ppid: 1, start: 2},
		{pid: 11, ppid: 10, start: 3},
		{pid: 12, ppid: 1, start: 4},
		{pid: 13, ppid: 1, start: 5},
	}
	var asked []int
	hasMarker := func(pids []int, _ marker) ([]bool, error) {
		asked = pids
		return []bool{true, false, false}, os.ErrInvalid
	}
	o := Owner{RunID: "r", Recorded: []reconcile.Process{{PID: 13, Start: 5}}}
	f := newProcessTree(entries, o)
	if err := f.claimMarked(o.marker(), o.Since, hasMarker); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("an environment that can't be read is no error: %v", err)
	}
	if got := pids(f.list()); len(got) != 3 || !got[10] || !got[11] || !got[13] {
		t.Errorf("found %v", got)
	}
	if !slices.Equal(asked, []int{10, 11, 12}) {
		t.Errorf("asked for %v", asked)
	}
	o.Since = 3
	_ = newProcessTree(entries, o).claimMarked(o.marker(), o.Since, func(pids []int, _ marker) ([]bool, error) {
		asked = pids
		return make([]bool, len(pids)), nil
	})
	if !slices.Equal(asked, []int{11, 12}) {
		t.Errorf("asked for %v, some of them older than the run", asked)
	}
}

func TestCarries(t *testing.T) {
	marks := Owner{RunID: "run-1", ThreadIDs: []string{"", "t-1"}}.marks()
	for env, want := range map[string]bool{
		"":                                    false,
		"SYMPHONY_RUN_ID=run-1\x00":           true,
		"SYMPHONY_RUN_ID=run-1":               true,
		"A=b\x00SYMPHONY_RUN_ID=run-1":        true,
		"A=b\x00SYMPHONY_RUN_ID=run-1\x00C=d": true,
		"SYMPHONY_RUN_ID=run-12\x00":          false,
		"XSYMPHONY_RUN_ID=run-1\x00":          false,
		"A=SYMPHONY_RUN_ID=run-1\x00":         false,
		"SYMPHONY_RUN_ID=\x00":                false,
		"CODEX_THREAD_ID=\x00":                false,
		"CODEX_THREAD_ID=t-1\x00X=y\x00":      true,
		"CODEX_THREAD_ID=t-10\x00":            false,
		"CODEX_SESSION_ID=t-1\x00":            false,
	} {
		if got := carries([]byte(env), marks); got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
	if m := (Owner{}).marks(); len(m) != 0 {
		t.Errorf("nobody's marks: %q", m)
	}
}

func TestFindNeedsTheBootOfRecordedPIDs(t *testing.T) {
	for _, o := range []Owner{
		{Recorded: []reconcile.Process{{PID: 10, Start: 1}}},
		{Roots: []reconcile.Process{{PID: 10, Start: 1}}},
		{RunID: "r", Since: 5},
	} {
		if _, err := Find(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
