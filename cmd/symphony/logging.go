package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/reconcile"
)

// A pass speaks in two ways. To a person it says what it did on stdout, and what is wrong in lines on stderr. Somebody who
// asks for a log by --log-level or --log-format gets on stderr records instead: one line each, with level and keys, of what
// the pass did and of what was wrong. Where stderr is systemd's journal, each line of either begins with its priority.

const (
	textLog = "text"
	jsonLog = "json"
)

func logFormats() []string { return []string{textLog, jsonLog} }

// logLevelNames are the values of --log-level, the most talkative first.
func logLevelNames() []string { return []string{"debug", "info", "warn", "error"} }

// logChoice is what was asked for; both empty where nobody asked.
type logChoice struct{ level, format string }

func (c logChoice) wanted() bool { return c != logChoice{} }

func (c logChoice) check() error {
	if c.level != "" && !slices.Contains(logLevelNames(), c.level) {
		return usageError("tick: --log-level is one of %s, not %q", strings.Join(logLevelNames(), ", "), c.level)
	}
	if c.format != "" && !slices.Contains(logFormats(), c.format) {
		return usageError("tick: --log-format is one of %s, not %q", strings.Join(logFormats(), ", "), c.format)
	}
	return nil
}

// logger makes the log of a pass, which nobody asked for or somebody did.
func (o tickOptions) logger(w *world) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.log.level != "":
		level = levelNamed(o.log.level)
	case o.log.wanted() || o.loop && !o.json && !o.quiet:
		level = slog.LevelInfo
	case o.quiet:
		level = slog.LevelError + 1 // what is wrong is reported once, not logged by every pass
	}
	return newLogAs(w.stderr, level, o.log.format, w.journal)
}

func levelNamed(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	}
	return slog.LevelError
}

// newLogAs makes a log of lines with keys (specification 13.1), or of JSON objects. The journal knows the time itself.
func newLogAs(out io.Writer, level slog.Level, format string, journal bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if journal && format != jsonLog {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	if !journal {
		return slog.New(handlerOf(out, format, options))
	}
	line := &journalLine{out: out}
	return slog.New(journalHandler{handlerOf(&line.text, format, options), line})
}

func handlerOf(out io.Writer, format string, options *slog.HandlerOptions) slog.Handler {
	if format == jsonLog {
		return slog.NewJSONHandler(out, options)
	}
	return slog.NewTextHandler(out, options)
}

// journalHandler puts a record's priority before its line, as the journal reads it from a service's output.
type journalHandler struct {
	slog.Handler
	line *journalLine
}

// journalLine is where a line is made, by one at a time.
type journalLine struct {
	mu   sync.Mutex
	text bytes.Buffer
	out  io.Writer
}

func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.text.Reset()
	h.line.text.WriteString(priority(r.Level))
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.line.out.Write(h.line.text.Bytes())
	return err
}

func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.Handler.WithAttrs(attrs), h.line}
}

func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.Handler.WithGroup(name), h.line}
}

// priority is a level in the journal's numbers (sd-daemon(3)).
func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "<3>"
	case l >= slog.LevelWarn:
		return "<4>"
	case l >= slog.LevelInfo:
		return "<6>"
	}
	return "<7>"
}

// printError tells a person of something wrong, or the log where one was asked for.
func (w *world) printError(e *reconcile.Error) {
	if w.log != nil {
		attrs := []slog.Attr{slog.String("code", e.Code), slog.String("error", e.Message)}
		if e.Hint != "" {
			attrs = append(attrs, slog.String("hint", e.Hint))
		}
		w.log.LogAttrs(context.Background(), slog.LevelError, "error", attrs...)
		return
	}
	before := w.mark(slog.LevelError)
	fmt.Fprintf(w.stderr, "%ssymphony: %s: %s\n", before, e.Code, visible(e.Message))
	if e.Hint != "" {
		fmt.Fprintf(w.stderr, "%s  %s\n", before, visible(e.Hint))
	}
}

// note tells a person on stderr what is no error, or the log where one was asked for.
func (w *world) note(level slog.Level, text string) {
	if w.log != nil {
		w.log.LogAttrs(context.Background(), level, text)
		return
	}
	if level >= slog.LevelWarn {
		text = "warning: " + text
	}
	fmt.Fprintf(w.stderr, "%ssymphony: %s\n", w.mark(level), visible(text))
}

// mark begins a line for a person where the journal reads it.
func (w *world) mark(level slog.Level) string {
	if !w.journal {
		return ""
	}
	return priority(level)
}
