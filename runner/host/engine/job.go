package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/daemon"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Jobs is an engine that starts the daemon of a run as a job. The run starts at most a single
// job, whose name is made from the run's, so that it is found although the answer to its
// submission was lost. The words are arguments of symphony.
type Jobs interface {
	// Submit submits a job that runs symphony, and does not wait for it.
	Submit(ctx context.Context, words []string) error
	// Find returns the engine's report about the job. An error and JobUnknown prove nothing.
	Find(ctx context.Context) (Job, error)
	// Connect returns a program that is connected, by its stdin and stdout, with a symphony
	// where the job runs.
	Connect(j Job, words []string) (*exec.Cmd, error)
	// Cancel cancels the job, if it exists.
	Cancel(ctx context.Context) error
}

// Job is an engine's report about a job.
type Job struct {
	ID       string // if the engine uses ids beside names
	State    JobState
	Why      string // it waits, can't start or ended
	Canceled bool   // it ended because of an order
}

// JobState is the state of a job.
type JobState string

// The states of jobs.
const (
	JobUnknown JobState = "unknown"
	JobPending JobState = "pending"
	JobNever   JobState = "never" // it waits in vain
	JobRunning JobState = "running"
	JobEnded   JobState = "ended" // none of its processes is left
)

// JobEngine reaches the job of a run, which is the daemon. The daemon waits for the run's
// secret, and then obeys the worker. The secret is sent when the job runs, and never again
// after a worker was connected: the daemon of a job that starts again gets none and stays
// idle.
type JobEngine struct {
	*Run
	Jobs
	Host string // the engine as a host
	// Hosted is the directory in which the daemon may leave how the run ended, if it shares
	// the home directory.
	Hosted    string
	submitted bool
}

var _ Engine = (*JobEngine)(nil)

const (
	minPause   = 2 * time.Second // between two looks at a job that waits
	maxPause   = 30 * time.Second
	jobTrouble = time.Minute // how long a job that was submitted may be out of reach
)

// Start submits the job and waits until it runs and its daemon holds the secret. Before that
// nothing can have begun: after any error the job is canceled.
func (e *JobEngine) Start(ctx context.Context) error {
	if e.Known { // Dial finds the job
		return nil
	}
	if e.Ending {
		return e.withdraw(ctx, endedError("its job was canceled before it began"))
	}
	err := e.submitOnce(ctx)
	if err != nil {
		return e.withdraw(ctx, err)
	}
	err = e.await(ctx)
	if err != nil {
		return e.withdraw(ctx, err)
	}
	return nil
}

// submitOnce submits the job, unless an earlier call did. An error does not make it submit
// again, because the job may exist.
func (e *JobEngine) submitOnce(ctx context.Context) error {
	if e.submitted {
		return nil
	}
	e.submitted = true
	return e.Submit(ctx, e.words("serve", "--job", "--lost-after", e.LostAfter.String()))
}

// await looks at the job until it runs and its daemon holds the secret. It gives up when the
// job will never begin, or was out of reach for a minute.
func (e *JobEngine) await(ctx context.Context) error {
	var failsSince time.Time // zero while the job can be reached
	pause := minPause
	for {
		j, err := e.begin(ctx)
		if ctx.Err() != nil {
			why := e.Host + ": the job was canceled before it began"
			return reconcile.NewError(CodeWithdrawn, why, "")
		}
		if err == nil && j.State == JobRunning {
			return nil
		}
		if end := e.endOf(j); end != nil {
			return end
		}
		if err == nil {
			failsSince = time.Time{}
			e.Waits(j.Why)
		} else {
			if failsSince.IsZero() {
				failsSince = time.Now()
			}
			if time.Since(failsSince) >= jobTrouble {
				return e.unusable(e.messageOf(err))
			}
			pause = minPause
			e.Waits(e.messageOf(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// endOf returns why a job that did not begin the run never will; nil if it may.
func (e *JobEngine) endOf(j Job) error {
	switch {
	case j.State == JobNever:
		why := e.Host + " can't ever start the job: " + j.Why
		return reconcile.NewError(reconcile.HoldNeverStarts, why, "correct worker.engine")
	case j.State == JobEnded && j.Canceled:
		return endedError("its job was canceled before it began")
	case j.State == JobEnded:
		return e.unusable("the job has ended before symphony served the run: " + j.Why)
	}
	return nil
}

// begin sends the secret to the daemon, if the job runs.
func (e *JobEngine) begin(ctx context.Context) (Job, error) {
	if ctx.Err() != nil {
		return Job{}, context.Cause(ctx)
	}
	j, err := e.Find(ctx)
	if err != nil {
		return j, err
	}
	if j.State == JobUnknown {
		return j, errors.New(e.unknown(j))
	}
	if j.State != JobRunning {
		return j, nil
	}
	cmd, err := e.Connect(j, e.words("connect", "--begin"))
	if err != nil {
		return j, err
	}
	_, err = Output(ctx, cmd, e.Incarnation.Secret+"\n")
	return j, Explain(err, "connect to the job: ", "")
}

// messageOf returns the message of an error without its code and without the host.
func (e *JobEngine) messageOf(err error) string {
	message := err.Error()
	if known, ok := errors.AsType[*reconcile.Error](err); ok {
		message = known.Message
	}
	return strings.TrimPrefix(message, e.Host+": ")
}

// Dial opens a stream to the daemon. It is a remote.Dial. Its errors never carry a code that
// says that nothing began.
func (e *JobEngine) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	j, err := e.Find(ctx)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	if j.State == JobRunning && e.Incarnation.Number > 1 {
		// the daemon was killed, but the job is not the daemon alone
		return nil, errors.Join(errors.New("the job of the run is being canceled"), e.Cancel(ctx))
	}
	if j.State == JobRunning {
		cmd, err := e.Connect(j, e.words("connect", "--hello"))
		if err != nil {
			return nil, errors.New(err.Error())
		}
		return Open(e.Host, cmd)
	}
	outcome, err := daemon.EndOf(filepath.Join(e.Hosted, e.Project), e.Incarnation.RunID)
	if outcome != nil {
		return nil, outcome
	}
	if j.State == JobEnded {
		return nil, endedError(e.Host + " has ended the job of the run: " + j.Why)
	}
	return nil, errors.Join(errors.New(e.unknown(j)), err)
}

// unknown describes the state of a job that must run.
func (e *JobEngine) unknown(j Job) string {
	return fmt.Sprintf("%s: the state of the job %s is %s %s", e.Host, e.JobName(), j.State, j.Why)
}

// words returns the arguments of symphony for a subcommand of symphony host.
func (e *JobEngine) words(words ...string) []string {
	return append(
		append([]string{"host"}, words...),
		"--project",
		e.Project,
		"--run",
		e.Incarnation.RunID,
		"--incarnation",
		strconv.FormatInt(e.Incarnation.Number, 10),
	)
}

// withdraw cancels a job that did not begin the run. If that fails, the job does nothing
// without the secret.
func (e *JobEngine) withdraw(ctx context.Context, why error) error {
	return errors.Join(why, e.Cancel(context.WithoutCancel(ctx)))
}

func (e *JobEngine) unusable(why string) error {
	return reconcile.NewError(CodeUnusable, e.Host+": "+why, "correct that, then symphony resume")
}

func endedError(why string) error {
	return reconcile.NewError(remote.CodeEnded, why, "")
}
