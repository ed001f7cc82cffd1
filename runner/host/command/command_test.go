package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/engine/enginetest"
)

// newScene returns the job of a run whose commands write their names to the file calls in dir.
func newScene(t *testing.T, c Commands) (l *engine.JobEngine, dir string) {
	t.Helper()
	dir = t.TempDir()
	named := func(name, script string) string {
		return "cd " + dir + "; echo " + name + " >> calls; env >> env; " + script
	}
	l = enginetest.NewJob(t, dir, "20261126T010203.456-abc", "command", "PATH="+os.Getenv("PATH"), "TOKEN=y")
	l.Jobs = Jobs{Run: l.Run, Home: dir, Commands: Commands{
		Start:   named("start", c.Start),
		Connect: named("connect", c.Connect),
		Status:  named("status", c.Status),
		Stop:    named("stop", c.Stop),
		PassEnv: []string{"TOKEN"},
	}}
	return l, dir
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		name     string
		commands Commands
		ending   bool
		want     string
		calls    string
		says     string
	}{
		{"it runs", Commands{Status: "echo running"}, false, "runs", "start status connect", ""},
		{
			"it waits first",
			Commands{Status: "if [ -e once ]; then echo running; else echo pending a place; touch once; fi"},
			false,
			"runs", "start status status connect", "",
		},
		{
			"it can't start",
			Commands{Start: "echo no such image >&2; exit 125", Stop: "exit 1"},
			false,
			"nothing begun", "start stop", "host_unusable: command: worker.engine.start: no such image",
		},
		{
			"a command that is not installed",
			Commands{Start: "no-such-docker run"},
			false,
			"nothing begun",
			"start stop",
			"not found",
		},
		{
			"it never starts",
			Commands{Status: "echo never no such image"},
			false,
			"nothing begun",
			"start status stop",
			"never_starts: command can't",
		},
		{
			"it has ended at once",
			Commands{Status: "echo ended exit code 127"},
			false,
			"nothing begun",
			"start status stop",
			"exit code 127",
		},
		{"its worker has died", Commands{Status: "echo running"}, true, "ended", "stop", "before it began"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.commands.Connect = "cat > given"
			l, dir := newScene(t, c.commands)
			l.Ending = c.ending
			err := l.Start(t.Context())
			test.Equal(t, "verdict", enginetest.Verdict(err), c.want)
			test.Contains(t, "error", fmt.Sprint(err), c.says)
			test.Equal(
				t,
				"calls",
				strings.Join(
					strings.Fields(string(test.Must(os.ReadFile(filepath.Join(dir, "calls"))))),
					" ",
				),
				c.calls,
			)
			env := string(test.Must(os.ReadFile(filepath.Join(dir, "env"))))
			test.Lacks(t, "environment", env, "LINEAR", "the secret")
			test.Contains(t, "environment", env, "SYMPHONY_JOB=symphony-shop-20261126t010203-456-abc\n")
			test.Contains(t, "environment", env, "TOKEN=y")
			if err == nil {
				test.Equal(
					t,
					"given",
					string(test.Must(os.ReadFile(filepath.Join(dir, "given")))),
					"the secret\n",
				)
			}
		})
	}
}

// Once a run has begun, only the word ended of the engine, or the daemon's own, ends it.
func TestDial(t *testing.T) {
	for _, c := range []struct{ name, status, want string }{
		{"it runs", "echo running", "runs"},
		{"ended", "echo ended OOMKilled", "ended"},
		{"unknown", "echo unknown", "not known"},
		{"no line", "true", "not known"},
		{"it fails", "echo ended; exit 1", "not known"},
		{"it waits again", "echo pending", "not known"},
		{"it never starts", "echo never", "not known"},
		{"two lines", "echo ended; echo running", "not known"},
		{"another word", "echo Succeeded", "not known"},
		{
			"the daemon's word",
			`mkdir -p hosted/shop/runs/20261126T010203.456-abc; echo '{"incarnation":1,"end":"lost"}' > ` +
				"hosted/shop/runs/20261126T010203.456-abc/outcome.json",
			"ended",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, _ := newScene(t, Commands{Status: c.status, Connect: "cat"})
			l.Known = true
			test.OK(t, l.Start(t.Context()))
			stream, err := l.Dial(t.Context())
			test.Equal(t, "verdict", enginetest.Verdict(err), c.want)
			if err == nil {
				test.OK(t, stream.Close())
			}
		})
	}
}

// The daemon was killed, but its job runs on: it is canceled, and the engine says when it has
// ended.
func TestKilledDaemon(t *testing.T) {
	l, _ := newScene(t, Commands{
		Status: "if [ -e stopped ]; then echo ended; else echo running; fi",
		Stop:   "touch stopped",
	})
	l.Known = true
	l.Ending = true
	l.Incarnation.Number = 2
	_, err := l.Dial(t.Context())
	test.Equal(t, "at first", enginetest.Verdict(err), "not known")
	_, err = l.Dial(t.Context())
	test.Equal(t, "then", enginetest.Verdict(err), "ended")
}

