package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
)

// processes watches the processes of a run, and ends them.
type processes struct{ *parts }

// killAll ends all processes of the run: processes with the marker of the run or its thread,
// recorded processes, and the descendants of this worker.
func (p *processes) killAll(ctx context.Context) error {
	p.observe()
	run := p.rec.get()
	answer, err := p.site.host.Kill(context.WithoutCancel(ctx), host.KillRequest{
		ThreadID: run.ThreadID,
		Root:     run.WorkspaceRoot,
	})
	p.logLocks(answer.Locks)
	return p.ended(answer, err)
}

// logLocks notes the locks of git that were removed.
func (p *processes) logLocks(locks []string) {
	if len(locks) > 0 {
		p.Log.Info("locks of killed git commands removed", "files", locks[:min(len(locks), restoredLogged)])
	}
}

// ended returns an error if processes of the run could not be ended.
func (p *processes) ended(answer host.LeftAnswer, err error) error {
	return errors.Join(err, host.Leftover("run "+p.rec.get().ID, answer.Processes))
}

// observe records the descendants of the worker, so that a later pass finds even descendants
// that removed their marker. It ends descendants that hold a lock of symphony.
func (p *processes) observe() {
	if p.site.host == nil {
		return // the run could not start
	}
	answer, err := p.site.host.Observe(context.Background())
	for _, holder := range answer.LockHolders {
		p.Log.Warn(
			"ended a process that held a lock of symphony",
			"pid", holder.PID,
			"name", holder.Name,
		)
		message := fmt.Sprintf("ended process %d (%s), which held a lock of symphony", holder.PID, holder.Name)
		p.events.note("lock_ended", message, map[string]any{"pid": holder.PID, "name": holder.Name})
	}
	warn(p.Log, "processes of the run", err)
}

// startObserving scans for new processes and locks of the run until stop is called, even after
// ctx ends: at each heartbeat, or at every fourth while the agent is silent. It does so beside
// the heartbeats, because meanwhile a process of the agent may keep the database locked.
func (p *processes) startObserving(ctx context.Context) (stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		var heard time.Time
		quiet := quietBeats
		repeat(beats, heartbeat, func() {
			last := p.rec.get().LastEventAt
			quiet++
			if quiet < quietBeats && last.Equal(heard) {
				return
			}
			p.observe()
			heard = last
			quiet = 0
		})
	})
	return func() {
		cancel()
		running.Wait()
	}
}
