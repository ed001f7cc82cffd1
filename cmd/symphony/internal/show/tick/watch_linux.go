package tick

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch reports that files may have changed, by inotify(7). A nil watch reports nothing.
type watch struct {
	file   *os.File
	change chan struct{}

	mu    sync.Mutex
	names map[string]bool // of the files
	dirs  map[int]bool    // the watched directories, by the descriptors of inotify
}

// inWatched are the events of a file that was written and closed, moved, created, or given
// another mode. A worker that dies, however, closes its alive file.
const inWatched = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM |
	unix.IN_CREATE | unix.IN_DELETE | unix.IN_ATTRIB

// newWatch returns nil if no inotify instance is left for this user.
func newWatch() *watch {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	w := &watch{
		file:   os.NewFile(uintptr(fd), "inotify"),
		change: make(chan struct{}, 1),
		dirs:   map[int]bool{},
	}
	go w.read()
	return w
}

// set watches these files and no others. It returns false if it can't.
func (w *watch) set(files []string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.dirs
	w.names = map[string]bool{}
	w.dirs = map[int]bool{}
	err := w.control(func(fd int) error {
		for _, file := range files {
			w.names[filepath.Base(file)] = true
			wd, err := unix.InotifyAddWatch(fd, filepath.Dir(file), inWatched)
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return err
			}
			w.dirs[wd] = true
		}
		for wd := range before {
			if w.dirs[wd] {
				continue
			}
			// The directory may be gone.
			_, _ = unix.InotifyRmWatch(fd, uint32(wd)) //nolint:gosec // not negative
		}
		return nil
	})
	return err == nil
}

// control calls f with the descriptor.
func (w *watch) control(f func(fd int) error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil { //nolint:gosec // a descriptor
		return err
	}
	return failed
}

// changes receives something after a change.
func (w *watch) changes() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.change
}

// read reads events until the watch is closed.
func (w *watch) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return
		}
		if w.concerned(buffer[:n]) {
			select {
			case w.change <- struct{}{}:
			default: // the last value was not received yet
			}
		}
	}
}

// concerned reports whether an event is about any of the files, or events were lost.
func (w *watch) concerned(events []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&events[0])) //nolint:gosec // as the kernel writes it
		name := events[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+int(e.Len)]
		if e.Mask&unix.IN_Q_OVERFLOW != 0 || w.names[string(bytes.TrimRight(name, "\x00"))] {
			return true
		}
		events = events[unix.SizeofInotifyEvent+int(e.Len):]
	}
	return false
}

func (w *watch) close() {
	if w != nil {
		w.file.Close()
	}
}
