// Package command is the adapter to trackers that are an external program (tracker.kind:
// command). docs/trackers.md explains the program to its authors, and docs/tracker.schema.json
// describes its requests and answers.
//
// Each call of the adapter is one run of the program: the verb is its last argument, the
// request is JSON on its standard input, the answer JSON on its standard output.
package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	timeout   = 30 * time.Second
	maxOutput = 16 << 20 // bytes of an answer
)

// The verbs of a program. It must have the first two.
const (
	verbCandidates = "candidates"
	verbByIDs      = "by-ids"
	verbTool       = "tool"
	verbComment    = "comment"
	verbMove       = "move"
)

// The exit codes with a meaning are those of sysexits.h. Small ones would be taken for what an
// interpreter, jq or a crash means by them.
const (
	exitNotFound      = 66 // EX_NOINPUT
	exitLimited       = 75 // EX_TEMPFAIL
	exitKeyRefused    = 77 // EX_NOPERM
	exitMisconfigured = 78 // EX_CONFIG
)

// KeyVar is the variable in which the program gets the value of tracker.api_key.
const KeyVar = "SYMPHONY_TRACKER_API_KEY"

// Options configure an Adapter.
type Options struct {
	Command []string // the program and its arguments, without the verb
	Verbs   []string // the optional verbs that the program has
	// Run runs a program to its end, and ends all of its processes. Its error reports that the
	// program could not be run, or is that of ctx. If there is more output than limit bytes,
	// it returns limit+1 bytes.
	Run func(ctx context.Context, argv []string, stdin []byte, limit int) (Output, error)
	// Key is the value of tracker.api_key, which Run passes to the program in the variable
	// KeyVar; empty if there is none.
	Key string
	// Redact removes secrets from a text; nil changes nothing.
	Redact func(string) string
	// ReadOnly makes the agent's tools refuse every call.
	ReadOnly bool
	// States are all states that the workflow names, in which Find looks for an identifier.
	States  []string
	Now     func() time.Time // time.Now if nil
	Timeout time.Duration    // 30 s if zero
}

// Output is what a program has written, and how it ended.
type Output struct {
	Stdout, Stderr []byte // Stderr may be the end of it
	Exit           int    // negative for a signal
	Status         string // how it ended, in words
}

// Adapter returns the program as a tracker. It runs nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c := &client{Options: o}
	c.Timeout = cmp.Or(c.Timeout, timeout)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	t := &reconcile.TrackerAdapter{Tracker: c, Name: "the tracker's program", Find: c.find}
	if o.Key != "" {
		t.Secrets = []string{o.Key}
	}
	if slices.Contains(o.Verbs, verbTool) {
		t.Tools = append(t.Tools, c.updateTool().Tool())
	}
	if slices.Contains(o.Verbs, verbComment) {
		t.Comments = c.comments
		t.Post = c.post
		t.Edit = c.edit
		t.Tools = append(t.Tools, c.commentTool().Tool())
	}
	if slices.Contains(o.Verbs, verbMove) {
		t.Move = c.move
	}
	return t, nil
}

type client struct{ Options }

// ask runs the program once and returns the fields of its answer.
func (c *client) ask(ctx context.Context, verb string, request any) (record, error) {
	stdin := text.JSON(request)
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	out, err := c.Run(bounded, append(slices.Clone(c.Command), verb), stdin, maxOutput)
	switch {
	case len(out.Stdout) > maxOutput:
		return record{}, c.fail(
			verb,
			"answer_too_large",
			fmt.Sprintf("more than %d MiB on its standard output", maxOutput>>20),
			"print fewer issues: leave out those in other states than the request names",
			nil,
		)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return record{}, c.fail(
			verb,
			"command_timeout",
			"it did not end within "+c.Timeout.String()+" and was killed"+c.said(out, "; "),
			"see what it waits for: "+c.try(verb, stdin),
			err,
		)
	case err != nil && ctx.Err() != nil:
		return record{}, c.fail(
			verb,
			"command_failed",
			"it was ended, because the caller stopped waiting",
			"nothing to do",
			err,
		)
	case err != nil:
		return record{}, c.notRun(verb, err)
	case out.Exit != 0:
		return record{}, c.exit(verb, out, stdin)
	}
	if c.Key != "" {
		out.Stdout = bytes.ReplaceAll(out.Stdout, []byte(c.Key), []byte("[key]"))
	}
	answer, err := parse(out.Stdout, c.Redact)
	if err != nil {
		return record{}, c.invalid(verb, err)
	}
	return answer, nil
}

// fail returns an error with the program and its verb as the place.
func (c *client) fail(verb, code, message, hint string, err error) *reconcile.Error {
	const longest = 500
	message = c.Redact(strings.Join(c.Command, " ") + " " + verb + ": " + message)
	message = text.Short(text.OneLine(strings.ToValidUTF8(message, "?")), longest)
	return &reconcile.Error{Code: code, Message: message, Hint: c.Redact(hint), Err: err}
}

