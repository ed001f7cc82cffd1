package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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

// CheckClaim returns an error if another account's passes start runs for the issues in a
// folder: if the folder has its record, which is younger than a day. An account is named by the
// directory of its projects' states, and projects of the same account know of each other's runs.
func CheckClaim(folder, account string, now time.Time) error {
	_, err := claimAge(folder, account, now)
	return err
}

// Claim is CheckClaim, and records the account in the folder. A folder that the account cannot
// write gets no record.
func Claim(ctx context.Context, folder, account string, now time.Time) error {
	t := &tracker{Options: Options{Path: folder}}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	age, err := claimAge(folder, account, now)
	if err != nil {
		return err
	}
	if age < renewed || unix.Access(folder, unix.W_OK) != nil {
		return nil
	}
	if err := writeClaim(folder, account); err != nil {
		return t.unwritable(claimFile, err)
	}
	return nil
}

// claimFile is the record in the folder of issues.
var claimFile = filepath.Join(claimDir, "account")

// claimAge returns the age of the account's own record, or a day if there is none. It returns an
// error while another account's record counts.
func claimAge(folder, account string, now time.Time) (time.Duration, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0, folderError(folder, err)
	}
	defer root.Close()
	owner, info, err := readFile(root, claimFile)
	if errors.Is(err, fs.ErrNotExist) {
		return claimed, nil
	}
	path := filepath.Join(folder, claimFile)
	if err != nil {
		return 0, unreadable(path, err)
	}
	age := now.Sub(info.ModTime())
	if string(owner) == account {
		return age, nil
	}
	if age >= claimed {
		return claimed, nil
	}
	who := "another account"
	hint := "let one account run the passes"
	stat, isKnown := info.Sys().(*syscall.Stat_t)
	_, missing := os.Stat(string(owner))
	if isKnown && int(stat.Uid) == os.Geteuid() && missing == nil {
		who = "this account, with another HOME or XDG_STATE_HOME,"
		hint = "set them as they are there"
	}
	return 0, reconcile.NewError(
		"project_conflict",
		fmt.Sprintf("%s works on the issues in %s: its projects are in %s", who, folder, owner),
		hint+"; a day after the last pass of one another may start, or, if nothing runs there, at once without "+path,
	)
}

// writeClaim writes the record of an account, in a directory that git ignores.
func writeClaim(folder, account string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(claimDir, 0o755); err != nil {
		return err
	}
	if err := root.WriteFile(filepath.Join(claimDir, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(folder, claimFile), []byte(account), 0o644)
}

// Claimant returns the account whose record is in a folder; empty if there is none.
func Claimant(folder string) string {
	owner, _ := os.ReadFile(filepath.Join(folder, claimFile)) // CheckClaim reports what is wrong with it
	return string(owner)
}

// Unclaim removes the record of an account.
func Unclaim(folder, account string) error {
	if Claimant(folder) != account {
		return nil
	}
	return os.RemoveAll(filepath.Join(folder, claimDir))
}
