package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// stuck is a journal on a disk that stands still.
type stuck struct {
	Journal
	goOn chan struct{}
}

func (s stuck) UpdateRun(context.Context, time.Time, reconcile.Run) (string, error) {
	<-s.goOn
	return "", nil
}

// A database that takes long stops no heartbeat: a pass that sees the same one too long kills the worker.
func TestHeartbeatWhileTheDatabaseIsStuck(t *testing.T) {
	path := filepath.Join(t.TempDir(), aliveFile)
	must(t, proc.CreateAlive(path))
	alive, err := proc.HoldAlive(path, time.Second)
	must(t, err)
	defer alive.Close()
	goOn := make(chan struct{})
	r := &record{
		journal: stuck{goOn: goOn}, alive: alive, scan: func() {}, locks: func() {}, now: time.Now,
		log: slog.New(slog.DiscardHandler), stopped: func(string) {}, lost: func(error) {},
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); r.beat(ctx, time.Millisecond) }()
	for end := time.Now().Add(patience); ; {
		pulse, err := proc.ProbeAlive(path)
		must(t, err)
		if pulse.Beats >= 5 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the alive file stands at heartbeat %d", pulse.Beats)
		}
	}
	cancel()
	close(goOn)
	<-over
}

// A repository that is too large to look at in time is no fault of the issue's, and a run in it counts as one that
// changed something: nobody knows better.
func TestFingerprintTakesTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		slow     map[int]bool // which looks take too long
		progress bool
	}{
		"never":      {nil, false},
		"before":     {map[int]bool{1: true}, true},
		"after":      {map[int]bool{2: true}, true},
		"both times": {map[int]bool{1: true, 2: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "say done")
			r.Config.Hooks.AfterRun = "echo over >> after.txt"
			r.Host = &slowHost{Host: r.Host, slow: c.slow}
			run := r.ends(reconcile.Succeeded, "")
			if run.Progress != c.progress {
				t.Errorf("progress: %v", run.Progress)
			}
			if got := read(t, r.space("after.txt")); got != "over\n" {
				t.Errorf("after_run wrote %q", got)
			}
		})
	}
}

// A resume that fails counts for its thread.
func TestFailedResumeNamesItsThread(t *testing.T) {
	r := newRig(t, "say done")
	first := r.ends(reconcile.Succeeded, "")
	stored, err := filepath.Glob(filepath.Join(filepath.Dir(r.StateDir), "codex", "threads", "*.json"))
	must(t, err)
	if len(stored) != 1 {
		t.Fatalf("stored threads: %q", stored)
	}
	must(t, os.WriteFile(stored[0], []byte("torn"), 0o600))
	r.journal.finished = nil
	r.tracker.asked = 0
	r.next("run-2")
	if run := r.ends(reconcile.Failed, "response_error"); run.ThreadID != first.ThreadID {
		t.Errorf("the thread is %q, not %q", run.ThreadID, first.ThreadID)
	}
}

// slowHost has fingerprints that take too long.
type slowHost struct {
	host.Host
	slow  map[int]bool // by number
	looks int
}

func (h *slowHost) Facts(ctx context.Context, r host.FactsRequest) (host.FactsAnswer, error) {
	if !r.Fingerprint {
		return h.Host.Facts(ctx, r)
	}
	if h.looks++; h.slow[h.looks] {
		return host.FactsAnswer{}, fmt.Errorf("fingerprint: %w", context.DeadlineExceeded)
	}
	return host.FactsAnswer{Fingerprint: "same"}, nil
}
