package proc

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// AliveSize is the size of an alive file in bytes. It never changes.
const AliveSize = 64

const probeWait = 250 * time.Millisecond // how long LockDead waits for probes to end

// CreateAlive creates the alive file of a run at its full size and syncs it and its directory
// before the worker is started, so that later neither a full disk nor a missing file looks
// like a dead worker. Until the first heartbeat it contains the time of its creation. If it
// exists already, the error is fs.ErrExist.
func CreateAlive(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create alive file: %w", err)
	}
	_, err = f.Write(heartbeatLine(0, Monotonic()))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("create alive file: %w", err)
	}
	crash.At("proc.alive.made")
	return durable.SyncDir(filepath.Dir(path))
}

// Alive is a worker's exclusive flock on its alive file, which the kernel releases when the
// process ends.
type Alive struct{ f *os.File }

// HoldAlive locks the existing alive file exclusively. It tries for up to wait, because a pass
// may be probing the file. If another process holds it the error is lock.ErrHeld; if it is missing,
// fs.ErrNotExist.
func HoldAlive(path string, wait time.Duration) (*Alive, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("hold alive file: %w", err)
	}
	if err := lock.Try(f, lock.Exclusive, wait); err != nil {
		return nil, fmt.Errorf("hold alive file %s: %w", path, errors.Join(err, f.Close()))
	}
	return &Alive{f: f}, nil
}

// Beat writes the heartbeat in place, so that a full disk does not stop it: the counter and
// the clock (Monotonic).
func (a *Alive) Beat(counter int64, mono time.Duration) error {
	_, err := a.f.WriteAt(heartbeatLine(counter, mono), 0)
	return err
}

// NoteFault writes, also in place, the error code because of which this worker ends without
// having begun its run.
func (a *Alive) NoteFault(code string) error {
	_, err := a.f.WriteAt(faultLine(code), 0)
	return err
}

// NoteUnstarted does the same for a worker that could not be started, or that ended.
func NoteUnstarted(path, code string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write the fault to the alive file: %w", err)
	}
	return errors.Join((&Alive{f}).NoteFault(code), f.Close())
}

// Close releases the lock. From now on the worker counts as dead.
func (a *Alive) Close() error { return a.f.Close() }

// Pulse is the result of a probe of an alive file. Beats and Mono are the values of the last
// heartbeat. Before the first heartbeat, Beats is zero and Mono the time at which the file was
// created. For a damaged file both are zero.
type Pulse struct {
	// Held: the worker is alive. Missing: there is no file, so no worker can have begun.
	Held, Missing bool
	Beats         int64
	Mono          time.Duration
	// Fault is the code that NoteFault or NoteUnstarted wrote: there never was a heartbeat.
	Fault string
}

// ProbeAlive probes an alive file with a shared lock that it releases at once. It never
// creates a file. The worker is alive if the lock is not available. After an error that is
// unknown, and the caller must not touch the run.
func ProbeAlive(path string) (p Pulse, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Pulse{Missing: true}, nil
	}
	if err != nil {
		return p, fmt.Errorf("probe alive file: %w", err)
	}
	defer f.Close() // releases the lock
	err = lock.Try(f, lock.Shared, 0)
	held := errors.Is(err, lock.ErrHeld)
	if err != nil && !held {
		return p, fmt.Errorf("probe alive file %s: %w", path, err)
	}
	p, err = readAlive(f)
	p.Held = held
	if err != nil {
		return p, fmt.Errorf("probe alive file %s: %w", path, err)
	}
	return p, nil
}

// LockDead locks the alive file exclusively for a pass that settles a dead run. The pass calls
// release after the commit. If a worker or another settling pass holds the lock, the error is
// lock.ErrHeld. It waits at most a quarter of a second for probes. If the file is missing, nothing
// is locked: no process can hold it.
func LockDead(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock dead run: %w", err)
	}
	if err := lock.Try(f, lock.Exclusive, probeWait); err != nil {
		return nil, fmt.Errorf("lock dead run: %w", errors.Join(err, f.Close()))
	}
	return func() { f.Close() }, nil // nothing was written that closing could lose
}

// An alive file is a line of AliveSize bytes: a heartbeat, `1 <counter> <clock> <checksum>`,
// or a fault, `2 <code> <checksum>`. A reader does not lock, so it may see half of a write;
// the checksum reveals that.
func heartbeatLine(counter int64, mono time.Duration) []byte {
	return aliveLine(fmt.Sprintf("1 %020d %020d", counter, int64(mono)))
}

const maxCode = AliveSize - len("2  01234567\n")

func faultLine(code string) []byte { return aliveLine("2 " + code[:min(len(code), maxCode)]) }

func aliveLine(body string) []byte {
	return fmt.Appendf(
		nil,
		"%-*s\n",
		AliveSize-1,
		fmt.Sprintf("%s %08x", body, crc32.ChecksumIEEE([]byte(body))),
	)
}

// readAlive reads the line of an alive file. It retries if the line is torn; after three
// attempts it returns no heartbeat.
func readAlive(f *os.File) (Pulse, error) {
	for range 3 {
		b, err := io.ReadAll(io.NewSectionReader(f, 0, AliveSize))
		if err != nil {
			return Pulse{}, err
		}
		if p, ok := parseAlive(string(b)); ok {
			return p, nil
		}
	}
	return Pulse{}, nil
}

func parseAlive(line string) (p Pulse, ok bool) {
	if n, _ := fmt.Sscanf(line, "1 %d %d", &p.Beats, &p.Mono); n == 2 {
		return p, line == string(heartbeatLine(p.Beats, p.Mono))
	}
	if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "2" {
		return Pulse{Fault: fields[1]}, line == string(faultLine(fields[1]))
	}
	return Pulse{}, false
}
