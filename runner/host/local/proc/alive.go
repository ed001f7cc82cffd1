package proc

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// AliveSize is the size of an alive file in bytes. It never changes.
const AliveSize = 64

const (
	lockStep  = 10 * time.Millisecond  // between two attempts at a lock that another process has
	probeWait = 250 * time.Millisecond // how long LockDead waits for probes to end
)

// ErrHeld: another process has the lock.
var ErrHeld = errors.New("held by another process")

// CreateAlive creates the alive file of a run at its full size and syncs it and its directory (design 3 and 8). It comes
// before the worker is started, so that later neither a full disk nor a missing file looks like a dead worker. If the file
// exists it stays as it is, and the error is fs.ErrExist.
func CreateAlive(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create alive file: %w", err)
		}
	}()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(heartbeatLine(0, 0))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	crash.At("proc.alive.made")
	return durable.SyncDir(filepath.Dir(path))
}

// Alive is a worker's exclusive flock on its alive file, which the kernel drops when the process ends.
type Alive struct{ f *os.File }

// HoldAlive locks the existing alive file exclusively. It tries for up to wait, because a pass may be probing the file. If
// another process holds it the error is ErrHeld; if it is missing or was replaced meanwhile, fs.ErrNotExist.
func HoldAlive(path string, wait time.Duration) (*Alive, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("hold alive file: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err = lockWithin(ctx, f, func() bool { return true })
	if err == nil {
		err = checkAt(f, path)
	}
	if err != nil {
		return nil, fmt.Errorf("hold alive file %s: %w", path, errors.Join(err, f.Close()))
	}
	return &Alive{f: f}, nil
}

// Beat writes the heartbeat in place: the counter and the clock (Monotonic). The file does not grow, so that a full disk
// stops no heartbeat where the file system overwrites in place.
func (a *Alive) Beat(counter int64, mono time.Duration) error {
	if _, err := a.f.WriteAt(heartbeatLine(counter, mono), 0); err != nil {
		return fmt.Errorf("heartbeat into alive file: %w", err)
	}
	return nil
}

// Refuse writes, in place as well, the code of the reason why this worker ends without having begun its run.
func (a *Alive) Refuse(code string) error { return writeRefusal(a.f, code) }

// NoteUnstarted writes the same for a worker that could not be started, or has ended.
func NoteUnstarted(path, code string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("refusal into alive file: %w", err)
	}
	return errors.Join(writeRefusal(f, code), f.Close())
}

func writeRefusal(f *os.File, code string) error {
	if _, err := f.WriteAt(refusalLine(code), 0); err != nil {
		return fmt.Errorf("refusal into alive file: %w", err)
	}
	return nil
}

// Close gives the lock up: from now on the worker counts as dead.
func (a *Alive) Close() error { return a.f.Close() }

// AliveState is what a probe of an alive file found.
type AliveState string

// The states of an alive file.
const (
	AliveHeld    AliveState = "held"    // the worker is alive
	AliveFree    AliveState = "free"    // no process holds the file: the worker is dead
	AliveMissing AliveState = "missing" // there is no file, so no worker can have begun
	AliveUnknown AliveState = "unknown" // it could not be found out: leave the run alone
)

// Dead reports whether the state means that no worker is alive.
func (s AliveState) Dead() bool { return s == AliveFree || s == AliveMissing }

// Pulse is the content of an alive file. Beats and Mono are the last heartbeat, zero if there was none or the file is
// damaged.
type Pulse struct {
	State AliveState
	Beats int64
	Mono  time.Duration
	// Refused is the code that Refuse or NoteUnstarted wrote: there never was a heartbeat.
	Refused string
}

