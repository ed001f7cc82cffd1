package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/daemon"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// scene is a run whose commands of Slurm are scripts. Each writes its name to the file calls.
type scene struct {
	*Link
	dir string
}

func newScene(t *testing.T, scripts map[string]string) scene {
	t.Helper()
	s := scene{dir: t.TempDir()}
	for name, script := range scripts {
		text := "#!/bin/sh\necho " + name + " >> " + s.dir + "/calls\ncd " + s.dir + "\n" + script + "\n"
		test.OK(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700))
	}
	program := filepath.Join(s.dir, "program")
	test.OK(t, os.WriteFile(program, []byte("#!/bin/sh"), 0o700))
	s.Link = &Link{Home: s.dir, Hosted: filepath.Join(s.dir, "hosted"), Run: &engine.Run{
		Program: engine.Program{Path: program, Sum: "sum", Size: 9}, Env: []string{"PATH=" + s.dir + ":" + os.Getenv("PATH"), "LINEAR_API_KEY=x"},
		Project: "shop", Of: remote.Incarnation{RunID: "r1", Number: 1, Secret: "the secret"}, Waits: func(string) {},
	}}
	return s
}

func (s scene) calls(t *testing.T) string {
	t.Helper()
	return string(test.Must(os.ReadFile(filepath.Join(s.dir, "calls"))))
}

// verdict says what a worker makes of an error of Start.
func verdict(err error) string {
	switch {
	case err == nil:
		return "runs"
	case engine.NothingBegun(err):
		return "nothing begun"
	case remote.Ends(err):
		return "ended"
	}
	return "not known"
}

// says is a squeue that prints lines.
func says(lines string) string { return "cat <<'E'\n" + lines + "\nE" }

const secretFile = "hosted/shop/runs/r1/secret"

func TestStart(t *testing.T) {
	begins := "rm " + secretFile // the daemon has begun
	for _, c := range []struct {
		name, sbatch, squeue string
		ending               bool
		want, code           string
	}{
		{"it runs", "", says("7|RUNNING|None|n1"), false, "runs", ""},
		{"two, of which one runs", "", says("7|COMPLETED|None|n1\n8|RUNNING|None|n2\n9|FAILED|None|n2"), false, "runs", ""},
		{"refused", "echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2; exit 1", "", false, "nothing begun", "host_unusable"},
		{"no controller", "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1", "", false, "nothing begun", "host_unreachable"},
		{"a lost answer", "echo 'Socket timed out on send/recv operation' >&2; exit 1", "", false, "nothing begun", "host_unreachable"},
		{"a lost answer of a job that has begun", begins + "; exit 1", says("7|RUNNING|None|n1"), false, "runs", ""},
		{"never", "", says("7|PENDING|PartitionConfig|"), false, "nothing begun", "never_starts"},
		{"never, for an account", "", says("7|PENDING|QOSMaxCpuPerJobLimit|"), false, "nothing begun", "never_starts"},
		{"refused in the queue", "", says("7|FAILED|BadConstraints|"), false, "nothing begun", "never_starts"},
		{"the program can't run there", "", says("7|FAILED|NonZeroExitCode|n1"), false, "nothing begun", "host_unusable"},
		{"canceled in the queue", "", says("7|CANCELLED|None|"), false, "ended", "host_ended"},
		{"its node has died", begins, says("7|NODE_FAIL|None|n1"), false, "ended", "host_ended"},
		{"forgotten", begins, "", false, "not known", ""},
		{"forgotten, but its daemon has written", begins + `; echo '{"incarnation":1,"end":"lost"}' > hosted/shop/runs/r1/outcome.json`, "", false, "ended", "host_ended"},
		{"the queue does not answer", begins, "exit 1", false, "not known", ""},
		{"the queue does not answer, and it has not begun", "", "exit 1", false, "not known", ""},
		{"a dead worker's job waits", "", says("7|PENDING|Resources|"), true, "ended", "host_ended"},
		{"a dead worker's job runs", begins, says("7|RUNNING|None|n1"), true, "runs", ""},
		{"a dead worker's job completes", begins, says("7|COMPLETING|None|n1"), true, "runs", ""},
		{"a dead worker has submitted none", "", "", true, "ended", "host_ended"},
		{"a dead worker's job is forgotten", begins, "", true, "not known", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"sbatch": "cat > script; env > env\n" + c.sbatch, "squeue": c.squeue, "scancel": ""})
			if s.Ending = c.ending; c.ending {
				test.OK(t, daemon.PutSecret(s.stateDir(), s.Of.RunID, s.Of.Secret))
				if c.sbatch != "" {
					test.OK(t, os.Remove(filepath.Join(s.dir, secretFile)))
				}
			}
			err := s.Start(t.Context())
			test.Equal(t, "verdict", verdict(err), c.want)
			if c.code != "" {
				test.Contains(t, "error", fmt.Sprint(err), c.code+": ")
			}
			_, missing := os.Stat(filepath.Join(s.dir, secretFile))
			test.Equal(t, "a job may begin", missing == nil, c.want == "runs" && c.sbatch == "" || c.squeue == "exit 1" && c.sbatch == "")
			if !c.ending {
				test.Lacks(t, "what the job is told", string(test.Must(os.ReadFile(filepath.Join(s.dir, "script"))))+string(test.Must(os.ReadFile(filepath.Join(s.dir, "env")))),
					"the secret", "LINEAR")
			}
		})
	}
}

// TestWaits stops a worker whose job waits.
func TestWaits(t *testing.T) {
	s := newScene(t, map[string]string{"sbatch": "cat > script", "squeue": says("7|PENDING|Resources|"), "scancel": ""})
	ctx, stop := context.WithCancel(t.Context())
	s.Waits = func(why string) {
		test.Equal(t, "reason", why, "Resources")
		stop()
	}
	err := s.Start(ctx)
	test.Equal(t, "verdict", verdict(err), "nothing begun")
	test.Contains(t, "error", err.Error(), engine.CodeWithdrawn)
	test.Equal(t, "calls", s.calls(t), "sbatch\nsqueue\nscancel\n")
	_, err = s.Dial(t.Context()) // as if it had run before
	test.Equal(t, "dialed", verdict(err), "ended")
	test.Equal(t, "class", reconcile.RunClass(reconcile.HoldNeverStarts), reconcile.ClassIssue)
}
