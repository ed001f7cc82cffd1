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
	const hint = "correct the program; docs/trackers.md describes its answers"
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
	for _, unusable := range []error{ErrNoProgram, fs.ErrNotExist, fs.ErrPermission, syscall.ENOEXEC} {
		if errors.Is(err, unusable) {
			return c.fail(
				verb,
				"tracker_setting_invalid",
				err.Error(),
				"write ./NAME for a program beside WORKFLOW.md, and make it executable; "+
					"a script begins with a line such as #!/usr/bin/env python3",
				err,
			)
		}
	}
	return c.fail(
		verb,
		"command_failed",
		err.Error(),
		"see what this machine lacks: space, memory, processes",
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
	isRead := verb == verbCandidates || verb == verbByIDs
	switch {
	case out.Exit == exitMisconfigured:
		return c.fail(verb, "tracker_setting_invalid", message, "correct the configuration of the program", nil)
	case out.Exit == exitKeyRefused:
		const hint = "check the key of the program; under cron its variable has to be in the environment file"
		return c.fail(verb, "command_key_refused", message, hint, nil)
	case out.Exit == exitLimited:
		limited := &transport.RateLimited{
			Reset:   c.reset(out),
			Limited: "the tracker's limit is reached",
		}
		message = limited.Error() + c.said(out, ": ")
		return c.fail(verb, "tracker_rate_limited", message, "run passes less often", limited)
	case out.Exit == exitNotFound && isRead:
		const hint = "correct the name of the project in the program or its configuration"
		return c.fail(verb, "tracker_project_not_found", message, hint, nil)
	case out.Exit == exitNotFound:
		const hint = "check the identifier, and that the program's account may see the issue"
		return c.fail(verb, "issue_not_found", message, hint, reconcile.ErrGone)
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
