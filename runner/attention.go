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
	"sync"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

const (
	// attentionBound is the most that a pass or a worker gives hooks.on_attention, whatever hooks.timeout_ms says: a pass
	// holds the project's lock meanwhile.
	attentionBound = 8 * time.Second
	attentionText  = 1000     // bytes of the text
	attentionLog   = 64 << 10 // bytes of the log that are kept
	// outputPatience is how long the rest of the output is read after the shell's process group was killed.
	outputPatience = 100 * time.Millisecond
	killBound      = 4 * time.Second // to end processes
)

// AttentionPatience is how long after its start a hook is surely over, even if its caller was killed. Then the
// notification may be given to another one.
const AttentionPatience = attentionBound + 2*killBound

// AttentionHook is hooks.on_attention, which notifies a person. It belongs to no workspace and has no variables of a run,
// so that its script may call symphony.
type AttentionHook struct {
	Script string
	// Timeout is hooks.timeout_ms; see Bound.
	Timeout time.Duration
	// Env is the environment of the pass or worker, before secrets are taken out. The script runs in Home.
	Env  []string
	Home string
	// Workflow and StateDir are passed to the script; StateDir is empty where symphony finds it by itself.
	Workflow, StateDir string
	// Secrets and SecretValues are those of Config.
	Secrets, SecretValues []string
	// Log is the file for its output, Tree the one that marks its processes: set by OfPass and OfRun.
	Log, Tree string
	Now       func() time.Time

	redactor func() *agent.Redactor // made once, and only where there is something to notify of
}

// OfPass returns the hook as passes run it, with files in the state directory.
func (h AttentionHook) OfPass(stateDir string) AttentionHook {
	return h.with(filepath.Join(stateDir, "attention.log"), filepath.Join(stateDir, "attention.tree"))
}

// OfRun returns the hook as the worker of a run runs it. It is ended together with the processes of the run.
func (h AttentionHook) OfRun(stateDir, runID string) AttentionHook {
	dir := RunDir(stateDir, runID)
	return h.with(filepath.Join(dir, hooksFile), filepath.Join(dir, treeFile))
}

func (h AttentionHook) with(log, tree string) AttentionHook {
	h.Log, h.Tree = log, tree
	h.redactor = sync.OnceValue(func() *agent.Redactor {
		return agent.NewRedactor(slices.Concat(h.SecretValues, agent.EnvSecrets(h.Env)))
	})
	return h
}

// Bound is the time for hooks that are run together.
func (h AttentionHook) Bound() time.Duration {
	if h.Timeout <= 0 {
		return attentionBound
	}
	return min(h.Timeout, attentionBound)
}

// AttentionResult is how one hook ended.
type AttentionResult struct {
	Attention reconcile.Attention
	Output    []byte // the last of what it wrote
	Took      time.Duration
	// Err is hook_failed or hook_timeout. Unfinished: the hook did not start, or was ended from outside, so that the person
	// may not have been notified.
	Err        error
	Unfinished bool
}

// Run runs the hook for one notification, until ctx ends, and ends what is left of its process group.
func (h AttentionHook) Run(ctx context.Context, a reconcile.Attention) AttentionResult {
	began := h.Now()
	out, state, err := h.run(ctx, a)
	result := AttentionResult{Attention: a, Output: out, Took: h.Now().Sub(began)}
	signalled := false
	if state != nil {
		status, ok := state.Sys().(syscall.WaitStatus)
		signalled = ok && status.Signaled()
	}
	code, what := workspace.CodeHookFailed, ""
	switch {
	case err != nil:
		what, result.Unfinished = err.Error(), true
	case state.Success():
		return result
	case signalled && errors.Is(ctx.Err(), context.DeadlineExceeded):
		code, what = workspace.CodeHookTimeout, fmt.Sprintf("ran longer than %s and was killed", h.Bound())
	case signalled && ctx.Err() != nil:
		what, result.Unfinished = "was ended with the run", true
	default:
		what, result.Unfinished = state.String(), signalled
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(out), "\uFFFD")), "\n")
		if last := oneLine(lines[len(lines)-1]); last != "" {
			what += ": " + last
		}
	}
	hint := "its output is in " + h.Log + "; it is not run again for the same thing"
	if result.Unfinished {
		hint = "its output is in " + h.Log + "; a later pass tries once more"
	}
	result.Err = &reconcile.Error{
		Code: code, Message: "hooks.on_attention: " + h.redactor().Text(what), Hint: hint, Err: err,
	}
	return result
}

