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

// The formats of a log.
const (
	TextLog = "text"
	JSONLog = "json"
)

// NewLogAs makes a log of key=value lines (specification 13.1) or of JSON objects. For systemd's journal each line begins
// with its priority, and a text line has no time, which the journal adds.
func NewLogAs(out io.Writer, level slog.Level, format string, journal bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	newHandler := func(out io.Writer) slog.Handler {
		if format == JSONLog {
			return slog.NewJSONHandler(out, options)
		}
		return slog.NewTextHandler(out, options)
	}
	if !journal {
		return slog.New(newHandler(out))
	}
	if format != JSONLog {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	line := &journalLine{out: out}
	return slog.New(journalHandler{newHandler(&line.text), line})
}

// journalHandler writes the priority of a record before its line.
type journalHandler struct {
	slog.Handler
	line *journalLine
}

// journalLine is the buffer in which records are formatted, one at a time.
type journalLine struct {
	mu   sync.Mutex
	text bytes.Buffer
	out  io.Writer
}

// Handle implements slog.Handler.
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

// WithAttrs implements slog.Handler.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.Handler.WithAttrs(attrs), h.line}
}

// WithGroup implements slog.Handler.
func (h journalHandler) WithGroup(name string) slog.Handler {
	return journalHandler{h.Handler.WithGroup(name), h.line}
}

// priority is a level as systemd's journal reads it (sd-daemon(3)).
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

// PrintError prints an error and its hint on stderr, or writes it to the log where one was asked for.
func (w *Env) PrintError(e *reconcile.Error) {
	if w.Log != nil {
		attrs := []slog.Attr{slog.String("code", e.Code), slog.String("error", e.Message)}
		if e.Hint != "" {
			attrs = append(attrs, slog.String("hint", e.Hint))
		}
		w.Log.LogAttrs(context.Background(), slog.LevelError, "error", attrs...)
		return
	}
	before := w.priority(slog.LevelError)
	fmt.Fprintf(w.Stderr, "%ssymphony: %s: %s\n", before, e.Code, Visible(e.Message))
	if e.Hint != "" {
		fmt.Fprintf(w.Stderr, "%s  %s\n", before, Visible(e.Hint))
	}
}

// Note prints a message on stderr, or writes it to the log where one was asked for.
func (w *Env) Note(level slog.Level, text string) {
	if w.Log != nil {
		w.Log.LogAttrs(context.Background(), level, text)
		return
	}
	if level >= slog.LevelWarn {
		text = "warning: " + text
	}
	fmt.Fprintf(w.Stderr, "%ssymphony: %s\n", w.priority(level), Visible(text))
}

// priority begins a line where the journal reads stderr.
func (w *Env) priority(level slog.Level) string {
	if !w.Journal {
		return ""
	}
	return priority(level)
}

// IsJournal reports whether a file is the stream to systemd's journal that $JOURNAL_STREAM names by device and inode. The
// variable alone does not tell: programs inherit it whose output goes elsewhere.
func IsJournal(stream string, file *os.File) bool {
	if stream == "" {
		return false
	}
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
