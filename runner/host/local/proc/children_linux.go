package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// ChildScanner finds new processes below this one from the kernel's lists of each thread's children, so that a look costs
// as much as the worker's own tree is large, and not the whole machine. One goroutine uses it at a time.
type ChildScanner struct{ known map[int]bool }

// NewChildScanner fails with errors.ErrUnsupported where the kernel does not list children.
func NewChildScanner() (*ChildScanner, error) {
	if err := ownProc(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err != nil {
		return nil, fmt.Errorf("children of threads: %w", errors.ErrUnsupported)
	}
	return &ChildScanner{known: map[int]bool{}}, nil
}

// NewSince lists the descendants that were not there at the last call. One that changes its parent at this very moment may
// be listed by the next call only.
func (s *ChildScanner) NewSince() (fresh []reconcile.Process, err error) {
	now := map[int]bool{}
	var errs []error
	for open := []int{os.Getpid()}; len(open) > 0; {
		pid := open[len(open)-1]
		open = open[:len(open)-1]
		for _, child := range childrenOf(pid) {
			if now[child] {
				continue
			}
			now[child] = true
			open = append(open, child)
			if s.known[child] {
				continue // the number can't have come round since the last look
			}
			switch e, err := statOf(child); {
			case err == nil && !e.dead:
				fresh = append(fresh, e.process())
			case err != nil && !errors.Is(err, os.ErrProcessDone):
				errs = append(errs, err)
			}
		}
	}
	s.known = now
	return fresh, errors.Join(errs...)
}

// childrenOf lists the children of all threads of a process; none where it is gone.
func childrenOf(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well-formed
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that ended has none
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}
