package worker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

const (
	// reachPatience is how long a worker tries to reach a host on which something may have
	// been begun.
	reachPatience = 3 * time.Minute // not counting the time in which the engine lets the run wait
	reachPause    = 5 * time.Second
	accountBound  = time.Minute // for the first answer of a daemon
)

// hostDaemon is the daemon of a run on another machine, as its worker here reaches it.
type hostDaemon struct {
	engine engine.Engine
	run    *engine.Run
	record daemonRecord
	path   string // of the record
	log    *slog.Logger
	// mirrors are the mirrors through which the run clones and delivers.
	mirrors host.Mirrors
}

// daemonRecord describes the daemon. A worker stores it in the run's directory, for the worker
// that may have to end the run.
type daemonRecord struct {
	Incarnation int64  `json:"incarnation"`
	Secret      string `json:"secret"` // by which the daemon knows its workers
	Served      bool   `json:"served"` // a worker was connected with the daemon
	// Engine contains the options of the engine with which the run began.
	Engine workflow.Worker `json:"engine"`
	// Repository is the source of the workspace's clone. Its commits are copied to the mirror
	// of that repository on this machine.
	Repository host.Repository `json:"repository"`
}

// newDaemon prepares to start the daemon of the run, with the options of the engine and the
// repository that the run begins with.
func (h *OwnRun) newDaemon(
	ctx context.Context,
	p *wiring.Project,
	options workflow.Worker,
	repository host.Repository,
	log *slog.Logger,
) (*hostDaemon, error) {
	begun := daemonRecord{
		Incarnation: 1,
		Secret:      rand.Text(),
		Engine:      options,
		Repository:  repository,
	}
	f, err := h.hostDaemon(ctx, p, begun, log)
	if err != nil {
		return nil, err
	}
	return f, f.save()
}

// oldDaemon prepares to reach the daemon of a run whose worker died, to end the run. If the
// daemon was killed, the next incarnation is started.
func (h *OwnRun) oldDaemon(ctx context.Context, p *wiring.Project, log *slog.Logger) (*hostDaemon, error) {
	data, err := os.ReadFile(h.daemonFile(p))
	if err != nil {
		return nil, fmt.Errorf("record of the run on %s: %w", h.Run.Host, err)
	}
	var record daemonRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return nil, fmt.Errorf("record of the run on %s: %w", h.Run.Host, err)
	}
	f, err := h.hostDaemon(ctx, p, record, log)
	if err != nil {
		return nil, err
	}
	f.run.Ending = true
	return f, nil
}

// daemonFile is the path of the record of the run's daemon.
func (h *OwnRun) daemonFile(p *wiring.Project) string {
	return filepath.Join(host.RunDir(p.StateDir, h.Run.ID), "host.json")
}

func (h *OwnRun) hostDaemon(
	ctx context.Context, p *wiring.Project, record daemonRecord, log *slog.Logger,
) (*hostDaemon, error) {
	by, run, err := wiring.NewEngine(ctx, p, h.DB, h.Run.Host, record.Engine)
	if err != nil {
		return nil, err
	}
	// It stays the same when the project is moved.
	if err := h.DB.SetMeta(ctx, wiring.NameOnHostsKey, run.Project); err != nil {
		return nil, err
	}
	run.Known = record.Served
	run.Incarnation = remote.Incarnation{
		RunID:  h.Run.ID,
		Number: record.Incarnation,
		Secret: record.Secret,
	}
	return &hostDaemon{
		engine:  by,
		run:     run,
		record:  record,
		path:    h.daemonFile(p),
		log:     log.With(slog.String("host", h.Run.Host)),
		mirrors: wiring.NewMirrors(p.StateDir, h.Run.ID),
	}, nil
}

// save writes the record.
func (f *hostDaemon) save() error {
	f.record.Incarnation = f.run.Incarnation.Number
	f.record.Served = f.run.Known
	return durable.WriteFile(f.path, append(text.JSON(f.record), '\n'), 0o600)
}

// forget deletes the record of a run that left nothing on its host, and the engine's files
// about it.
func (f *hostDaemon) forget(ctx context.Context, run reconcile.Run) {
	if run.Remote == reconcile.RemoteBegun {
		return
	}
	if f.run.Clear != nil {
		if err := f.run.Clear(context.WithoutCancel(ctx)); err != nil {
			f.log.Warn("the engine keeps the job", "error", err)
		}
	}
	if err := os.Remove(f.path); err != nil {
		f.log.Warn("record not deleted", "error", err)
	}
}

// reach starts the daemon, unless it serves, and connects to it. It is a runner.Reach: begun
// is false only if the first attempt showed that nothing happened on the host. After any other
// error it tries again, because only the host can say whether something happened.
func (f *hostDaemon) reach(
	ctx context.Context,
	waits func(why string),
) (far runner.Far, begun bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(reachPatience, cancel)
	defer patience.Stop()
	f.run.Waits = func(why string) {
		patience.Reset(reachPatience)
		waits(why)
	}
	deaths := 0
	for {
		far, err = f.try(ctx)
		if err == nil {
			return far, true, nil
		}
		hasDied := f.run.Ending && isDied(err)
		switch {
		case hasDied:
			deaths++
			f.run.Incarnation.Number++ // it ends the processes left by the killed daemon
			if err := f.save(); err != nil {
				return far, true, err
			}
		case remote.Ends(err):
			return far, true, err
		case !f.run.Ending && !begun && engine.NothingBegun(err):
			return far, false, err
		}
		begun = true
		if deaths == 1 && hasDied { // while the run was at work
			continue
		}
		f.log.Info("host not reached", "error", err)
		select {
		case <-ctx.Done():
			return far, true, reconcile.NewError("host_failed", err.Error(), "the next pass tries again").
				WithCause(err)
		case <-time.After(reachPause):
		}
	}
}

// isDied reports whether the daemon was killed.
func isDied(err error) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && known.Code == remote.CodeDied
}

// try starts the daemon and connects to it, once.
func (f *hostDaemon) try(ctx context.Context) (far runner.Far, err error) {
	if err := f.engine.Start(ctx); err != nil {
		return far, err
	}
	client, err := remote.Connect(ctx, f.engine.Dial, f.run.Incarnation)
	if err != nil {
		return far, err
	}
	if !f.run.Known {
		// This is stored before the first call: if the record does not say it, the run did not
		// begin.
		f.run.Known = true
		if err := f.save(); err != nil {
			client.Close()
			return far, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, accountBound)
	defer cancel()
	machine := remote.Machine{Client: client, Mirrors: f.mirrors}
	account, err := machine.ReadAccount(bounded)
	if err != nil {
		client.Close()
		return far, err
	}
	f.log.Info("host reached", "incarnation", f.run.Incarnation.Number)
	return runner.Far{Machine: machine, Account: account, Link: client}, nil
}
