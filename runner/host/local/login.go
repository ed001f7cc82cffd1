package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/proc"
)

const (
	maxEnviron = 8 << 20 // more than any system lets an environment grow
	namedStuck = 5       // how many processes of a login shell that hangs are named
)

// Login implements host.Run. The profile runs in "/", because some profiles obey files in the working directory, and an agent may
// have written those of its workspace. What the profile prints is discarded.
func (r *run) Login(ctx context.Context, q host.LoginRequest) (answer host.LoginAnswer, err error) {
	r.mu.Lock()
	shared := r.logins
	r.logins = nil
	r.mu.Unlock()
	report, err := loginShell{r.tree, q}.share(ctx, shared)
	if err != nil {
		return answer, err
	}
	head, environ, _ := strings.Cut(report, endOfHead)
	answer.Umask, head, _ = strings.Cut(head, "\n")
	if !regexp.MustCompile(`^[0-7]+$`).MatchString(answer.Umask) {
		answer.Umask = ""
	}
	answer.Functions = strings.Fields(head)
	answer.Set, answer.Unset = changed(q.Env, strings.Split(strings.TrimSuffix(environ, "\x00"), "\x00"))
	return answer, nil
}

// endOfHead separates the umask and the functions in the report of a login shell from the environment.
const endOfHead = "\n\n"

// loginShell is a login shell of a run, whose processes inherit marker.
type loginShell struct {
	marker *os.File
	host.LoginRequest
}

// run runs the login shell and returns its report.
func (l loginShell) run(ctx context.Context) (string, error) {
	report, err := proc.TempFile()
	if err == nil {
		defer report.Close()
		err = proc.SealDescriptors()
	}
	if err != nil {
		return "", fmt.Errorf("login shell: %w", err)
	}
	fd := ">&" + strconv.Itoa(proc.FirstExtra)
	// exec: a login shell that ends would run ~/.bash_logout.
	script := "builtin umask " + fd + "; builtin compgen -A function " + fd + " || builtin true; builtin echo " + fd +
		"; exec /usr/bin/env -0 " + fd
	cmd := exec.Command("bash", "-lc", script) //nolint:noctx // waitLogin ends it, with all of its group
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", append([]string{}, l.Env...), tree.ExtraFiles(l.marker, report)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", loginFailed("bash can't be started: "+err.Error(), "install bash", err)
	}
	if err := waitLogin(ctx, cmd, l.Timeout); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(report, 0, maxEnviron))
	if err != nil || !strings.Contains(string(text), endOfHead) {
		return "", loginFailed("it ended before the end of its profile", "run bash -lc true; the profile must not call exit or exec", err)
	}
	return string(text), nil
}

// waitLogin waits for the end of a login shell. Programs of the profile that have to be ended get time to remove their locks: one
// of pyenv rehash, for instance, would make each later login shell of the account wait for a minute.
func waitLogin(ctx context.Context, cmd *exec.Cmd, timeout time.Duration) error {
	err := tree.WaitGroup(ctx, cmd, timeout, func() error {
		message := "it hangs: the login profile did not end within " + text.Took(timeout.Milliseconds())
		if running, _ := proc.Descendants(cmd.Process.Pid); len(running) > 0 {
			names := text.Map(running[:min(len(running), namedStuck)], func(p reconcile.Process) string {
				return fmt.Sprintf("%s (%d)", p.Name, p.PID)
			})
			message += "; it has started " + strings.Join(names, ", ")
		}
		return loginFailed(message, "try it: time bash -lc true; bash -xlc true prints each command of the profile", nil)
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return loginFailed("it ended with "+exit.String(), "run bash -lc true; the profile must not call exit or exec", err)
	}
	return err
}

func loginFailed(what, hint string, err error) error {
	return &reconcile.Error{Code: "login_shell_failed", Message: "the login shell (bash -lc): " + what, Hint: hint, Err: err}
}

// changed returns how an environment differs from the one before, without the variables that each shell sets.
func changed(before, after []string) (set, unset []string) {
	name := func(entry string) string {
		name, _, _ := strings.Cut(entry, "=")
		return name
	}
	shells := []string{"_", "SHLVL", "PWD", "OLDPWD"}
	left := map[string]bool{}
	for _, entry := range after {
		left[name(entry)] = true
		if !slices.Contains(before, entry) && !slices.Contains(shells, name(entry)) {
			set = append(set, entry)
		}
	}
	for _, entry := range before {
		if n := name(entry); !left[n] && !slices.Contains(shells, n) {
			unset = append(unset, n)
		}
	}
	return set, unset
}
