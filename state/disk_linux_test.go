package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["full-disk"] = func(args []string) error { return onFullDisk(args[0]) }
	helpers["claim-and-die"] = func(args []string) error { return claimAndDie(args[0]) }
}

// claimAndDie stores a claim in a process that ends without closing the database, as a crash does.
func claimAndDie(dir string) error {
	db, err := Create(context.Background(), dir, epoch)
	if err != nil {
		return err
	}
	c := reconcile.Claim{IssueID: "left", Identifier: "left", Issue: issueOf(1)}
	return db.Commit(context.Background(), epoch, reconcile.Change{Claim: &c})
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

// A disk that is really full: a small one in a mount namespace of the helper's own.
func TestFullDisk(t *testing.T) {
	out := inNamespaces(t, "full-disk")
	if out != "" {
		t.Skip(out)
	}
}

func onFullDisk(at string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		fmt.Println("nothing can be mounted here:", err)
		return nil
	}
	ctx := context.Background()
	dir, ballast := filepath.Join(at, "state"), filepath.Join(at, "ballast")
	if err := fillUp(ballast); err != nil {
		return err
	}
	if err := wantFull(lockOnce(dir)); err != nil {
		return fmt.Errorf("first lock: %w", err)
	}
	if _, err := Create(ctx, dir, epoch); wantFull(err) != nil {
		return fmt.Errorf("birth: %w", err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := lockOnce(dir); err != nil {
		return err
	}
	db, err := Create(ctx, dir, epoch)
	if err != nil {
		return fmt.Errorf("birth with space again: %w", err)
	}
	kept := reconcile.Claim{IssueID: "kept", Identifier: "ABC-0", Issue: issueOf(0)}
	if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &kept}); err != nil {
		return err
	}
	if err := writeAndFill(ctx, db, ballast); err != nil {
		return err
	}
	if err := lockOnce(dir); err != nil {
		return fmt.Errorf("a further lock needs no space: %w", err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := db.RequestStop(ctx, "run", reconcile.StopAll, reconcile.Instant{Boot: "boot", Mono: 7}); err != nil {
		return fmt.Errorf("write with space again: %w", err)
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := aloneOnFullDisk(ctx, dir, ballast); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	return leftOnFullDisk(ctx, dir, ballast)
}

// leftOnFullDisk is the same where a crash has left a WAL with a claim that is nowhere else.
func leftOnFullDisk(ctx context.Context, dir, ballast string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, dir)
	cmd.Env = append(os.Environ(), helperVariable+"=claim-and-die")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if wal, err := os.Stat(filepath.Join(dir, databaseName+"-wal")); err != nil || wal.Size() == 0 {
		return fmt.Errorf("no WAL was left: %v", err)
	}
	if err := fillUp(ballast); err != nil {
		return err
	}
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return fmt.Errorf("read what was left: %w", err)
	}
	defer db.Close()
	if _, found, err := db.ClaimByIssue(ctx, "left"); err != nil || !found {
		return fmt.Errorf("the claim that is in the WAL only: %v, %v", found, err)
	}
	return nil
}

// aloneOnFullDisk: the shared memory of the WAL can't be made. Reading works all the same.
func aloneOnFullDisk(ctx context.Context, dir, ballast string) error {
	if err := fillUp(ballast); err != nil {
		return err
	}
	db, err := OpenReadOnly(ctx, dir)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if rec, err := db.State(ctx); err != nil {
		return fmt.Errorf("read: %w", err)
	} else if len(rec.Claims) == 0 {
		return errors.New("the claim is gone")
	}
	if err := db.Close(); err != nil {
		return err
	}
	if _, err := Open(ctx, dir); wantFull(err) != nil {
		return fmt.Errorf("open for writing: %w", err)
	}
	return nil
}

// writeAndFill writes until there is no space left, and a little more.
func writeAndFill(ctx context.Context, db *DB, ballast string) error {
	if err := fillUp(ballast); err != nil {
		return err
	}
	for i := range 10_000 {
		c := reconcile.Claim{IssueID: fmt.Sprint(i), Identifier: fmt.Sprint("ABC-", i), Issue: issueOf(i)}
		if err := db.Commit(ctx, epoch, reconcile.Change{Claim: &c}); err != nil {
			return wantFull(err)
		}
	}
	return errors.New("the disk is never full")
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

func fillUp(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				return err
			}
			return f.Close()
		}
	}
}

func wantFull(err error) error {
	var e *reconcile.Error
	if !errors.As(err, &e) || e.Code != "disk_full" {
		return fmt.Errorf("error is %w, want disk_full", err)
	}
	return nil
}
