package command

import (
	"context"
	"encoding/json"
	"errors"
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

// The exit codes with a meaning are from sysexits.h. Interpreters, jq and crashes use small
// codes with meanings of their own.
const (
	exitNotFound      = 66 // EX_NOINPUT
	exitLimited       = 75 // EX_TEMPFAIL
	exitKeyRefused    = 77 // EX_NOPERM
	exitMisconfigured = 78 // EX_CONFIG
)

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

// notEnded returns the error of a program that did not end by itself, or could not be run.
func (c *client) notEnded(ctx context.Context, verb string, out Output, stdin []byte, err error) error {
	if ctx.Err() != nil {
		return c.fail(
			verb,
			"command_failed",
			"it was ended, because the caller stopped waiting",
			"nothing to do",
			err,
		)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return c.fail(
			verb,
			"command_timeout",
			"it did not end within "+c.Timeout.String()+" and was killed"+c.said(out, "; "),
			"see what it waits for: "+c.try(verb, stdin),
			err,
		)
	}
	return c.notRun(verb, err)
}

// notRun returns the error of a program that could not be run.
func (c *client) notRun(verb string, err error) error {
	const beside = "write ./NAME for a program beside WORKFLOW.md; "
	switch {
	case errors.Is(err, ErrNoProgram):
		return c.fail(
			verb,
			"tracker_setting_invalid",
			"there is no such program in PATH",
			beside+"other names are looked up in PATH, which is shorter under cron and systemd than in your shell",
			err,
		)
	case errors.Is(err, fs.ErrNotExist):
		return c.fail(
			verb,
			"tracker_setting_invalid",
			"there is no such program, or not the one that its first line names",
			beside+"a script's first line must be such as #!/usr/bin/env python3, without a carriage return",
			err,
		)
	case errors.Is(err, fs.ErrPermission):
		return c.fail(
			verb,
			"tracker_setting_invalid",
			"it is not executable",
			"make it executable: chmod +x "+text.ShellQuote(c.Command[0]),
			err,
		)
	case errors.Is(err, syscall.ENOEXEC):
		return c.fail(
			verb,
			"tracker_setting_invalid",
			"its first line names no interpreter",
			"a script needs a first line such as #!/usr/bin/env python3",
			err,
		)
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

// said returns the end of the program's standard error, after a separator; empty if the
// program wrote nothing there.
func (c *client) said(out Output, separator string) string {
	lines := []string{}
	for line := range strings.Lines(c.Redact(string(out.Stderr))) {
		line = strings.TrimSpace(line)
		if strings.Trim(line, "~^ ") != "" { // Python underlines the faulty expression
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
			"tracker_setting_invalid",
			message,
			"correct the configuration of the program, as its message asks",
			nil,
		)
	case out.Exit == exitKeyRefused:
		return c.fail(
			verb,
			"command_key_refused",
			message,
			"check the key that the program uses; put its variable into the environment file, "+
				"because cron and systemd see only that",
			nil,
		)
	case out.Exit == exitLimited:
		limited := &transport.RateLimited{
			Reset:   c.reset(out),
			Limited: "the tracker's limit is reached",
		}
		return c.fail(
			verb,
			"tracker_rate_limited",
			limited.Error()+c.said(out, ": "),
			"run passes less often; no request is made until then",
			limited,
		)
	case out.Exit == exitNotFound && reads:
		return c.fail(
			verb,
			"tracker_project_not_found",
			message,
			"correct what names the project in the program or its configuration",
			nil,
		)
	case out.Exit == exitNotFound:
		return c.fail(
			verb,
			"issue_not_found",
			message,
			"check the identifier, and that the program's account may see the issue",
			reconcile.ErrGone,
		)
	}
	return c.fail(verb, "command_failed", message, "try it: "+c.try(verb, stdin), nil)
}

var retryAfter = text.Pattern(`(?i)\bretry-after: *([0-9]{1,9})\b`)

// reset returns the end of a limit: reset_at or retry_after of the answer, or a header
// Retry-After in the standard error.
func (c *client) reset(out Output) time.Time {
	now := c.Now()
	var answer struct {
		ResetAt    time.Time `json:"reset_at"`
		RetryAfter float64   `json:"retry_after"` // seconds
	}
	isAnswer := json.Unmarshal(out.Stdout, &answer) == nil
	if isAnswer && !answer.ResetAt.IsZero() {
		return transport.PlausibleEnd(now, answer.ResetAt)
	}
	if isAnswer && answer.RetryAfter > 0 {
		seconds := min(answer.RetryAfter, transport.LongestLimit.Seconds())
		return transport.PlausibleEnd(now, now.Add(time.Duration(seconds*float64(time.Second))))
	}
	m := retryAfter().FindSubmatch(out.Stderr)
	if m == nil {
		return transport.PlausibleEnd(now, time.Time{})
	}
	seconds, _ := strconv.Atoi(string(m[1]))
	return transport.PlausibleEnd(now, now.Add(time.Duration(seconds)*time.Second))
}
