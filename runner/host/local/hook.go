package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// RunHook implements host.Host.
func (h *Host) RunHook(ctx context.Context, r host.HookRequest) (answer host.HookAnswer, err error) {
	known, space, err := h.held(r.Run)
	if err != nil {
		return answer, err
	}
	if known.unsafe != nil && strings.TrimSpace(r.Script) != "" {
		return answer, asError(known.unsafe)
	}
	env := slices.Clone(r.Env)
	if !known.keepGit {
		var settings [][2]string
		if settings, answer.GitHooksOff, err = known.guard.HookSettings(); err != nil {
			return answer, asError(err)
		}
		env = withGitConfig(env, settings)
	}
	// The login profile of the hook's shell may have changed the directory and set the secrets again.
	script := proc.ShellIn(space.Path, proc.ShellUnset(r.Unset, r.Script))
	var shell reportingShell
	start := func(ctx context.Context, c workspace.Command) (workspace.Process, error) {
		return shell.start(ctx, c, known.tree)
	}
	var log bytes.Buffer
	err = workspace.RunHook(ctx, workspace.Hook{Name: r.Name, Script: script, Timeout: r.Timeout}, start, env, space, &log)
	answer.Log, answer.Environ = log.String(), shell.environ
	return answer, asError(err)
}

// withGitConfig adds settings to those that the environment has for git.
func withGitConfig(env []string, settings [][2]string) []string {
	const name = "GIT_CONFIG_COUNT"
	if len(settings) == 0 {
		return env
	}
	count := 0
	env = slices.DeleteFunc(env, func(kv string) bool {
		value, ok := strings.CutPrefix(kv, name+"=")
		if n, err := strconv.Atoi(value); ok && err == nil {
			count = max(n, 0)
		}
		return ok
	})
	for i, s := range settings {
		n := strconv.Itoa(count + i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s[0], "GIT_CONFIG_VALUE_"+n+"="+s[1])
	}
	return append(env, name+"="+strconv.Itoa(count+len(settings)))
}

// reportingShell is a hook's shell that reports its environment over a pipe before the script begins: the login profile
// may export secrets that the script then prints.
type reportingShell struct {
	workspace.Process
	from     *os.File
	reported chan struct{}
	environ  []string // valid after Wait
	reading  []string
}

// start hands the run's tree file on beside the lease, so that all that the hook leaves is known by it.
func (s *reportingShell) start(ctx context.Context, c workspace.Command, tree *os.File) (workspace.Process, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to the hook: %w", err)
	}
	c.Script = reportEnviron(proc.FirstExtra+len(c.ExtraFiles)) + c.Script
	c.ExtraFiles = proc.ExtraFiles(tree, append(c.ExtraFiles, to)...)
	s.Process, err = workspace.StartLocal(ctx, c)
	_ = to.Close() // the shell has its own
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	s.from, s.reported = from, make(chan struct{})
	go func() {
		defer close(s.reported)
		s.reading = readEnviron(from)
	}()
	return s, nil
}

// environEnd ends the report. No variable has an empty name.
const environEnd = "="

// reportEnviron has a shell write its environment to a descriptor and close that. It adds no line, so that those of the
// script keep their numbers. A shell that can't goes on without.
func reportEnviron(fd int) string {
	n := strconv.Itoa(fd)
	return `{ command env -0 && printf '` + environEnd + `\0'; } 2>/dev/null >&` + n + `; exec ` + n + `>&-; `
}

// maxEnviron bounds what is read: no system lets an environment grow so large.
const maxEnviron = 8 << 20

// readEnviron reads to the end of the report; a process that the profile left behind may hold the pipe for longer.
func readEnviron(from io.Reader) (env []string) {
	in := bufio.NewReader(io.LimitReader(from, maxEnviron))
	for {
		entry, err := in.ReadBytes(0)
		if err != nil {
			return env
		}
		if entry = bytes.TrimSuffix(entry, []byte{0}); string(entry) == environEnd {
			return env
		}
		env = append(env, string(entry))
	}
}

// reportTimeout is how long the report is read for when the shell has ended: all of it is there by then.
const reportTimeout = time.Second

// Wait implements workspace.Process.
func (s *reportingShell) Wait() error {
	err := s.Process.Wait()
	select {
	case <-s.reported:
		s.environ = s.reading
	case <-time.After(reportTimeout):
	}
	// The shell's own error keeps its type, which says how it ended.
	if closeErr := s.from.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("pipe to the hook: %w", closeErr)
	}
	return err
}
