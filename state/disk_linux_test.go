package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["full-disk"] = func(args []string) error { return eachPage(args[0]) }
}

// TestFullAtEachWrite fills the disk before each write in turn: with n pages left the first
// writes succeed and the next one fails. What was reported as stored is stored, nothing else
// is, and once there is space again everything continues.
func TestFullAtEachWrite(t *testing.T) {
	test.Expensive(t)
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
	test.OK(t, cmd.Wait())
	if strings.HasPrefix(out.String(), "nothing can be mounted") {
		t.Skip(out.String())
	}
}

// demand ends the helper process with a message unless ok.
func demand(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...))
	}
}

// eachPage takes the steps of a run with 0, 1, 2 … free pages, each time in a new directory,
// until they all succeed; first without a database, then with one.
func eachPage(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		fmt.Println("nothing can be mounted here:", err)
		return nil
	}
	ballast := filepath.Join(at, "ballast")
	for _, made := range []bool{false, true} {
		for pages, all := int64(0), false; !all; pages++ {
			dir := filepath.Join(at, fmt.Sprint(made, pages))
			if made {
				demand(test.Must(createOnce(dir)).Close() == nil, "the new database can't be closed")
			}
			leave(at, ballast, pages)
			done := liveOnFullDisk(dir, made)
			all = done == len(stepsOfARun())
			demand(!all || pages >= 10, "the disk is not full with %d pages left", pages)
			err := errors.Join(os.Remove(ballast), continueWithSpace(dir, max(done, 0)), os.RemoveAll(dir))
			demand(err == nil, "with %d pages left: %v", pages, err)
		}
	}
	return nil
}

// leave fills the disk except for some pages.
func leave(at, ballast string, pages int64) {
	f := test.Must(os.Create(ballast))
	defer f.Close()
	var st unix.Statfs_t
	err := unix.Statfs(at, &st)
	err = errors.Join(err, unix.Fallocate(int(f.Fd()), 0, 0, (int64(st.Bavail)-pages)*int64(st.Bsize)))
	demand(err == nil, "%v", err)
}

// step is one write, and a query that gives 1 where it was stored, 0 where nothing of it was.
type step struct {
	seen string
	do   func(db *DB) error
}

func stepsOfARun() []step {
	run := newRun(1)
	claimed := reconcile.Claim{
		IssueID:    run.IssueID,
		Identifier: run.Identifier,
		Status:     reconcile.Running,
		Issue:      run.Issue,
		RunID:      run.ID,
	}
	worked := run
	worked.Phase = reconcile.StreamingTurn
	worked.ThreadID = "thread"
	worked.Turns = 1
	ended := worked
	ended.Phase = reconcile.Finishing
	ended.Outcome = reconcile.Succeeded
	return []step{
		{
			`SELECT CASE (SELECT count(*) FROM claims) + (SELECT count(*) FROM runs) WHEN 2 THEN 1 WHEN 0 THEN 0 ELSE -1 END`,
			func(db *DB) error {
				return db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &claimed, Insert: &run})
			},
		},
		{`SELECT count(*) FROM runs WHERE worker_pid = 4711`, func(db *DB) error {
			_, err := db.Journal.TakeRun(ctx, run.ID, worker, epoch)
			return err
		}},
		{`SELECT count(*) FROM runs WHERE thread_id = 'thread'`, func(db *DB) error {
			_, err := db.Journal.UpdateRun(ctx, epoch, worked)
			return err
		}},
		{`SELECT count(*) FROM threads`, func(db *DB) error {
			return db.Journal.SaveThread(
				ctx,
				run.ID,
				run.IssueID,
				reconcile.Thread{ID: "thread", WorkspaceID: "ws"},
				reconcile.Tokens{Total: 7},
				epoch,
			)
		}},
		{`SELECT count(*) FROM commands`, func(db *DB) error {
			_, err := db.Operator.AddCommand(ctx, reconcile.Command{
				Verb:      reconcile.VerbPause,
				CreatedAt: epoch,
			})
			return err
		}},
		{`SELECT count(*) FROM runs WHERE stop_reason <> ''`, func(db *DB) error {
			return db.Store.RequestStop(ctx, run.ID, reconcile.StopAll, reconcile.Instant{
				Boot: "boot",
				Mono: 7,
			})
		}},
		{
			`SELECT count(*) FROM runs WHERE outcome = 'succeeded'`,
			func(db *DB) error { return db.Journal.Finish(ctx, epoch, ended) },
		},
		{`SELECT count(*) FROM runs WHERE settled = 1`, func(db *DB) error {
			return db.Store.Commit(ctx, epoch, reconcile.Change{Settle: run.ID})
		}},
		{`SELECT count(*) FROM passes`, func(db *DB) error {
			_, err := db.Store.SavePass(ctx, Pass{Trigger: "manual", StartedAt: epoch})
			return err
		}},
	}
}

