package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The formats of a log.
const (
	TextLog = "text"
	JSONLog = "json"
)

// NewLog returns a log of key=value lines (specification 13.1) or of JSON objects on stderr.
// For systemd's journal each line begins with its priority, and text lines omit the time,
// because the journal adds it.
func (w *Env) NewLog(level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	out := w.Stderr
	if format == JSONLog {
		out = visibleJSON{out}
	}
	line := &journalLine{out: out}
	if w.Journal {
		out = line
	}
	var handler slog.Handler
	if format == JSONLog {
		handler = slog.NewJSONHandler(out, options)
	} else {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if w.Journal && len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		handler = slog.NewTextHandler(out, options)
	}
	if w.Journal {
		handler = journalHandler{handler, line}
	}
	return slog.New(handler)
}

// visibleJSON writes lines of JSON with control characters as JSON escapes. A text handler
// escapes them itself.
type visibleJSON struct{ io.Writer }

// Write implements io.Writer.
func (v visibleJSON) Write(line []byte) (int, error) {
	_, err := io.WriteString(v.Writer, text.VisibleJSON(string(line)))
	return len(line), err
}

// journalHandler writes the priority of a record before its line.
type journalHandler struct {
	slog.Handler
	line *journalLine
}

// journalLine writes one line at a time.
type journalLine struct {
	mu       sync.Mutex
	priority string
	out      io.Writer
}

// Write implements io.Writer.
func (l *journalLine) Write(line []byte) (int, error) {
	_, err := l.out.Write(append([]byte(l.priority), line...))
	return len(line), err
}

// Handle implements slog.Handler.
func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	h.line.priority = priority(r.Level)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journalHandler{h.Handler.WithAttrs(attrs), h.line}
}

// priority is a level in the form that systemd's journal reads (sd-daemon(3)).
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

// PrintError prints an error and its hint on stderr, or logs it if there is a log.
func (w *Env) PrintError(e *reconcile.Error) {
	if w.Log != nil {
		attrs := []slog.Attr{slog.String("code", e.Code), slog.String("error", e.Message)}
		if e.Hint != "" {
			attrs = append(attrs, slog.String("hint", e.Hint))
		}
		w.Log.LogAttrs(context.Background(), slog.LevelError, "error", attrs...)
		return
	}
	w.printLine(slog.LevelError, "symphony: "+e.Code+": "+e.Message)
	if e.Hint != "" {
		w.printLine(slog.LevelError, "  "+e.Hint)
	}
}

// Exit prints the error as text, with --json also as JSON, and returns its exit code.
func (w *Env) Exit(err error) int {
	if err == nil {
		return exit.OK
	}
	if silent, ok := errors.AsType[exit.Only](err); ok {
		return int(silent)
	}
	known := exit.From(err)
	w.PrintError(known)
	if w.JSON {
		w.PrintJSON(ErrorJSON{*known})
	}
	return exit.Code(known)
}

// Note prints a message on stderr, or logs it if there is a log.
func (w *Env) Note(level slog.Level, text string) {
	if w.Log != nil {
		w.Log.LogAttrs(context.Background(), level, text)
		return
	}
	if level >= slog.LevelWarn {
		text = "warning: " + text
	}
	w.printLine(level, "symphony: "+text)
}

func (w *Env) printLine(level slog.Level, line string) {
	line = text.Visible(line)
	if w.Journal {
		line = priority(level) + line
	}
	// in a single write, because a loop and its server print at the same time
	fmt.Fprintln(w.Stderr, line)
}

// isJournal reports whether a file is the stream to systemd's journal that $JOURNAL_STREAM
// names by device and inode. The variable alone does not suffice: programs whose output goes
// elsewhere inherit it, too.
func isJournal(stream string, file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
