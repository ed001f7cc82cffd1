package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
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

// Login implements host.Run. The profile runs in "/", because some profiles obey files in the
// working directory, and an agent may have written the files of its workspace. The output of
// the profile is discarded.
func (r *run) Login(ctx context.Context, q host.LoginRequest) (answer host.LoginAnswer, err error) {
	r.mu.Lock()
	shared := r.logins
	r.logins = nil
	r.mu.Unlock()
	report, err := r.shareLogin(ctx, q, shared)
	if err != nil {
		return answer, err
	}
	mask, environ, _ := strings.Cut(report, "\n")
	answer.Umask = mask
	if !octal().MatchString(answer.Umask) {
		answer.Umask = ""
	}
	answer.Set, answer.Unset = changed(q.Env, strings.Split(strings.TrimSuffix(environ, "\x00"), "\x00"))
	return answer, nil
}

// octal matches a umask as the shell prints it, such as 0022.
var octal = text.Pattern(`^[0-7]+$`)

// readLogin runs a login shell and returns its report: the umask in a line, and the environment.
func (r *run) readLogin(ctx context.Context, q host.LoginRequest) (string, error) {
	report, err := proc.TempFile()
	if err != nil {
		return "", fmt.Errorf("login shell: %w", err)
	}
	defer report.Close()
	if err := proc.SealDescriptors(); err != nil {
		return "", fmt.Errorf("login shell: %w", err)
	}
	fd := ">&" + strconv.Itoa(proc.FirstExtra)
	// exec: a login shell that ends would run ~/.bash_logout.
	script := "builtin umask " + fd + "; exec /usr/bin/env -0 " + fd
	cmd := exec.Command("bash", "-lc", script) //nolint:noctx // waitLogin ends it, with all of its group
	cmd.Dir = "/"
	cmd.Env = append([]string{}, q.Env...)
	cmd.ExtraFiles = tree.ExtraFiles(r.tree, report)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", loginFailed("bash can't be started: "+err.Error(), "install bash", err)
	}
	if err := waitLogin(ctx, cmd, q.Timeout); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(report, 0, maxEnviron))
	if err != nil || !strings.Contains(string(text), "\n") {
		return "", loginFailed(
			"it ended before the end of its profile",
			"run bash -lc true; the profile must not call exit or exec",
			err,
		)
	}
	return string(text), nil
}

// waitLogin waits for the end of a login shell. Programs of the profile that must be ended get
// time to remove their locks: a lock of pyenv rehash, for instance, would make each later
// login shell of the account wait for a minute.
func waitLogin(ctx context.Context, cmd *exec.Cmd, timeout time.Duration) error {
	err := tree.WaitGroup(ctx, cmd, timeout, func() error {
		message := "it hangs: the login profile did not end within " + text.Took(timeout.Milliseconds())
		if running, _ := proc.Descendants(cmd.Process.Pid); len(running) > 0 {
			names := text.Map(running[:min(len(running), namedStuck)], func(p reconcile.Process) string {
				return fmt.Sprintf("%s (%d)", p.Name, p.PID)
			})
			message += "; it has started " + strings.Join(names, ", ")
		}
		return loginFailed(
			message,
			"try it: time bash -lc true; bash -xlc true prints each command of the profile",
			nil,
		)
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return loginFailed(
			"it ended with "+exit.String(),
			"run bash -lc true; the profile must not call exit or exec",
			err,
		)
	}
	return err
}

func loginFailed(what, hint string, err error) error {
	return &reconcile.Error{
		Code:    "login_shell_failed",
		Message: "the login shell (bash -lc): " + what,
		Hint:    hint,
		Err:     err,
	}
}

// changed returns the differences between two environments, without the variables that each
// shell sets.
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

// ownVariables are variables of a login shell whose values belong to a single run. systemd
// gives each scope an INVOCATION_ID.
var ownVariables = []string{host.RunMark, "TMPDIR", "XDG_CACHE_HOME", "INVOCATION_ID"}

// reportFresh is how long the report of a login shell is shared. A run that begins later may
// need newer tokens.
const reportFresh = time.Minute

// The shared file contains three fields for each login shell that a worker ran: its
// environment, sorted and with zero bytes between the variables; when it ended; and its
// report, which is empty if each worker needs a shell of its own. Marks replace the values of
// ownVariables in all of them.
const fieldEnd = "\x00\x00"

// shareLogin returns the report of the login shell. Of the workers that a pass starts, the first
// runs the shell. The others wait and read its report from file, nil if they share none. They
// use it if their own shells would get the same environment, apart from the values of
// ownVariables, which are replaced. If the shell failed, each of them runs its own, all at
// once. They also do if the shell left processes, which end with the run of its worker. The
// lock of a worker that is killed is released, and the next worker runs the shell.
func (r *run) shareLogin(ctx context.Context, q host.LoginRequest, file *os.File) (report string, err error) {
	if file == nil {
		return r.readLogin(ctx, q)
	}
	defer file.Close() // releases the lock
	if err := lock.TakeAlone(ctx, file, q.Timeout); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return r.readLogin(ctx, q) // the worker with the lock is frozen, or its profile hangs
	}
	own := marks(q.Env)
	mark := strings.NewReplacer(own...)
	// a program may have changed the order
	env := mark.Replace(strings.Join(slices.Sorted(slices.Values(q.Env)), "\x00"))
	report, found := findReport(file, env)
	if !found {
		report, err = r.readLogin(ctx, q)
		if ctx.Err() == nil {
			writeReport(file, env, mark.Replace(report))
		}
		return report, err
	}
	if report == "" {
		file.Close() // the others must not wait for this shell
		return r.readLogin(ctx, q)
	}
	slices.Reverse(own) // each mark and its value
	return strings.NewReplacer(own...).Replace(report), nil
}

// marks returns each value of ownVariables and its mark, which no environment contains.
func marks(env []string) (pairs []string) {
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if value != "" && slices.Contains(ownVariables, name) {
			pairs = append(pairs, value, "\x00="+name+"=")
		}
	}
	return pairs
}

// findReport returns the last report of a shell with the same environment.
func findReport(file io.ReaderAt, env string) (report string, found bool) {
	// after an error, a shell of its own helps
	data, _ := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64))
	for fields := strings.Split(string(data), fieldEnd); len(fields) > 3; fields = fields[3:] {
		at, err := time.ParseDuration(fields[1])
		if err == nil && proc.Monotonic()-at < reportFresh && fields[0] == env {
			report = fields[2]
			found = true
		}
	}
	return report, found
}

// writeReport appends a report, which is empty if the shell failed. If that is not possible,
// the others run their own shells.
func writeReport(file *os.File, env, report string) {
	left, err := proc.Descendants(os.Getpid())
	if err != nil || len(left) > 0 {
		report = ""
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return
	}
	fields := []string{env, proc.Monotonic().String(), strings.TrimSuffix(report, "\x00"), ""}
	_, _ = file.WriteString(strings.Join(fields, fieldEnd))
}
