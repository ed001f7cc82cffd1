package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// maxEnviron bounds what is read: no system lets an environment grow so large.
const maxEnviron = 8 << 20

// RunHook implements host.Host.
func (h *Host) RunHook(ctx context.Context, r host.HookRequest) (answer host.HookAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
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
	// Before the script begins the shell writes its environment to a file: the login profile may export secrets that the script
	// then prints. It adds no line, so that those of the script keep their numbers, and a shell that cannot goes on without.
	report, err := proc.TempFile()
	if err != nil {
		return answer, fmt.Errorf("report of the hook: %w", err)
	}
	defer report.Close()
	fd := strconv.Itoa(proc.FirstExtra + 1)
	// The login profile may also have changed the directory and set the secrets again.
	script := "command env -0 2>/dev/null >&" + fd + "; exec " + fd + ">&-; " + text.ShellIn(known.space.Path, text.ShellUnset(r.Unset, r.Script))
	var log strings.Builder
	err = workspace.RunHook(ctx, workspace.Hook{
		Name: r.Name, Script: script, Timeout: r.Timeout, Env: env,
		Files: proc.ExtraFiles(known.tree, known.space.Lease(), report),
	}, known.space, &log)
	environ, readErr := io.ReadAll(io.NewSectionReader(report, 0, maxEnviron))
	answer.Log, answer.Environ = log.String(), strings.FieldsFunc(string(environ), func(r rune) bool { return r == 0 })
	return answer, errors.Join(err, readErr)
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
