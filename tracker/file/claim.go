package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	claimDir = ".symphony" // in the folder; git ignores it
	claimed  = 24 * time.Hour
	renewed  = time.Hour
)

// Claim records in a folder of issues the account whose passes start runs for them, by the
// directory of its projects' states. Projects of the same account know of each other's runs;
// another account is refused for a day after the last pass of this account. dryRun only
// checks. A folder that the account cannot write gets no record.
func Claim(ctx context.Context, folder, account string, now time.Time, dryRun bool) error {
	t := &tracker{Options: Options{Path: folder}}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return unreadable(folder, err)
	}
	defer root.Close()
	name := filepath.Join(claimDir, "account")
	owner, info, err := readFile(root, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unreadable(filepath.Join(folder, name), err)
	}
	if err == nil {
		age := now.Sub(info.ModTime())
		isOurs := string(owner) == account
		if isOurs && age < renewed {
			return nil
		}
		if !isOurs && age < claimed {
			return reconcile.NewError(
				"project_conflict",
				fmt.Sprintf("another account works on the issues in %s: its projects are in %s", folder, owner),
				"let one account run the passes; a day after the last pass of one another may start, "+
					"or at once without "+filepath.Join(folder, name),
			)
		}
	}
	if dryRun || unix.Access(folder, unix.W_OK) != nil {
		return nil
	}
	if err := root.MkdirAll(claimDir, 0o755); err != nil {
		return t.unwritable(name, err.Error())
	}
	ignore := filepath.Join(claimDir, ".gitignore")
	if err := root.WriteFile(ignore, []byte("*\n"), 0o644); err != nil {
		return t.unwritable(name, err.Error())
	}
	if err := durable.WriteFile(filepath.Join(folder, name), []byte(account), 0o644); err != nil {
		return t.unwritable(name, err.Error())
	}
	return nil
}

// Unclaim removes the record of an account.
func Unclaim(folder, account string) error {
	owner, err := os.ReadFile(filepath.Join(folder, claimDir, "account"))
	if err != nil || string(owner) != account {
		return nil //nolint:nilerr // there is nothing of this account
	}
	return os.RemoveAll(filepath.Join(folder, claimDir))
}
