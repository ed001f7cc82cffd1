package slurm

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/engine/enginetest"
)

// scene is a run whose commands of Slurm are scripts. Each writes its name to the file calls.
type scene struct {
	*engine.JobEngine
	dir string
}

func newScene(t *testing.T, scripts map[string]string) scene {
	t.Helper()
	s := scene{dir: t.TempDir()}
	for name, script := range scripts {
		text := "#!/bin/sh\necho " + name + " >> " + s.dir + "/calls\ncd " + s.dir + "\n" + script + "\n"
		test.OK(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700))
	}
	s.JobEngine = enginetest.NewJob(t, s.dir, "r1", "slurm", "PATH="+s.dir+":"+os.Getenv("PATH"))
	s.Jobs = Jobs{Run: s.Run, Home: s.dir, Hosted: s.Hosted}
	return s
}

func (s scene) calls(t *testing.T) string {
	t.Helper()
	return string(test.Must(os.ReadFile(filepath.Join(s.dir, "calls"))))
}

// says is a squeue that prints lines about the job of the scene, beside another one.
func says(lines string) string {
	return "sed s/^/symphony-shop-r1'|'/ <<'E'\n" + lines + "\nE\necho 'symphony-shop-r2|6|FAILED|None|n1'"
}

func TestStart(t *testing.T) {
	running := says("7|RUNNING|None|n1")
	for _, c := range []struct {
		name, sbatch, squeue string
		known, ending        bool
		want, code           string
	}{
		{"it runs", "", running, false, false, "runs", ""},
		{
			"two, of which one runs",
			"",
			says("7|COMPLETED|None|n1\n8|RUNNING|None|n2\n9|FAILED|None|n2"),
			false,
			false,
			"runs",
			"",
		},
		{
			"refused",
			"echo 'sbatch: error: Invalid partition name specified' >&2; exit 1",
			"",
			false,
			false,
			"nothing begun",
			"host_unusable",
		},
		{
			"no controller",
			"echo 'sbatch: error: Unable to contact slurm controller' >&2; exit 1",
			"",
			false,
			false,
			"nothing begun",
			"host_unreachable",
		},
		{
			"a lost answer",
			"echo 'Socket timed out on send/recv operation' >&2; exit 1",
			running,
			false,
			false,
			"nothing begun",
			"host_unreachable",
		},
		{"never", "", says("7|PENDING|PartitionConfig|"), false, false, "nothing begun", "never_starts"},
		{
			"never, for an account",
			"",
			says("7|PENDING|QOSMaxCpuPerJobLimit|"),
			false,
			false,
			"nothing begun",
			"never_starts",
		},
		{"refused in the queue", "", says("7|FAILED|BadConstraints|"), false, false, "nothing begun", "never_starts"},
		{
			"the program can't run there",
			"",
			says("7|FAILED|NonZeroExitCode|n1"),
			false,
			false,
			"nothing begun",
			"host_unusable",
		},
		{"canceled in the queue", "", says("7|CANCELLED|None|"), false, false, "ended", "host_ended"},
		{"a dead worker's job has not begun", "", running, false, true, "ended", "host_ended"},
		{"it completes", "", says("7|COMPLETING|None|n1"), true, true, "runs", ""},
		{"its node has died", "", says("7|NODE_FAIL|None|n1"), true, true, "ended", "host_ended"},
		{"it is in the queue again", "", says("7|PENDING|BeginTime|"), true, false, "ended", "host_ended"},
		{"forgotten", "", "", true, true, "not known", ""},
		{
			"forgotten, but its daemon has written",
			`echo '{"incarnation":1,"end":"lost"}' > hosted/shop/runs/r1/outcome.json`,
			"",
			true,
			false,
			"ended",
			"host_ended",
		},
		{"the queue does not answer", "", "exit 1", true, false, "not known", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{
				"sbatch": "cat > script; env > env\n" + c.sbatch, "squeue": c.squeue, "scancel": "",
				"srun": "case $* in *--begin*) env >> env; head -n 1 > given;; esac",
			})
			var err error
			if c.known { // after a start that is not looked at
				test.OK(t, s.Submit(t.Context(), nil))
			}
			s.Known = c.known
			s.Ending = c.ending
			if err = s.Start(t.Context()); err == nil {
				var stream io.ReadWriteCloser
				stream, err = s.Dial(t.Context())
				if err == nil {
					test.OK(t, stream.Close())
				}
			}
			test.Equal(t, "verdict", enginetest.Verdict(err), c.want)
			if c.code != "" {
				test.Contains(t, "error", fmt.Sprint(err), c.code+": ")
			}
			if c.want != "runs" && !c.known {
				test.Contains(t, "calls", s.calls(t), "scancel")
			}
			if c.want == "runs" && !c.known {
				test.Equal(
					t,
					"what the daemon gets",
					string(test.Must(os.ReadFile(filepath.Join(s.dir, "given")))),
					"the secret\n",
				)
			}
			if !c.ending {
				told := string(test.Must(os.ReadFile(filepath.Join(s.dir, "script")))) + string(test.Must(os.ReadFile(filepath.Join(s.dir, "env"))))
				test.Lacks(t, "what the job is told", told, "the secret", "LINEAR")
			}
		})
	}
}

