package term

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
)

// A pass speaks in two ways. To a person it says what it did on stdout, and what is wrong in lines on stderr. Somebody who
// asks for a log by --log-level or --log-format gets on stderr records instead: one line each, with level and keys, of what
// the pass did and of what was wrong. Where stderr is systemd's journal, each line of either begins with its priority.

// newLogAs makes a log of lines with keys (specification 13.1), or of JSON objects. The journal knows the time itself.
func NewLogAs(out io.Writer, level slog.Level, format string, journal bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if journal && format != JsonLog {
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
	if format == JsonLog {
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
func (w *Env) PrintError(e *reconcile.Error) {
	if w.Log != nil {
		attrs := []slog.Attr{slog.String("code", e.Code), slog.String("error", e.Message)}
		if e.Hint != "" {
			attrs = append(attrs, slog.String("hint", e.Hint))
		}
		w.Log.LogAttrs(context.Background(), slog.LevelError, "error", attrs...)
		return
	}
	before := w.mark(slog.LevelError)
	fmt.Fprintf(w.Stderr, "%ssymphony: %s: %s\n", before, e.Code, Visible(e.Message))
	if e.Hint != "" {
		fmt.Fprintf(w.Stderr, "%s  %s\n", before, Visible(e.Hint))
	}
}

// note tells a person on stderr what is no error, or the log where one was asked for.
func (w *Env) Note(level slog.Level, text string) {
	if w.Log != nil {
		w.Log.LogAttrs(context.Background(), level, text)
		return
	}
	if level >= slog.LevelWarn {
		text = "warning: " + text
	}
	fmt.Fprintf(w.Stderr, "%ssymphony: %s\n", w.mark(level), Visible(text))
}

// mark begins a line for a person where the journal reads it.
func (w *Env) mark(level slog.Level) string {
	if !w.Journal {
		return ""
	}
	return priority(level)
}

// isJournal reports whether a file is the stream to the journal that systemd says it has given this service: by device and
// inode, for the variable is inherited by programs whose output goes elsewhere.
func IsJournal(stream string, file *os.File) bool {
	if stream == "" {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", is.Dev, is.Ino)
}

const (
	TextLog = "text"
	JsonLog = "json"
)
