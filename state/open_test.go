package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["read-unprivileged"] = func(args []string) error { return errors.Join(dropPrivileges(), readIt(args[0])) }
	helpers["fail-unprivileged"] = func(args []string) error {
		err := errors.Join(dropPrivileges(), readIt(args[0]))
		e, is := errors.AsType[*reconcile.Error](err)
		if !is || e.Code != "state_unusable" || e.Hint == "" {
			return fmt.Errorf("error is %w, want state_unusable", err)
		}
		return nil
	}
}

// dropPrivileges continues as another user if this is root, because root ignores file modes.
func dropPrivileges() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := unix.Setgid(65534); err != nil {
		return err
	}
	return unix.Setuid(65534)
}

// TestConcurrentCreation checks that only one of ten concurrent passes creates the database.
func TestConcurrentCreation(t *testing.T) {
	dir := newDir(t)
	all := 10
	results := make(chan error)
	for range all {
		go func() {
			release, _, err := Acquire(ctx, dir, Holder{}, test.Patience(), false)
			if err != nil {
				results <- err
				return
			}
			db, err := Create(ctx, dir, epoch)
			if err == nil {
				_, err = db.Store.SavePass(ctx, Pass{Trigger: "manual", StartedAt: epoch})
				err = errors.Join(err, db.Close())
			}
			results <- errors.Join(err, release())
		}()
	}
	for range all {
		test.OK(t, <-results)
	}
	test.Equal(
		t,
		"passes in one database",
		len(test.Must(openIn(t, dir).passes(ctx, `ORDER BY id DESC LIMIT ?`, 100))),
		all,
	)
}

func readIt(dir string) error {
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return err
	}
	rec, err := db.Store.State(ctx)
	if err == nil && len(rec.Claims) != 1 {
		err = fmt.Errorf("%d claims", len(rec.Claims))
	}
	return errors.Join(err, db.Close())
}

func TestReadOnlyBesideWritersAndAlone(t *testing.T) {
	dir := newDir(t)
	db := test.Must(Create(ctx, dir, epoch))
	c := claim(t, db, 1)
	test.OK(t, readIt(dir))
	begun := test.Must(db.sql.BeginTx(ctx, nil)) // a writer in the middle of its transaction
	test.OK(t, saveClaim(tx{begun, ctx}, epoch, c))
	test.OK(t, readIt(dir))
	test.OK(t, begun.Commit())
	test.OK(t, db.Close())
	if _, err := os.Stat(filepath.Join(dir, databaseName+"-wal")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the last process to close left its WAL: %v", err)
	}
	test.OK(t, readIt(dir))

	ro := test.Must(OpenReadOnly(ctx, dir))
	defer ro.Close()
	wantCode(t, test.Err(ro.Operator.AddCommand(ctx, reconcile.Command{
		Verb:      reconcile.VerbPause,
		CreatedAt: epoch,
	})), "state_readonly")
	rw := openIn(t, dir) // the reader does not block the next writer
	claim(t, rw, 2)
	test.Equal(t, "the reader sees", len(test.Must(ro.Store.State(ctx)).Claims), 2)
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := newDir(t)
	db := test.Must(Create(ctx, dir, epoch))
	claim(t, db, 1)
	test.OK(t, db.Close())
	if os.Geteuid() == 0 { // modes do not apply to root: another user reads
		for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
			test.OK(t, os.Chmod(at, 0o755))
		}
		test.OK(t, os.Chmod(filepath.Join(dir, databaseName), 0o644))
	}
	test.OK(t, os.Chmod(dir, 0o555))
	t.Cleanup(func() { test.OK(t, os.Chmod(dir, 0o700)) })
	test.OK(t, helper(t, "read-unprivileged", dir).Run())
	test.OK(t, os.Chmod(filepath.Join(dir, databaseName), 0))
	test.OK(t, helper(t, "fail-unprivileged", dir).Run())
}

func TestFaultsHaveCodesAndShowNoValues(t *testing.T) {
	dir := newDir(t)
	db := createIn(t, dir)
	secret := reconcile.Claim{IssueID: "s3cret", Identifier: "ABC-9", Status: reconcile.Waiting}

	var pages int
	test.OK(t, db.sql.QueryRow(`PRAGMA page_count`).Scan(&pages))
	test.OK(t, db.sql.QueryRow(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)).Scan(new(int)))
	big := strings.Repeat("s3cret", 10_000)
	secret.Issue.Description = &big
	wantCode(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &secret}), "disk_full")
	test.OK(t, db.sql.QueryRow(`PRAGMA max_page_count = 100000`).Scan(new(int)))
	// the disk has space again
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &secret}))

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	test.ErrorIs(
		t,
		"the commit",
		db.Store.Commit(canceled, epoch, reconcile.Change{Claim: &secret}),
		context.Canceled,
	)
	test.Must(db.sql.Exec(`UPDATE claims SET issue = '{"title": 5, "s3cret'`))
	_, stored := db.Store.State(ctx)
	_, failed := db.sql.Exec(`INSERT INTO runs (id) VALUES ('s3cret')`)
	for code, err := range map[string]error{
		"state_corrupt":  stored,
		"state_unusable": fault(dir, "insert", failed),
	} {
		test.Equal(t, "the error", errorCode(err), code)
		test.Lacks(t, "the error", err.Error(), "s3cret")
	}
}

// A registered directory that vanishes while the others are listed, such as the unfinished
// file of another process, hides no others.
func TestRegisteredDirsVanish(t *testing.T) {
	home := t.TempDir()
	registry := filepath.Join(home, "elsewhere")
	test.OK(t, os.Mkdir(registry, 0o700))
	test.OK(t, os.Symlink("gone", filepath.Join(registry, "x.123.new")))
	dirs, err := RegisteredDirs(home)
	test.Equal(t, "directories and error", []any{len(dirs), err}, []any{0, nil})
}
