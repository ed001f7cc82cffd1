package proc

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// member is a process without any mark in the session of a leader, which stays or has ended. Both work in folder.
func member(t *testing.T, folder, flags string) (leader, child reconcile.Process) {
	t.Helper()
	h := startAs(t, nil, func(c *exec.Cmd) { c.Dir, c.SysProcAttr = folder, newSession() }, "spawn", flags, "idle")
	leader, child = h.up(), h.up()
	if flags == "clear,exit" {
		must(t, h.cmd.Wait())
	}
	return leader, child
}

func TestFindBySession(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, flags := range []string{"clear", "clear,exit"} {
		leader, child := member(t, root, flags)
		earlier, younger := leader, leader
		earlier.Start--
		younger.Start = child.Start + 1
		here := boot(t)
		for _, c := range []struct {
			what    string
			boot    string
			session Session
			found   bool
		}{
			{"its folder", here, Session{leader, root}, true},
			{"the folder above", here, Session{leader, filepath.Dir(root)}, true},
			{"a folder beside it", here, Session{leader, root + "x"}, false},
			{"one that its name begins with", here, Session{leader, root[:len(root)-1]}, false},
			{"no folder", here, Session{leader, ""}, false},
			{"another boot", "another boot", Session{leader, root}, false},
			{"another session", here, Session{child, root}, false},
			{"a leader younger than its member", here, Session{younger, root}, false},
			// The number alone tells them apart once the leader has ended; until then it is a stranger's.
			{"a leader of another start time", here, Session{earlier, root}, flags == "clear,exit"},
		} {
			if got := find(t, Owner{Session: c.session, Boot: c.boot}); got[child.PID] != c.found || got[leader.PID] {
				t.Errorf("%s: %s: found %v, want %d among them: %v", flags, c.what, got, child.PID, c.found)
			}
		}
		if got := find(t, Owner{RunID: mark(t), Since: leader.Start, Boot: here}); got[child.PID] {
			t.Errorf("%s: it is found for another reason", flags)
		}
	}
	if _, err := Find(Owner{Session: Session{reconcile.Process{PID: 1, Start: 1}, root}}); err == nil {
		t.Error("a leader of an unknown boot is believed")
	}
}
