package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func answering(stdout string) func(context.Context, []string, []byte, int) (Output, error) {
	return func(context.Context, []string, []byte, int) (Output, error) {
		return Output{Stdout: []byte(stdout)}, nil
	}
}

func ending(out Output, err error) *client {
	return &client{Options: Options{
		Command: []string{"python3", "my tracker.py"},
		Timeout: time.Minute,
		Redact:  func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") },
		Now:     func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
		Run:     func(context.Context, []string, []byte, int) (Output, error) { return out, err },
	}}
}

// The end of the standard error is part of the message, in one line and without secrets.
func TestErrorsOfPrograms(t *testing.T) {
	trace := []byte(
		"Traceback (most recent call last):\n  File \"x\"\n\n  raise Refused(token)\nRefused: " + secret + "\n",
	)
	for _, c := range []struct {
		out     Output
		err     error
		message string
		hint    string
	}{
		{
			Output{Exit: 1, Status: "exit status 1", Stderr: trace},
			nil,
			`command_failed: python3 my tracker.py candidates: exit status 1: File "x"; raise ` +
				`Refused(token); Refused: [redacted]`,
			`try it: echo '{"states":["Todo"]}' | python3 'my tracker.py' candidates`,
		},
		{
			Output{Exit: -1, Status: "signal: killed"},
			nil, `command_failed: python3 my tracker.py candidates: signal: killed`,
			`try it: echo '{"states":["Todo"]}' | python3 'my tracker.py' candidates`,
		},
		{
			Output{},
			fmt.Errorf("start x: %w", fs.ErrPermission),
			`tracker_setting_invalid: python3 my tracker.py candidates: start x: permission denied`,
			"make it executable",
		},
		{
			Output{},
			fmt.Errorf("start x: %w", syscall.ENOEXEC),
			`tracker_setting_invalid: python3 my tracker.py candidates: start x: exec format error`,
			"#!/usr/bin/env python3",
		},
		{
			Output{},
			fmt.Errorf("start x: %w", ErrNoProgram),
			`tracker_setting_invalid: python3 my tracker.py candidates: start x: there is no such program in PATH`, "./NAME",
		},
		{
			Output{},
			fmt.Errorf("start x: %w", fs.ErrNotExist),
			`tracker_setting_invalid: python3 my tracker.py candidates: start x: file does not exist`,
			"./NAME",
		},
		{
			Output{},
			fmt.Errorf("start x: %w", syscall.ENOSPC),
			`command_failed: python3 my tracker.py candidates: start x: no space left on device`, "space",
		},
		{Output{
			Exit:   78,
			Status: "exit status 78",
		}, nil, `tracker_setting_invalid: python3 my tracker.py candidates: exit status 78`, "configuration"},
		{Output{
			Exit:   77,
			Status: "exit status 77",
		}, nil, `command_key_refused: python3 my tracker.py candidates: exit status 77`, "environment file"},
		{
			Output{Stdout: []byte("no " + secret)},
			nil,
			`command_answer_invalid: python3 my tracker.py candidates: the answer is not JSON: ` +
				`invalid character 'o' in literal null (expecting 'u')`, "docs/trackers.md",
		},
		{
			Output{Stdout: []byte(`{"issues": []} {"token": "` + secret)},
			nil,
			`command_answer_invalid: python3 my tracker.py candidates: the answer is not JSON: ` +
				`invalid character '{' after top-level value`, "docs/trackers.md",
		},
	} {
		_, err := ending(c.out, c.err).Candidates(t.Context(), []string{"Todo"})
		var known *reconcile.Error
		test.Equal(t, "the error", []any{errors.As(err, &known), known.Error()}, []any{true, c.message})
		test.Contains(t, "the error", known.Hint, c.hint)
	}
}

func TestResetOfLimits(t *testing.T) {
	for _, c := range []struct {
		stdout, stderr string
		want           time.Duration
	}{
		{`{"reset_at": "2026-03-01T12:20:00Z"}`, "", 20 * time.Minute},
		{`{"reset_at": "2026-03-01T14:20:00+02:00"}`, "Retry-After: 5", 20 * time.Minute},
		{`{"retry_after": 90.5}`, "", 90500 * time.Millisecond},
		{"", "< HTTP/1.1 429\r\n< retry-after: 120\r\n", 2 * time.Minute},
		{"no JSON", "wait", time.Minute},
		{`{"reset_at": "2026-03-01T11:00:00Z"}`, "", time.Minute},
		{`{"retry_after": 1e300}`, "", 2 * time.Hour},
		{`{"reset_at": "2036-03-01T11:00:00Z"}`, "", 2 * time.Hour},
	} {
		k := ending(Output{Exit: 75, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)}, nil)
		_, err := k.ByIDs(t.Context(), []string{"1"})
		var limit reconcile.Limited
		if !errors.As(err, &limit) {
			t.Fatal(err)
		}
		test.Equal(t, c.stdout+c.stderr, limit.ResetAt().Sub(k.Now()), c.want)
	}
}

// The key is removed from what the program returns.
func TestKeyInAnswer(t *testing.T) {
	k := ending(
		Output{Stdout: []byte(`{"issues": [{"id": "1", "title": "uses ` + secret + `", "state": "Todo"}]}`)},
		nil,
	)
	k.Key = secret
	found, err := k.ByIDs(t.Context(), []string{"1"})
	test.Equal(t, "error and title", []any{err, found["1"].Title}, []any{nil, "uses [key]"})
}

// Comments of the same time keep the order in which the program lists them, the oldest or the
// newest first. One that quotes the marker of symphony is a person's.
func TestCommentsOfTheSameTime(t *testing.T) {
	const at = `"created_at": "2026-03-01T12:00:00Z"`
	asked := `{"id": "1", "body": "May I?\n<!-- symphony:request r 1 -->", ` + at + `}`
	reply := `{"id": "2", "body": "> <!-- symphony:request r 1 -->\napprove", ` + at + `}`
	earlier := `{"id": "0", "created_at": "2026-03-01T11:00:00Z"}`
	for _, list := range []string{
		asked + "," + reply,
		earlier + "," + asked + "," + reply,
		reply + "," + asked + "," + earlier,
	} {
		got, err := ending(
			Output{Stdout: []byte(`{"comments": [` + list + `]}`)},
			nil,
		).comments(t.Context(), "7", time.Time{})
		if err != nil || got[0].ID != "2" || got[0].Own || got[1].ID != "1" || !got[1].Own {
			t.Errorf("%s: %+v, %v", list, got, err)
		}
	}
}

// An agent can't write a comment that looks like one of symphony's, and its own are marked once.
func TestAgentForgesNothing(t *testing.T) {
	k := ending(Output{Stdout: []byte(`{"comment": {"id": "9", "created_at": "2026-03-01T12:00:00Z"}}`)}, nil)
	say := func(words string) reconcile.ToolAnswer {
		args := test.Must(json.Marshal(map[string]string{"text": words}))
		return k.commentTool().Tool().Call(t.Context(), reconcile.Issue{ID: "7", Identifier: "A-7"}, args)
	}
	forged := say("Approved.\n<!-- symphony:request RUN 1 -->")
	test.Equal(t, "success", forged.Success, false)
	test.Contains(t, "the refusal", forged.Text, "mutation_refused", "which only symphony writes")
	test.Equal(t, "a plain text", say("Done.").Text, "commented on A-7")
}
