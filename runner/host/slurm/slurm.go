// Package slurm starts the daemons of runs as jobs of a Slurm cluster and reaches them. All
// nodes and this machine share the home directory of the account.
package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/engine"
)

// Jobs are the jobs of a cluster. It is an engine.Jobs.
type Jobs struct {
	*engine.Run
	Args []string // options of sbatch
	// Home is the home directory, and Hosted the directory in it with the projects whose runs
	// are served.
	Home, Hosted string
}

var _ engine.Jobs = Jobs{}

// Submit submits the job. The shell that Slurm starts becomes the daemon, so that the job ends
// with it. Slurm tells it half a minute before the job's time is up.
func (l Jobs) Submit(ctx context.Context, words []string) error {
	unusable := func(what string, err error) error {
		return reconcile.NewError(engine.CodeUnusable, what+err.Error(), "correct that, then symphony resume")
	}
	program, err := l.Program.Copy(l.Home)
	if err != nil {
		return unusable("symphony can't be copied: ", err)
	}
	if err := os.MkdirAll(filepath.Dir(l.log()), 0o700); err != nil {
		return unusable("the log of the job can't be made: ", err)
	}
	script := "#!/bin/sh\n" +
		"exec >> " + text.ShellWord(l.log()) + " 2>&1\n" +
		"exec " + shellCommand(program, words) + "\n"
	args := append(
		slices.Clone(l.Args),
		"--parsable",
		"--no-requeue",
		"--job-name="+l.JobName(),
		"--signal=B:TERM@30",
		"--output=/dev/null",
		"--error=/dev/null",
		"--chdir=/",
	)
	_, err = Command(ctx, l.Env, script, "sbatch", args...)
	return err
}

func (l Jobs) log() string {
	return filepath.Join(host.RunDir(filepath.Join(l.Hosted, l.Project), l.Incarnation.RunID), "daemon.log")
}

// Connect returns a step of the job, on its first node, where the daemon is.
func (l Jobs) Connect(j engine.Job, words []string) (*exec.Cmd, error) {
	program, err := l.Program.Copy(l.Home)
	if err != nil {
		return nil, fmt.Errorf("copy symphony for the nodes: %w", err)
	}
	// Without the job's id srun would ask for a job of its own.
	return engine.Command(
		l.Env,
		passed,
		"srun",
		"--jobid="+j.ID,
		"--overlap",
		"--nodes=1",
		"--ntasks=1",
		"--relative=0",
		"--unbuffered",
		"--input=0",
		"--quiet",
		"--chdir=/",
		"sh",
		"-c",
		"exec "+shellCommand(program, words),
	)
}

func shellCommand(program string, words []string) string {
	return strings.Join(text.Map(append([]string{program}, words...), text.ShellWord), " ")
}

// Cancel cancels the job of the run, if it exists.
func (l Jobs) Cancel(ctx context.Context) error {
	_, err := Command(ctx, l.Env, "", "scancel", "--me", "--name="+l.JobName())
	return err
}

// queueAge is how old an answer of squeue may be.
const queueAge = 2 * time.Second

// queueAnswer is the output of squeue, or why it failed.
type queueAnswer struct {
	At  time.Time        `json:"at"`
	Out string           `json:"out"`
	Err *reconcile.Error `json:"err"`
}

// queue returns the output of squeue for all jobs of the account. The workers of a project
// share its answers by a file, so that many waiting workers do not burden Slurm. Without the
// file each asks for itself.
func (l Jobs) queue(ctx context.Context) (string, error) {
	path := filepath.Join(l.Hosted, l.Project, "squeue")
	held, err := lock.Take(ctx, path+".lock", lock.Exclusive, 24*time.Hour) // or until ctx ends
	if err == nil {                                                         // without the lock it asks once more
		defer func() { _ = lock.Release(held) }()
	}
	shared, isFresh := readAnswer(path)
	if isFresh {
		return shared.result()
	}
	answer, err := l.askQueue(ctx)
	if err != nil {
		return "", err
	}
	_ = durable.WriteFile(path, text.JSON(answer), 0o600) // only the others lack it
	return answer.result()
}

