package local

import (
	"bufio"
	"bytes"
	"context"
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
	defer addCode(&err)
	known, err := h.held(r.Run)
	if err != nil {
		return answer, err
	}
	if known.unsafe != nil && strings.TrimSpace(r.Script) != "" {
		return answer, known.unsafe
	}
	env := slices.Clone(r.Env)
	if !known.keepGit {
		var settings [][2]string
		if settings, answer.GitHooksOff, err = known.guard.HookSettings(); err != nil {
			return answer, err
		}
		env = withGitConfig(env, settings)
	}
	// The shell reports its environment over a pipe before the script begins: the login profile may export secrets that the
	// script then prints. Beside the lease the tree file is handed on, so that all that the hook leaves is known by it.
	from, to, err := os.Pipe()
	if err != nil {
		return answer, fmt.Errorf("pipe to the hook: %w", err)
	}
	defer from.Close()
	reported := make(chan []string, 1)
	go func() { reported <- readEnviron(from) }()
	// The login profile may also have changed the directory and set the secrets again.
	script := reportEnviron(proc.FirstExtra+1) + proc.ShellIn(known.space.Path, proc.ShellUnset(r.Unset, r.Script))
	var log bytes.Buffer
	err = workspace.RunHook(ctx, workspace.Hook{
		Name: r.Name, Script: script, Timeout: r.Timeout, Env: env,
		Files: proc.ExtraFiles(known.tree, known.space.Lease(), to),
	}, known.space, &log)
	_ = to.Close()
	select {
	case answer.Environ = <-reported:
	case <-time.After(reportTimeout): // a process that the profile left behind holds the pipe
	}
	answer.Log = log.String()
	return answer, err
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

// environEnd ends the report. No variable has an empty name.
const environEnd = "="

// reportEnviron has a shell write its environment to a descriptor and close that. It adds no line, so that those of the
// script keep their numbers. A shell that can't goes on without.
func reportEnviron(fd int) string {
	n := strconv.Itoa(fd)
	return `{ command env -0 && printf '` + environEnd + `\0'; } 2>/dev/null >&` + n + `; exec ` + n + `>&-; `
}

const (
	maxEnviron    = 8 << 20     // bytes: no system lets an environment grow so large
	reportTimeout = time.Second // for the report when the shell has ended: all of it is there by then
)

// readEnviron reads to the end of the report.
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
