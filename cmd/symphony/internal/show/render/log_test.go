package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// On a narrow terminal the agent's words and notes are wrapped and keep their indentation, and
// commands are cut, but neither their status nor their ending. In a pipe nothing is cut.
func TestLogLines(t *testing.T) {
	at := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	ms := int64(1250)
	long := int64(182_000)
	lines := []eventlog.Line{
		{
			Kind: eventlog.Words,
			Text: "The padding of the footer is too small.\n- 日本語の長い文章を折り返す必要がある",
		},
		{
			Kind:       eventlog.Command,
			Status:     eventlog.Succeeded,
			DurationMS: &ms,
			Text:       "go test ./...",
		},
		{
			Kind:       eventlog.Command,
			Status:     eventlog.Failed,
			DurationMS: &long,
			Text:       "npm run test -- --grep footer",
			Ending:     "exit 3",
			Detail:     []string{"1 failing", "\x1b[2J"},
		},
		{Kind: eventlog.Change, Status: eventlog.Succeeded, Text: "edit src/footer.css +3 -1"},
		{Kind: eventlog.Request, Text: "waits for approval: command: git push origin main"},
		{Kind: eventlog.Prompt, Text: "prompt of turn 1", Detail: []string{"a", "b", "c", "d"}},
		{Kind: eventlog.Unknown, Text: "cut"},
	}
	for width, want := range map[int]string{
		40: `
TIME    The padding of the footer is
          too small.
          -
          日本語の長い文章を折り返す必要
          がある
TIME      ✓   1.2s go test ./...
TIME      ✗  3m 2s npm run t… (exit 3)
              1 failing
              \x1b[2J
TIME      ✓        edit src/footer.cs…
TIME      ? waits for approval:
              command: git push origin
              main
TIME      > prompt of turn 1
              a
              b
              c
              … 1 more line: symphony logs
cut
`,
		0: `
TIME  The padding of the footer is too small.
          - 日本語の長い文章を折り返す必要がある
TIME  ✓ 1.2s go test ./...
TIME  ✗ 3m 2s npm run test -- --grep footer (exit 3)
          1 failing
          \x1b[2J
TIME  ✓ edit src/footer.css +3 -1
TIME  ? waits for approval: command: git push origin main
TIME  > prompt of turn 1
          a
          b
          c
          … 1 more line: symphony logs
cut
`,
	} {
		var out bytes.Buffer
		for _, l := range lines {
			l.At = at
			Log{Prompt: "symphony logs"}.Print(&term.Env{Stdout: &out, Width: width}, l)
		}
		got := "\n" + strings.NewReplacer(at.Local().Format(time.TimeOnly), "TIME  ", text.Rfc3339(at), "TIME").
			Replace(out.String())
		test.Equal(t, fmt.Sprint("in ", width, " columns"), got, want)
	}
}

// A line of show is one line: the end of a sentence and of a command is cut, but not why the
// command failed.
func TestLogLine(t *testing.T) {
	ms := int64(31_000)
	w := &term.Env{Width: 40, Palette: term.Palette{Colour: true}}
	for _, c := range []struct {
		l    eventlog.Line
		want string
	}{
		{eventlog.Line{
			Kind: eventlog.Words,
			Text: "I look at the footer\nof the page first.",
		}, "\x1b[1mI look at the footer of the…\x1b[0m"},
		{
			eventlog.Line{
				Kind:       eventlog.Command,
				Status:     eventlog.Failed,
				DurationMS: &ms,
				Text:       "npm run test -- --grep footer",
				Ending:     "exit 1",
			},
			"  \x1b[31m✗\x1b[0m    31s npm run…\x1b[31m (exit 1)\x1b[0m",
		},
	} {
		_, got, _ := strings.Cut(LogLine(w, c.l, 38), "\x1b[0m  ")
		test.Equal(t, "the line", got, c.want)
	}
}
