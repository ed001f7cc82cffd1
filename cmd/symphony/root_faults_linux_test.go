package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The volume of the workspaces goes away, or can't be written any more, while a worker is at work: nothing new is
// started, the worker is left to what it can do, and with the volume back all goes on.
func TestWorkspaceRootFaults(t *testing.T) {
	if !mounts(t) {
		return
	}
	for name, c := range map[string]struct {
		make func(r *rig) (undo func())
		code string
		exit int
	}{
		"read-only": {code: "workspace_root_unusable", exit: 3, make: func(r *rig) func() {
			r.readOnly(true)
			return func() { r.readOnly(false) }
		}},
		"not mounted": {code: "workspace_root_unusable", exit: 3, make: func(r *rig) func() {
			// What was mounted is gone from its place, which belongs to nobody that may write there.
			hidden := filepath.Join(r.disk, "hidden")
			r.must(os.Rename(filepath.Join(r.disk, "ws"), filepath.Join(r.disk, "gone")))
			r.must(os.WriteFile(filepath.Join(r.disk, "ws"), nil, 0o600))
			return func() {
				r.must(os.Rename(filepath.Join(r.disk, "ws"), hidden))
				r.must(os.Rename(filepath.Join(r.disk, "gone"), filepath.Join(r.disk, "ws")))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "state", "disk/ws", 4096)
			r.add("ABC-1", "sh echo working >> working.txt\n{gate go}\n{move Human Review}")
			r.pass()
			r.atWork("ABC-1")
			r.atGate()
			undo := c.make(r)
			r.add("ABC-2", "sh echo working >> working.txt\n{move Human Review}")
			a := r.run("tick")
			if a.code != c.exit || strings.Join(a.codes(), " ") != c.code || strings.Contains(a.stdout, "dispatch") {
				t.Errorf("a pass, want exit %d, %s and nothing started:\n%v", c.exit, c.code, a)
			}
			if a := r.want(r.run("ps"), 0); !strings.Contains(a.stdout, "running\tABC-1\tTodo\tstreaming_turn") {
				t.Errorf("the worker is not left to its work:\n%v", a)
			}
			undo()
			r.open("go")
			r.is("ABC-1", "Human Review")
			r.until("ABC-2 is handed over", func() (bool, string) {
				a := r.run("tick", "--lock-timeout", "20s")
				i, err := r.linear.Issue("ABC-2")
				r.must(err)
				return i.State == "Human Review", a.String()
			})
			r.quiet()
			r.counted()
		})
	}
}

// The root is removed under a worker, workspace and all: its run may fail, but the next one makes everything anew, and no
// second agent ever works beside the first.
func TestWorkspaceRootRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, "state", "ws", 0)
	r.add("ABC-1", "attempt 0:\n{gate go}\nsh echo working > working.txt\nattempt 1+:\nsh echo again > again.txt\n{move Human Review}")
	r.pass()
	r.atWork("ABC-1")
	r.atGate()
	r.must(os.RemoveAll(filepath.Join(r.dir, "ws")))
	r.pass() // makes the root anew
	if workers := r.processes("symphony worker"); len(workers) != 1 {
		t.Errorf("workers: %v", workers)
	}
	r.open("go")
	r.until("ABC-1 is handed over", func() (bool, string) {
		a := r.run("tick", "--lock-timeout", "20s")
		i, err := r.linear.Issue("ABC-1")
		r.must(err)
		return i.State == "Human Review", a.String()
	})
	r.quiet()
	if _, err := os.Stat(filepath.Join(r.dir, "ws", "ABC-1", "again.txt")); err != nil {
		t.Errorf("the workspace was not made anew: %v", err)
	}
}
