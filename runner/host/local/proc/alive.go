package proc

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// AliveSize is the size of an alive file in bytes, from its making to its end.
const AliveSize = 64

const (
	lockStep    = 10 * time.Millisecond  // between attempts at a lock that somebody else has
	probesLimit = 250 * time.Millisecond // how long LockDead lets others finish looking
)

// ErrHeld: another process has the lock.
var ErrHeld = errors.New("held by another process")

// CreateAlive makes the alive file of a run at its full size and syncs it and its directory (design 3 and 8). It
// comes before the spawn, so that later neither a full disk nor a missing file can look like a dead worker. An
// existing file is fs.ErrExist and stays as it is.
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
	_, err = f.Write(aliveRecord(0, 0))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	crash.At("proc.alive.made")
	return durable.SyncDir(filepath.Dir(path))
}

// Alive is a worker's hold on its alive file: an exclusive flock that the kernel drops with the process.
type Alive struct{ f *os.File }

// HoldAlive takes the existing alive file exclusively, trying for up to wait (a pass may be looking at it). Held
// by another process: ErrHeld. A file that is missing, or was replaced meanwhile, is fs.ErrNotExist.
func HoldAlive(path string, wait time.Duration) (*Alive, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("hold alive file: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if err := lockWithin(ctx, f, unix.LOCK_EX, nil); err != nil {
		f.Close()
		return nil, fmt.Errorf("hold alive file %s: %w", path, err)
	}
	same, err := stillAt(f, path)
	if err == nil && !same {
		err = fmt.Errorf("it was replaced: %w", fs.ErrNotExist)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("hold alive file %s: %w", path, err)
	}
	return &Alive{f: f}, nil
}

// Beat writes the heartbeat in place: the counter and the clock (Monotonic). It makes the file no larger, so it
// needs no space where the file system overwrites in place.
func (a *Alive) Beat(counter int64, mono time.Duration) error {
	if _, err := a.f.WriteAt(aliveRecord(counter, mono), 0); err != nil {
		return fmt.Errorf("heartbeat into alive file: %w", err)
	}
	return nil
}

// Refuse writes in place, where a full disk does not matter, why this worker ends without having begun its run.
func (a *Alive) Refuse(code string) error {
	if _, err := a.f.WriteAt(refusalRecord(code), 0); err != nil {
		return fmt.Errorf("refusal into alive file: %w", err)
	}
	return nil
}

// NoteUnstarted writes the same for a worker that could not even be started, or that has ended.
func NoteUnstarted(path, code string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(refusalRecord(code), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("refusal into alive file: %w", err)
	}
	return nil
}

// Close gives the file up: from here on the worker counts as dead.
func (a *Alive) Close() error { return a.f.Close() }

// AliveState is what a probe of an alive file found.
type AliveState string

// The states of an alive file.
const (
	AliveHeld    AliveState = "held"    // the worker lives
	AliveFree    AliveState = "free"    // it does not: nobody holds the file
	AliveMissing AliveState = "missing" // nor can it have begun: there is no file
	AliveUnknown AliveState = "unknown" // it could not be found out; leave the run alone
)

// Dead reports whether the state means that no worker lives.
func (s AliveState) Dead() bool { return s == AliveFree || s == AliveMissing }

// Pulse is what an alive file says. Beats and Mono are the last heartbeat, zero if there was none or the file
// can't be read as one.
type Pulse struct {
	State AliveState
	Beats int64
	Mono  time.Duration
	// Refused is the code that Refuse or NoteUnstarted left: there never was a heartbeat.
	Refused string
}

// ProbeAlive looks at an alive file with a shared lock that it gives back at once. It never creates a file. A
// worker is alive if the lock can't be had. With an error the state is AliveUnknown.
func ProbeAlive(path string) (Pulse, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Pulse{State: AliveMissing}, nil
	}
	if err != nil {
		return Pulse{State: AliveUnknown}, fmt.Errorf("probe alive file: %w", err)
	}
	defer f.Close() // drops the lock too
	state := AliveFree
	switch err := flock(f, unix.LOCK_SH); {
	case errors.Is(err, ErrHeld):
		state = AliveHeld
	case err != nil:
		return Pulse{State: AliveUnknown}, fmt.Errorf("probe alive file %s: %w", path, err)
	}
	p, err := readAlive(f)
	if err != nil {
		return Pulse{State: AliveUnknown}, fmt.Errorf("probe alive file %s: %w", path, err)
	}
	p.State = state
	return p, nil
}

