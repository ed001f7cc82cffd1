package proc

import (
	"os"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestProcessTree(t *testing.T) {
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
		for _, p := range claimed(entries, c.o).list() {
			got = append(got, p.PID)
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func claimed(entries []entry, o Owner) *processTree {
	t := newProcessTree(slices.Clone(entries), o.Exclude)
	t.claimRecorded(o)
	return t
}

func TestContainsEntry(t *testing.T) {
	entries := Owner{RunID: "run-1", ThreadIDs: []string{"", "t-1"}}.marker().env
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
		if got := containsEntry([]byte(env), entries); got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
	if m := (Owner{}).marker(); !m.empty() {
		t.Errorf("an owner without ids has the marker %q", m)
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