// A worker that is stopped while its job waits cancels the job. It waits, too, while the job
// can't be connected to, and says why.
func TestWaits(t *testing.T) {
	for _, c := range []struct{ name, status, connect, why, calls string }{
		{"no place", "echo pending no free slot", "cat", "no free slot", "start status stop"},
		{
			"no connection", "echo running", "echo no route to node >&2; exit 1",
			"connect to the job: no route to node", "start status connect stop",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, dir := newScene(t, Commands{Status: c.status, Connect: c.connect})
			ctx, stop := context.WithCancel(t.Context())
			l.Waits = func(why string) {
				test.Contains(t, "reason", why, c.why)
				stop()
			}
			err := l.Start(ctx)
			test.Equal(t, "verdict", enginetest.Verdict(err), "nothing begun")
			test.Contains(t, "error", err.Error(), engine.CodeWithdrawn)
			calls := string(test.Must(os.ReadFile(filepath.Join(dir, "calls"))))
			test.Equal(t, "calls", strings.Join(strings.Fields(calls), " "), c.calls)
		})
	}
}

// The commands status of the documentation, with programs that print what the engines print by
// their documentation.
func TestExamples(t *testing.T) {
	document := string(test.Must(os.ReadFile("../../../docs/hosts.md")))
	// the block of the example whose start begins with a program
	status := func(program string) string {
		begin := program + " "
		if program == "qstat" { // its connect has several lines
			begin = "|\n"
		}
		_, rest, _ := strings.Cut(document, "    connect: "+begin)
		_, rest, _ = strings.Cut(rest, "status: |\n")
		rest, _, _ = strings.Cut(rest, "stop: ")
		return rest
	}
	// qstat prints two jobs, of which the second one has a state, as Grid Engine 8.1.9 does.
	qstat := func(state string) string {
		return `case $1 in
			-s) echo "1 0.5 symphony-d ann r 11/26/2026 05:01:58 all.q@n1 1"; echo "     Full jobname:     symphony-shop-other"
				echo "2 0.5 symphony-s ann ` + state + ` 11/26/2026 05:01:58 1"; echo "     Full jobname:     $SYMPHONY_JOB" ;;
			*) echo "error reason    1:    no such directory"; echo "scheduling info:    it is full"; echo "      all queues" ;;
		esac`
	}
	for _, c := range []struct{ program, prints, want string }{
		{"docker", "echo running exit code 0", "running"},
		{"docker", "echo paused exit code 0", "running"},
		{"docker", "echo exited exit code 137", "ended exit code 137"},
		{"docker", "echo created exit code 0", "pending created"},
		{"docker", "echo removing exit code 0", "error"},
		{"docker", `echo "Error: No such object: symphony-1" >&2; exit 1`, "ended removed"},
		// podman
		{"docker", `echo 'Error: inspecting object: no such object: "symphony-1"' >&2; exit 125`, "ended removed"},
		{"docker", "echo Cannot connect to the Docker daemon >&2; exit 1", "error"},
		{"docker", "true", "error"},
		{"kubectl", "echo 1/", "running"},
		{"kubectl", "echo 0/Failed", "ended Failed"},
		{"kubectl", "echo /Complete", "ended Complete"},
		{"kubectl", `[ "$2" = job ] && echo / || echo 0 nodes are available`, "pending 0 nodes are available"},
		{"kubectl", "true", "ended its job was deleted"},
		{"kubectl", `[ "$2" = job ] || echo pod/symphony-1`, "unknown"},
		{"kubectl", `[ "$2" = job ]`, "error"},
		{"kubectl", "exit 1", "error"},
		{"nomad", "echo running", "running"},
		{"nomad", "echo failed", "ended failed"},
		{"nomad", "echo lost", "unknown lost"},
		{"nomad", "true", "pending no allocation"},
		{"nomad", "exit 1", "error"},
		{"qstat", qstat("r"), "running"},
		{"qstat", qstat("dr"), "running"},
		{"qstat", qstat("t"), "pending it is full"},
		{"qstat", qstat("hqw"), "pending it is full"},
		{"qstat", qstat("Eqw"), "never no such directory"},
		{"qstat", qstat("z"), "ended "},
		{"qstat", "true", "unknown "},
		{"qstat", `ln -sf /bin/true "${0%/*}/qacct"`, "ended "},
		{"qstat", "exit 1", "error"},
	} {
		bin := t.TempDir()
		test.OK(t, os.WriteFile(filepath.Join(bin, c.program), []byte("#!/bin/sh\n"+c.prints+"\n"), 0o700))
		l, _ := newScene(t, Commands{Status: status(c.program)})
		l.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		j, err := l.Find(t.Context())
		got := string(j.State) + " " + j.Why
		if err != nil {
			got = "error"
		}
		test.Equal(t, c.program+": "+c.prints, strings.TrimSpace(got), strings.TrimSpace(c.want))
	}
}
