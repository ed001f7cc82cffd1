package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A disk that is full at each write in turn: with so many pages left the first ones succeed, and the next is the
// first that fails. Whatever that write was, nothing is lost or half written, no run fails or is counted because of it,
// a worker that is at work goes on, and once there is space again all goes on by itself.

// diskCase is a moment at which the disk is full.
type diskCase struct {
	state, root string
	pages       []int
	// work is what happens from there on; it must leave everything such that passes can finish it.
	work func(r *rig, pages int)
	// outcomes are those that runs may have besides succeeded ones and those that ended by the disk's fault.
	outcomes []string
}

func upTo(n, step int) (list []int) {
	for i := 0; i <= n; i += step {
		list = append(list, i)
	}
	return list
}

func TestDiskFullAtEachWrite(t *testing.T) {
	if !mounts(t) {
		return
	}
	const onDisk, elsewhere = "disk/on", "elsewhere"
	for name, c := range map[string]diskCase{
		"before the first pass": {state: onDisk, root: elsewhere, pages: []int{0, 9, 30, 50}, work: func(r *rig, pages int) {
			r.add("ABC-1", "{move Human Review}")
			r.fill(pages)
			r.tickOnFullDisk()
		}},
		"at dispatch": {state: onDisk, root: elsewhere, pages: upTo(18, 1), work: func(r *rig, pages int) {
			r.pass()
			r.add("ABC-1", "{move Human Review}")
			r.fill(pages)
			r.tickOnFullDisk()
		}},
		"the workspace at dispatch": {state: elsewhere, root: onDisk, pages: upTo(4, 1), work: func(r *rig, pages int) {
			r.add("ABC-1", "sh echo made > made.txt\n{move Human Review}")
			r.fill(pages)
			r.tickOnFullDisk()
		}},
		"while a worker is at work": {state: onDisk, root: elsewhere, pages: upTo(9, 3), work: func(r *rig, pages int) {
			r.add("ABC-1", "{gate go}\nstream 20 1ms\n{move Human Review}")
			r.pass()
			r.atWork("ABC-1")
			r.fill(pages)
			r.tickOnFullDisk()
			r.want(r.run("ps"), 0)
			r.want(r.run("logs", "ABC-1"), 0)
			r.open("go")
			r.is("ABC-1", "Human Review")
			r.tickOnFullDisk()
		}},
		"during a command": {state: onDisk, root: elsewhere, pages: upTo(12, 2), outcomes: []string{"canceled"}, work: func(r *rig, pages int) {
			r.add("ABC-1", "sleep 60s")
			r.pass()
			r.atWork("ABC-1")
			r.fill(pages)
			a := r.run("stop", "ABC-1")
			if codes := a.codes(); a.code > 1 || slices.ContainsFunc(codes, func(c string) bool { return c != "disk_full" && c != "stop" && c != "not_stopped" }) {
				r.t.Errorf("stop: %v", a)
			}
			noted := a.code == 0 || strings.Contains(a.stderr, "stop is noted for the next pass")
			r.free()
			if !noted {
				r.want(r.run("stop", "ABC-1"), 0)
			}
			r.until("ABC-1 is held", func() (bool, string) {
				r.run("tick", "--lock-timeout", "20s")
				a := r.run("ps")
				return strings.Contains(a.stdout, "held\tABC-1\toperator"), a.String()
			})
			r.want(r.run("retry", "ABC-1"), 0)
			r.must(r.linear.Move("ABC-1", "Human Review"))
		}},
	} {
		for _, pages := range c.pages {
			t.Run(fmt.Sprintf("%s, %d pages", name, pages), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, c.state, c.root, 2048)
				c.work(r, pages)
				r.free()
				if pages > 0 { // one of each waits for the next try as everybody has to
					r.hurry = true
				}
				r.quiet()
				r.nothingLost(c.outcomes...)
			})
		}
	}
}

// tickOnFullDisk runs a pass that may find the disk full, and must say nothing else.
func (r *rig) tickOnFullDisk() {
	r.t.Helper()
	a := r.run("tick", "--lock-timeout", "20s")
	codes := a.codes()
	if a.code > 1 || (a.code == 1) != (len(codes) > 0) || slices.ContainsFunc(codes, func(c string) bool { return c != "disk_full" }) || len(codes) > 1 {
		r.t.Errorf("a pass on a full disk, want one disk_full or nothing:\n%v", a)
	}
}

// nothingLost: the issue has been worked on, no run counts as a failure, and the database is whole.
func (r *rig) nothingLost(outcomes ...string) {
	r.t.Helper()
	if i, err := r.linear.Issue("ABC-1"); err != nil || i.State != "Human Review" {
		r.t.Errorf("ABC-1 is %v, %v", i.State, err)
	}
	for _, run := range r.sql("SELECT coalesce(outcome, '-'), attempt, settled, error_code FROM runs") {
		f := strings.Split(run, " ")
		// A pass that could not read that it was the run's own agent which handed the issue over stops the run.
		ok := f[0] == "succeeded" || f[3] == "disk_full" || f[3] == "inactive" || slices.Contains(outcomes, f[0])
		if !ok || f[1] != "0" || f[2] != "1" {
			r.t.Errorf("a run (outcome, attempt, settled, code): %s\n%s", run, r.story())
		}
	}
	if left := r.sql("SELECT identifier, status, failures FROM claims"); len(left) > 0 {
		r.t.Errorf("claims are left: %q", left)
	}
	if left := r.sql("SELECT id FROM commands"); len(left) > 0 {
		r.t.Errorf("commands are left: %q", left)
	}
	if whole := r.sql("PRAGMA integrity_check"); !slices.Equal(whole, []string{"ok"}) {
		r.t.Errorf("the database: %q", whole)
	}
	for _, pattern := range []string{"runs/*/.procs-*", "state.db.new*"} {
		if half, err := filepath.Glob(filepath.Join(r.state, pattern)); err != nil || len(half) > 0 {
			r.t.Errorf("half written: %q, %v", half, err)
		}
	}
	if _, err := os.Stat(filepath.Join(r.disk, ballastName)); err == nil {
		r.t.Error("the disk is still full")
	}
}

// What a hook or an agent makes of a full disk is the disk's fault all the same.
func TestHookOnFullDisk(t *testing.T) {
	if !mounts(t) {
		return
	}
	t.Parallel()
	r := newRig(t, "state", "disk/ws", 2048)
	r.hooks("  before_run: echo there > $HOME/there; until [ -e $HOME/go ]; do sleep 0.02; done; echo something > something\n")
	r.add("ABC-1", "{move Human Review}")
	r.pass()
	r.until("the hook is at work", func() (bool, string) {
		_, err := os.Stat(filepath.Join(r.dir, "home", "there"))
		return err == nil, ""
	})
	r.fill(0)
	r.open("home/go")
	r.gone("symphony worker")
	r.pass()
	if rows := r.sql("SELECT outcome, error_code, attempt, error_text FROM runs"); len(rows) != 1 || !strings.HasPrefix(rows[0], "failed disk_full 0 no space left on the volume of ") || !strings.Contains(rows[0], ": hook_failed: before_run: ") {
		t.Errorf("the run: %q\n%s", rows, r.story())
	}
	if a := r.run("ps"); !strings.Contains(a.stdout, "BLOCKED  disk_full: ") {
		t.Errorf("ps does not say what is wrong:\n%v", a)
	}
	r.free()
	r.hurry = true
	r.quiet()
	r.nothingLost()
}
