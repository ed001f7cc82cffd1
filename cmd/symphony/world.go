package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/symphony-cron/symphony/reconcile"
)

// world is everything outside the program that a command may look at or talk to. Tests make their own.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	dir            string // working directory
	home           string
	now            func() time.Time
	// width of the terminal in columns, 0 where stdout is none.
	width  int
	colour bool
	// json is set by commands that were asked for JSON, so that an error comes as JSON too.
	json bool
	// jsonLines is set where one object after another is printed: each is a line.
	jsonLines bool
	// input reads stdin where somebody is asked; see lines.
	input *bufio.Reader
	// log takes what else would be lines on stderr, nil unless a log was asked for; journal is set where stderr is systemd's.
	log     *slog.Logger
	journal bool
	// listen makes SIGINT and SIGTERM end the context, where they do not yet.
	listen func()
}

// wallClock is where a world's now comes from. Tests step it.
var wallClock = time.Now

func newWorld() (*world, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, &reconcile.Error{
			Code: "working_directory", Message: "the working directory: " + err.Error(),
			Hint: "it may have been removed: cd to one that exists", Err: err,
		}
	}
	w := &world{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), dir: dir, now: wallClock}
	w.journal = isJournal(w.getenv("JOURNAL_STREAM"), os.Stderr)
	if w.home = w.getenv("HOME"); w.home == "" {
		// Cron always sets it; some containers do not.
		if u, err := user.Current(); err == nil {
			w.home = u.HomeDir
		}
	}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		w.width = 80 // of a terminal that does not know its size
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			w.width = max(width, 40)
		}
		w.colour = w.getenv("NO_COLOR") == "" && w.getenv("TERM") != "dumb"
	}
	return w, nil
}

// getenv reads one variable; a variable that is set twice counts as its last value, as shells see it.
func (w *world) getenv(name string) string {
	v, _ := w.lookup(name)
	return v
}

func (w *world) lookup(name string) (string, bool) {
	for i := len(w.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(w.environ[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// visible shows control and escape characters of foreign text as text, so that no title or message can
// steer a terminal.
func visible(s string) string {
	clean := true
	for at, r := range s {
		if control(r) || r == utf8.RuneError && broken(s[at:]) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == utf8.RuneError && broken(s[at:]):
			fmt.Fprintf(&b, `\x%02x`, s[at])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case control(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// broken reports a text that begins with a byte that is no character: a terminal may obey it all the same.
func broken(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

// control reports C0, DEL, C1, the separators of lines and the characters that reorder text on a terminal.
func control(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// The colours of a terminal; plain text elsewhere.
func (w *world) paint(code, s string) string {
	if !w.colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + plainText
}

func (w *world) bold(s string) string   { return w.paint("1", s) }
func (w *world) red(s string) string    { return w.paint("31", s) }
func (w *world) yellow(s string) string { return w.paint("33", s) }
func (w *world) dim(s string) string    { return w.paint("2", s) }
