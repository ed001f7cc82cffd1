package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	xterm "golang.org/x/term"
)

// screen is a terminal that this program has to itself for a while: a screen beside the one with the shell's lines, keys
// as they are pressed. What was there before comes back when it leaves.
type screen struct {
	out *os.File
	in  *os.File // nil where the keys belong to somebody else
	was *xterm.State

	keys    chan byte // closed when the terminal is gone
	signals chan os.Signal
	shown   string
}

// What a terminal is told. Lines that are thought too long are not to spoil the next ones, so it breaks none.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	firstCell   = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
	nextLine    = "\r\n"
)

// Keys that a terminal in raw mode gives instead of signals, and one that asks for a new painting.
const (
	ctrlC = 0x03
	ctrlD = 0x04
	ctrlL = 0x0c
	ctrlZ = 0x1a
	quit  = 0x1c // Ctrl-\
)

func ends(key byte) bool {
	return key == 'q' || key == 'Q' || key == ctrlC || key == ctrlD || key == quit
}

func newScreen(in io.Reader, out *os.File) *screen {
	s := &screen{out: out, signals: make(chan os.Signal, 8)}
	if file, ok := in.(*os.File); ok && xterm.IsTerminal(int(file.Fd())) {
		s.in, s.keys = file, make(chan byte)
	}
	return s
}

// enter takes the terminal, and catches what concerns it.
func (s *screen) enter() error {
	if err := s.take(); err != nil {
		return err
	}
	// Not SIGTSTP: once caught, it would never again stop the process.
	signal.Notify(s.signals, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGHUP, syscall.SIGQUIT)
	if s.in != nil {
		go s.read()
	}
	return nil
}

// take puts the terminal into our mode. The one to go back to is what the first look found.
func (s *screen) take() error {
	if s.in != nil {
		was, err := xterm.MakeRaw(int(s.in.Fd()))
		if err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
		if s.was == nil {
			s.was = was
		}
	}
	s.shown = ""
	_, err := s.out.WriteString(enterScreen)
	return err
}

// leave gives the terminal back. Of one that is gone nobody needs to be told.
func (s *screen) leave() {
	signal.Stop(s.signals)
	s.giveBack()
}

func (s *screen) giveBack() {
	_, _ = s.out.WriteString(leaveScreen)
	if s.was != nil {
		_ = xterm.Restore(int(s.in.Fd()), s.was)
	}
}

// read hands on one key after the other until the terminal is gone.
func (s *screen) read() {
	defer close(s.keys)
	var buffer [64]byte
	for {
		n, err := s.in.Read(buffer[:])
		for _, key := range buffer[:n] {
			s.keys <- key
		}
		if err != nil {
			return
		}
	}
}

// pressed does what a key asks for that does not end anything.
func (s *screen) pressed(key byte) error {
	switch key {
	case ctrlZ:
		return s.suspend()
	case ctrlL:
		s.shown = ""
	}
	return nil
}

// signalled does what a signal asks for; over says that it is the end. A new size needs no more than another frame.
func (s *screen) signalled(sig os.Signal) (over bool, err error) {
	switch sig {
	case syscall.SIGCONT: // after SIGSTOP the shell has set the terminal to its own mode
		return false, s.take()
	case syscall.SIGWINCH:
		s.shown = "" // the terminal has moved what stood there
		return false, nil
	}
	return true, nil
}

// stopBound is more than a process takes to stop that has told itself to.
const stopBound = 200 * time.Millisecond

// suspend stops the job as Ctrl-Z does, with the terminal as it was, and takes it again when the job goes on. Where
// nobody could continue it the system does not stop it.
func (s *screen) suspend() error {
	s.giveBack()
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return fmt.Errorf("suspend: %w", err)
	}
	bound := time.NewTimer(stopBound)
	defer bound.Stop()
	for waiting := true; waiting; {
		select {
		case sig := <-s.signals:
			waiting = sig != syscall.SIGCONT
		case <-bound.C:
			waiting = false
		}
	}
	return s.take()
}

// size is asked for before each frame.
func (s *screen) size() (columns, rows int) {
	columns, rows, err := xterm.GetSize(int(s.out.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return 80, 24 // of a terminal that does not know its size
	}
	return columns, rows
}

// paint shows the lines instead of the last ones, in one write: the terminal never shows half of a frame, nor an empty
// one.
func (s *screen) paint(lines []string, columns, rows int) error {
	frame := frameOf(lines, columns, rows)
	if frame == s.shown {
		return nil
	}
	s.shown = frame
	_, err := s.out.WriteString(frame)
	return err
}

// frameOf writes over what stands there and erases only what is left of it. After a line that fills its row the cursor
// stands on the last character, which erasing would take with it: there the row is erased first.
func frameOf(lines []string, columns, rows int) string {
	var b strings.Builder
	b.WriteString(firstCell)
	for i, line := range lines {
		if i > 0 {
			b.WriteString(nextLine)
		}
		if term.Cells(line) < columns {
			b.WriteString(line + eraseLine)
		} else {
			b.WriteString(eraseLine + line)
		}
	}
	if len(lines) < rows {
		b.WriteString(nextLine + eraseBelow)
	}
	return b.String()
}