// run starts the shell and waits for it.
func (h AttentionHook) run(ctx context.Context, a reconcile.Attention) ([]byte, *os.ProcessState, error) {
	tree, err := proc.OpenTree(h.Tree)
	if err != nil {
		return nil, nil, err
	}
	defer tree.Close()
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	// The login profile of the shell may change the directory and set the key again.
	script := proc.ShellIn(h.Home, proc.ShellUnset(h.Secrets, h.Script))
	child, err := proc.Exec{
		Argv: []string{"sh", "-lc", script}, Env: h.env(a), Dir: "/", Stdout: in, Stderr: in, Tree: tree,
	}.Start()
	in.Close()
	if err != nil {
		return nil, nil, err
	}
	crash.At("runner.attention.started")
	kept := make(chan []byte, 1)
	go func() {
		var end endOf
		_, _ = io.Copy(&end, out) // it ends by the deadline, too
		kept <- end
	}()
	waitErr := child.Wait(ctx)
	if ctx.Err() != nil {
		waitErr = nil // the caller looks at the context
	}
	killErr := child.KillGroup(unix.SIGKILL)
	if errors.Is(killErr, os.ErrProcessDone) {
		killErr = nil
	}
	state, closeErr := child.Close()
	deadlineErr := out.SetReadDeadline(time.Now().Add(outputPatience)) // a process outside the group may hold the pipe
	return <-kept, state, errors.Join(waitErr, killErr, closeErr, deadlineErr)
}

// endOf keeps the last attentionLog bytes that are written to it.
type endOf []byte

// Write implements io.Writer.
func (e *endOf) Write(p []byte) (int, error) {
	*e = append(*e, p...)
	*e = (*e)[max(0, len(*e)-attentionLog):]
	return len(p), nil
}

// env is the environment. All variables are always set, so that a script may use `set -u`.
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
	return cleanEnv(h.Env, h.Secrets, h.SecretValues, own)
}

// oneLine replaces line breaks and other control characters, and bounds the length.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	if short := text.Within(s, attentionText); short != s {
		return short + "…"
	}
	return s
}

// EndLeftovers ends the processes that hooks of passes have left, also of a pass that was killed.
func (h AttentionHook) EndLeftovers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killBound)
	defer cancel()
	left, err := proc.KillTree(ctx, proc.Owner{Tree: h.Tree}, 0)
	if err != nil {
		return fmt.Errorf("ending what hooks.on_attention left: %w", err)
	}
	if len(left) > 0 {
		return &reconcile.Error{
			Code:    "leftover_process",
			Message: fmt.Sprintf("process %d (%s) of hooks.on_attention could not be ended", left[0].PID, left[0].Name),
			Hint:    "end it by hand",
		}
	}
	return nil
}

// WriteLog appends the output of hooks to the log.
func (h AttentionHook) WriteLog(results []AttentionResult) error {
	if len(results) == 0 {
		return nil
	}
	file, err := agent.OpenTailFile(h.Log, attentionLog, h.redactor())
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Fprintf(file, "== %s on_attention %s %s\n%s", h.Now().UTC().Format(time.RFC3339), r.Attention.Kind,
			oneLine(r.Attention.Ref+" "+r.Attention.Identifier), r.Output)
		if n := len(r.Output); n > 0 && r.Output[n-1] != '\n' {
			fmt.Fprintln(file)
		}
		how := "succeeded"
		if r.Err != nil {
			how = r.Err.Error()
		}
		fmt.Fprintf(file, "--- on_attention: %s after %s\n", how, r.Took.Round(time.Millisecond))
	}
	err = file.Close()
	return errors.Join(err, file.Err())
}
