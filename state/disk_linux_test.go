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

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() { helpers["full-disk"] = func(args []string) error { return eachPage(args[0]) } }

// TestFullAtEachWrite fills the disk before each write in turn: with n pages left the first writes succeed and the next one
// fails. What was said to be stored is stored, what was not is not there, and with space again everything continues.
func TestFullAtEachWrite(t *testing.T) {
	cmd := helper(t, "full-disk", t.TempDir())
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
	if strings.HasPrefix(out.String(), "nothing can be mounted") {
		t.Skip(out.String())
	}
	t.Log(out.String())
}

// eachPage fills the disk before a database is made, and after.
func eachPage(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		fmt.Println("nothing can be mounted here:", err)
		return nil
	}
	return errors.Join(eachPageFrom(at, false), eachPageFrom(at, true))
}

// eachPageFrom takes a run through its life with 0, 1, 2 … free pages, each time in a new directory, until no write meets a
// full disk. With made the database exists before.
func eachPageFrom(at string, made bool) error {
	ballast := filepath.Join(at, "ballast")
	for pages := int64(0); ; pages++ {
		dir := filepath.Join(at, fmt.Sprint(made, pages))
		if made {
			db, err := createOnce(context.Background(), dir)
			if err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
		}
		if err := leave(at, ballast, pages); err != nil {
			return err
		}
		done, err := liveOnFullDisk(dir, made)
		if err == nil {
			err = errors.Join(os.Remove(ballast), continueWithSpace(dir, done), os.RemoveAll(dir))
		}
		switch all := done == len(stepsOfARun()); {
		case err != nil:
			return fmt.Errorf("with %d pages left: %w", pages, err)
		case all && pages < 10:
			return fmt.Errorf("the disk is not full with %d pages", pages)
		case all:
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
			return db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &claimed, Insert: &run})
		}, `SELECT CASE (SELECT count(*) FROM claims) + (SELECT count(*) FROM runs) WHEN 2 THEN 1 WHEN 0 THEN 0 ELSE -1 END`},
		{"take", func(ctx context.Context, db *DB) error {
			_, err := db.Journal.TakeRun(ctx, run.ID, worker, epoch)
			return err
		}, `SELECT count(*) FROM runs WHERE worker_pid = 4711`},
		{"work", func(ctx context.Context, db *DB) error {
			_, err := db.Journal.UpdateRun(ctx, epoch, worked)
			return err
		}, `SELECT count(*) FROM runs WHERE thread_id = 'thread'`},
		{"tokens", func(ctx context.Context, db *DB) error {
			return db.Journal.SaveThread(ctx, run.ID, issue.ID, "thread", "ws", reconcile.Tokens{Total: 7}, epoch)
		}, `SELECT count(*) FROM threads`},
		{"command", func(ctx context.Context, db *DB) error {
			_, err := db.Operator.AddCommand(ctx, reconcile.Command{Verb: reconcile.VerbPause, CreatedAt: epoch})
			return err
		}, `SELECT count(*) FROM commands`},
		{"stop", func(ctx context.Context, db *DB) error {
			return db.Store.RequestStop(ctx, run.ID, reconcile.StopAll, reconcile.Instant{Boot: "boot", Mono: 7})
		}, `SELECT count(*) FROM runs WHERE stop_reason <> ''`},
		{
			"outcome", func(ctx context.Context, db *DB) error { return db.Journal.Finish(ctx, epoch, ended) },
			`SELECT count(*) FROM runs WHERE outcome = 'succeeded'`,
		},
		{"settle", func(ctx context.Context, db *DB) error {
			return db.Store.Commit(ctx, epoch, reconcile.Change{Settle: run.ID})
		}, `SELECT count(*) FROM runs WHERE settled = 1`},
		{"pass", func(ctx context.Context, db *DB) error {
			_, err := db.Store.SavePass(ctx, Pass{Trigger: "manual", StartedAt: epoch})
			return err
		}, `SELECT count(*) FROM passes`},
	}
}

// liveOnFullDisk makes the database and takes the steps until the disk is full, and returns how many it took: -1 where there
// is no database.
func liveOnFullDisk(dir string, made bool) (done int, err error) {
	ctx := context.Background()
	db, err := createOnce(ctx, dir)
	if err != nil {
		if _, openErr := Open(ctx, dir); openErr == nil && !made || errorCode(openErr) == "state_corrupt" {
			return -1, fmt.Errorf("half a database was made: %w", openErr)
		}
		return -1, wantFull(err)
	}
	steps := stepsOfARun()
	for ; done < len(steps); done++ {
		if err := steps[done].do(ctx, db); err != nil {
			if err := wantFull(err); err != nil {
				return done, fmt.Errorf("%s: %w", steps[done].name, err)
			}
			break
		}
	}
	if err := errors.Join(stored(ctx, db, steps, done), readOnFullDisk(ctx, dir, done > 0)); err != nil {
		return done, fmt.Errorf("beside the writer: %w", err)
	}
	if err := db.Close(); err != nil && wantFull(err) != nil {
		return done, fmt.Errorf("close: %w", err)
	}
	return done, readOnFullDisk(ctx, dir, done > 0)
}

// continueWithSpace opens or makes the database, finds the first so many steps stored, and takes the others.
func continueWithSpace(dir string, done int) error {
	ctx, steps := context.Background(), stepsOfARun()
	db, err := createOnce(ctx, dir)
	if err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, tempName)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is left: %v", tempName, err)
	}
	done = max(done, 0)
	if err := stored(ctx, db, steps, done); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	for ; done < len(steps); done++ {
		if err := steps[done].do(ctx, db); err != nil {
			return fmt.Errorf("%s with space again: %w", steps[done].name, err)
		}
	}
	return errors.Join(db.QuickCheck(ctx), db.Close())
}

// createOnce opens or makes the database under the project lock.
func createOnce(ctx context.Context, dir string) (*DB, error) {
	release, held, err := Acquire(ctx, dir, Holder{Since: epoch}, 0)
	if held != nil {
		return nil, fmt.Errorf("held by %v", held)
	}
	if err != nil {
		return nil, err
	}
	db, err := Create(ctx, dir, epoch)
	return db, errors.Join(err, release())
}

// readOnFullDisk reads the claim, where there is one: reading needs no space, even where the shared memory of the WAL
// can't be made.
func readOnFullDisk(ctx context.Context, dir string, claimed bool) error {
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return err
	}
	rec, err := db.Store.State(ctx)
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

func wantFull(err error) error {
	if errorCode(err) != "disk_full" {
		return fmt.Errorf("error is %w, want disk_full", err)
	}
	return nil
}
