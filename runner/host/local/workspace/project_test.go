package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// stateDir makes one that is in use.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "state.db"), "")
	return dir
}

func TestClaimProject(t *testing.T) {
	r := newRoot(t)
	one, two := stateDir(t), stateDir(t)
	check(t, r.ClaimProject("https://t shop", one))
	check(t, r.ClaimProject("https://t shop", one))
	check(t, r.ClaimProject("https://t other", two))
	err := r.ClaimProject("https://t shop", two)
	wantCode(t, err, CodeProjectConflict)
	if !strings.Contains(err.Error(), one) {
		t.Errorf("the other one is not named: %v", err)
	}
	// The same directory by another name is no other one.
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(one, link))
	check(t, r.ClaimProject("https://t shop", link))
	// A state directory that is no longer used gives way.
	check(t, os.Remove(filepath.Join(one, "state.db")))
	check(t, r.ClaimProject("https://t shop", two))
	write(t, filepath.Join(one, "state.db"), "")
	wantCode(t, r.ClaimProject("https://t shop", one), CodeProjectConflict)
	check(t, os.RemoveAll(two))
	check(t, r.ClaimProject("https://t shop", one))
	write(t, r.project("https://t shop"), "{")
	wantCode(t, r.ClaimProject("https://t shop", one), CodeFailed)
}

func TestOfManyClaimsOneWins(t *testing.T) {
	r := newRoot(t)
	r.leaseWait = bound
	var (
		won atomic.Int32
		all sync.WaitGroup
	)
	for range 8 {
		dir := stateDir(t)
		all.Go(func() {
			err := r.ClaimProject("p", dir)
			switch {
			case err == nil:
				won.Add(1)
			case !isCode(err, CodeProjectConflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Fatal(fmt.Sprint(won.Load(), " state directories have the project"))
	}
}