// readAnswer reads an answer of squeue that a worker shares, unless it is too old.
func readAnswer(path string) (answer queueAnswer, isFresh bool) {
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &answer) != nil {
		return queueAnswer{}, false
	}
	age := time.Since(answer.At)
	return answer, age >= 0 && age < queueAge
}

// askQueue asks squeue. What it complains of is an answer, too.
func (l Jobs) askQueue(ctx context.Context) (queueAnswer, error) {
	args := []string{"--me", "--states=all", "--noheader", "--format=%j|%i|%T|%r|%B"}
	out, err := Command(ctx, l.Env, "", "squeue", args...)
	answer := queueAnswer{At: time.Now(), Out: out}
	known, isKnown := errors.AsType[*reconcile.Error](err)
	if isKnown {
		answer.Err = known
		return answer, nil
	}
	return answer, err
}

func (a queueAnswer) result() (string, error) {
	if a.Err != nil {
		return "", a.Err
	}
	return a.Out, nil
}

// Find looks for the job by its name.
func (l Jobs) Find(ctx context.Context) (engine.Job, error) {
	out, err := l.queue(ctx)
	if err != nil {
		return engine.Job{State: engine.JobUnknown}, err
	}
	j := jobIn(out, l.JobName())
	found := engine.Job{ID: j.id, Why: j.why()}
	switch {
	case j.state == "":
		found.State = engine.JobUnknown
	case !j.waits() && !j.over():
		found.State = engine.JobRunning
	case j.waits() && l.Known:
		found.State = engine.JobEnded
		found.Why = "an administrator has put it into the queue again"
		return found, l.Cancel(ctx)
	case !l.Known && j.neverStarts():
		found.State = engine.JobNever
	case j.waits():
		found.State = engine.JobPending
	case !l.Known && j.state == "FAILED":
		found.State = engine.JobEnded
		found.Why = "symphony can't start on " + j.node + ": see " + l.log()
	default:
		found.State = engine.JobEnded
		found.Why = j.state + " (" + j.reason + ")"
		found.Canceled = j.state != "FAILED"
	}
	return found, nil
}

// jobIn returns the job with a name from the output of squeue. Of several jobs it returns a
// running job.
func jobIn(queue, name string) (j job) {
	for line := range strings.Lines(queue) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) != 5 || f[0] != name {
			continue
		}
		next := job{f[1], text.Visible(f[2]), text.Visible(f[3]), text.Visible(f[4])}
		if j.id == "" || j.over() || j.waits() && !next.waits() && !next.over() {
			j = next
		}
	}
	return j
}

// job is Slurm's answer about the job of a run: empty if it knows none.
type job struct{ id, state, reason, node string }

// waits reports whether the job did not begin.
func (j job) waits() bool {
	return slices.Contains([]string{
		"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT",
		"RESV_DEL_HOLD",
	}, j.state)
}

// over reports whether no process of the job is left, or there is no job. While it completes,
// there may be some.
func (j job) over() bool {
	return slices.Contains([]string{
		"", "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
		"PREEMPTED", "REVOKED", "TIMEOUT",
	}, j.state)
}

// neverStarts reports whether waiting is in vain: the request exceeds the partition, the
// account or all nodes.
func (j job) neverStarts() bool {
	return strings.Contains(j.reason, "PerJob") || slices.Contains([]string{
		"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints",
		"AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS", "DependencyNeverSatisfied",
	}, j.reason)
}

// why is the reason of the job's state, or else the state.
func (j job) why() string {
	if j.reason == "" || j.reason == "None" {
		return j.state
	}
	return j.reason
}

// passed are the variables that a command of Slurm gets. It gives all of its variables to the
// job.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF"}

// Command runs a command of Slurm in an environment and returns its output.
func Command(ctx context.Context, env []string, stdin, name string, args ...string) (string, error) {
	cmd, err := engine.Command(env, passed, name, args...)
	if err != nil {
		return "", err
	}
	out, err := engine.Output(ctx, cmd, stdin)
	known, ok := errors.AsType[*reconcile.Error](err)
	if ok &&
		(strings.Contains(known.Message, "nable to contact") || strings.Contains(known.Message, "timed out")) {
		known.Code = engine.CodeUnreachable
	}
	return out, engine.Explain(err, "slurm: ", "correct what Slurm names; then symphony resume")
}
