// Package daemon is the far side of runner/host/remote: a process that serves a run on its
// machine, and the proxy to it.
//
//	symphony host serve ── Launch ──► daemon ── Serve ──► socket ── host.Machine
//	symphony host connect ── Connect ──────────────────────► socket
//
// The daemon is detached. It outlives every link, and is the parent of the run's processes. It
// ends when the worker calls Release, when it was without a link for too long, or by a signal.
// Before that it writes to a file how the run ended.
package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Place names the files of a run's daemon. Files in the directory of the run may be on a
// network file system. The lock and the socket are on a local disk, in a directory of this
// machine and boot.
type Place struct {
	RunID string
	// StateDir contains the directories of runs.
	StateDir string
	machine  string // its name
	local    string
}

// NewPlace returns the place of a run and creates its directories.
func NewPlace(stateDir, runID string) (Place, error) {
	p := Place{RunID: runID, StateDir: stateDir}
	if runID == "" || runID != filepath.Base(runID) || strings.HasPrefix(runID, ".") {
		return p, fmt.Errorf("%q is not the id of a run", runID)
	}
	boot, err := proc.BootID()
	if err != nil {
		return p, err
	}
	p.machine, err = os.Hostname()
	if err != nil {
		return p, err
	}
	sum := sha256.Sum256([]byte(p.machine + "\x00" + boot))
	// Not TMPDIR, which may differ between the two commands.
	p.local = filepath.Join("/tmp", fmt.Sprintf("symphony-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
	if err := ownDir(p.local); err != nil {
		return p, err
	}
	return p, os.MkdirAll(p.dir(), 0o700)
}

// ownDir creates a directory that only this account can read. It refuses a directory of
// another account.
func ownDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o077 != 0 || int(st.Uid) != os.Getuid() {
		return reconcile.NewError(
			"host_unusable",
			path+" is not a directory that only this account can use",
			"remove it",
		)
	}
	return nil
}

func (p Place) dir() string { return host.RunDir(p.StateDir, p.RunID) }

func (p Place) socket() string { return filepath.Join(p.local, p.RunID+".sock") }

func (p Place) lock() string { return filepath.Join(p.local, p.RunID+".lock") }

// The files of a daemon in the directory of its run.
const (
	recordFile  = "daemon.json"
	outcomeFile = "outcome.json"
	secretFile  = "secret"
)

// Begin gives the daemon of a job the secret of its run, for which it waits. It does not fail
// if the daemon serves already.
func Begin(ctx context.Context, p Place, incarnation int64, secret []byte) error {
	path := filepath.Join(p.dir(), secretFile)
	defer func() { _ = os.Remove(path) }() // the job has taken it, or does not need it any more
	end := time.Now().Add(dialPatience)
	written := false
	for {
		status, err := p.Status()
		if err != nil {
			return err
		}
		if status.Incarnation > 0 {
			return status.Err(incarnation)
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("no job of run %s takes the secret and serves", p.RunID)
		}
		_, err = os.Lstat(path)
		if !written && errors.Is(err, fs.ErrNotExist) {
			if err := durable.WriteFile(path, secret, 0o600); err != nil {
				return err
			}
			written = true
		}
		time.Sleep(secretPause)
	}
}

const secretPause = 50 * time.Millisecond

// AwaitSecret returns the secret that Begin passes on. It fails if the run was already served.
// Otherwise it succeeds at most once for each call of Begin.
func (p Place) AwaitSecret(ctx context.Context, wait time.Duration) ([]byte, error) {
	path := filepath.Join(p.dir(), secretFile)
	end := time.Now().Add(wait)
	for {
		status, err := p.Status()
		if err != nil {
			return nil, err
		}
		if status.Incarnation > 0 {
			return nil, fmt.Errorf("run %s was served already", p.RunID)
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, fmt.Errorf("run %s has not begun", p.RunID)
		}
		secret, err := os.ReadFile(path)
		if err == nil {
			return secret, os.Remove(path) // fails if another process was faster
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		time.Sleep(secretPause)
	}
}

// record is stored for the newest daemon of a run.
type record struct {
	Incarnation int64            `json:"incarnation"`
	Machine     string           `json:"machine"`
	Process     reconcile.Handle `json:"process"`
}

// Outcome is how a daemon ended.
type Outcome struct {
	Incarnation int64     `json:"incarnation"`
	End         string    `json:"end"` // EndReleased, EndLost or EndTerminated
	At          time.Time `json:"at"`
}

// The ends of a daemon.
const (
	EndReleased = "released" // the worker said that the run had ended
	// no worker was connected for too long: the daemon ended the run
	EndLost       = "lost"
	EndTerminated = "terminated" // a signal: the daemon ended the run
)

// Status is a machine's knowledge of the daemons of a run.
type Status struct {
	// Incarnation is the newest that a daemon was started for, 0 for none.
	Incarnation int64
	// Serving: that daemon is alive.
	Serving bool
	pid     int // of that daemon
	// Outcome is how it ended, or is about to end; nil if it serves, or died.
	Outcome *Outcome
}

// Status reads the state of a run. It fails if the newest daemon was started on another
// machine with the same home.
func (p Place) Status() (s Status, err error) {
	var r record
	found, err := readJSON(filepath.Join(p.dir(), recordFile), &r)
	if !found {
		return s, err
	}
	if r.Machine != p.machine {
		return s, fmt.Errorf("run %s is on %s, not on %s", p.RunID, r.Machine, p.machine)
	}
	// The daemon writes its outcome before it ends, so it is read after the process was looked
	// for.
	s.Incarnation = r.Incarnation
	s.Serving = proc.SameProcess(r.Process)
	s.pid = r.Process.PID
	var o Outcome
	found, err = readJSON(filepath.Join(p.dir(), outcomeFile), &o)
	if found && o.Incarnation == s.Incarnation {
		s.Outcome = &o
	}
	return s, err
}

// readJSON decodes a file. It is not found if it does not exist or can't be read.
func readJSON(path string, v any) (found bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, err
	}
	return true, nil
}

// EndOf is the error for a client of a run whose daemon left its outcome on a file system that
// both machines share; nil if it did not.
func EndOf(stateDir, runID string) (end, err error) {
	var o Outcome
	found, err := readJSON(filepath.Join(host.RunDir(stateDir, runID), outcomeFile), &o)
	if !found {
		return nil, err
	}
	return Status{Incarnation: o.Incarnation, Outcome: &o}.Err(o.Incarnation), nil
}

// Err is the error for a client of an incarnation. It is nil if there is a daemon for it, or
// if this machine knows none.
func (s Status) Err(incarnation int64) error {
	if s.Incarnation == 0 {
		return nil
	}
	if s.Incarnation != incarnation {
		return remote.Refused(
			fmt.Sprintf("the host knows incarnation %d of the run, not %d", s.Incarnation, incarnation),
		)
	}
	if s.Outcome != nil {
		return reconcile.NewError(
			remote.CodeEnded,
			endings[s.Outcome.End],
			"",
		)
	}
	if s.Serving {
		return nil
	}
	return reconcile.NewError(
		remote.CodeDied,
		"the process that served the run on its host was killed",
		"",
	)
}

var endings = map[string]string{
	EndReleased:   "the run has ended on its host",
	EndLost:       "the host has ended the run, because it heard nothing from symphony",
	EndTerminated: "a signal has ended the run on its host",
}

// hold takes the lock that a daemon holds as long as it lives, and then removes. If another
// process holds it for longer than wait, the error is lock.ErrHeld.
func (p Place) hold(wait time.Duration) (release func(), err error) {
	for {
		f, err := os.OpenFile(p.lock(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock.Try(f, lock.Exclusive, wait); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		held, err := f.Stat()
		if there, statErr := os.Stat(p.lock()); err == nil && statErr == nil && os.SameFile(held, there) {
			return func() {
				_ = os.Remove(p.lock())
				_ = f.Close()
			}, nil
		}
		_ = f.Close() // it was removed
	}
}

// begin stores that this process serves an incarnation from now on. The caller holds the lock.
func (p Place) begin(incarnation int64) error {
	self, err := proc.Self()
	if err != nil {
		return err
	}
	if err := os.Remove(p.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeJSON(filepath.Join(p.dir(), recordFile), record{incarnation, p.machine, self})
}

func writeJSON(path string, v any) error {
	return durable.WriteFile(path, append(text.JSON(v), '\n'), 0o600)
}

// end stores how the daemon ends.
func (p Place) end(o Outcome) error { return writeJSON(filepath.Join(p.dir(), outcomeFile), o) }

// keepOutcome is how long the files of an ended run are kept.
const keepOutcome = 7 * 24 * time.Hour

// sweep deletes the directories of runs that ended long ago.
func (p Place) sweep(now time.Time) error {
	files, err := filepath.Glob(filepath.Join(host.RunDir(paths.Literal(p.StateDir), "*"), outcomeFile))
	for _, file := range files {
		other := p
		other.RunID = filepath.Base(filepath.Dir(file))
		var o Outcome
		_, readErr := readJSON(file, &o)
		err = errors.Join(err, readErr)
		// The status of another machine with the same home is an error. Its runs are jobs,
		// which have no second daemon.
		s, statusErr := other.Status()
		if readErr == nil && now.Sub(o.At) > keepOutcome && !s.Serving &&
			(statusErr != nil || s.Outcome != nil) {
			err = errors.Join(err, os.RemoveAll(other.dir()))
		}
	}
	return err
}
