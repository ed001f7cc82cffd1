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

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/host/ssh"
)

const (
	// reachPatience is how long a worker tries to reach a host on which something may have been begun.
	reachPatience = 3 * time.Minute
	reachPause    = 5 * time.Second
	accountBound  = time.Minute // for the first answer of a daemon
)

// farSide is the daemon of a run on another machine, as its worker here reaches it.
type farSide struct {
	link ssh.Link
	path string // of its record
	log  *slog.Logger
	// heir: this worker only ends the run. If the daemon was killed, it starts the next incarnation.
	heir bool
	// mirrors are those through which the run clones and delivers; nil for an heir, which does neither.
	mirrors host.Mirrors
}

// farRecord is what a worker stores of the daemon in the run's directory, for the one that may have to end the run.
type farRecord struct {
	Incarnation int64  `json:"incarnation"`
	Secret      string `json:"secret"` // by which the daemon knows its workers
	Served      bool   `json:"served"` // a worker was connected with the daemon
}

// farSide prepares to reach the host of the run.
func (h *Held) farSide(ctx context.Context, p *project.Project, lostAfter time.Duration, heir bool, log *slog.Logger) (*farSide, error) {
	link, err := project.NewLink(p, h.Run.Host)
	if err == nil {
		link.Project, err = h.nameOnHosts(ctx, link.Project)
	}
	if err == nil {
		link.Program, err = project.ProgramForHosts()
	}
	if err != nil {
		return nil, err
	}
	link.LostAfter, link.Of = lostAfter, remote.Incarnation{RunID: h.Run.ID, Number: 1, Secret: rand.Text()}
	f := &farSide{
		path: filepath.Join(host.RunDir(p.StateDir, h.Run.ID), "host.json"), log: log.With(slog.String("host", h.Run.Host)), heir: heir,
		link: link,
	}
	if !heir {
		return f, f.save()
	}
	var r farRecord
	data, err := os.ReadFile(f.path)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("record of the run on %s: %w", h.Run.Host, err)
	}
	f.link.Of.Number, f.link.Of.Secret, f.link.Known = r.Incarnation, r.Secret, r.Served
	return f, nil
}

// nameKey is the key under which the database has the name of the project on hosts. It stays the same when the project is moved.
const nameKey = "name_on_hosts"

// nameOnHosts returns the name of the project on hosts. The first worker stores it.
func (h *Held) nameOnHosts(ctx context.Context, name string) (string, error) {
	stored, found, err := h.DB.Meta(ctx, nameKey)
	if err != nil || found {
		return stored, err
	}
	return name, h.DB.SetMeta(ctx, nameKey, name)
}

func (f *farSide) save() error {
	data, err := json.Marshal(farRecord{f.link.Of.Number, f.link.Of.Secret, f.link.Known})
	if err != nil {
		return err
	}
	return durable.WriteFile(f.path, append(data, '\n'), 0o600)
}

// forget deletes the record of a run that nothing is left of on its host.
func (f *farSide) forget(run reconcile.Run) {
	if run.Remote == reconcile.RemoteBegun {
		return
	}
	if err := os.Remove(f.path); err != nil {
		f.log.Warn("record not deleted", "error", err)
	}
}

// reach starts the daemon, unless it serves, and connects to it. It is a runner.Reach: begun is false only if the first attempt has shown
// that nothing has happened on the host. After any other error it tries again, because only the host can say whether something has.
func (f *farSide) reach(ctx context.Context) (far runner.Far, begun bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	for {
		far, err = f.try(ctx)
		var known *reconcile.Error
		switch errors.As(err, &known); {
		case err == nil:
			return far, true, nil
		case f.heir && known != nil && known.Code == remote.CodeDied:
			f.link.Of.Number++ // it ends what the killed one has left
			if err := f.save(); err != nil {
				return far, true, err
			}
			continue
		case remote.Ends(err):
			return far, true, err
		case !f.heir && !begun && ssh.NothingBegun(err):
			return far, false, err
		}
		begun = true
		f.log.Info("host not reached", "error", err)
		select {
		case <-ctx.Done():
			return far, true, &reconcile.Error{
				Code: "host_failed", Message: f.link.Host.Name + ": " + err.Error(), Hint: "the next pass tries again", Err: err,
			}
		case <-time.After(reachPause):
		}
	}
}

// try does so once.
func (f *farSide) try(ctx context.Context) (far runner.Far, err error) {
	if err := f.link.Start(ctx); err != nil {
		return far, err
	}
	client, err := remote.Connect(ctx, f.link.Dial, f.link.Of)
	if err != nil {
		return far, err
	}
	if !f.link.Known {
		f.link.Known = true
		if err := f.save(); err != nil {
			client.Close()
			return far, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, accountBound)
	defer cancel()
	machine := remote.Machine{Client: client, Mirrors: f.mirrors}
	facts, err := machine.Facts(bounded, host.FactsRequest{Account: true})
	if err != nil {
		client.Close()
		return far, err
	}
	f.log.Info("host reached", "incarnation", f.link.Of.Number)
	return runner.Far{Machine: machine, Account: facts.Account, Link: client}, nil
}
