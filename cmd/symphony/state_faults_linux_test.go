package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What becomes of the state while a worker is at work, and the way out. In every case: one line with a stable code, the
// worker is left to its work, no second agent is ever started beside it, and nothing counts against the issue.

type stateFault struct {
	state string
	// make breaks the state; what it returns undoes that, nil where only the way out does.
	make func(r *rig) (undo func())
	// pass, look and command are the codes of a pass, of ps and logs, and of stop and retry; empty for none.
	pass, look, command string
	// out is the way out, after which all goes on by itself.
	out func(r *rig)
	// codes of runs that may have ended without an outcome of their own.
	codes []string
}

var stateFaults = map[string]stateFault{
	"busy": {
		pass: "state_busy", command: "state_busy",
		make: func(r *rig) func() {
			db, err := sql.Open("sqlite", "file:"+r.database()+"?_txlock=immediate")
			r.must(err)
			tx, err := db.BeginTx(context.Background(), nil)
			r.must(err)
			return func() { r.must(tx.Rollback()); r.must(db.Close()) }
		},
	},
	"read-only": {
		state: "disk/state", pass: "state_readonly", command: "state_readonly",
		make: func(r *rig) func() {
			r.readOnly(true)
			return func() { r.readOnly(false) }
		},
	},
	"truncated": {
		pass: "state_corrupt", look: "state_corrupt", command: "state_corrupt", codes: []string{"state_corrupt"},
		make: func(r *rig) func() { r.must(os.Truncate(r.database(), 0)); return nil },
		out:  (*rig).restore,
	},
	"garbage": {
		pass: "state_corrupt", look: "state_corrupt", command: "state_corrupt", codes: []string{"state_corrupt"},
		make: func(r *rig) func() { r.scribble(0); return nil },
		out:  (*rig).restore,
	},
	"garbage in the middle": {
		pass: "state_corrupt", look: "state_corrupt", command: "state_corrupt", codes: []string{"state_corrupt"},
		make: func(r *rig) func() { r.scribble(1); return nil },
		out:  (*rig).restore,
	},
	"deleted": {
		pass: "state_missing", look: "state_missing", command: "state_missing", codes: []string{"state_missing"},
		make: func(r *rig) func() { r.must(os.Remove(r.database())); return nil },
		out:  (*rig).restore,
	},
	"moved away and back": {
		pass: "state_missing", look: "state_missing", command: "state_missing",
		make: func(r *rig) func() {
			away := filepath.Join(r.dir, "away.db")
			r.must(os.Rename(r.database(), away))
			return func() { r.must(os.Rename(away, r.database())) }
		},
	},
	"the log deleted": {
		pass: "state_io", look: "state_io", command: "state_io",
		make: func(r *rig) func() { r.must(os.Remove(r.database() + "-wal")); return nil },
		out:  func(*rig) {}, // it heals with the worker's end
	},
	"begun anew while a worker lives": {
		pass: "state_missing", look: "state_missing", command: "state_missing",
		make: func(r *rig) func() { r.must(os.Remove(r.database())); return nil },
		out: func(r *rig) {
			r.must(os.Rename(r.state, r.state+".old"))
			r.want(r.run("tick"), 0)
			r.until("the new run has met the old one", func() (bool, string) {
				rows := r.sql("SELECT error_code FROM runs WHERE outcome IS NOT NULL")
				return slices.Contains(rows, "workspace_busy"), fmt.Sprint(rows)
			})
		},
		codes: []string{"workspace_busy"},
	},
	"both logs deleted": {
		make: func(r *rig) func() {
			r.must(os.Remove(r.database() + "-wal"))
			r.must(os.Remove(r.database() + "-shm"))
			return nil
		},
		out:   func(*rig) {},
		codes: []string{"workspace_busy", "state_replaced", "inactive"},
	},
	"the run's directory deleted": {
		make: func(r *rig) func() {
			r.must(os.RemoveAll(filepath.Join(r.state, "runs", r.sql("SELECT id FROM runs")[0])))
			return nil
		},
		out: func(*rig) {},
	},
}

func TestStateFaults(t *testing.T) {
	for name, f := range stateFaults {
		t.Run(name, func(t *testing.T) {
			kilobytes := 0
			if f.state != "" {
				if !canMount() {
					t.Skip("no file system can be mounted here")
				}
				kilobytes = 4096
			} else {
				f.state = "state"
			}
			t.Parallel()
			f.try(newRig(t, f.state, "ws", kilobytes))
		})
	}
}

func (f stateFault) try(r *rig) {
	r.add("ABC-1", "sh echo working >> working.txt\n{gate go}\n{move Human Review}")
	r.pass()
	r.atWork("ABC-1")
	r.backUp()
	agent := r.agent()
	undo := f.make(r)

	if f.pass != "" { // else the pass sees nothing wrong
		began := time.Now()
		a := r.want(r.run("tick"), 1, f.pass)
		r.hinted(a)
		if took := time.Since(began); took > 12*time.Second {
			r.t.Errorf("the pass took %v", took)
		}
		r.hinted(r.wantCode(r.run("stop", "ABC-1"), f.command))
		r.hinted(r.wantCode(r.run("retry", "ABC-1"), f.command))
	} else {
		r.pass()
		r.pass()
	}
	r.wantCode(r.run("ps"), f.look)
	r.wantCode(r.run("logs", "ABC-1"), f.look)
	if now := r.agent(); now != agent {
		r.t.Errorf("the agent was %d and is %d", agent, now)
	}

	r.hurry = true
	if undo != nil {
		undo()
	}
	if f.out != nil {
		f.out(r)
	}
	r.open("go")
	r.until("ABC-1 is handed over", func() (bool, string) {
		i, err := r.linear.Issue("ABC-1")
		r.must(err)
		if f.out != nil && i.State != "Human Review" {
			r.run("tick", "--lock-timeout", "20s")
		}
		return i.State == "Human Review", i.State
	})
	r.gone("symphony worker")
	r.quiet()
	r.counted(f.codes...)
	if working, err := os.ReadFile(filepath.Join(r.dir, "ws", "ABC-1", "working.txt")); err != nil || len(working) == 0 {
		r.t.Errorf("the workspace was not kept: %q, %v", working, err)
	}
}

