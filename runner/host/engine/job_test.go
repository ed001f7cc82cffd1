package engine_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/engine/enginetest"
)

// looks is an engine whose looks at a job take time and fail, except those in answers.
type looks struct {
	takes   time.Duration
	answers map[int]engine.Job // by the number of the look, from 1

	count    int
	canceled bool
}

func (l *looks) Submit(context.Context, []string) error { return nil }

func (l *looks) Find(context.Context) (engine.Job, error) {
	time.Sleep(l.takes)
	l.count++
	j, answers := l.answers[l.count]
	if !answers {
		return j, errors.New("the controller does not answer")
	}
	return j, nil
}

func (l *looks) Connect(engine.Job, []string) (*exec.Cmd, error) {
	return nil, errors.New("not connected")
}

func (l *looks) Cancel(context.Context) error {
	l.canceled = true
	return nil
}

// A job that is out of reach for a minute is given up, whether the engine refuses at once or
// hangs: a look may take a minute itself.
func TestOutOfReach(t *testing.T) {
	pending := engine.Job{State: engine.JobPending, Why: "no place"}
	for _, c := range []struct {
		name string
		jobs looks
		want int // looks
	}{
		{"every look fails at once", looks{}, 31}, // every two seconds
		{"every look hangs for a minute", looks{takes: time.Minute}, 2},
		{"one look succeeds", looks{answers: map[int]engine.Job{30: pending}}, 61},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				job := enginetest.NewJob(t, dir, "r1", "slurm")
				job.Jobs = &c.jobs
				err := job.Start(t.Context())
				test.Equal(t, "verdict", enginetest.Verdict(err), "nothing begun")
				test.Contains(t, "error", err.Error(), "host_unusable: slurm: the controller does not answer")
				test.Equal(t, "looks", c.jobs.count, c.want)
				test.Equal(t, "the job is canceled", c.jobs.canceled, true)
			})
		})
	}
}
