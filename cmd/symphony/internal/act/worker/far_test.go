package worker

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// deadly is an engine on whose host something kills each daemon.
type deadly struct {
	engine.Engine

	starts int
}

func (d *deadly) Start(ctx context.Context) error {
	d.starts++
	if d.starts == 1000 {
		panic("the worker starts daemons without a pause")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return reconcile.NewError(remote.CodeDied, "killed", "")
}

// A daemon that was killed is started again at once. If something kills every daemon, a worker
// waits before each further start, and gives up.
func TestKilledDaemons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.json")
	synctest.Test(t, func(t *testing.T) {
		by := &deadly{}
		f := &hostDaemon{
			engine: by,
			run:    &engine.Run{Ending: true},
			path:   path,
			log:    slog.New(slog.DiscardHandler),
		}
		began := time.Now()
		_, begun, err := f.reach(t.Context(), func(string) {})
		known, _ := errors.AsType[*reconcile.Error](err)
		test.Equal(t, "the code", known.Code, "host_failed")
		test.Equal(t, "begun", begun, true)
		test.Equal(t, "patience", time.Since(began).Round(reachPause), reachPatience)
		test.Equal(t, "starts", by.starts, 2+int(reachPatience/reachPause))
	})
}
