package state

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"

	"golang.org/x/sys/unix"
)

const (
	databaseName = "state.db"
	tempName     = "state.db.new" // of a database that is being created
	runsName     = "runs"

	dirMode  = 0o700
	fileMode = 0o600

	longestTag = 64
	tagSigns   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// stateHome returns the directory that contains all state of a user: $XDG_STATE_HOME/symphony,
// or home/.local/state/symphony if xdgStateHome is empty or relative.
func stateHome(xdgStateHome, home string) string {
	base := xdgStateHome
	if !filepath.IsAbs(base) {
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "symphony")
}

// HostedDir returns the directory with a state directory for each project of another machine
// whose runs work on this machine. The parameters mean the same as in DefaultDir.
func HostedDir(xdgStateHome, home string) string {
	return filepath.Join(stateHome(xdgStateHome, home), "hosted")
}

// pathHash returns a short name for a path.
func pathHash(path string) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%x", sum[:6])
}

// DefaultDir returns the default state directory of a workflow: a directory in the state home,
// named after the workflow's folder and a hash of its resolved path. The path is resolved as
// far as it exists.
func DefaultDir(xdgStateHome, home, workflowPath string) string {
	path := resolve(workflowPath)
	return filepath.Join(
		stateHome(xdgStateHome, home),
		tag(filepath.Base(filepath.Dir(path)))+"-"+pathHash(path),
	)
}

// AgentsDir returns the state directory of agents without an issue. It is beside the state
// directories of projects.
func AgentsDir(xdgStateHome, home string) string {
	return filepath.Join(stateHome(xdgStateHome, home), agentsDir)
}

const agentsDir = "agents"

// IsAgentsDir reports whether an entry of an account's directory of states is its AgentsDir.
func IsAgentsDir(path string) bool { return filepath.Base(path) == agentsDir }

// resolve follows symlinks. If the file is gone it resolves the folder, so that the result
// stays the same.
func resolve(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(folder, filepath.Base(path))
	}
	return filepath.Clean(path)
}

// tag turns a folder's name into a safe file name. Two folders may have the same tag.
func tag(folder string) string {
	safe := strings.Map(func(r rune) rune {
		if !strings.ContainsRune(tagSigns, r) {
			return '_'
		}
		return r
	}, folder)
	safe = strings.TrimLeft(safe, ".-")
	if safe == "" || folder == string(filepath.Separator) {
		return "root"
	}
	return safe[:min(len(safe), longestTag)]
}

// EnsureDir creates the state directory with mode 0700, or checks an existing directory: it
// must belong to this user, be closed to other users, and be on a file system with reliable
// locks. EnsureDir closes an open directory only if it is empty.
func EnsureDir(dir string) error {
	if err := checkFilesystem(dir); err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := createDir(dir); err != nil {
			return err
		}
	}
	_, open, err := checkDir(dir)
	if err != nil || !open {
		return err
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return dirError(dir, "is open to other users, and its mode cannot be changed",
			"run: chmod 700 "+dir, err)
	}
	return nil
}

// refuseDangling returns an error if a link that leads to nothing is in the place of a directory
// that does not exist, or above it.
func refuseDangling(dir string) error {
	what, remedy := paths.Missing(dir)
	if remedy == "" {
		return nil
	}
	return dirError(dir, what, remedy+", or choose another directory with --state-dir", nil)
}

// createDir creates the state directory.
func createDir(dir string) error {
	if err := refuseDangling(dir); err != nil {
		return err
	}
	err := os.MkdirAll(dir, dirMode)
	if paths.IsFull(err) {
		return diskFull(dir, "create the state directory", err)
	}
	if err != nil {
		return dirError(dir, "cannot be created: "+err.Error(),
			"set HOME or XDG_STATE_HOME to a directory that this account can write, or use --state-dir", err)
	}
	return fault(dir, "create the state directory", durable.SyncDir(filepath.Dir(dir)))
}

