// Package slurm starts the daemons of runs as jobs of a Slurm cluster and reaches them. All nodes and this machine share the home
// directory of the account.
package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/daemon"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Link reaches the job of a run, which is the daemon. A run has at most one, whose name is made from the run's. To begin, the daemon
// takes the run's secret from a file, which there is only once: a job that is submitted again, or starts again, does nothing.
type Link struct {
	*engine.Run
	Args []string // options of sbatch
	// Home is the home directory, and Hosted the directory in it with the projects whose runs are served.
	Home, Hosted string
	submitted    bool
}

var _ engine.Engine = (*Link)(nil)

const (
	commandBound = time.Minute     // for a command of Slurm, which itself waits for a busy controller
	minPause     = 2 * time.Second // between two looks at the queue
	maxPause     = 30 * time.Second
)

// Start submits the job and waits until it runs. If ctx ends meanwhile, the job is canceled.
func (l *Link) Start(ctx context.Context) error {
	if !l.submitted && !l.Ending {
		l.submitted = true // whatever comes of it: never twice
		if err := l.submit(ctx); err != nil {
			return err
		}
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		j, err := l.find(ctx)
		switch {
		case ctx.Err() != nil:
			return l.withdraw(ctx, j)
		case err != nil:
			return err
		case j.over():
			return l.end(j)
		case !j.waits():
			return nil
		case j.neverStarts(), l.Ending:
			return l.withdraw(ctx, j)
		}
		l.Waits(j.why())
		select {
		case <-ctx.Done():
			return l.withdraw(ctx, j)
		case <-time.After(pause):
		}
	}
}

// submit submits the job. The shell that Slurm starts becomes the daemon, so that the job ends with it. Slurm tells it half a minute
// before the job's time is up.
func (l *Link) submit(ctx context.Context) error {
	program, err := l.copyProgram()
	if err != nil {
		return unusable("symphony can't be copied: " + err.Error())
	}
	if err := daemon.PutSecret(l.stateDir(), l.Of.RunID, l.Of.Secret); err != nil {
		return unusable(err.Error())
	}
	script := "#!/bin/sh\nexec >> " + text.ShellWord(filepath.Join(daemon.Dir(l.stateDir(), l.Of.RunID), "daemon.log")) + " 2>&1\n" +
		l.hostCommand(program, "serve", "--job", "--lost-after", l.LostAfter.String()) + "\n"
	args := append(slices.Clone(l.Args), "--parsable", "--no-requeue", "--job-name="+l.name(), "--signal=B:TERM@30",
		"--output=/dev/null", "--error=/dev/null", "--chdir=/")
	_, err = Command(ctx, l.Env, strings.NewReader(script), "sbatch", args...)
	if err == nil {
		return nil
	}
	never, takeErr := daemon.TakeBack(l.stateDir(), l.Of.RunID)
	if !never { // its answer was lost, and the job has begun
		return takeErr
	}
	return errors.Join(err, l.cancel(context.WithoutCancel(ctx))) // the job may be in the queue, but it can't begin any more
}

// copyProgram makes sure that the nodes have the program, and returns its path.
func (l *Link) copyProgram() (path string, err error) {
	path = filepath.Join(l.Home, ".cache", "symphony", "programs", l.Program.Sum, "symphony")
	if info, err := os.Stat(path); err == nil && info.Size() == l.Program.Size {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	data, err := os.ReadFile(l.Program.Path)
	if err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, data, 0o700)
}

// Dial opens a stream to the daemon, by a step of its job. It is a remote.Dial.
func (l *Link) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	j, err := l.find(ctx)
	switch {
	case err != nil:
		return nil, err
	case j.over():
		return nil, l.end(j)
	case j.waits(): // it ran before
		return nil, errors.Join(ended("an administrator has put the job of the run into the queue again"), l.cancel(ctx))
	}
	program, err := l.copyProgram()
	if err != nil {
		return nil, err
	}
	// The daemon is on the first node of the job. Without the job's id srun would ask for a job of its own.
	cmd, err := engine.Command(l.Env, passed, "srun", "--jobid="+j.id, "--overlap", "--nodes=1", "--ntasks=1", "--relative=0", "--unbuffered",
		"--input=0", "--quiet", "--chdir=/", "sh", "-c", "echo "+engine.Hello+"; "+l.hostCommand(program, "connect"))
	if err != nil {
		return nil, err
	}
	return engine.Open(reconcile.SlurmHost, cmd)
}

// hostCommand returns the shell command that becomes a subcommand of symphony host.
func (l *Link) hostCommand(program string, words ...string) string {
	words = slices.Concat([]string{program, "host"}, words, []string{
		"--project", l.Project, "--run", l.Of.RunID, "--incarnation", strconv.FormatInt(l.Of.Number, 10),
	})
	return "exec " + strings.Join(text.Map(words, text.ShellWord), " ")
}

// stateDir is where the daemon has the directories of the project's runs.
func (l *Link) stateDir() string { return filepath.Join(l.Hosted, l.Project) }

// name is the name of the job. No other run has it.
func (l *Link) name() string { return "symphony-" + l.Project + "-" + l.Of.RunID }

