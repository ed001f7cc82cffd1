package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// blockIsDue makes the account's block, if there is one, due for its next try.
func (c *crashScene) blockIsDue() bool {
	c.t.Helper()
	files, err := filepath.Glob(c.path("home", ".local", "state", "symphony", "accounts", "*", "limits.json"))
	c.must(err)
	if len(files) == 0 {
		return false
	}
	lock := flock.New(filepath.Join(filepath.Dir(files[0]), "limits.lock"))
	ctx, cancel := context.WithTimeout(context.Background(), crashBound)
	defer cancel()
	_, err = lock.TryLockContext(ctx, crashStep)
	c.must(err)
	defer lock.Unlock()
	text, err := os.ReadFile(files[0])
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	c.must(err)
	var record map[string]any
	c.must(json.Unmarshal(text, &record))
	block, blocked := record["block"].(map[string]any)
	if !blocked {
		return false
	}
	block["next_try"] = time.Now().UTC()
	text, err = json.Marshal(record)
	c.must(err)
	next := files[0] + ".test"
	c.must(os.WriteFile(next, text, 0o600))
	c.must(os.Rename(next, files[0]))
	return true
}

// TestSlotIsFreeWhenTheRunIsOver checks that the pass which a worker starts at its end finds the slot free, even if the
// worker still lives.
func TestSlotIsFreeWhenTheRunIsOver(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "symphony")
	build(t, program, "crashpoints")
	s := crashScenario{name: "slot", issue: handOver, ends: "Human Review", keeps: true, deaths: 1, stands: true}
	s.play = func(c *crashScene) {
		c.passes("the worker stands still", c.died)
		slots, err := filepath.Glob(c.path("home", ".local", "state", "symphony", "accounts", "*", "slots", "1"))
		c.must(err)
		if len(slots) != 1 {
			t.Fatalf("slots: %q", slots)
		}
		slot := flock.New(slots[0])
		free, err := slot.TryLock()
		c.must(errors.Join(err, slot.Close()))
		if !free {
			t.Error("the slot is held by a worker whose run is over")
		}
		c.waitFor("the worker is ended", func() bool { return !c.kill(syscall.SIGKILL) }, nil)
	}
	newCrashScene(t, program, s, "worker:worker.closed").play()
}
