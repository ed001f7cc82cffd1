package state

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() { helpers["leave"] = func(args []string) error { return leaveClaim(args[0], args[1]) } }

// leaveClaim stores a claim and leaves the database.
func leaveClaim(dir, id string) error {
	ctx := context.Background()
	db, err := Create(ctx, dir, epoch)
	if err != nil {
		return err
	}
	c := reconcile.Claim{IssueID: id, Identifier: id, Issue: issueOf(1)}
	if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &c}); err != nil {
		return err
	}
	return db.Leave()
}

// leaveBehind does so in a process that then ends.
func leaveBehind(dir string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, dir, "left")
	cmd.Env = append(os.Environ(), helperVariable+"=leave")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// What a program has left the next one finds, and what is left stays small however many leave.
func TestLeave(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	check(t, createIn(t, dir).Close())
	left, merged := 0, 0
	for i := range 30 {
		id := fmt.Sprintf("ABC-%d", i)
		check(t, helper(t, "leave", dir, id).Run())
		wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal"))
		switch {
		case err != nil:
			merged++
		case wal.Size() > leftWAL:
			t.Fatalf("a WAL of %d bytes was left", wal.Size())
		case wal.Size() > 0:
			left++
		}
		for way, open := range map[string]func(context.Context, string) (*DB, error){"as ever": OpenReadOnly, "as left": openAsLeft} {
			db, err := open(ctx, dir)
			check(t, err)
			claims, err := db.Claims(ctx)
			check(t, err)
			if len(claims) != i+1 {
				t.Fatalf("opened %s: %d claims after %d programs", way, len(claims), i+1)
			}
			check(t, db.Close())
		}
	}
	if left == 0 || merged == 0 {
		t.Errorf("the WAL was left %d times and merged %d times", left, merged)
	}
}
