package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// launchBound is how long the first agent on a codex home may keep others waiting.
const launchBound = 5 * time.Second

// lockLaunch lets the first agent on a codex home start alone, because simultaneous starts on a fresh home disturb each other.
// Once a home is known to be used there is no lock. launched must be called; later calls do nothing.
func (j *job) lockLaunch(ctx context.Context) (launched func(used bool), err error) {
	key := "codex_home:" + j.Config.CodexHome
	unlocked := func(bool) {}
	if _, used, err := j.Journal.Meta(ctx, key); err != nil || used {
		return unlocked, err
	}
	lock := flock.New(filepath.Join(j.StateDir, "launch.lock"), flock.SetPermissions(0o600))
	bounded, cancel := context.WithTimeout(ctx, launchBound)
	defer cancel()
	held, err := lock.TryLockContext(bounded, 20*time.Millisecond)
	switch {
	case ctx.Err() != nil:
		return unlocked, context.Cause(ctx)
	case !held && err != nil && bounded.Err() == nil:
		return unlocked, fmt.Errorf("launch lock: %w", err)
	case !held:
		return unlocked, nil // the first one takes long; all launch
	}
	unlock := sync.OnceFunc(func() { j.warn("launch lock", lock.Unlock()) })
	if _, used, err := j.Journal.Meta(ctx, key); err != nil || used {
		unlock()
		return unlocked, err
	}
	timer := time.AfterFunc(launchBound, unlock)
	return func(used bool) {
		timer.Stop()
		if used {
			j.warn("codex home not remembered", j.Journal.SetMeta(context.WithoutCancel(ctx), key, "used"))
		}
		crash.At("runner.launch.noted")
		unlock()
	}, nil
}