// agent is the agent's process: of those that look like it the oldest, for its children do before their exec.
func (r *rig) agent() int {
	r.t.Helper()
	pids := r.processes("codex app-server")
	if len(pids) == 0 {
		r.t.Fatalf("there is no agent\n%s", r.story())
	}
	return slices.Min(pids)
}

func (r *rig) database() string { return filepath.Join(r.state, "state.db") }

// wantCode: an error, exit code 1, or with an empty code none.
func (r *rig) wantCode(a answer, code string) answer {
	r.t.Helper()
	if code == "" {
		return r.want(a, 0)
	}
	return r.want(a, 1, code)
}

// hinted demands that an error says what to do.
func (r *rig) hinted(a answer) {
	r.t.Helper()
	if len(a.codes()) > 0 && !strings.Contains(a.stderr, "\n  ") {
		r.t.Errorf("no hint:\n%v", a)
	}
}

// backUp is the README's way to make a backup.
func (r *rig) backUp() {
	r.t.Helper()
	r.sql(fmt.Sprintf("VACUUM INTO '%s'", filepath.Join(r.dir, "backup.db")))
}

// restore goes the way that the hint names.
func (r *rig) restore() {
	r.t.Helper()
	a := r.run("stop", "--all")
	if a.code != 1 || !strings.Contains(a.stdout, "ended the worker of run ") || !strings.Contains(a.stderr, "no worker lives any more: put a backup of state.db in its place") {
		r.t.Errorf("stop --all without a database: %v\n%s", a, r.story())
	}
	r.gone("symphony worker") // its locks have fallen already
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(r.database() + suffix); err != nil && !os.IsNotExist(err) {
			r.t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(r.dir, "backup.db"))
	r.must(err)
	r.must(os.WriteFile(r.database(), data, 0o600))
	r.pass()
}

// scribble writes over the database from this page on.
func (r *rig) scribble(page int64) {
	r.t.Helper()
	f, err := os.OpenFile(r.database(), os.O_RDWR, 0)
	r.must(err)
	defer f.Close()
	info, err := f.Stat()
	r.must(err)
	for ; page*4096 < info.Size(); page++ {
		_, err := f.WriteAt([]byte(strings.Repeat("no page of a database ", 100)), page*4096)
		r.must(err)
	}
}

// counted: nothing counts against the issue, and the database is whole.
func (r *rig) counted(codes ...string) {
	r.t.Helper()
	for _, run := range r.sql("SELECT coalesce(outcome, '-'), attempt, settled, error_code FROM runs") {
		f := strings.Split(run, " ")
		if f[0] != "succeeded" && !slices.Contains(codes, f[3]) || f[1] != "0" || f[2] != "1" {
			r.t.Errorf("a run (outcome, attempt, settled, code): %s\n%s", run, r.story())
		}
	}
	if left := r.sql("SELECT identifier, status, failures FROM claims"); len(left) > 0 {
		r.t.Errorf("claims are left: %q", left)
	}
	if whole := r.sql("PRAGMA integrity_check"); !slices.Equal(whole, []string{"ok"}) {
		r.t.Errorf("the database: %q", whole)
	}
}

// A state directory in memory is lost by a reboot, and the workspaces stay: the next pass begins anew, finds them by
// their records, and goes on in them.
func TestStateLostByReboot(t *testing.T) {
	if !mounts(t) {
		return
	}
	t.Parallel()
	r := newRig(t, "disk/state", "ws", 4096)
	r.add("ABC-1", "sh echo working >> working.txt\n{gate go}\n{move Human Review}")
	r.add("ABC-2", "sh echo working >> working.txt\n{gate go}\n{move Human Review}")
	r.pass()
	r.atWork("ABC-1")
	r.atWork("ABC-2")
	for _, name := range []string{"ABC-1", "ABC-2"} {
		r.until(name+" has worked", func() (bool, string) {
			data, err := os.ReadFile(filepath.Join(r.dir, "ws", name, "working.txt"))
			return string(data) == "working\n", fmt.Sprint(string(data), err)
		})
	}
	// The reboot: no process and nothing that was in memory is left. All stand still before the first of them ends: an
	// agent whose command is gone would move its issue.
	all := r.processes("")
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range all {
			if p, err := os.FindProcess(pid); err == nil {
				p.Signal(sig)
			}
		}
	}
	r.gone("")
	r.unmount()
	r.mount(4096)
	r.must(r.linear.Move("ABC-2", "Done"))
	r.want(r.run("ps"), 1, "no_state")

	a := r.pass()
	if !strings.Contains(a.stdout, "dispatch ABC-1") || !strings.Contains(a.stdout, "remove_workspace ABC-2") {
		t.Errorf("the first pass after the reboot:\n%v", a)
	}
	r.open("go")
	r.is("ABC-1", "Human Review")
	r.quiet()
	r.counted()
	if data, err := os.ReadFile(filepath.Join(r.dir, "ws", "ABC-1", "working.txt")); err != nil || string(data) != "working\nworking\n" {
		t.Errorf("the workspace was not gone on with: %q, %v", data, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "ws", "ABC-2")); !os.IsNotExist(err) {
		t.Errorf("the workspace of the finished issue is left: %v", err)
	}
}