// LockDead takes the alive file exclusively for a pass that settles a dead run; release gives it back after the
// commit. ok is false while a worker, or another pass that settles, holds it; those who only look are waited for,
// a quarter of a second at most. A missing file is ok with nothing locked: nobody can hold it.
func LockDead(path string) (release func(), ok bool, err error) {
	nothing := func() {}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing, true, nil
	}
	if err != nil {
		return nothing, false, fmt.Errorf("lock dead run: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), probesLimit)
	defer cancel()
	err = lockWithin(ctx, f, unix.LOCK_EX, onlyProbes)
	if err != nil {
		f.Close()
		if errors.Is(err, ErrHeld) {
			return nothing, false, nil
		}
		return nothing, false, fmt.Errorf("lock dead run %s: %w", path, err)
	}
	return func() { f.Close() }, true, nil // closing is the unlock; there is nothing written that could be lost
}

// onlyProbes reports whether those who hold the file do so with shared locks.
func onlyProbes(f *os.File) bool {
	err := flock(f, unix.LOCK_SH)
	if err == nil {
		err = flock(f, unix.LOCK_UN)
	}
	return err == nil
}

// lockWithin tries for the lock until ctx ends, or again says that trying on is useless; then ErrHeld.
func lockWithin(ctx context.Context, f *os.File, how int, again func(*os.File) bool) error {
	for {
		err := flock(f, how)
		if !errors.Is(err, ErrHeld) || again != nil && !again(f) {
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
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		default:
			return err
		}
	}
}

// stillAt reports whether the open file is the one that path names.
func stillAt(f *os.File, path string) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

// aliveRecord is one heartbeat as a line of AliveSize bytes, readable with cat, its checksum last: a reader does
// not lock, so it may see half of a write.
func aliveRecord(counter int64, mono time.Duration) []byte {
	return aliveLine(fmt.Sprintf("1 %020d %020d", counter, int64(mono)))
}

// longestCode is what a line has room for.
const longestCode = AliveSize - len("2  01234567\n")

// refusalRecord is a line of the same size, with a code in the place of a heartbeat.
func refusalRecord(code string) []byte {
	return aliveLine("2 " + code[:min(len(code), longestCode)])
}

func aliveLine(body string) []byte {
	line := fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body)))
	return []byte(line + strings.Repeat(" ", AliveSize-1-len(line)) + "\n")
}

// readAlive reads the last line, whatever the state. A torn one is read again; one that stays torn counts as none.
func readAlive(f *os.File) (Pulse, error) {
	var b [AliveSize]byte
	for range 3 {
		n, err := f.ReadAt(b[:], 0)
		if err != nil && n == 0 && !isEOF(err) {
			return Pulse{}, err
		}
		if code, ok := parseRefusal(string(b[:n])); ok {
			return Pulse{Refused: code}, nil
		}
		if counter, mono, ok := parseAlive(string(b[:n])); ok {
			return Pulse{Beats: counter, Mono: mono}, nil
		}
	}
	return Pulse{}, nil
}

func parseAlive(s string) (counter int64, mono time.Duration, ok bool) {
	var version, ns int64
	var sum uint32
	if n, err := fmt.Sscanf(s, "%d %d %d %x", &version, &counter, &ns, &sum); n != 4 || err != nil {
		return 0, 0, false
	}
	mono = time.Duration(ns)
	return counter, mono, s == string(aliveRecord(counter, mono))
}

func parseRefusal(s string) (code string, ok bool) {
	fields := strings.Fields(s)
	if len(fields) != 3 || fields[0] != "2" {
		return "", false
	}
	return fields[1], s == string(refusalRecord(fields[1]))
}
