package term

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/symphony-cron/symphony/reconcile"
)

// world is everything outside the program that a command may look at or talk to. Tests make their own.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Dir            string // working directory
	Home           string
	Now            func() time.Time
	// width of the terminal in columns, 0 where stdout is none.
	Width  int
	Colour bool
	// json is set by commands that were asked for JSON, so that an error comes as JSON too.
	JSON bool
	// jsonLines is set where one object after another is printed: each is a line.
	JSONLines bool
	// input reads stdin where somebody is asked; see lines.
	input *bufio.Reader
	// log takes what else would be lines on stderr, nil unless a log was asked for; journal is set where stderr is systemd's.
	Log     *slog.Logger
	Journal bool
}

// wallClock is where a world's now comes from. Tests step it.
var WallClock = time.Now

func NewEnv() (*Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, &reconcile.Error{
			Code: "working_directory", Message: "the working directory: " + err.Error(),
			Hint: "it may have been removed: cd to one that exists", Err: err,
		}
	}
	w := &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir, Now: WallClock}
	w.Journal = IsJournal(w.Getenv("JOURNAL_STREAM"), os.Stderr)
	if w.Home = w.Getenv("HOME"); w.Home == "" {
		// Cron always sets it; some containers do not.
		if u, err := user.Current(); err == nil {
			w.Home = u.HomeDir
		}
	}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		w.Width = 80 // of a terminal that does not know its size
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			w.Width = max(width, 40)
		}
		w.Colour = w.Getenv("NO_COLOR") == "" && w.Getenv("TERM") != "dumb"
	}
	return w, nil
}

// getenv reads one variable; a variable that is set twice counts as its last value, as shells see it.
func (w *Env) Getenv(name string) string {
	v, _ := w.Lookup(name)
	return v
}

func (w *Env) Lookup(name string) (string, bool) {
	for i := len(w.Environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(w.Environ[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// The colours of a terminal; plain text elsewhere.
func (w *Env) Paint(code, s string) string {
	if !w.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + PlainText
}

func (w *Env) Bold(s string) string   { return w.Paint("1", s) }
func (w *Env) Red(s string) string    { return w.Paint("31", s) }
func (w *Env) Yellow(s string) string { return w.Paint("33", s) }
func (w *Env) Dim(s string) string    { return w.Paint("2", s) }

func (w *Env) PrintJSON(v any) {
	enc := json.NewEncoder(w.Stdout)
	enc.SetEscapeHTML(false)
	if !w.JSONLines {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(w.Stderr, "symphony: output:", err)
	}
}

// onTerminal reports whether there is a person who can be shown something and asked.
func (w *Env) OnTerminal() bool {
	in, ok := w.Stdin.(*os.File)
	return ok && w.Width > 0 && term.IsTerminal(int(in.Fd()))
}

// lines reads stdin; what one line's reading has taken too much is there for the next.
func (w *Env) Lines() *bufio.Reader {
	if w.input == nil {
		w.input = bufio.NewReaderSize(w.Stdin, 1)
	}
	return w.input
}

// utf8 reports whether the locale can show more than ASCII.
func (w *Env) UTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(w.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

func (w *Env) Absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(w.Dir, path)
}

func (w *Env) PrintLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(w.Stdout, line)
	}
}

func (w *Env) Green(s string) string { return w.Paint(ColourRuns, s) }