// liveOnFullDisk creates the database and takes the steps until the disk is full. It returns
// how many it took, -1 if there is no database. Reading needs no space.
func liveOnFullDisk(dir string, made bool) (done int) {
	full := func(err error) { demand(errorCode(err) == "disk_full", "error is %v, want disk_full", err) }
	db, err := createOnce(dir)
	if err != nil {
		_, openErr := Open(ctx, dir)
		demand(
			(openErr != nil || made) && errorCode(openErr) != "state_corrupt",
			"half a database was made: %v",
			openErr,
		)
		full(err)
		return -1
	}
	for _, s := range stepsOfARun() {
		if err := s.do(db); err != nil {
			full(err)
			break
		}
		done++
	}
	stored(db, done)
	readOnFullDisk(dir, done > 0)
	if err := db.Close(); err != nil {
		full(err)
	}
	readOnFullDisk(dir, done > 0)
	return done
}

// continueWithSpace opens or creates the database, checks that the first done steps are
// stored, and takes the others.
func continueWithSpace(dir string, done int) (err error) {
	db := test.Must(createOnce(dir))
	stored(db, done)
	for _, s := range stepsOfARun()[done:] {
		err = errors.Join(err, s.do(db))
	}
	_, tempErr := os.Stat(filepath.Join(dir, tempName))
	demand(errors.Is(tempErr, os.ErrNotExist), "%s is left: %v", tempName, tempErr)
	return errors.Join(err, db.QuickCheck(ctx), db.Close())
}

// createOnce opens or creates the database under the project lock.
func createOnce(dir string) (*DB, error) {
	release, held, err := Acquire(ctx, dir, Holder{Since: epoch}, 0, false)
	if err != nil || held != nil {
		return nil, errors.Join(err, fmt.Errorf("held by %v", held))
	}
	db, err := Create(ctx, dir, epoch)
	return db, errors.Join(err, release())
}

// readOnFullDisk checks that the claim, if there is one, can be read even if the shared memory
// of the WAL can't be created.
func readOnFullDisk(dir string, claimed bool) {
	db := test.Must(OpenReadOnly(ctx, dir))
	claims := test.Must(db.Store.State(ctx)).Claims
	demand((len(claims) == 1) == claimed && db.Close() == nil, "%d claims", len(claims))
}

// stored demands that the first done steps are stored and the others are not.
func stored(db *DB, done int) {
	for i, s := range stepsOfARun() {
		n := test.Must(row(db.reader(ctx), itself[int], s.seen))
		demand((n == 1) == (i < done), "with %d steps done %q gives %d", done, s.seen, n)
	}
}

func TestUnsupportedFilesystems(t *testing.T) {
	for kind, refused := range map[int64]bool{
		0x6969:     true,
		0x517B:     true,
		0xFF534D42: true,
		0xFE534D42: true,
		0x01021997: true,
		-0xACB2BE:  true,
		0xEF53:     false,
		0x01021994: false,
		0x58465342: false,
		0x9123683E: false,
	} {
		err := refuseFilesystem("/dir", filesystemName(kind))
		if !refused {
			test.OK(t, err)
			continue
		}
		wantCode(t, err, "state_unusable")
	}
}
