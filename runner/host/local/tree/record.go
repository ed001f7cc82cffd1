package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/proc"
)

// maxRecorded limits the processes in a procs file.
const maxRecorded = 4096

// ProcFile is the procs file of a run. It lists the living processes that the run started, by
// pid and start time, so that a process that cleared its environment and left its parent is
// still found. Only the worker writes it. Its first line is "boot <id>", the second `worker
// <pid> <start>`, the others are `<pid> <start> "<name>"`.
type ProcFile struct {
	path   string
	worker reconcile.Handle
	procs  []reconcile.Process
}

// Recorded is the contents of a procs file: the worker of the run and the processes that it
// started, and the boot (BootID) in which they were recorded.
type Recorded struct {
	Boot      string
	Worker    reconcile.Process
	Processes []reconcile.Process
}

// CreateProcs creates the procs file of a new run (0600), whose worker is this process.
func CreateProcs(path string) (*ProcFile, error) {
	self, err := proc.Self()
	if err != nil {
		return nil, fmt.Errorf("identify this process: %w", err)
	}
	p := &ProcFile{path: path, worker: self}
	if err := p.write(nil); err != nil {
		return nil, err
	}
	return p, nil
}

// Record adds the processes that are not in the file yet, and removes processes that ended.
// After an error the next call tries again. It does not sync, because the file means nothing
// after a reboot.
func (p *ProcFile) Record(procs []reconcile.Process) error {
	added := slices.DeleteFunc(slices.Clone(procs), func(q reconcile.Process) bool {
		isSame := func(r reconcile.Process) bool { return r.PID == q.PID && r.Start == q.Start }
		return slices.ContainsFunc(p.procs, isSame)
	})
	if len(added) == 0 {
		return nil
	}
	all := append(slices.DeleteFunc(slices.Clone(p.procs), proc.Ended), added...)
	if err := p.write(all[:min(len(all), maxRecorded)]); err != nil {
		return err
	}
	crash.At("proc.procs.added")
	if over := len(all) - maxRecorded; over > 0 {
		return fmt.Errorf("record processes: %d more than the %d that are kept", over, maxRecorded)
	}
	return nil
}

// write replaces the file, so that a reader sees either the old or the new file.
func (p *ProcFile) write(procs []reconcile.Process) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "boot %s\nworker %d %d\n", p.worker.Boot, p.worker.PID, p.worker.Start)
	for _, q := range procs {
		fmt.Fprintf(&b, "%d %d %q\n", q.PID, q.Start, q.Name)
	}
	next := filepath.Join(filepath.Dir(p.path), ".procs")
	if err := os.WriteFile(next, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("record processes: %w", err)
	}
	if err := os.Rename(next, p.path); err != nil {
		return fmt.Errorf("record processes: %w", err)
	}
	p.procs = procs
	return nil
}

// ReadProcs reads a procs file. A missing file counts as empty, and damaged lines are skipped.
// If the first line is damaged, the whole file counts as empty, because the boot of the pids
// is unknown.
func ReadProcs(path string) (r Recorded, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("procs file: %w", err)
	}
	first, rest, _ := strings.Cut(string(b), "\n")
	boot, ok := strings.CutPrefix(first, "boot ")
	if !ok {
		return r, nil
	}
	r.Boot = boot
	for line := range strings.Lines(rest) {
		var p reconcile.Process
		if n, _ := fmt.Sscanf(line, "worker %d %d\n", &p.PID, &p.Start); n == 2 {
			r.Worker = p
			continue
		}
		n, _ := fmt.Sscanf(line, "%d %d %q\n", &p.PID, &p.Start, &p.Name)
		if n == 3 && p.PID > 1 && p.Start > 0 {
			r.Processes = append(r.Processes, p)
		}
	}
	return r, nil
}
