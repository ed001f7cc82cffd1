package workspace

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Command is a shell script to run: `sh -lc Script` (specification 9.4).
type Command struct {
	Script string
	Dir    string   // absolute
	Env    []string // all of it; nothing is inherited
	// Stdout and Stderr are files, so that Wait does not wait for a child that keeps them open.
	Stdout, Stderr *os.File
	// ExtraFiles are inherited as descriptor 3 and up.
	ExtraFiles []*os.File
}

// Process is a started Command, the leader of a process group of its own.
type Process interface {
	PID() int
	// Wait returns when the shell has ended, whatever children it left. The error of a shell that did not
	// exit with 0 has a method ExitCode() int, negative for a signal. It is called once.
	Wait() error
	// KillGroup sends SIGKILL to the group. After Wait has returned it does nothing, because the group's
	// number may belong to another process then.
	KillGroup()
}

// Starter starts a Command and returns without waiting for it. It does not end it when ctx does.
type Starter func(ctx context.Context, c Command) (Process, error)

// StartLocal is the Starter for this machine.
func StartLocal(ctx context.Context, c Command) (Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Not CommandContext, which would kill the shell alone.
	cmd := exec.Command("sh", "-lc", c.Script) //nolint:noctx // see above
	cmd.Dir, cmd.ExtraFiles = c.Dir, c.ExtraFiles
	cmd.Env = append([]string{}, c.Env...) // never nil: that would mean our own environment, secrets included
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &localProcess{cmd: cmd}, nil
}

type localProcess struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	reaped bool
}

func (p *localProcess) PID() int { return p.cmd.Process.Pid }

func (p *localProcess) Wait() error {
	awaitExit(p.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.cmd.Wait()
}

func (p *localProcess) KillGroup() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// The only error is that the group is gone.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}