// withdraw cancels a job that waits, or because of which the worker can't wait any longer.
func (l *Link) withdraw(ctx context.Context, j job) error {
	ctx = context.WithoutCancel(ctx)
	never, err := daemon.TakeBack(l.stateDir(), l.Of.RunID)
	cancelErr := l.cancel(ctx) // a job without its secret does nothing
	switch {
	case !never:
		return errors.Join(errors.New("the job of the run has begun meanwhile"), err, cancelErr)
	case l.Ending:
		return ended("its job was canceled before it began")
	case j.neverStarts():
		return neverStarts(j)
	}
	return reconcile.NewError(engine.CodeWithdrawn, reconcile.SlurmHost+": the job was canceled before it began", "")
}

// end is the error for a job that has ended, or that Slurm does not know any more. What the daemon has written counts first.
func (l *Link) end(j job) error {
	never, err := daemon.TakeBack(l.stateDir(), l.Of.RunID)
	if err != nil {
		return err
	}
	outcome, err := daemon.EndOf(l.stateDir(), l.Of.RunID)
	switch {
	case outcome != nil:
		return outcome
	case never && (l.Ending || j.state == ""):
		return ended("its job has never begun")
	case never && j.neverStarts():
		return neverStarts(j)
	case never && j.state == "FAILED":
		log := filepath.Join(daemon.Dir(l.stateDir(), l.Of.RunID), "daemon.log")
		return unusable("symphony can't start on " + j.node + ": see " + log)
	case j.state == "":
		return errors.Join(fmt.Errorf("slurm does not know the job %s any more, which has written no outcome", l.name()), err)
	}
	return ended("Slurm has ended the job of the run: " + j.state + " (" + j.reason + ")")
}

func ended(why string) error {
	return reconcile.NewError(remote.CodeEnded, why, "the next pass starts the issue again")
}

func neverStarts(j job) error {
	return reconcile.NewError(reconcile.HoldNeverStarts, "Slurm can't ever start the job: "+j.reason, "correct worker.engine.args")
}

func unusable(why string) error {
	return reconcile.NewError(engine.CodeUnusable, reconcile.SlurmHost+": "+why, "correct that, then symphony unblock")
}

// job is what Slurm says about the job of a run: nothing if it does not know one.
type job struct{ id, state, reason, node string }

// find asks for the job by its name, which also finds one whose id was never heard of.
func (l *Link) find(ctx context.Context) (j job, err error) {
	out, err := l.command(ctx, "squeue", "--me", "--name="+l.name(), "--states=all", "--noheader", "--format=%i|%T|%r|%B")
	for line := range strings.Lines(out) {
		if f := strings.SplitN(strings.TrimSpace(line), "|", 4); len(f) == 4 && (j.id == "" || j.over()) {
			j = job{f[0], text.Visible(f[1]), text.Visible(f[2]), text.Visible(f[3])}
		}
	}
	return j, err
}

// waits reports whether the job has not begun.
func (j job) waits() bool {
	return slices.Contains([]string{
		"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
	}, j.state)
}

// over reports whether no process of the job is left, or there is no job. While it completes, there may be some.
func (j job) over() bool {
	return slices.Contains([]string{
		"", "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT",
	}, j.state)
}

// neverStarts reports whether waiting is in vain: the request exceeds the partition, the account or all nodes.
func (j job) neverStarts() bool {
	return strings.Contains(j.reason, "PerJob") || slices.Contains([]string{
		"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "AccountNotAllowed", "QOSNotAllowed",
		"InvalidAccount", "InvalidQOS", "DependencyNeverSatisfied",
	}, j.reason)
}

// why is the reason of the job's state, or else the state.
func (j job) why() string {
	if j.reason == "" || j.reason == "None" {
		return j.state
	}
	return j.reason
}

// cancel cancels the job of the run, if there is one.
func (l *Link) cancel(ctx context.Context) error {
	_, err := l.command(ctx, "scancel", "--me", "--name="+l.name())
	return err
}

// command runs a command about the job. Its error has no code, which would mean that nothing has begun.
func (l *Link) command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := Command(ctx, l.Env, nil, name, args...)
	if err != nil {
		err = errors.New(err.Error())
	}
	return out, err
}

// passed are the variables that a command of Slurm gets. It gives all of its variables to the job.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SLURM_CONF"}

// Command runs a command of Slurm in an environment and returns what it prints.
func Command(ctx context.Context, env []string, stdin io.Reader, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandBound)
	defer cancel()
	cmd, err := engine.Command(env, passed, name, args...)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	var said engine.Tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdin, &out, &said, time.Second
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	var exited *exec.ExitError
	if err = cmd.Wait(); err == nil || !errors.As(err, &exited) {
		return out.String(), err
	}
	message := reconcile.SlurmHost + ": " + said.Message()
	code := engine.CodeUnusable
	if ctx.Err() != nil || strings.Contains(message, "nable to contact") || strings.Contains(message, "timed out") {
		code = engine.CodeUnreachable
	}
	return "", reconcile.NewError(code, message, "correct what Slurm names; then symphony unblock")
}