// TestOneQueue asks about many jobs at once, also while Slurm does not answer.
func TestOneQueue(t *testing.T) {
	for _, squeue := range []string{
		"sleep 0.2\n" + says("7|RUNNING|None|n1"),
		"sleep 0.2; echo 'Unable to contact slurm controller' >&2; exit 1",
	} {
		s := newScene(t, map[string]string{"sbatch": "cat > script", "squeue": squeue})
		test.OK(t, s.Submit(t.Context(), nil))
		want := squeueState(s.Find(t.Context()))
		var workers sync.WaitGroup
		for range 20 {
			workers.Go(func() { test.Equal(t, "state", squeueState(s.Find(t.Context())), want) })
		}
		workers.Wait()
		test.Equal(t, "fewer calls than workers", strings.Count(s.calls(t), "squeue") < 20, true)
	}
}

// TestOldQueue looks for a job after an answer whose time is ahead, because the clock was set
// back, and where no answer can be stored.
func TestOldQueue(t *testing.T) {
	s := newScene(t, map[string]string{"squeue": says("7|RUNNING|None|n1")})
	dir := filepath.Join(s.Hosted, s.Project)
	test.OK(t, os.MkdirAll(dir, 0o700))
	test.Write(t, filepath.Join(dir, "squeue"), `{"at": "2999-01-01T00:00:00Z", "out": ""}`)
	test.Equal(t, "the clock was set back", squeueState(s.Find(t.Context())), "running")
	test.OK(t, os.RemoveAll(s.Hosted))
	test.Equal(t, "nothing can be stored", squeueState(s.Find(t.Context())), "running")
}

func squeueState(j engine.Job, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(j.State)
}

// TestWaits stops a worker whose job waits.
func TestWaits(t *testing.T) {
	s := newScene(t, map[string]string{
		"sbatch":  "cat > script",
		"squeue":  says("7|PENDING|Resources|"),
		"scancel": "",
	})
	ctx, stop := context.WithCancel(t.Context())
	s.Waits = func(why string) {
		test.Equal(t, "reason", why, "Resources")
		stop()
	}
	err := s.Start(ctx)
	test.Equal(t, "verdict", enginetest.Verdict(err), "nothing begun")
	test.Contains(t, "error", err.Error(), engine.CodeWithdrawn)
	test.Equal(t, "calls", s.calls(t), "sbatch\nsqueue\nscancel\n")
	test.Equal(t, "class", reconcile.RunClass(reconcile.HoldNeverStarts), reconcile.ClassIssue)
}
