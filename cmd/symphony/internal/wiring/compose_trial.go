package wiring

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/state"
)

const (
	trialBound = 40 * time.Second // for a job of TryEngine, with its wait for a place
	stopBound  = 10 * time.Second // for the engine to cancel the job, and to say that it ended
	stopPause  = 500 * time.Millisecond
)

// TryEngine starts a job of the project's engine, connects to it, makes and removes a
// workspace below worker.root there, and ends the job again. Its error names the step that
// failed. It returns the root as the job sees it.
func TryEngine(ctx context.Context, p *Project, hostName string) (root string, err error) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return "", err
	}
	var db *state.DB
	if p.HasState() {
		db, err = state.OpenReadOnly(ctx, p.StateDir)
		if err != nil {
			return "", err
		}
		defer db.Close()
	}
	by, run, err := NewEngine(ctx, p, db, hostName, cfg.Worker)
	if err != nil {
		return "", err
	}
	jobs, isJob := by.(*engine.JobEngine)
	if !isJob {
		return "", fmt.Errorf("%s starts no jobs", hostName)
	}
	waits := "nothing has answered"
	run.Waits = func(why string) { waits = why }
	makeVisit(run, p.Env.Now())
	bounded, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	if err := by.Start(bounded); err != nil {
		if bounded.Err() != nil {
			err = reconcile.NewError(
				engine.CodeUnusable,
				hostName+": the trial job still waits: "+waits,
				"try it when the engine has a place",
			)
		}
		return "", err
	}
	root, tryErr := tryJob(bounded, by, run, cfg)
	cancelErr := cancelTrial(ctx, jobs)
	if err := errors.Join(tryErr, cancelErr); err != nil {
		return root, err
	}
	return root, checkStopped(ctx, jobs)
}

// cancelTrial cancels the trial job, also after a signal or a time limit has ended ctx.
func cancelTrial(ctx context.Context, jobs engine.Jobs) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	return jobs.Cancel(bounded)
}

// tryJob uses the job as a run does.
func tryJob(
	ctx context.Context,
	by engine.Engine,
	run *engine.Run,
	cfg *workflow.Config,
) (root string, err error) {
	client, err := remote.Connect(ctx, by.Dial, run.Incarnation)
	if err != nil {
		return "", fmt.Errorf("connect to the trial job: %w", err)
	}
	defer client.Close()
	machine := remote.Machine{Client: client}
	account, err := machine.ReadAccount(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the trial job: %w", err)
	}
	root = cfg.Policy.RemoteRoot
	if rest, found := strings.CutPrefix(root, "~/"); found {
		root = filepath.Join(account.Home, rest)
	}
	id := run.Incarnation.RunID
	trial := machine.Run(id)
	_, err = trial.Prepare(ctx, host.PrepareRequest{
		Root: root,
		Issue: host.Issue{
			ID:         id,
			Identifier: "doctor-" + id,
			Project:    "doctor",
			StateDir:   account.StateDir,
		},
	})
	if err != nil {
		return root, errors.Join(fmt.Errorf("make a workspace in %s: %w", root, err), trial.Finish(ctx))
	}
	err = errors.Join(trial.Discard(ctx), trial.Finish(ctx))
	return root, errors.Join(err, client.Release(ctx))
}

// checkStopped waits until the engine says that the job ended, or no longer knows it.
func checkStopped(ctx context.Context, jobs engine.Jobs) error {
	for end := time.Now().Add(stopBound); ; {
		job, err := jobs.Find(ctx)
		if err != nil {
			return err
		}
		if job.State == engine.JobEnded || job.State == engine.JobUnknown {
			return nil
		}
		if time.Now().After(end) {
			message := fmt.Sprintf("after worker.engine.stop the trial job is still %s", job.State)
			return reconcile.NewError(
				engine.CodeUnusable,
				message,
				"correct worker.engine.stop or worker.engine.status",
			)
		}
		if !Sleep(ctx, stopPause) {
			return ctx.Err()
		}
	}
}
