// Package term gives a command its streams, environment, clock and terminal, and prints
// tables, colours, JSON, logs and errors.
package term

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

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
	Query        JSONQuery    // the part of the JSON to print
	OutputFailed bool         // an answer could not be printed, which was reported
	Verbose      bool         // the command prints details that only some operators want
	Journal      bool         // stderr goes to systemd's journal
	StdoutIsFile bool         // stdout goes to a regular file, which agents may be able to read
	StderrIsFile bool         // the same for stderr
	Log          *slog.Logger // replaces the lines on stderr; nil without a log
	// Printed, unless nil, is called with every document before a query selects from it, and
	// its JSON. Tests compare it with the schemas.
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
			"working_directory",
			"the working directory: "+err.Error(),
			"it may have been removed: cd to a directory that exists",
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
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		w.Stdout = &output{to: os.Stdout}
		return w, nil
	}
	w.Width = terminalWidth()
	w.Links = w.Getenv("TERM") != "dumb"
	w.Colour = w.Links && w.Getenv("NO_COLOR") == ""
	return w, nil
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
			"free space where stdout goes, and try again if the command only shows something",
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
	own.Query = JSONQuery{}
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

// Named returns an environment that prints name before each line, except for JSON and logs,
// which have it as a value. out is locked while a line is printed, so that several projects
// can share the streams.
func (w *Env) Named(name string, out *sync.Mutex) *Env {
	own := *w
	own.Stdout = &namedLines{out: w.Stdout, name: name + ": ", mu: out}
	if w.JSON {
		own.Stdout = &namedLines{out: w.Stdout, mu: out}
	}
	own.Stderr = &namedLines{out: w.Stderr, name: name + ": ", mu: out}
	if w.Log != nil {
		own.Log = w.Log.With(slog.String("project", name))
	}
	return &own
}

// namedLines prints a name before each line.
type namedLines struct {
	out  io.Writer
	name string
	mu   *sync.Mutex
	rest []byte // of a line without an end yet
}

// Write implements io.Writer.
func (n *namedLines) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest = append(n.rest, b...)
	var text []byte
	for {
		line, rest, ended := bytes.Cut(n.rest, []byte("\n"))
		if !ended {
			break
		}
		n.rest = rest
		// a priority of the journal
		if len(line) > 3 && line[0] == '<' && line[2] == '>' && n.name != "" {
			text = append(text, line[:3]...)
			line = line[3:]
		}
		text = append(append(append(text, n.name...), line...), '\n')
	}
	if len(text) == 0 {
		return len(b), nil
	}
	_, err := n.out.Write(text)
	return len(b), err
}

// typedLine is a line that was typed at the terminal.
type typedLine struct {
	line  string
	ended bool // the input ended
	err   error
}

