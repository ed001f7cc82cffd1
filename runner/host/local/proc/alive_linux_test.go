package proc

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestHoldAliveOfAFileThatWasReplaced(t *testing.T) {
	path := newAlive(t)
	first, err := HoldAlive(path, 0)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := HoldAlive(path, bound)
		done <- err
	}()
	eventually(t, "the second to open the file", func() bool { return opened(t, path) == 2 })
	must(t, os.Rename(path, path+".old"))
	must(t, CreateAlive(path))
	must(t, first.Close())
	if err := <-done; !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("it holds a file that is not the run's any more: %v", err)
	}
	if got := probe(t, path); got.State != AliveFree {
		t.Errorf("the new file is %+v", got)
	}
}

// opened counts the descriptors that this process has of the file at path.
func opened(t *testing.T, path string) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	n := 0
	for _, name := range names {
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && to == path {
			n++
		}
	}
	return n
}