// CheckDir returns the error that EnsureDir would return, as far as that can be known without
// changing anything. exists is false if there is no directory yet.
func CheckDir(dir string) (exists bool, err error) {
	if err := checkFilesystem(dir); err != nil {
		return false, err
	}
	exists, open, err := checkDir(dir)
	if exists && !open && err == nil && unix.Access(dir, unix.W_OK|unix.X_OK) != nil {
		err = dirError(dir, "cannot be written", "make it writable, or mount the volume read-write", nil)
	}
	return exists, err
}

// checkDir reports whether a directory exists, and whether it is open to other users, which is
// an error unless it is empty.
func checkDir(dir string) (exists, open bool, err error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, refuseDangling(dir)
	}
	if err != nil {
		return true, false, unreadable(dir, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return true, false, unreadable(dir, err)
	}
	switch {
	case !info.IsDir():
		return true, false, unreadable(dir, unix.ENOTDIR)
	case int(st.Uid) != os.Geteuid():
		return true, false, dirError(dir, fmt.Sprintf("belongs to user %d", st.Uid),
			"run symphony as that user, or choose another directory with --state-dir", nil)
	case info.Mode().Perm()&0o077 == 0:
		return true, false, nil
	}
	empty, err := isEmpty(dir)
	if err != nil {
		return true, true, unreadable(dir, err)
	}
	if !empty {
		return true, true, dirError(dir, fmt.Sprintf("is open to other users (mode %04o)", info.Mode().Perm()),
			"if it is symphony's, run: chmod 700 "+dir, nil)
	}
	return true, true, nil
}

// unreadable returns the error for a state directory that can't be read.
func unreadable(dir string, err error) error {
	if errors.Is(err, unix.ENOTDIR) {
		return dirError(dir, "is not a directory", "name a directory with --state-dir or SYMPHONY_STATE_DIR", err)
	}
	return dirError(dir, "cannot be read", "check its path and permissions", err)
}

func dirError(dir, what, hint string, err error) error {
	hint = cmp.Or(paths.Regain(dir), hint)
	return problem("state_dir", fmt.Sprintf("state directory %s %s", dir, what), hint, err)
}

// checkFilesystem checks the file system of dir, or of its nearest existing parent.
func checkFilesystem(dir string) error {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		var st unix.Statfs_t
		err := unix.Statfs(at, &st)
		switch {
		case err == nil:
			return refuseFilesystem(dir, networkFilesystem(&st))
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return unreadable(dir, err)
		}
	}
}

// refuseFilesystem returns an error for the name of a network file system. The name of a local
// file system is empty.
func refuseFilesystem(dir, name string) error {
	if name == "" {
		return nil
	}
	return problem(
		"state_unusable",
		fmt.Sprintf("state directory %s is on %s, where file locks and SQLite's WAL are unreliable", dir, name),
		"choose a directory on a local disk with --state-dir or SYMPHONY_STATE_DIR",
		nil,
	)
}

// isEmpty reports whether a directory is empty or does not exist.
func isEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// registryName is the folder in the state home that lists the state directories outside it:
// for each of them it contains a file with the path.
const registryName = "elsewhere"

func registryFile(home, dir string) string { return filepath.Join(home, registryName, pathHash(dir)) }

// RegisterDir records dir, a state directory outside the state home, in that home.
func RegisterDir(home, dir string) error {
	path := registryFile(home, dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("register %s: %w", dir, err)
	}
	if err := durable.WriteFile(path, []byte(dir+"\n"), fileMode); err != nil {
		return fmt.Errorf("register %s: %w", dir, err)
	}
	return nil
}

// UnregisterDirs removes from the registry the directories that no longer contain a database.
func UnregisterDirs(home string) error {
	dirs, err := RegisteredDirs(home)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, databaseName)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := removeAll(registryFile(home, dir)); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Join(home, registryName)) // fails unless the folder is empty
	return nil
}

