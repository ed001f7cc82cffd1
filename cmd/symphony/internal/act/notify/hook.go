package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	// hookBound limits hooks.on_attention, whatever hooks.timeout_ms is, because a pass
	// holds the project's lock until the hook ends.
	hookBound   = 8 * time.Second
	longestText = 1000     // bytes of SYMPHONY_ATTENTION_TEXT
	longestLog  = 64 << 10 // bytes of the log that are kept
	// lockBound is for programs of the hook that may have to remove a lock
	lockBound = 2 * time.Second
	// outputPatience is how long output is read after the shell's process group was killed.
	outputPatience = 100 * time.Millisecond
	killBound      = 4 * time.Second // for ending processes
)

// Patience is the time after its start at which a hook is certain to be over, even if
// its caller was killed. Then another process may deliver the notification.
const Patience = hookBound + 2*killBound

// Hook is hooks.on_attention, which notifies a person. It belongs to no workspace and
// gets no variables of a run, so that its script may call symphony.
type Hook struct {
	Script  string
	Where   string        // its place in the workflow, for messages
	Timeout time.Duration // hooks.timeout_ms; see Bound
	Env     []string      // of the pass or worker, before secrets are removed
	Home    string        // where the script runs
	// Workflow and StateDir are passed to the script; StateDir is "" if symphony finds it by
	// itself.
	Workflow, StateDir string
	// Secrets and SecretValues are as in runner.Config.
	Secrets, SecretValues []string
	Now                   func() time.Time
	Commands              host.Commands

	// Set by OfPass and OfRun: the file for the output, and the file that marks the processes.
	log, tree string
}

// OfPass returns the hook for a pass, with its files in the state directory.
func (h Hook) OfPass(stateDir string) Hook {
	h.log = filepath.Join(stateDir, "attention.log")
	h.tree = filepath.Join(stateDir, "attention.tree")
	return h
}

// OfRun returns the hook for the worker of a run. Its processes are ended together with the
// run's.
func (h Hook) OfRun(stateDir, runID string) Hook {
	dir := host.RunDir(stateDir, runID)
	h.log = filepath.Join(dir, runner.HooksFile)
	h.tree = filepath.Join(dir, host.TreeFile)
	return h
}

func (h Hook) redactor() *agent.Redactor {
	return agent.NewRedactor(slices.Concat(h.SecretValues, agent.EnvSecrets(h.Env)))
}

// Bound returns the timeout for hooks that are run together.
func (h Hook) Bound() time.Duration {
	if h.Timeout <= 0 {
		return hookBound
	}
	return min(h.Timeout, hookBound)
}

// Result is the result of a hook.
type Result struct {
	Attention reconcile.Attention
	Output    []byte // the end of its output, not redacted
	Took      time.Duration
	// Err is hook_failed or hook_timeout. Unfinished is set if the hook did not start or was
	// killed by someone else, so that the person may not have been notified.
	Err        error
	Unfinished bool
}

// Run runs the hook for a notification until ctx ends, and kills the rest of its process
// group.
func (h Hook) Run(ctx context.Context, a reconcile.Attention) Result {
	began := h.Now()
	out, exit, err := h.run(ctx, a)
	result := Result{Attention: a, Output: out, Took: h.Now().Sub(began)}
	signalled := exit.Code < 0
	code := "hook_failed"
	what := ""
	switch {
	case err != nil:
		what = err.Error()
		result.Unfinished = true
	case exit.Code == 0:
		return result
	case signalled && errors.Is(ctx.Err(), context.DeadlineExceeded):
		code = "hook_timeout"
		what = fmt.Sprintf("ran longer than %s and was killed", text.Took(h.Bound().Milliseconds()))
	case signalled && ctx.Err() != nil:
		what = "was killed together with the run"
		result.Unfinished = true
	default:
		what = exit.Text
		result.Unfinished = signalled
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(out), "\uFFFD")), "\n")
		if last := oneLine(lines[len(lines)-1]); last != "" {
			what += ": " + last
		}
	}
	hint := "its output is in " + h.log + "; it is not run again for this notification"
	if result.Unfinished {
		hint = "its output is in " + h.log + "; a later pass tries again"
	}
	name := "hooks.on_attention"
	if h.Where != "" {
		name += " (" + h.Where + ")"
	}
	result.Err = &reconcile.Error{
		Code:    code,
		Message: name + ": " + h.redactor().Text(what),
		Hint:    hint,
		Err:     err,
	}
	return result
}

