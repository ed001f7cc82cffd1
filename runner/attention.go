package runner

import (
	"context"
	"errors"
	"fmt"
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
	// attentionBound is the most that a pass or a worker gives hooks.on_attention, whatever hooks.timeout_ms says:
	// meanwhile nobody else gets the project's lock.
	attentionBound = 8 * time.Second
	attentionText  = 1000     // bytes of the text
	attentionLog   = 64 << 10 // bytes of the log that are kept
)

// AttentionHook is hooks.on_attention. It belongs to no workspace and to no run: it has neither's variables, so that it
// may use symphony itself.
type AttentionHook struct {
	Script string
	// Timeout is hooks.timeout_ms; see Bound.
	Timeout time.Duration
	// Env is the environment of the pass or worker, before the secrets are taken out; Home is where it runs.
	Env  []string
	Home string
	// Workflow is the path that the hook is told, and so is StateDir unless it is empty: symphony finds its own.
	Workflow, StateDir string
	// Secrets and SecretValues are those of Config.
	Secrets, SecretValues []string
	// Log is the file for its output, Tree the one that its processes are known by: OfPass and OfRun set them.
	Log, Tree string
	Now       func() time.Time

	hide func() *agent.Redactor // worked out once, and only where there is something to tell
}

// OfPass is the hook as passes run it, with files of its own in the state directory.
func (h AttentionHook) OfPass(stateDir string) AttentionHook {
	return h.with(filepath.Join(stateDir, "attention.log"), filepath.Join(stateDir, "attention.tree"))
}

// OfRun is the hook as the worker of a run runs it: whoever ends what the run has left ends it, too.
func (h AttentionHook) OfRun(stateDir, runID string) AttentionHook {
	dir := RunDir(stateDir, runID)
	return h.with(filepath.Join(dir, hooksFile), filepath.Join(dir, treeFile))
}

func (h AttentionHook) with(log, tree string) AttentionHook {
	h.Log, h.Tree = log, tree
	h.hide = sync.OnceValue(func() *agent.Redactor {
		return agent.NewRedactor(slices.Concat(h.SecretValues, agent.EnvSecrets(h.Env)))
	})
	return h
}

// Bound is what hooks that are run together may take.
func (h AttentionHook) Bound() time.Duration {
	if h.Timeout <= 0 {
		return attentionBound
	}
	return min(h.Timeout, attentionBound)
}

// AttentionPatience is how long after it was begun a hook is surely over, even if nobody has ended it: then another
// may be told instead.
const AttentionPatience = attentionBound + 2*killBound

// Told is how one hook ended.
type Told struct {
	Attention reconcile.Attention
	// Output is the last of what it wrote.
	Output []byte
	Took   time.Duration
	// Err is hook_failed or hook_timeout. Unfinished: it could not be started, or was ended from outside, so that nobody
	// may have been told.
	Err        error
	Unfinished bool
}

// Run tells of one, until ctx ends. What the shell leaves in its process group is ended with it.
func (h AttentionHook) Run(ctx context.Context, a reconcile.Attention) Told {
	began := h.Now()
	out, state, err := h.run(ctx, a)
	told := Told{Attention: a, Output: out, Took: h.Now().Sub(began)}
	code, what := workspace.CodeHookFailed, ""
	switch {
	case err != nil:
		what, told.Unfinished = err.Error(), true
	case state.Success():
		return told
	case signalled(state) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		code, what = workspace.CodeHookTimeout, fmt.Sprintf("ran longer than %s and was killed", h.Bound())
	case signalled(state) && ctx.Err() != nil:
		what, told.Unfinished = "was ended with the run", true
	default:
		what, told.Unfinished = state.String(), signalled(state)
		if line := lastOutput(out); line != "" {
			what += ": " + line
		}
	}
	hint := "its output is in " + h.Log + "; it is not run again for the same thing"
	if told.Unfinished {
		hint = "its output is in " + h.Log + "; a later pass tries once more"
	}
	told.Err = &reconcile.Error{
		Code: code, Message: "hooks.on_attention: " + h.hide().Text(what), Hint: hint, Err: err,
	}
	return told
}

func signalled(state *os.ProcessState) bool {
	ws, ok := state.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled()
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
	// The login profile of the shell may have gone elsewhere, and set the key again.
	script := proc.ShellIn(h.Home, proc.ShellUnset(h.Secrets, h.Script))
	child, err := proc.Exec{
		Argv: []string{"sh", "-lc", script}, Env: h.env(a), Dir: "/", Stdout: in, Stderr: in, Tree: tree,
	}.Start()
	in.Close()
	if err != nil {
		return nil, nil, errors.Join(err, out.Close())
	}
	crash.At("runner.attention.started")
	kept := newLastBytes(out, attentionLog)
	waitErr := child.Wait(ctx)
	if ctx.Err() != nil {
		waitErr = nil // the caller sees it by the context
	}
	// At the bound the shell as well, and in any case what it has left in its group.
	err = child.KillGroup(unix.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	state, closeErr := child.Close()
	return kept.finish(), state, errors.Join(waitErr, err, closeErr)
}

// env is the environment: the text comes as a value, never as a script's source. All variables are there, so that a
// script may refuse those that are not set.
func (h AttentionHook) env(a reconcile.Attention) []string {
	own := []string{
		"SYMPHONY_ATTENTION_KIND=" + string(a.Kind),
		"SYMPHONY_ATTENTION_ID=" + oneLine(a.Ref),
		"SYMPHONY_ATTENTION_TEXT=" + oneLine(h.hide().Text(a.Text)),
		"SYMPHONY_ISSUE_IDENTIFIER=" + oneLine(a.Identifier),
		"SYMPHONY_WORKFLOW=" + h.Workflow,
	}
	if h.StateDir != "" {
		own = append(own, "SYMPHONY_STATE_DIR="+h.StateDir)
	}
	return cleanEnv(h.Env, h.Secrets, h.SecretValues, own)
}

// oneLine is a text without line breaks and other control characters, of bounded length.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == ' ' }), " ")
	if short := text.Within(s, attentionText); short != s {
		return short + "…"
	}
	return s
}

// lastOutput is the last line with something on it.
func lastOutput(text []byte) string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")), "\n")
	return oneLine(lines[len(lines)-1])
}

// Clear ends whatever hooks of passes have left, of this one or of one that was killed in their middle.
func (h AttentionHook) Clear(ctx context.Context) error {
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

// Keep writes what hooks have said to the log.
func (h AttentionHook) Keep(all []Told) error {
	if len(all) == 0 {
		return nil
	}
	file, err := agent.OpenTailFile(h.Log, attentionLog, h.hide())
	if err != nil {
		return err
	}
	for _, told := range all {
		fmt.Fprintf(file, "== %s on_attention %s %s\n%s", h.Now().UTC().Format(time.RFC3339), told.Attention.Kind,
			oneLine(told.Attention.Ref+" "+told.Attention.Identifier), told.Output)
		if n := len(told.Output); n > 0 && told.Output[n-1] != '\n' {
			fmt.Fprintln(file)
		}
		how := "succeeded"
		if told.Err != nil {
			how = told.Err.Error()
		}
		fmt.Fprintf(file, "--- on_attention: %s after %s\n", how, told.Took.Round(time.Millisecond))
	}
	err = file.Close()
	return errors.Join(err, file.Err())
}
