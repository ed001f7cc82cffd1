// Package term gives a command its streams, environment, clock and terminal, and prints
// tables, colours, JSON, logs and errors.
package term

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/reconcile"
)

// Env is the environment of a command and its terminal. Tests make their own.
type Env struct {
	environ.Env
	Palette
	Stdin        io.Reader
	Stdout       io.Writer
	Stderr       io.Writer
	Width        int          // of the terminal in columns; 0 if stdout is not a terminal
	JSON         bool         // the command prints JSON, errors too
	JSONLines    bool         // JSON objects are printed one per line
	OutputFailed bool         // an answer could not be printed, which was reported
	Verbose      bool         // the command prints details that only some operators want
	Journal      bool         // stderr goes to systemd's journal
	StdoutIsFile bool         // stdout goes to a regular file, which agents may be able to read
	StderrIsFile bool         // the same for stderr
	Log          *slog.Logger // replaces the lines on stderr; nil without a log
	// Printed, unless nil, is called with every document and its JSON. Tests compare it with the
	// schemas.
	Printed func(document any, data []byte)
	// InputEnded is set once AskLine meets the end of the input.
	InputEnded bool
	input      *bufio.Reader
	typed      chan typedLine // gets the line that is being read; nil if none is
}

// NewEnv returns the environment of this process.
func NewEnv() (*Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, reconcile.NewError(
			"environment_invalid",
			"the working directory: "+err.Error(),
			"cd to a directory that exists",
		).WithCause(err)
	}
	w := &Env{
		Env:    environ.Env{Dir: dir, Now: time.Now},
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	}
	fromFile := strings.Split(os.Getenv(environ.FromFileVar), ",")
	w.Environ, w.Caller = environ.Split(os.Environ(), fromFile...)
	w.Journal = isJournal(os.Getenv("JOURNAL_STREAM"), os.Stderr)
	w.StdoutIsFile = isRegular(os.Stdout)
	w.StderrIsFile = isRegular(os.Stderr)
	w.AccountHome = accountHome()
	w.Home = cmp.Or(w.Getenv("HOME"), w.AccountHome) // some containers have no HOME
	err = checkDirectories(w)
	if err != nil {
		return nil, err
	}
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		w.Stdout = &output{to: os.Stdout}
		return w, nil
	}
	w.Width = terminalWidth()
	w.Links = w.Getenv("TERM") != "dumb"
	w.Colour = w.Links && w.Getenv("NO_COLOR") == ""
	return w, nil
}

// checkDirectories refuses a HOME or TMPDIR that is no absolute path, such as HOME='~/svc', where
// the shell left the ~ as it is. Programs would make a folder of that name wherever they run.
func checkDirectories(w *Env) error {
	for _, name := range []string{"HOME", "TMPDIR"} {
		value, isSet := w.Lookup(name)
		if !isSet || filepath.IsAbs(value) || name == "TMPDIR" && value == "" {
			continue
		}
		return reconcile.NewError(
			"environment_invalid",
			fmt.Sprintf("%s is %q, which is no absolute path", name, value),
			"unset it, or set it to an absolute path",
		)
	}
	return nil
}

// RequireHome refuses a home that is not a directory, or that belongs to another account. An account
// may have been moved, or sudo may have kept the HOME of its caller. Symphony would make a new home
// there, without settings, keys and state, or could read none of them.
func (w *Env) RequireHome() error {
	fault := homeFault(w.Home)
	if w.Home == "" || fault == "" {
		return nil
	}
	return reconcile.NewError(
		"environment_invalid",
		"the home is "+w.Home+", which "+fault,
		"set HOME to the home of this account",
	)
}

// homeFault says why a directory can't be the home of this account; empty if it can. In containers
// the home is often the root directory, which belongs to root.
func homeFault(home string) string {
	var st unix.Stat_t
	err := unix.Stat(home, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case err != nil:
		return "" // the first file that is read below it fails, and tells why
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "is not a directory"
	}
	needed := uint32(unix.X_OK)
	if st.Uid != 0 {
		needed |= unix.W_OK
	}
	if int(st.Uid) != os.Geteuid() && unix.Access(home, needed) != nil {
		return "belongs to another account"
	}
	return ""
}

// accountHome returns the home directory of this account, whatever $HOME is; empty if it is not
// known.
func accountHome() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// isRegular reports whether the output to a stream ends in a regular file.
func isRegular(stream *os.File) bool {
	info, err := stream.Stat()
	return err == nil && info.Mode().IsRegular()
}

// output keeps the first error of writing, at which commands do not look.
type output struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (n int, err error) {
	n, err = o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// CheckOutput reports that stdout, a file on a full disk for instance, did not take all of the
// answer, and sets w.OutputFailed.
func (w *Env) CheckOutput() {
	if o, ok := w.Stdout.(*output); ok && o.err != nil && !w.OutputFailed {
		w.outputFailed(
			o.err,
			"free space where stdout goes, and try again",
		)
	}
}

// terminalWidth is the width of the terminal at stdout.
func terminalWidth() int {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 {
		return 80 // the terminal does not know its size
	}
	return max(width, 40)
}

// ForCommand returns the environment of another command at the same terminal, whose size may
// have changed.
func (w *Env) ForCommand() *Env {
	own := *w
	own.JSON = false
	own.JSONLines = false
	own.OutputFailed = false
	own.Verbose = false
	own.InputEnded = false
	own.input = nil
	own.typed = nil
	own.Width = terminalWidth()
	return &own
}

// Environment returns the environment for operations, whose warnings are printed on this
// terminal.
func (w *Env) Environment() *environ.Env {
	own := w.Env
	own.Warnings = func(text string) { w.Note(slog.LevelWarn, text) }
	return &own
}

// Piped reports whether stdout is no terminal. A program may then read the output, so that it
// contains exact values, a record a line, and neither colours nor titles.
func (w *Env) Piped() bool { return w.Width == 0 }

// OnTerminal reports whether both stdin and stdout are terminals, so that an operator can be
// asked.
func (w *Env) OnTerminal() bool { return !w.Piped() && w.FromTerminal() }

// FromTerminal reports whether stdin is a terminal, so that the end of the terminal ends this
// process.
func (w *Env) FromTerminal() bool {
	in, ok := w.Stdin.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// Size returns the present size of the terminal in columns and lines; 80 by 24 where it is not
// known.
func (w *Env) Size() (columns, lines int) {
	out, ok := w.Stdout.(*os.File)
	if !ok {
		return max(w.Width, 80), 24
	}
	columns, lines, err := term.GetSize(int(out.Fd()))
	if err != nil || columns <= 0 || lines <= 0 {
		return max(w.Width, 80), 24
	}
	return columns, lines
}