// invalid returns the error of a wrong answer.
func (c *client) invalid(verb string, err error) error {
	hint := "correct the program; docs/trackers.md describes its answers"
	if known, ok := errors.AsType[*wrong](err); ok {
		hint = known.rule
	}
	return c.fail(verb, "command_answer_invalid", err.Error(), hint, nil)
}

// wrong is what is wrong with an answer, and the rule that it breaks.
type wrong struct{ message, rule string }

func (w *wrong) Error() string { return w.message }

// try is a shell command that repeats a request.
func (c *client) try(verb string, stdin []byte) string {
	words := text.Map(append(slices.Clone(c.Command), verb), text.ShellQuote)
	const longest = 200
	input := text.ShellWord(string(stdin))
	if len(input) > longest {
		return strings.Join(words, " ") + " < REQUEST"
	}
	return "echo " + input + " | " + strings.Join(words, " ")
}

// notRun returns the error of a program that could not be run.
func (c *client) notRun(verb string, err error) error {
	const beside = "write ./NAME for a program beside WORKFLOW.md; "
	switch {
	case strings.Contains(err.Error(), "executable file not found"): // exec.ErrNotFound
		return c.fail(
			verb,
			"command_unusable",
			"there is no such program in PATH",
			beside+"other names are looked up in PATH, which is shorter under cron and systemd than in your shell",
			err,
		)
	case errors.Is(err, fs.ErrNotExist):
		return c.fail(
			verb,
			"command_unusable",
			"there is no such program, or not the one that its first line names",
			beside+"a script's first line must be such as #!/usr/bin/env python3, without a carriage return",
			err,
		)
	case errors.Is(err, fs.ErrPermission):
		return c.fail(
			verb,
			"command_unusable",
			"it is not executable",
			"make it executable: chmod +x "+text.ShellQuote(c.Command[0]),
			err,
		)
	case errors.Is(err, syscall.ENOEXEC):
		return c.fail(verb, "command_unusable", "its first line names no interpreter",
			"a script needs a first line such as #!/usr/bin/env python3", err)
	}
	return c.fail(
		verb,
		"command_failed",
		err.Error(),
		"see what this machine lacks: space in the temporary directory, memory, processes",
		err,
	)
}

// saidLines is how many lines of the end of the standard error are shown.
const saidLines = 3

// said returns the end of what the program has written to its standard error, after a
// separator; empty if that is nothing.
func (c *client) said(out Output, separator string) string {
	lines := []string{}
	for line := range strings.Lines(c.Redact(string(out.Stderr))) {
		// Python underlines the faulty expression
		if line = strings.TrimSpace(line); strings.Trim(line, "~^ ") != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return separator + strings.Join(lines[max(0, len(lines)-saidLines):], "; ")
}

// exit returns the error of an exit code.
func (c *client) exit(verb string, out Output, stdin []byte) error {
	message := out.Status + c.said(out, ": ")
	reads := verb == verbCandidates || verb == verbByIDs
	switch {
	case out.Exit == exitMisconfigured:
		return c.fail(
			verb,
			"command_unusable",
			message,
			"correct the configuration of the program, as its message asks",
			nil,
		)
	case out.Exit == exitKeyRefused:
		return c.fail(
			verb,
			"command_key_refused",
			message,
			"check the key that the program uses; put its variable into the environment file, because cron and systemd see only that",
			nil,
		)
	case out.Exit == exitLimited:
		limited := &transport.RateLimited{
			Reset:   c.reset(out),
			Limited: "the tracker's limit is reached",
		}
		return c.fail(verb, "tracker_rate_limited", limited.Error()+c.said(out, ": "),
			"run passes less often; no request is made until then", limited)
	case out.Exit == exitNotFound && reads:
		return c.fail(
			verb,
			"tracker_project_not_found",
			message,
			"correct what names the project in the program or its configuration",
			nil,
		)
	case out.Exit == exitNotFound:
		return c.fail(verb, "issue_not_found", message,
			"check the identifier, and that the program's account may see the issue", reconcile.ErrGone)
	}
	return c.fail(verb, "command_failed", message, "try it: "+c.try(verb, stdin), nil)
}

var retryAfter = text.Pattern(`(?i)\bretry-after: *([0-9]{1,9})\b`)

// reset returns the end of a limit: reset_at or retry_after of the answer, or a header
// Retry-After in the standard error.
func (c *client) reset(out Output) time.Time {
	now := c.Now()
	var reset time.Time
	var answer struct {
		ResetAt    time.Time `json:"reset_at"`
		RetryAfter float64   `json:"retry_after"` // seconds
	}
	if err := json.Unmarshal(out.Stdout, &answer); err == nil && !answer.ResetAt.IsZero() {
		reset = answer.ResetAt
	} else if err == nil && answer.RetryAfter > 0 {
		reset = now.Add(time.Duration(min(answer.RetryAfter, transport.LongestLimit.Seconds()) * float64(time.Second)))
	} else if m := retryAfter().FindSubmatch(out.Stderr); m != nil {
		seconds, _ := strconv.Atoi(string(m[1]))
		reset = now.Add(time.Duration(seconds) * time.Second)
	}
	return transport.PlausibleEnd(now, reset)
}
