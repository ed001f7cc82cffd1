package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// tries is how often a change is repeated if the file changes meanwhile.
const tries = 20

// change edits the file of an issue. edit gets the file's record and content, and returns the
// new content. If another program changes the file meanwhile, edit is called again.
func (t *tracker) change(ctx context.Context, id string, edit func(*record, []byte) ([]byte, error)) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var reason error // why the last attempt did not succeed
	for range tries {
		done, err := t.edit(ctx, id, edit)
		if done {
			return err
		}
		reason = err
		if !sleep(ctx) {
			return ctx.Err()
		}
	}
	return reason
}

// edit tries once to change the file of an issue. If done is false, another program may be
// changing that file: err is the reason to give if that goes on.
func (t *tracker) edit(
	ctx context.Context,
	id string,
	edit func(*record, []byte) ([]byte, error),
) (done bool, err error) {
	_, found, err := t.find(id)
	if err != nil {
		return false, err
	}
	name := found.name
	if found.issue.Archived {
		return true, gone(
			id+" is finished: its file was moved out of "+t.Path,
			"move the file back if the issue is to be changed",
		)
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return true, folderError(t.Path, err)
	}
	defer root.Close()
	changing := t.unchanged(
		name,
		"another program changes it again and again",
		"find out which program that is, and end it",
	)
	content, info, err := readFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, changing
	}
	if err != nil {
		return true, unreadable(filepath.Join(t.Path, name), err)
	}
	r := t.parse(name, content)
	if r == nil || r.fault != nil || key(r.issue.ID) != key(id) {
		return false, changing
	}
	next, err := edit(r, content)
	if err != nil || bytes.Equal(next, content) {
		return true, err
	}
	if len(next) > maxFile {
		return true, t.unchanged(name, "it would become larger than 1 MiB", "move a part of it into another file")
	}
	replaced, err := replace(ctx, filepath.Join(t.Path, name), content, next, info)
	if err != nil {
		return true, t.unwritable(name, err)
	}
	if !replaced {
		return false, changing
	}
	return true, nil
}

// longestLock is how long a change waits for other processes of symphony. Each holds the lock
// for a few milliseconds, unless it was stopped.
const longestLock = 30 * time.Second

// lock keeps other processes of symphony from changing files in the folder. It waits for them
// until ctx ends, longestLock at most.
func (t *tracker) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open(t.Path)
	if err != nil {
		return nil, folderError(t.Path, err)
	}
	err = lock.Wait(ctx, dir, lock.Exclusive, longestLock)
	if err == nil {
		return func() { dir.Close() }, nil
	}
	dir.Close()
	if !errors.Is(err, lock.ErrHeld) && ctx.Err() == nil {
		return nil, t.unwritable("", fmt.Errorf("it cannot be locked: %w", err))
	}
	return nil, reconcile.NewError(
		"file_write",
		t.Path+" was not changed: another process of symphony has locked it",
		"wait for that process, or end it if it was stopped: fuser "+text.ShellQuote(t.Path)+" names it",
	)
}

// tempName is the file with the new content, until it is exchanged. A process that is killed
// leaves it behind; the next change overwrites it.
const tempName = ".symphony" + durable.TempSuffix

// replace puts next in the place of a file, if the file's content is still old. Otherwise it
// returns false, and the file is as the other program left it.
func replace(ctx context.Context, path string, old, next []byte, info fs.FileInfo) (bool, error) {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return false, err // renaming would change a read-only file, too
	}
	temp := filepath.Join(filepath.Dir(path), tempName)
	defer func() { _ = os.Remove(temp) }() // after the exchange it contains the old content
	if err := writeTemp(temp, next, info); err != nil {
		return false, err
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, old) {
		return false, nil // it is read again
	}
	err = exchange(temp, path)
	if errors.Is(err, errors.ErrUnsupported) {
		return true, errors.Join(os.Rename(temp, path), durable.SyncDir(filepath.Dir(path)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	taken, err := os.ReadFile(temp)
	if err != nil {
		return false, err
	}
	if bytes.Equal(taken, old) {
		awaitWriters(ctx, temp) // programs that had the old file open
		taken, err = os.ReadFile(temp)
		if err != nil {
			return false, err
		}
	}
	if bytes.Equal(taken, old) {
		return true, durable.SyncDir(filepath.Dir(path))
	}
	err = giveBack(temp, path, next, taken)
	if err != nil { // the file was moved meanwhile, for example
		kept := path + ".kept"
		err = fmt.Errorf("what another program wrote is in %s: %w", kept, err)
		return false, errors.Join(err, os.Rename(temp, kept))
	}
	return false, nil
}

// giveBack returns to its place the content that another program wrote while it was exchanged
// for ours. temp contains that content. If the file is no longer as we left it, the program
// wrote again, and that newer content is given back, too.
func giveBack(temp, path string, ours, taken []byte) error {
	for {
		if err := exchange(temp, path); err != nil {
			return err
		}
		now, err := os.ReadFile(temp)
		if err != nil {
			return err
		}
		if bytes.Equal(now, ours) {
			return nil
		}
		ours = taken
		taken = now
	}
}

// writeTemp writes a file with the mode of another file and, as far as the system allows it,
// with its owner and group.
func writeTemp(temp string, content []byte, info fs.FileInfo) error {
	_ = os.Remove(temp)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if s, ok := info.Sys().(*syscall.Stat_t); ok && f.Chown(int(s.Uid), int(s.Gid)) != nil {
		_ = f.Chown(-1, int(s.Gid))
	}
	return errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
}

// plainStatus is the next step if the status of an issue can't be replaced.
const plainStatus = "write it as status: and the name of the state, on a line of its own"

// setState returns the file with another state.
func (t *tracker) setState(r *record, content []byte, state string) ([]byte, error) {
	at := locate(content, r.state)
	if at.end == 0 {
		return nil, t.unchanged(r.name, "its status is not plain text on one line", plainStatus)
	}
	next := append(bytes.Clone(content[:at.start]), scalar(state, r.state.Style)...)
	next = append(next, content[at.end:]...)
	made := t.parse(r.name, next)
	if made == nil || made.issue.State != state {
		return nil, t.unchanged(r.name, "its status cannot be read after the change", plainStatus)
	}
	return next, nil
}

// scalar writes a value in YAML, in a style if that fits.
func scalar(value string, style yaml.Style) string {
	single := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	switch style {
	case yaml.DoubleQuotedStyle:
		return string(text.JSON(value))
	case yaml.SingleQuotedStyle:
		return single
	default:
	}
	plain, err := yaml.Marshal(value)
	if err != nil || strings.TrimSpace(string(plain)) != value {
		return single
	}
	return value
}
