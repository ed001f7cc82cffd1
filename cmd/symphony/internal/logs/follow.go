package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// follower reads a log that grows, and that is replaced by a new file when it is full.
type follower struct {
	path string
	file *os.File // nil until the log exists
	rest []byte   // a line without its end
}

// readPrevious shows the file that the log was before it was replaced, if there is one. The present file is opened first,
// so that a replacement in between loses no line.
func (f *follower) readPrevious(path string, show func([]byte)) error {
	if err := f.open(); err != nil {
		return err
	}
	previous := follower{path: path}
	defer previous.close()
	if err := previous.open(); err != nil || previous.file == nil {
		return err
	}
	if same, err := f.stillAt(path); same || err != nil {
		return err // replaced in between: read shows it
	}
	_, err := showLines(previous.file, show)
	return err
}

func (f *follower) open() error {
	if f.file != nil {
		return nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	f.file = file
	return nil
}

// stillAt reports whether the open file is the one at the path.
func (f *follower) stillAt(path string) (bool, error) {
	if f.file == nil {
		return false, nil
	}
	mine, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	there, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return os.SameFile(mine, there), nil
}

// read shows the lines that were written since the last read.
func (f *follower) read(show func([]byte)) error {
	for {
		if err := f.open(); err != nil || f.file == nil {
			return err
		}
		// Asked before reading: whatever was written to the old file is read below.
		same, err := f.stillAt(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			same, err = true, nil // the new file is about to come
		}
		if err != nil {
			return err
		}
		if f.rest, err = showLines(io.MultiReader(bytes.NewReader(f.rest), f.file), show); err != nil || same {
			return err
		}
		f.showRest(show)
		f.close()
	}
}

// showRest shows a last line that has no end.
func (f *follower) showRest(show func([]byte)) {
	if len(f.rest) > 0 {
		show(f.rest)
	}
	f.rest = nil
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
		f.file = nil
	}
}

// showLines shows whole lines and returns a last line without an end.
func showLines(r io.Reader, show func([]byte)) (rest []byte, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		show(bytes.TrimSuffix(line, []byte("\n")))
	}
}