// AskLine reads a line from the terminal. A secret is not echoed, from before the prompt is
// shown. The end of ctx ends the wait.
func AskLine(ctx context.Context, w *Env, prompt string, secret bool) (line string, err error) {
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return "", errors.New("stdin is not a terminal")
	}
	if secret {
		restore, failed := hideTyped(int(in.Fd()))
		if failed != nil {
			return "", failed
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	fmt.Fprint(w.Stderr, prompt)
	if w.input == nil { // all questions share a reader, so that no line is lost between two
		w.input = bufio.NewReader(w.Stdin)
	}
	if w.typed == nil { // otherwise the question before was given up, and its line is still to come
		w.typed = make(chan typedLine, 1)
		go func(typed chan<- typedLine) {
			line, err := w.input.ReadString('\n')
			ended := errors.Is(err, io.EOF)
			if ended {
				err = nil // an empty answer, or a last line without an end
			}
			typed <- typedLine{line, ended, err}
		}(w.typed)
	}
	select {
	case r := <-w.typed:
		w.typed = nil
		w.InputEnded = r.ended
		if secret || r.ended {
			fmt.Fprintln(w.Stderr)
		}
		return strings.TrimSuffix(r.line, "\n"), r.err
	case <-ctx.Done():
		fmt.Fprintln(w.Stderr)
		return "", ctx.Err()
	}
}

// Confirm asks a yes or no question on the terminal. Without a terminal it is an error: the
// command then needs --yes.
func Confirm(ctx context.Context, w *Env, prompt string) (bool, error) {
	if !w.OnTerminal() {
		return false, reconcile.NewError(
			"not_a_terminal",
			"the command asks for confirmation, and stdin is not a terminal",
			"give --yes to continue without the question",
		)
	}
	answer, err := AskLine(ctx, w, prompt, false)
	if err != nil {
		return false, err
	}
	given := strings.ToLower(strings.TrimSpace(answer))
	if given != "y" && given != "yes" {
		fmt.Fprintln(w.Stderr, "symphony: nothing was changed")
		return false, nil
	}
	return true, nil
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

// HasPager reports whether Paged would use a pager.
func (w *Env) HasPager(ctx context.Context) bool {
	return !w.Piped() && !w.JSON && w.pagerCommand(ctx) != nil
}

// Paged runs answer, whose output may be longer than the screen, with a pager as its stdout.
// Without a terminal, or if wanted is false, there is no pager.
func (w *Env) Paged(ctx context.Context, wanted bool, answer func() error) error {
	command := w.pagerCommand(context.WithoutCancel(ctx)) // the pager reacts to signals itself
	if !wanted || w.Piped() || w.JSON || command == nil {
		return answer()
	}
	out := w.Stdout
	pg := &pager{cmd: command}
	pg.cmd.Stdout = out
	pg.cmd.Stderr = w.Stderr
	w.Stdout = pg
	defer func() { w.Stdout = out }()
	return errors.Join(answer(), pg.end())
}

// pagerCommand is $PAGER, otherwise less if it is installed. It is nil for no pager, which an
// empty PAGER or cat stands for.
func (w *Env) pagerCommand(ctx context.Context) *exec.Cmd {
	named, set := w.Lookup("PAGER")
	if !set {
		named = "less -FRX"
		if _, err := exec.LookPath("less"); err != nil {
			return nil
		}
	}
	if named == "" || named == "cat" {
		return nil
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", named)
	// The operator's own settings take precedence. Without these, less would show colours as
	// text and umlauts as bytes.
	cmd.Dir = w.Dir
	cmd.Env = append([]string{"LESS=FRX", "LESSCHARSET=utf-8"}, w.Environ...)
	return cmd
}

// pager starts its program at the first write, so that an error is not paged.
type pager struct {
	cmd  *exec.Cmd
	in   io.WriteCloser // nil until it is started
	gone error          // set once the program ended or could not be started
}

// Write implements io.Writer.
func (p *pager) Write(b []byte) (int, error) {
	if p.in == nil && p.gone == nil {
		p.gone = p.start()
	}
	if p.gone != nil {
		return 0, p.gone
	}
	var n int
	n, p.gone = p.in.Write(b)
	return n, p.gone
}

// start starts the program.
func (p *pager) start() error {
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.in = in
	return p.cmd.Start()
}

// Unread reports whether the operator left the pager, so that no more output is read.
func (w *Env) Unread() bool {
	p, ok := w.Stdout.(*pager)
	return ok && p.gone != nil
}

// notStarted are the exit codes of a shell that could not start a program: not found, not
// executable.
var notStarted = []int{127, 126}

// end waits until the operator leaves the pager, so that a signal does not take the terminal
// from it. The pager's exit code matters only if the shell could not start it.
func (p *pager) end() error {
	if p.in == nil {
		return p.gone
	}
	_ = p.in.Close() // it may have ended
	err := p.cmd.Wait()
	if p.cmd.ProcessState != nil && !slices.Contains(notStarted, p.cmd.ProcessState.ExitCode()) {
		return nil
	}
	program := p.cmd.Args[len(p.cmd.Args)-1]
	return reconcile.NewError(
		"pager_failed",
		fmt.Sprintf("the pager %q could not be started: %v", program, err),
		"set PAGER to an installed program, or use --no-pager",
	).WithCause(err)
}
