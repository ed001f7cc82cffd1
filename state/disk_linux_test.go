package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["full-at-birth"] = func(args []string) error { return eachPage(args[0], bornOnFullDisk) }
	helpers["full-at-work"] = func(args []string) error { return eachPage(args[0], writtenOnFullDisk) }
}

// The disk is full at each write in turn: with n pages left the first writes succeed and the next is the first that
// fails. What was said to be stored is stored, what was not is not there, and with space again all goes on.
func TestFullAtEachWrite(t *testing.T) {
	for _, what := range []string{"full-at-birth", "full-at-work"} {
		t.Run(what, func(t *testing.T) {
			out := inNamespaces(t, what)
			if strings.HasPrefix(out, "nothing can be mounted") {
				t.Skip(out)
			}
			t.Log(out)
		})
	}
}

// eachPage calls f with 0, 1, 2 … free pages left, each time with a new directory, until f meets no full disk.
func eachPage(at string, f func(dir string, full func() error, free func() error) (met bool, err error)) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		fmt.Println("nothing can be mounted here:", err)
		return nil
	}
	ballast := filepath.Join(at, "ballast")
	for pages := int64(0); ; pages++ {
		dir := filepath.Join(at, fmt.Sprint("state-", pages))
		full := func() error { return leave(at, ballast, pages) }
		free := func() error { return os.Remove(ballast) }
		met, err := f(dir, full, free)
		if err != nil {
			return fmt.Errorf("with %d pages left: %w", pages, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		switch {
		case !met && pages < 10:
			return fmt.Errorf("the disk is not full with %d pages", pages)
		case !met:
			fmt.Println("enough:", pages, "pages")
			return nil
		}
	}
}

// leave fills the disk up to so many pages.
func leave(at, ballast string, pages int64) error {
	f, err := os.Create(ballast)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(at, &st); err != nil {
		return err
	}
	return unix.Fallocate(int(f.Fd()), 0, 0, (int64(st.Bavail)-pages)*int64(st.Bsize))
}

// bornOnFullDisk: no lock, no database, or both; never half of one, and the next pass makes it.
func bornOnFullDisk(dir string, full, free func() error) (met bool, err error) {
	ctx := context.Background()
	if err := full(); err != nil {
		return false, err
	}
	err = lockOnce(dir)
	var db *DB
	if err == nil {
		db, err = Create(ctx, dir, epoch)
	}
	if met = err != nil; met {
		if err := wantFull(err); err != nil {
			return met, err
		}
		if _, err := Open(ctx, dir); err == nil {
			return met, errors.New("half a database can be opened")
		} else if missing := new(reconcile.Error); errors.As(err, &missing) && missing.Code == "state_corrupt" {
			return met, err
		}
	} else if err := db.Close(); err != nil {
		if err := wantFull(err); err != nil {
			return met, err
		}
	}
	if err := free(); err != nil {
		return met, err
	}
	if err := lockOnce(dir); err != nil {
		return met, fmt.Errorf("with space again: %w", err)
	}
	if db, err = Create(ctx, dir, epoch); err != nil {
		return met, fmt.Errorf("with space again: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, tempName)); !errors.Is(err, os.ErrNotExist) {
		return met, fmt.Errorf("%s is left: %v", tempName, err)
	}
	return met, db.Close()
}

// step is one write, and how it shows afterwards.
type step struct {
	name string
	do   func(ctx context.Context, db *DB) error
	seen string // a query that gives 1 where it was stored, 0 where nothing of it was
}

func stepsOfARun() []step {
	run := newRun(1)
	issue := issueOf(1)
	claimed := reconcile.Claim{IssueID: issue.ID, Identifier: issue.Identifier, Status: reconcile.Running, Issue: issue, RunID: run.ID}
	worked := run
	worked.Phase, worked.ThreadID, worked.Turns = reconcile.StreamingTurn, "thread", 1
	ended := worked
	ended.Phase, ended.Outcome = reconcile.Finishing, reconcile.Succeeded
	return []step{
		{"dispatch", func(ctx context.Context, db *DB) error {
			return db.Commit(ctx, epoch, reconcile.Change{Claim: &claimed, Insert: &run})
		}, `SELECT CASE (SELECT count(*) FROM claims) + (SELECT count(*) FROM runs) WHEN 2 THEN 1 WHEN 0 THEN 0 ELSE -1 END`},
		{"take", func(ctx context.Context, db *DB) error {
			_, err := db.TakeRun(ctx, run.ID, worker, epoch)
			return err
		}, `SELECT count(*) FROM runs WHERE worker_pid = 4711`},
		{"work", func(ctx context.Context, db *DB) error {
			_, err := db.UpdateRun(ctx, epoch, worked)
			return err
		}, `SELECT count(*) FROM runs WHERE thread_id = 'thread'`},
		{"tokens", func(ctx context.Context, db *DB) error {
			return db.SaveThread(ctx, run.ID, issue.ID, "thread", "ws", reconcile.Tokens{Total: 7}, epoch)
		}, `SELECT count(*) FROM threads`},
		{"command", func(ctx context.Context, db *DB) error {
			_, err := db.AddCommand(ctx, reconcile.Command{Verb: reconcile.VerbPause, CreatedAt: epoch})
			return err
		}, `SELECT count(*) FROM commands`},
		{"stop", func(ctx context.Context, db *DB) error {
			return db.RequestStop(ctx, run.ID, reconcile.StopAll, reconcile.Instant{Boot: "boot", Mono: 7})
		}, `SELECT count(*) FROM runs WHERE stop_reason <> ''`},
		{
			"outcome", func(ctx context.Context, db *DB) error { return db.Finish(ctx, epoch, ended) },
			`SELECT count(*) FROM runs WHERE outcome = 'succeeded'`,
		},
		{"settle", func(ctx context.Context, db *DB) error {
			return db.Commit(ctx, epoch, reconcile.Change{Settle: run.ID})
		}, `SELECT count(*) FROM runs WHERE settled = 1`},
		{"pass", func(ctx context.Context, db *DB) error {
			_, err := db.SavePass(ctx, Pass{Trigger: "manual", StartedAt: epoch})
			return err
		}, `SELECT count(*) FROM passes`},
	}
}

// writtenOnFullDisk takes a run through its life, and fills the disk before the first step.
func writtenOnFullDisk(dir string, full, free func() error) (met bool, err error) {
	ctx := context.Background()
	if err := lockOnce(dir); err != nil {
		return false, err
	}
	db, err := Create(ctx, dir, epoch)
	if err != nil {
		return false, err
	}
	if err := full(); err != nil {
		return false, err
	}
	steps := stepsOfARun()
	done := 0
	for ; done < len(steps); done++ {
		if err := steps[done].do(ctx, db); err != nil {
			if err := wantFull(err); err != nil {
				return true, fmt.Errorf("%s: %w", steps[done].name, err)
			}
			met = true
			break
		}
	}
	if err := stored(ctx, db, steps, done); err != nil {
		return met, fmt.Errorf("while it is full: %w", err)
	}
	if err := readOnFullDisk(ctx, dir, done > 0); err != nil {
		return met, fmt.Errorf("beside the writer: %w", err)
	}
	if err := db.Close(); err != nil {
		if err := wantFull(err); err != nil {
			return met, fmt.Errorf("close: %w", err)
		}
	}
	if err := readOnFullDisk(ctx, dir, done > 0); err != nil {
		return met, fmt.Errorf("alone: %w", err)
	}
	if err := free(); err != nil {
		return met, err
	}
	if db, err = Create(ctx, dir, epoch); err != nil {
		return met, fmt.Errorf("with space again: %w", err)
	}
	if err := stored(ctx, db, steps, done); err != nil {
		return met, fmt.Errorf("with space again: %w", err)
	}
	for ; done < len(steps); done++ {
		if err := steps[done].do(ctx, db); err != nil {
			return met, fmt.Errorf("%s with space again: %w", steps[done].name, err)
		}
	}
	var whole string
	if err := db.sql.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&whole); err != nil || whole != "ok" {
		return met, fmt.Errorf("integrity: %s, %w", whole, err)
	}
	return met, db.Close()
}

// readOnFullDisk reads the claim, where there is one: reading needs no space, even where the shared memory of the WAL
// can't be made.
func readOnFullDisk(ctx context.Context, dir string, claimed bool) error {
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return err
	}
	rec, err := db.State(ctx)
	if err == nil && (len(rec.Claims) == 1) != claimed {
		err = fmt.Errorf("%d claims", len(rec.Claims))
	}
	return errors.Join(err, db.Close())
}

// stored demands that the first so many steps can be seen and the others not.
func stored(ctx context.Context, db *DB, steps []step, done int) error {
	for i, s := range steps {
		var n int
		if err := db.sql.QueryRowContext(ctx, s.seen).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		want := 0
		if i < done {
			want = 1
		}
		if n != want {
			return fmt.Errorf("%s, with %d steps done: stored is %d, want %d", s.name, done, n, want)
		}
	}
	return nil
}

// inNamespaces runs a helper where it may mount, and returns what it says.
func inNamespaces(t *testing.T, what string) string {
	t.Helper()
	cmd := helper(t, what, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	check(t, cmd.Wait())
	return out.String()
}

func lockOnce(dir string) error {
	release, held, err := Acquire(context.Background(), dir, Holder{Since: time.Now()}, 0)
	if err != nil {
		return err
	}
	if held != nil {
		return fmt.Errorf("held by %v", held)
	}
	return release()
}

func wantFull(err error) error {
	var e *reconcile.Error
	if !errors.As(err, &e) || e.Code != "disk_full" {
		return fmt.Errorf("error is %w, want disk_full", err)
	}
	return nil
}