// run starts the shell and waits for it.
func (h Hook) run(ctx context.Context, a reconcile.Attention) ([]byte, host.Exit, error) {
	// The shell's login profile may change the directory and set the secrets again.
	script := "exec 2>&1; " + text.ShellIn(h.Home, text.ShellUnset(h.Secrets, h.Script))
	child, err := h.Commands.StartMarked(ctx, h.tree, host.StartRequest{
		Argv: []string{"sh", "-lc", script},
		Env:  h.env(a),
		Dir:  "/",
	})
	if err != nil {
		return nil, host.Exit{}, err
	}
	crash.At("notify.started")
	stdinErr := child.Stdin().Close()
	out := text.Tail{Limit: longestLog}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&out, child.Stdout()) // ends at the latest when the stream is closed below
	}()
	waitErr := child.Wait(ctx)
	if ctx.Err() != nil {
		waitErr = nil // the caller checks ctx
		// The programs of the hook and of its login profile can remove their locks. Programs
		// that already exited closed the stream.
		_ = child.SignalGroup(unix.SIGTERM) // SIGKILL follows
		await(read, lockBound)
	}
	killErr := child.SignalGroup(unix.SIGKILL)
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	await(read, outputPatience) // a process outside the group may hold the stream
	exit, closeErr := child.Close()
	<-read
	kept, _ := out.Text()
	return kept, exit, errors.Join(stdinErr, waitErr, killErr, closeErr)
}

// await waits until a channel is closed, but no longer than bound.
func await(done <-chan struct{}, bound time.Duration) {
	select {
	case <-done:
	case <-time.After(bound):
	}
}

// env returns the environment. All variables are always set, so that scripts may use `set -u`.
func (h Hook) env(a reconcile.Attention) []string {
	own := []string{
		"SYMPHONY_ATTENTION_KIND=" + string(a.Kind),
		"SYMPHONY_ATTENTION_ID=" + oneLine(a.Ref),
		"SYMPHONY_ATTENTION_TEXT=" + oneLine(h.redactor().Text(a.Text)),
		"SYMPHONY_ISSUE_IDENTIFIER=" + oneLine(a.Identifier),
		"SYMPHONY_WORKFLOW=" + h.Workflow,
	}
	if h.StateDir != "" {
		own = append(own, "SYMPHONY_STATE_DIR="+h.StateDir)
	}
	return confine.CleanEnv(h.Env, h.Secrets, h.SecretValues, own)
}

// oneLine replaces spaces and line breaks by single blanks, escapes control characters, and
// limits the length.
func oneLine(s string) string {
	return text.Short(text.Visible(text.OneLine(s)), longestText)
}

// EndLeftovers ends the processes that hooks of passes have left, even of a pass that was
// killed.
func (h Hook) EndLeftovers(ctx context.Context) error {
	answer, err := h.Commands.KillMarked(context.WithoutCancel(ctx), h.tree)
	if err != nil {
		return fmt.Errorf("ending processes of hooks.on_attention: %w", err)
	}
	return host.Leftover("hooks.on_attention", answer.Processes)
}

// WriteLog appends the output of hooks to the log.
func (h Hook) WriteLog(results []Result) error {
	if len(results) == 0 {
		return nil
	}
	file, err := agent.OpenTailFile(h.log, longestLog, h.redactor())
	if err != nil {
		return err
	}
	for _, r := range results {
		how := "succeeded"
		if r.Err != nil {
			how = r.Err.Error()
		}
		output := strings.TrimSuffix(string(r.Output), "\n")
		if output != "" {
			output += "\n"
		}
		fmt.Fprintf(
			file,
			"== %s on_attention %s %s\n%s--- on_attention: %s after %s\n",
			h.Now().UTC().Format(time.RFC3339),
			r.Attention.Kind,
			oneLine(r.Attention.Ref+" "+r.Attention.Identifier),
			output,
			how,
			r.Took.Round(time.Millisecond),
		)
	}
	err = file.Close()
	return errors.Join(err, file.Err())
}
