package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// follower reads a log that grows, and that is turned over when it is full.
type Follower struct {
	Path string
	file *os.File // nil until there is one
	rest []byte   // the beginning of a line whose end is still to come
}

// readPrevious shows the file that the log was before it was turned over, if it was. The present one is opened first: the
// log may be turned over again while somebody reads, page by page.
func (f *Follower) ReadPrevious(path string, show func([]byte)) error {
	if err := f.Open(); err != nil {
		return err
	}
	previous := Follower{Path: path}
	defer previous.Close()
	if err := previous.Open(); err != nil || previous.file == nil {
		return err
	}
	if f.file != nil {
		if turned, err := previous.isAt(f.file); turned || err != nil {
			return err // in between, and read shows it
		}
	}
	_, err := showLines(previous.file, show)
	return err
}

// open opens the file, if there is one.
func (f *Follower) Open() error {
	if f.file != nil {
		return nil
	}
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	f.file = file
	return nil
}

// isAt reports whether another open file is this one.
func (f *Follower) isAt(other *os.File) (bool, error) {
	this, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	that, err := other.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return os.SameFile(this, that), nil
}

// read shows the lines that have come since.
func (f *Follower) Read(show func([]byte)) error {
	for {
		if err := f.Open(); err != nil || f.file == nil {
			return err
		}
		// Looked at before: of what was written before the turn nothing is missed then.
		turned, err := f.turnedOver()
		if err != nil {
			return err
		}
		if f.rest, err = showLines(io.MultiReader(bytes.NewReader(f.rest), f.file), show); err != nil || !turned {
			return err
		}
		f.ShowRest(show)
		f.Close()
	}
}

// turnedOver reports whether another file is at the path now.
func (f *Follower) turnedOver() (bool, error) {
	now, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // its successor is about to come
	}
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	open, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return !os.SameFile(open, now), nil
}

// showRest shows a last line without an end.
func (f *Follower) ShowRest(show func([]byte)) {
	if len(f.rest) > 0 {
		show(f.rest)
	}
	f.rest = nil
}

func (f *Follower) Close() {
	if f.file != nil {
		_ = f.file.Close() // nothing was written
		f.file = nil
	}
}
