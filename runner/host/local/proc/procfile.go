package proc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// maxRecorded bounds the lines of a procs file. Beyond it the dead ones are dropped.
const maxRecorded = 4096

// maxLine bounds a line of it: two numbers and a quoted name, which the kernel keeps below 64 bytes.
const maxLine = 512

// ProcFile is the procs file of a run: every process that it has started, by pid and start time, so that one that
// cleared its environment and left its parents is still found (design 8). One process writes it. A line is
// "pid start "name""; the first is "boot <id>".
type ProcFile struct {
	path string
	boot string
	f    *os.File
	size int64
	seen map[procKey]reconcile.Process
	max  int
}

type procKey struct {
	pid   int
	start uint64
}

// OpenProcs makes the procs file at path (0600), or goes on with the one that is there if it is of this boot.
func OpenProcs(path string) (*ProcFile, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	p := &ProcFile{path: path, boot: boot, seen: map[procKey]reconcile.Process{}, max: maxRecorded}
	old, oldBoot, err := ReadProcs(path)
	if err != nil {
		return nil, err
	}
	if oldBoot == boot {
		for _, q := range old {
			p.seen[procKey{q.PID, q.Start}] = q
		}
	}
	if err := p.rewrite(); err != nil {
		return nil, err
	}
	return p, nil
}

// Record adds those of the processes that are not in the file yet. After an error they still are not, and the
// next call tries again. It does not sync: what the file says is worth nothing after a reboot.
//
// When the file is full, processes that have ended are dropped; if that many live, the rest is not recorded and
// the error says how many.
func (p *ProcFile) Record(procs []reconcile.Process) error {
	fresh := p.unseen(procs)
	if len(fresh) == 0 {
		return nil
	}
	over := 0
	if len(p.seen)+len(fresh) > p.max {
		if err := p.compact(); err != nil {
			return err
		}
		if room := max(p.max-len(p.seen), 0); len(fresh) > room {
			over = len(fresh) - room
			fresh = fresh[:room]
		}
	}
	if err := p.append(fresh); err != nil {
		return err
	}
	if over > 0 {
		return fmt.Errorf("record processes: %d more than the %d that are kept", over, p.max)
	}
	return nil
}

// Close closes the file, which stays for those who look for what the run left.
func (p *ProcFile) Close() error { return p.f.Close() }

func (p *ProcFile) unseen(procs []reconcile.Process) []reconcile.Process {
	var fresh []reconcile.Process
	for _, q := range procs {
		if _, known := p.seen[procKey{q.PID, q.Start}]; !known {
			fresh = append(fresh, q)
		}
	}
	return fresh
}

func (p *ProcFile) append(fresh []reconcile.Process) error {
	var b bytes.Buffer
	for _, q := range fresh {
		writeProc(&b, q)
	}
	if _, err := p.f.WriteAt(b.Bytes(), p.size); err != nil {
		// Half a line, followed by the next one, would read as a process that never was.
		return fmt.Errorf("record processes: %w", errors.Join(err, p.f.Truncate(p.size)))
	}
	crash.At("proc.procs.added")
	p.size += int64(b.Len())
	for _, q := range fresh {
		p.seen[procKey{q.PID, q.Start}] = q
	}
	return nil
}

func (p *ProcFile) compact() error {
	dropped := false
	for k := range p.seen {
		if errors.Is(isProcess(k.pid, k.start), os.ErrProcessDone) {
			delete(p.seen, k)
			dropped = true
		}
	}
	if !dropped {
		return nil
	}
	return p.rewrite()
}

// rewrite puts a new file in the place of the old one, so that a reader sees the one or the other.
func (p *ProcFile) rewrite() (err error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "boot %s\n", p.boot)
	for _, q := range p.seen {
		writeProc(&b, q)
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), ".procs-*")
	if err != nil {
		return fmt.Errorf("procs file: %w", err)
	}
	_, err = f.Write(b.Bytes())
	if err == nil {
		err = os.Rename(f.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("procs file: %w", errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	if p.f != nil {
		err = p.f.Close()
	}
	p.f, p.size = f, int64(b.Len())
	return err
}

func writeProc(b *bytes.Buffer, q reconcile.Process) {
	fmt.Fprintf(b, "%d %d %q\n", q.PID, q.Start, q.Name)
}

// ReadProcs reads a procs file: what a run recorded and the boot (BootID) it was recorded in. No file is no
// process and no boot. A line that is damaged or without its end (the machine or the disk gave up in mid-write)
// is passed over; a file without its first line names nothing, since nothing says when its pids were true.
func ReadProcs(path string) (procs []reconcile.Process, boot string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("procs file: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(io.LimitReader(f, (maxRecorded+1)*maxLine))
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if err != nil && !isEOF(err) {
			return nil, "", fmt.Errorf("procs file: %w", err)
		}
		if err != nil {
			return procs, boot, nil
		}
		line = strings.TrimSuffix(line, "\n")
		if first {
			var ok bool
			if boot, ok = strings.CutPrefix(line, "boot "); !ok || boot == "" {
				return nil, "", nil
			}
			continue
		}
		if q, ok := parseProc(line); ok {
			procs = append(procs, q)
		}
	}
}

func parseProc(line string) (reconcile.Process, bool) {
	pid, rest, ok := strings.Cut(line, " ")
	start, name, ok2 := strings.Cut(rest, " ")
	n, err := strconv.Atoi(pid)
	s, err2 := strconv.ParseUint(start, 10, 64)
	unquoted, err3 := strconv.Unquote(name)
	if !ok || !ok2 || err != nil || err2 != nil || err3 != nil || n <= 1 || s == 0 {
		return reconcile.Process{}, false
	}
	return reconcile.Process{PID: n, Start: s, Name: unquoted}, true
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
