package runner

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
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	// attentionBound limits hooks.on_attention, whatever hooks.timeout_ms is, because a pass
	// holds the project's lock until the hook ends.
	attentionBound = 8 * time.Second
	attentionText  = 1000     // bytes of SYMPHONY_ATTENTION_TEXT
	attentionLog   = 64 << 10 // bytes of the log that are kept
	// outputPatience is how long output is read after the shell's process group was killed.
	outputPatience = 100 * time.Millisecond
	killBound      = 4 * time.Second // for ending processes
)

// AttentionPatience is the time after its start at which a hook is certain to be over, even if
// its caller was killed. Then another process may deliver the notification.
const AttentionPatience = attentionBound + 2*killBound

// AttentionHook is hooks.on_attention, which notifies a person. It belongs to no workspace and
// gets no variables of a run, so that its script may call symphony.
type AttentionHook struct {
	Script  string
	Where   string        // its place in the workflow, for messages
	Timeout time.Duration // hooks.timeout_ms; see Bound
	Env     []string      // of the pass or worker, before secrets are removed
	Home    string        // where the script runs
	// Workflow and StateDir are passed to the script; StateDir is "" if symphony finds it by
	// itself.
	Workflow, StateDir string
	// Secrets and SecretValues are as in Config.
	Secrets, SecretValues []string
	Now                   func() time.Time
	Commands              host.Commands

	// Set by OfPass and OfRun: the file for the output, and the file that marks the processes.
	log, tree string
}

// OfPass returns the hook for a pass, with its files in the state directory.
func (h AttentionHook) OfPass(stateDir string) AttentionHook {
	h.log = filepath.Join(stateDir, "attention.log")
	h.tree = filepath.Join(stateDir, "attention.tree")
	return h
}

// OfRun returns the hook for the worker of a run. Its processes are ended together with the
// run's.
func (h AttentionHook) OfRun(stateDir, runID string) AttentionHook {
	dir := host.RunDir(stateDir, runID)
	h.log = filepath.Join(dir, HooksFile)
	h.tree = filepath.Join(dir, host.TreeFile)
	return h
}

func (h AttentionHook) redactor() *agent.Redactor {
	return agent.NewRedactor(slices.Concat(h.SecretValues, agent.EnvSecrets(h.Env)))
}

// Bound returns the timeout for hooks that are run together.
func (h AttentionHook) Bound() time.Duration {
	if h.Timeout <= 0 {
		return attentionBound
	}
	return min(h.Timeout, attentionBound)
}

// AttentionResult is the result of a hook.
type AttentionResult struct {
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
func (h AttentionHook) Run(ctx context.Context, a reconcile.Attention) AttentionResult {
	began := h.Now()
	out, exit, err := h.run(ctx, a)
	result := AttentionResult{Attention: a, Output: out, Took: h.Now().Sub(began)}
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
func (h AttentionHook) run(ctx context.Context, a reconcile.Attention) ([]byte, host.Exit, error) {
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
	crash.At("runner.attention.started")
	stdinErr := child.Stdin().Close()
	out := text.Tail{Limit: attentionLog}
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
		awaitAll(lockBound, read)
	}
	killErr := child.SignalGroup(unix.SIGKILL)
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	awaitAll(outputPatience, read) // a process outside the group may hold the stream
	exit, closeErr := child.Close()
	<-read
	kept, _ := out.Text()
	return kept, exit, errors.Join(stdinErr, waitErr, killErr, closeErr)
}

// env returns the environment. All variables are always set, so that scripts may use `set -u`.
func (h AttentionHook) env(a reconcile.Attention) []string {
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
	return text.Short(text.Visible(text.OneLine(s)), attentionText)
}

// EndLeftovers ends the processes that hooks of passes have left, even of a pass that was
// killed.
func (h AttentionHook) EndLeftovers(ctx context.Context) error {
	answer, err := h.Commands.KillMarked(context.WithoutCancel(ctx), h.tree)
	if err != nil {
		return fmt.Errorf("ending processes of hooks.on_attention: %w", err)
	}
	return host.Leftover("hooks.on_attention", answer.Processes)
}

// WriteLog appends the output of hooks to the log.
func (h AttentionHook) WriteLog(results []AttentionResult) error {
	if len(results) == 0 {
		return nil
	}
	file, err := agent.OpenTailFile(h.log, attentionLog, h.redactor())
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
