package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Limits are the most that the processes of a scope may use together.
type Limits struct {
	Tasks  int   // processes and threads at once
	Memory int64 // in bytes
}

// properties returns the limits as systemd knows them.
func (l Limits) properties() []string {
	return []string{
		"TasksMax=" + strconv.Itoa(l.Tasks),
		"MemoryMax=" + strconv.FormatInt(l.Memory, 10),
		"MemorySwapMax=0", // a machine that swaps is of no use, either
		// If the kernel ends a process for want of memory, such as a compiler, systemd would
		// end all of the others. It does not where a unit has cgroups of its own.
		"Delegate=yes",
	}
}

// limiter is a systemd that keeps limits.
type limiter struct {
	once    sync.Once
	err     error // why there is none
	manager manager
}

// AskLimits finds out, once and within two seconds, whether a systemd keeps limits here that
// lasts as long as this process. It returns the reason if there is none.
func (s *ScopeManager) AskLimits(ctx context.Context, l Limits) error {
	if s == nil {
		return errors.New("it was not asked for scopes")
	}
	s.limits.once.Do(func() { s.limits.err = s.probeLimits(ctx, ReadHostUnit(s.Env), l) })
	return s.limits.err
}

// readLimits is a shell script that prints the limits of its own cgroup, where the kernel keeps
// them: on older systems each controller has a hierarchy of its own.
const readLimits = `while IFS=: read -r number names path; do
	case $names in
	pids) cat "/sys/fs/cgroup/pids$path/pids.max" ;;
	memory) cat "/sys/fs/cgroup/memory$path/memory.limit_in_bytes" ;;
	'') cat "/sys/fs/cgroup$path/pids.max" "/sys/fs/cgroup$path/memory.max" ;;
	esac
done 2>&1 </proc/self/cgroup || true`

// probeLimits starts a short program with the limits. systemd accepts limits also where the
// kernel does not let it keep them, such as the systemd of a user with the older cgroups.
func (s *ScopeManager) probeLimits(ctx context.Context, at HostUnit, l Limits) error {
	if l.Tasks <= 0 || l.Memory <= 0 {
		return errors.New("there are no limits to keep")
	}
	if !at.Booted {
		return errors.New("systemd does not run this machine")
	}
	ctx, cancel := context.WithTimeout(ctx, systemdLimit)
	defer cancel()
	scope := Scope{description: "symphony: does systemd keep limits?", properties: l.properties()}
	keeps := func(said string) error {
		kept := strings.Fields(said)
		if slices.Contains(kept, strconv.Itoa(l.Tasks)) && slices.Contains(kept, strconv.FormatInt(l.Memory, 10)) {
			return nil
		}
		return errors.New("systemd does not keep limits of processes and memory here")
	}
	m, err := s.firstManager(ctx, at, scope, []string{"sh", "-c", readLimits}, keeps)
	if err != nil {
		return err
	}
	s.limits.manager = m
	return nil
}

// Limit changes a command of a run so that it and all that it starts have limits. AskLimits
// must have found a systemd that keeps them.
func (s *ScopeManager) Limit(cmd *exec.Cmd, runID string, l Limits) error {
	scope := Scope{
		unit:        uniqueUnit("symphony-" + runID + "-agent"),
		description: "symphony: the sandbox of run " + runID,
		manager:     s.limits.manager,
		properties:  l.properties(),
	}
	if err := scope.wrap(cmd); err != nil {
		return fmt.Errorf("limit the sandbox: %w", err)
	}
	return nil
}