// RegisteredDirs returns the registered state directories. Some may no longer exist.
func RegisteredDirs(home string) (dirs []string, err error) {
	entries, err := os.ReadDir(filepath.Join(home, registryName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(home, registryName, e.Name())
		text, err := os.ReadFile(path)
		// the unfinished file of another process, or a project that is being removed
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return dirs, fmt.Errorf("list registered state directories: %w", err)
		}
		dir := strings.TrimSuffix(string(text), "\n")
		// skip foreign and damaged files
		if filepath.IsAbs(dir) && path == registryFile(home, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// removeAll removes files, some of which may not exist.
func removeAll(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

const (
	lockName   = "lock"
	waiterName = "lock.waiter"

	// holderSize is the fixed size of the holder's record. Overwriting it takes no space,
	// which a full disk does not have.
	holderSize = 256
)

// Holder describes the process that holds the project lock. Its fields are zero if the record
// can't be read.
type Holder struct {
	PID     int       `json:"pid"`
	Trigger string    `json:"trigger"`
	Since   time.Time `json:"since"`
	// Name describes a holder that is no pass, empty for passes.
	Name string `json:"-"`
}

// String names the pass that holds the lock.
func (h *Holder) String() string {
	if h.Name != "" {
		return h.Name
	}
	if h.PID == 0 {
		return "unknown holder"
	}
	return fmt.Sprintf("%s pass, pid %d, since %s", h.Trigger, h.PID, h.Since.UTC().Format(time.RFC3339))
}

// Acquire takes the project lock of dir, and creates dir if necessary. self describes the
// caller to other processes; a PID of 0 stands for this process. If another process keeps the
// lock, held describes that process and release is nil.
//
// Acquire waits for the lock up to timeout. With giveWay it does not wait if another process
// is already waiting, because the pass of that process will see everything that the caller
// wrote. The lock is released at the latest when the process ends; its file stays.
func Acquire(
	ctx context.Context, dir string, self Holder, timeout time.Duration, giveWay bool,
) (release func() error, held *Holder, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the project: %w", err)
	}
	if err := EnsureDir(dir); err != nil {
		return nil, nil, err
	}
	defer func() { err = fault(dir, "lock the project", err) }()
	path := filepath.Join(dir, lockName)
	file, err := lock.Take(context.WithoutCancel(ctx), path, lock.Exclusive, 0)
	if errors.Is(err, lock.ErrHeld) && timeout > 0 {
		file, err = waitFor(ctx, path, timeout, giveWay)
	}
	if errors.Is(err, lock.ErrHeld) {
		held, err := readHolder(ctx, path)
		return nil, &held, err
	}
	if err != nil {
		return nil, nil, err
	}
	if self.PID == 0 {
		self.PID = os.Getpid()
	}
	self.Since = self.Since.UTC()
	if err := writeHolder(path, text.JSON(self)); err != nil {
		return nil, nil, errors.Join(err, lock.Release(file))
	}
	release = func() error {
		err := errors.Join(writeHolder(path, nil), lock.Release(file))
		return fault(dir, "release the project lock", err)
	}
	return sync.OnceValue(release), nil, nil
}

// waitFor tries to take the lock until the timeout, and then returns lock.ErrHeld. It releases the
// waiter's lock before its pass reads anything, so that the pass sees the writes of every process
// that gave way to it.
func waitFor(ctx context.Context, path string, timeout time.Duration, giveWay bool) (file *os.File, err error) {
	how := lock.Shared // beside others
	if giveWay {
		how = lock.Exclusive
	}
	waiterPath := filepath.Join(filepath.Dir(path), waiterName)
	waiter, err := lock.Take(context.WithoutCancel(ctx), waiterPath, how, 0)
	isSecond := errors.Is(err, lock.ErrHeld)
	if err != nil && (giveWay || !isSecond) {
		return nil, err
	}
	file, err = lock.Take(ctx, path, lock.Exclusive, timeout)
	if isSecond {
		return file, err
	}
	return file, errors.Join(err, lock.Release(waiter))
}

// writeHolder writes the holder's record in place, padded to its fixed size.
func writeHolder(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-*s\n", holderSize-1, text), 0)
	return errors.Join(err, f.Close())
}

// readHolder reads the holder's record. It is blank for a moment after another process took
// the lock.
func readHolder(ctx context.Context, path string) (h Holder, err error) {
	for range 20 {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Holder{}, err
		}
		if json.Unmarshal(text, &h) == nil && h.PID != 0 {
			return h, nil
		}
		select {
		case <-ctx.Done():
			return Holder{}, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return Holder{}, nil
}
