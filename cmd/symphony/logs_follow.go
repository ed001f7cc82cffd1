package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// follower reads a log that grows, and that is turned over when it is full.
type follower struct {
	path string
	file *os.File // nil until there is one
	rest []byte   // the beginning of a line whose end is still to come
}

// read shows the lines that have come since.
func (f *follower) read(show func([]byte)) error {
	for {
		if f.file == nil {
			file, err := os.Open(f.path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("log: %w", err)
			}
			f.file = file
		}
		// Looked at before: of what was written before the turn nothing is missed then.
		turned, err := f.turnedOver()
		if err != nil {
			return err
		}
		if f.rest, err = showLines(io.MultiReader(bytes.NewReader(f.rest), f.file), show); err != nil || !turned {
			return err
		}
		f.showRest(show)
		f.close()
	}
}

// turnedOver reports whether another file is at the path now.
func (f *follower) turnedOver() (bool, error) {
	now, err := os.Stat(f.path)
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
func (f *follower) showRest(show func([]byte)) {
	if len(f.rest) > 0 {
		show(f.rest)
	}
	f.rest = nil
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close() // nothing was written
		f.file = nil
	}
}
