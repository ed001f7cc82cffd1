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

const (
	maxRecorded = 4096 // processes in a procs file; beyond it the dead ones are dropped
	maxLine     = 512  // bytes of a line: two numbers and a quoted name, which the kernel keeps below 64 bytes
)

// ProcFile is the procs file of a run: every process that it has started, by pid and start time, so that a process that
// cleared its environment and left its parent is still found (design 8). Only the worker writes it. Its first line is
// "boot <id>", the others are `<pid> <start> "<name>"`.
type ProcFile struct {
	path string
	boot string
	f    *os.File
	size int64
	n    int                       // processes in the file
	seen map[int]reconcile.Process // by pid: an older process of the same pid has ended
	max  int
}

// OpenProcs creates the procs file at path (0600), or continues the one that is there if it is of this boot.
func OpenProcs(path string) (*ProcFile, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	p := &ProcFile{path: path, boot: boot, seen: map[int]reconcile.Process{}, max: maxRecorded}
	old, oldBoot, err := ReadProcs(path)
	if err != nil {
		return nil, err
	}
	if oldBoot == boot {
		for _, q := range old {
			p.seen[q.PID] = q
		}
	}
	if err := p.rewrite(); err != nil {
		return nil, err
	}
	return p, nil
}

// Record adds the processes that are not in the file yet. After an error the next call tries again. It does not sync,
// because the file means nothing after a reboot.
//
// When the file is full, processes that have ended are dropped. If that many live, the rest is not recorded and the error
// says how many.
func (p *ProcFile) Record(procs []reconcile.Process) error {
	var added []reconcile.Process
	for _, q := range procs {
		if p.seen[q.PID].Start != q.Start {
			added = append(added, q)
		}
	}
	if len(added) == 0 {
		return nil
	}
	if p.n+len(added) > p.max {
		for pid, q := range p.seen {
			if errors.Is(checkSame(pid, q.Start), os.ErrProcessDone) {
				delete(p.seen, pid)
			}
		}
		if err := p.rewrite(); err != nil {
			return err
		}
	}
	room := min(max(p.max-p.n, 0), len(added))
	if err := p.append(added[:room]); err != nil {
		return err
	}
	if over := len(added) - room; over > 0 {
		return fmt.Errorf("record processes: %d more than the %d that are kept", over, p.max)
	}
	return nil
}

// Close closes the file, which stays for a later pass, which ends what the run left.
func (p *ProcFile) Close() error { return p.f.Close() }

func (p *ProcFile) append(procs []reconcile.Process) error {
	var b bytes.Buffer
	for _, q := range procs {
		writeProc(&b, q)
	}
	if _, err := p.f.WriteAt(b.Bytes(), p.size); err != nil {
		// Half a line, followed by the next one, would read as a process that never was.
		return fmt.Errorf("record processes: %w", errors.Join(err, p.f.Truncate(p.size)))
	}
	crash.At("proc.procs.added")
	p.size, p.n = p.size+int64(b.Len()), p.n+len(procs)
	for _, q := range procs {
		p.seen[q.PID] = q
	}
	return nil
}

// rewrite replaces the file, so that a reader sees either the old or the new one.
func (p *ProcFile) rewrite() error {
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
	p.f, p.size, p.n = f, int64(b.Len()), len(p.seen)
	return err
}

func writeProc(b *bytes.Buffer, q reconcile.Process) {
	fmt.Fprintf(b, "%d %d %q\n", q.PID, q.Start, q.Name)
}

// ReadProcs reads a procs file: the processes of a run and the boot (BootID) they were recorded in. If there is no file it
// returns none. It skips a line that is damaged or cut off by a crash; without its first line the file names nothing,
// because its pids have no boot.
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
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return procs, boot, nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("procs file: %w", err)
		}
		line = strings.TrimSuffix(line, "\n")
		if boot == "" {
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
	fields := strings.SplitN(line, " ", 3)
	if len(fields) != 3 {
		return reconcile.Process{}, false
	}
	pid, pidErr := strconv.Atoi(fields[0])
	start, startErr := strconv.ParseUint(fields[1], 10, 64)
	name, nameErr := strconv.Unquote(fields[2])
	ok := errors.Join(pidErr, startErr, nameErr) == nil && pid > 1 && start > 0
	return reconcile.Process{PID: pid, Start: start, Name: name}, ok
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