// ProbeAlive looks at an alive file with a shared lock that it gives back at once. It never creates a file. The worker is
// alive if the lock cannot be had. With an error the state is AliveUnknown.
func ProbeAlive(path string) (Pulse, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Pulse{State: AliveMissing}, nil
	}
	if err != nil {
		return Pulse{State: AliveUnknown}, fmt.Errorf("probe alive file: %w", err)
	}
	defer f.Close() // gives the lock back
	state := AliveFree
	err = flock(f, unix.LOCK_SH)
	if errors.Is(err, ErrHeld) {
		state, err = AliveHeld, nil
	}
	var p Pulse
	if err == nil {
		p, err = readAlive(f)
	}
	if err != nil {
		return Pulse{State: AliveUnknown}, fmt.Errorf("probe alive file %s: %w", path, err)
	}
	p.State = state
	return p, nil
}

// LockDead locks the alive file exclusively for a pass that settles a dead run; release unlocks it after the commit. ok is
// false while a worker, or another pass that settles, holds it. Probes are waited for, a quarter of a second at most. A
// missing file is ok and locks nothing: no process can hold it.
func LockDead(path string) (release func(), ok bool, err error) {
	nothing := func() {}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, true, nil
	}
	if err != nil {
		return nothing, false, fmt.Errorf("lock dead run: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	err = lockWithin(ctx, f, func() bool { // only while the holders are probes, with shared locks
		err := flock(f, unix.LOCK_SH)
		if err == nil {
			err = flock(f, unix.LOCK_UN)
		}
		return err == nil
	})
	if err == nil {
		return func() { f.Close() }, true, nil // nothing was written that closing could lose
	}
	f.Close()
	if errors.Is(err, ErrHeld) {
		return nothing, false, nil
	}
	return nothing, false, fmt.Errorf("lock dead run %s: %w", path, err)
}

// lockWithin tries for an exclusive lock until ctx ends or again returns false; then the error is ErrHeld.
func lockWithin(ctx context.Context, f *os.File, again func() bool) error {
	for {
		err := flock(f, unix.LOCK_EX)
		if !errors.Is(err, ErrHeld) || !again() {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(lockStep):
		}
	}
}

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}

// checkAt fails with fs.ErrNotExist if path does not name the open file any more.
func checkAt(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	if err == nil && !os.SameFile(open, named) {
		return fmt.Errorf("it was replaced: %w", fs.ErrNotExist)
	}
	return err
}

// An alive file is one line of AliveSize bytes: a heartbeat, `1 <counter> <clock> <checksum>`, or a refusal,
// `2 <code> <checksum>`. A reader does not lock, so it may see half of a write, which the checksum shows.
const (
	heartbeatKind = "1"
	refusalKind   = "2"
	maxCode       = AliveSize - len("2  01234567\n")
)

func heartbeatLine(counter int64, mono time.Duration) []byte {
	return aliveLine(fmt.Sprintf("%s %020d %020d", heartbeatKind, counter, int64(mono)))
}

func refusalLine(code string) []byte {
	return aliveLine(refusalKind + " " + code[:min(len(code), maxCode)])
}

func aliveLine(body string) []byte {
	line := fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))
	return []byte(line + strings.Repeat(" ", AliveSize-1-len(line)) + "\n")
}

// readAlive reads the line of an alive file, again if it is torn. One that stays torn counts as no heartbeat.
func readAlive(f *os.File) (Pulse, error) {
	var b [AliveSize]byte
	for range 3 {
		n, err := f.ReadAt(b[:], 0)
		if err != nil && n == 0 && !isEOF(err) {
			return Pulse{}, err
		}
		if p, ok := parseAlive(string(b[:n])); ok {
			return p, nil
		}
	}
	return Pulse{}, nil
}

func parseAlive(line string) (p Pulse, ok bool) {
	fields := strings.Fields(line)
	switch {
	case len(fields) == 4 && fields[0] == heartbeatKind:
		beats, err1 := strconv.ParseInt(fields[1], 10, 64)
		mono, err2 := strconv.ParseInt(fields[2], 10, 64)
		p.Beats, p.Mono = beats, time.Duration(mono)
		return p, errors.Join(err1, err2) == nil && line == string(heartbeatLine(p.Beats, p.Mono))
	case len(fields) == 3 && fields[0] == refusalKind:
		p.Refused = fields[1]
		return p, line == string(refusalLine(p.Refused))
	}
	return p, false
}
