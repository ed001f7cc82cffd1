package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
)

// newTestJob returns a job that has not started.
func newTestJob(t *testing.T, answers ...answer) (*job, *rig) {
	t.Helper()
	r := newRig(t, "say hm", answers...)
	return r.newJob(r.run, func(error) {}), r
}

// times repeats an answer.
func times(n int, k answer, then ...answer) []answer {
	return append(slices.Repeat([]answer{k}, n), then...)
}

// limited is the tracker's error until its rate limit resets.
type limited struct {
	err *reconcile.Error
	at  time.Time
}

func (l limited) Error() string      { return l.err.Error() }
func (l limited) Unwrap() error      { return l.err }
func (l limited) ResetAt() time.Time { return l.at }

// An issue that no longer qualifies ends its run.
func TestRefresh(t *testing.T) {
	for _, c := range []struct {
		issue  answer
		reason string
	}{
		{func() (map[string]reconcile.Issue, error) { return nil, nil }, reconcile.StopMissing},
		{in("Done"), reconcile.StopTerminal},
		{in("Backlog"), reconcile.StopInactive},
		{with(func(i *reconcile.Issue) {
			i.Archived = true
			i.Labels = []string{"agent"}
		}), reconcile.StopInactive},
		{with(func(i *reconcile.Issue) { i.Elsewhere = true }), reconcile.StopMoved},
		{in("Todo"), reconcile.StopLabel},
		{with(func(i *reconcile.Issue) { i.Labels = []string{"agent"} }), reconcile.StopAssignee},
	} {
		a, _ := newTestJob(t, c.issue)
		a.site.Config.Policy.RequiredLabels = []string{"agent"}
		a.site.Config.Policy.Assignee = "kim@example.com"
		if err := a.issue.refresh(t.Context()); err != canceled("the issue no longer qualifies", c.reason) {
			t.Errorf("%v, want %s", err, c.reason)
		}
	}
}

// Between two turns a refresh that fails is retried for at most refreshPatience.
func TestPatientRefresh(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the clock of synctest starts
	limit := func() (map[string]reconcile.Issue, error) {
		return nil, limited{&reconcile.Error{
			Code:    "tracker_rate_limited",
			Message: "later",
		}, began.Add(5 * time.Minute)}
	}
	strange := func() (map[string]reconcile.Issue, error) {
		return nil, &reconcile.Error{Code: "issue_not_found", Message: "no tracker's fault"}
	}
	for _, c := range []struct {
		name    string
		answers []answer
		stop    time.Duration
		took    time.Duration
		asked   int
		check   func(error) bool
	}{
		{"it answers", []answer{in("Todo")}, 0, 0, 1, func(err error) bool { return err == nil }},
		{
			"down for a minute",
			times(6, broken, in("Todo")),
			0,
			time.Minute,
			7,
			func(err error) bool { return err == nil },
		},
		{"moved on meanwhile", times(6, broken, in("Done")), 0, time.Minute, 7, func(err error) bool {
			return err == canceled("the issue no longer qualifies", reconcile.StopTerminal)
		}},
		{"down for good", []answer{broken}, 0, refreshPatience, 90, func(err error) bool {
			var gone runEnd
			return errors.As(err, &gone) && gone.code == "tracker_unavailable" &&
				strings.Contains(gone.message, "HTTP 503")
		}},
		{
			"stopped meanwhile",
			[]answer{broken},
			25 * time.Second,
			25 * time.Second,
			3,
			func(err error) bool { return errors.Is(err, errTerminated) },
		},
		{
			"not the tracker's fault",
			[]answer{strange},
			0,
			0,
			1,
			func(err error) bool { code, _ := codeOf(err); return code == "issue_not_found" },
		},
		{
			"not before its reset",
			[]answer{limit, in("Todo")},
			0,
			5 * time.Minute,
			2,
			func(err error) bool { return err == nil },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r := newTestJob(t, c.answers...)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { cancel(errTerminated) })
				}
				start := time.Now()
				err := a.issue.refreshPatiently(ctx)
				if took := time.Since(start); !c.check(err) || took != c.took || r.tracker.asked < c.asked ||
					r.tracker.asked > c.asked+1 {
					t.Errorf("%v after %v and %d questions", err, took, r.tracker.asked)
				}
			})
		})
	}
}

// occupy starts an agent that opens the thread, with a mark in its environment.
func (r *rig) occupy(thread, mark string) {
	r.t.Helper()
	exe := test.Must(os.Executable())
	cmd := exec.CommandContext(
		context.WithoutCancel(r.t.Context()),
		exe,
		"app-server",
		"--home",
		filepath.Join(filepath.Dir(r.root), "codex"),
	)
	cmd.Env = []string{agentVar + "=1", mark, "PATH=" + os.Getenv("PATH")}
	stdin := test.Must(cmd.StdinPipe())
	stdout := test.Must(cmd.StdoutPipe())
	test.OK(r.t, cmd.Start())
	s := codex.New(agent.Streams{Stdin: stdin, Stdout: stdout}, agent.Options{ClientVersion: "1"})
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.Done()
		_ = cmd.Wait()
	})
	test.Must(s.Initialize(r.t.Context()))
	test.OK(r.t, s.ResumeThread(r.t.Context(), thread, agent.ThreadParams{Cwd: r.space()}))
}

// A process of an earlier run that has the thread open is ended. If another process has it
// open, a new thread is started.
func TestThreadInUse(t *testing.T) {
	for who, ours := range map[string]bool{"an orphan of ours": true, "another process": false} {
		t.Run(who, func(t *testing.T) {
			r := newRig(t, "say hm", in("Todo"))
			r.Here.Config.MaxTurns = 1
			first := r.ends(reconcile.EndedRun, "")
			r.next("run-2")
			r.journal.finished = nil
			mark := "SYMPHONY_RUN_ID=" + first.ID
			if !ours {
				mark += "-of-another"
			}
			r.occupy(first.ThreadID, mark)
			run := r.ends(reconcile.EndedRun, "")
			test.Equal(t, "resumed", run.ThreadID == first.ThreadID, ours)
			list := r.prompts(run.ThreadID)
			if last := list[len(list)-1]; strings.HasPrefix(last, agent.GuidanceTitle) != ours ||
				strings.Contains(last, agent.EarlierWork(nil)) == ours {
				t.Errorf("the turn's text is\n%s", last)
			}
		})
	}
}

// eager starts an agent that writes before its output is read.
type eager struct {
	host.Run
	t *testing.T
}

func (e eager) Start(ctx context.Context, x host.StartRequest) (host.Process, error) {
	spoken := filepath.Join(e.t.TempDir(), "spoken")
	const warning = `{"method":"configWarning","params":{"summary":"s"}}`
	x.Argv[2] = "for i in 1 2 3; do echo '" + warning + "'; done; touch '" + spoken + "'; " + x.Argv[2]
	child, err := e.Run.Start(ctx, x)
	if err == nil {
		test.Until(e.t, "lines of the agent", func() bool { return test.Exists(e.t, spoken) })
	}
	return child, err
}

// Lines that an agent writes before the session is set become events, too.
func TestEarlyEvents(t *testing.T) {
	r := newRig(t, "say hm")
	r.Here.Machine = withRuns{r.Here.Machine, func(run host.Run) host.Run { return eager{run, t} }}
	r.ends(reconcile.EndedRun, "")
	test.Equal(
		t,
		"events",
		strings.Count(test.Read(t, filepath.Join(r.Dir, eventsFile)), `"message":"config warning: s"`),
		3,
	)
}

// TestFailedStartShowsStderr checks that the error of a failed start ends with the last line
// of the agent's stderr.
func TestFailedStartShowsStderr(t *testing.T) {
	for fault, code := range map[string]string{
		"initialize-error=no": "codex_incompatible",
		"thread-error=no":     "response_error",
		"version=0.1.0":       "codex_incompatible",
	} {
		t.Run(fault, func(t *testing.T) {
			r := newRig(t, "say hm")
			r.Here.Config.Command = "echo config.toml is broken >&2; exec " + r.Here.Config.Command + " --fault " + fault
			test.Contains(t, "the error", r.ends(reconcile.Failed, code).ErrorText, "config.toml is broken")
		})
	}
}

// The end of stderr is kept, even if the agent exits right after it.
func TestLastWords(t *testing.T) {
	r := newRig(t, "say hm")
	r.Here.Config.Command = `echo '{"method":"warning","params":{"message":"first words"}}'; ` +
		`head -c 100000 /dev/zero | tr '\0' x >&2; echo last words >&2; exit 9`
	run := r.ends(reconcile.Failed, "port_exit")
	if !strings.Contains(run.ErrorText, "status 9: ") || !strings.HasSuffix(run.ErrorText, "last words") ||
		!strings.HasSuffix(test.Read(t, filepath.Join(r.Dir, stderrFile)), "last words\n") {
		t.Errorf("the error or stderr lacks the end: %.300q", run.ErrorText)
	}
	test.Contains(t, "events", test.Read(t, filepath.Join(r.Dir, eventsFile)), "first words")
}

// exited is a process that has ended. Close closes its stdout.
type exited struct {
	process
	stdout *io.PipeReader
}

// the name of an embedded interface may not be that of one of its methods
type process = host.Process

func (exited) Wait(context.Context) error  { return nil }
func (e exited) Close() (host.Exit, error) { return host.Exit{}, e.stdout.Close() }

// What an agent has written before it was found unusable may arrive after its answer.
func TestLastWordsArriveLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), stderrFile)
	synctest.Test(t, func(t *testing.T) {
		stderr := test.Must(agent.OpenTailFile(file, stderrLimit, agent.NewRedactor(nil)))
		defer stderr.Close()
		g := &agentProcess{stderr: stderr, drained: make(chan struct{})}
		time.AfterFunc(outputBound/2, func() { test.Must(io.WriteString(stderr, "config.toml is broken\n")) })
		err := g.explainStart(t.Context(), &agent.Error{Code: agent.CodeIncompatible, Message: "too old"})
		const want = "too old; the last line of its stderr: config.toml is broken"
		test.Contains(t, "the error", err.Error(), want)
	})
}

// The events that a slow disk delays are stored before the end of the agent, after which the
// log is closed.
func TestSlowEventsAreStored(t *testing.T) {
	r := newRig(t, "")
	r.Here.Machine = nil
	synctest.Test(t, func(t *testing.T) {
		stdout, out := io.Pipe()
		_, stdin := io.Pipe()
		stored := 0
		slow := make(chan struct{})
		j := r.newJob(r.run, func(error) {})
		g := &agentProcess{
			launcher: j.agents,
			child:    exited{stdout: stdout},
			drained:  make(chan struct{}),
		}
		close(g.drained)
		var err error
		g.stderr, err = agent.OpenTailFile(filepath.Join(r.Dir, stderrFile), stderrLimit, r.Redactor)
		test.OK(t, err)
		g.session = codex.New(agent.Streams{
			Stdin:  stdin,
			Stdout: stdout,
		}, agent.Options{OnEvent: func(agent.Event) { <-slow; stored++ }})
		test.Must(
			io.WriteString(out, strings.Repeat(`{"method":"warning","params":{"message":"words"}}`+"\n", 2)),
		)
		time.AfterFunc(time.Hour, func() { close(slow) })
		g.end(t.Context())
		test.Equal(t, "stored events", stored, 2)
	})
}

// spoken returns the watch of a conversation, and a function that sends it a line of the agent.
// Each event is handled, and then passed to seen.
func (r *rig) spoken(seen func(w *eventWatch, e agent.Event)) (w *eventWatch, say func(line string)) {
	r.t.Helper()
	j := r.newJob(r.run, func(error) {})
	test.OK(r.t, j.open())
	w = j.turns.agent.watch
	in, agentOut := io.Pipe()
	_, stdin := io.Pipe()
	handled := make(chan struct{})
	g := &agentProcess{}
	g.session = codex.New(agent.Streams{
		Stdin:  stdin,
		Stdout: in,
	}, agent.Options{OnEvent: func(e agent.Event) {
		w.handle(g, e)
		seen(w, e)
		handled <- struct{}{}
	}})
	r.t.Cleanup(func() {
		test.OK(r.t, agentOut.Close())
		<-g.session.Done()
		j.close()
	})
	return w, func(line string) {
		test.Must(io.WriteString(agentOut, line+"\n"))
		<-handled
	}
}

// TestFragments checks that a piece of a message is neither stored as an event nor as the
// run's last message, because a secret is not recognised in pieces.
func TestFragments(t *testing.T) {
	r := newRig(t, "say hm")
	pieces := 0
	_, say := r.spoken(func(w *eventWatch, e agent.Event) {
		if e.Fragment {
			pieces++
		}
		if got := w.rec.get().LastMessage; strings.Contains(got, testKey[:16]) ||
			strings.Contains(got, testKey[16:]) {
			t.Errorf("the last message is %q", got)
		}
	})
	for _, piece := range []string{testKey[:16], testKey[16:]} {
		say(
			`{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","itemId":"i",` +
				`"delta":"` + piece + `"}}`,
		)
	}
	test.Equal(
		t,
		"pieces and stored events",
		[]any{pieces, test.Read(t, filepath.Join(r.Dir, eventsFile))},
		[]any{2, ""},
	)
}

// A late event of an earlier turn does not change the id of the running turn.
func TestLateEvent(t *testing.T) {
	w, say := newRig(t, "say hm").spoken(func(*eventWatch, agent.Event) {})
	w.rec.change(func(r *reconcile.Run) {
		r.ThreadID = "t"
		r.TurnID = "second"
	})
	say(
		`{"method":"item/completed","params":{"threadId":"t","turnId":"first",` +
			`"item":{"type":"agentMessage","id":"i","text":"late"}}}`,
	)
	run := w.rec.get()
	test.Equal(
		t,
		"turn, and whether there is a message",
		[]any{run.TurnID, run.LastMessage != ""},
		[]any{"second", true},
	)
}

// The run's activity is the last command or call that began, or the first line of the last
// sentence, without secrets and short.
func TestActivity(t *testing.T) {
	w, say := newRig(t, "say hm").spoken(func(*eventWatch, agent.Event) {})
	for _, step := range []struct{ method, item, want string }{
		{"started", `"commandExecution","command":"/bin/bash -lc 'make\n  all'"`, "make all"},
		{"completed", `"commandExecution","command":"make all","exitCode":0`, "make all"},
		{"started", `"agentMessage","text":""`, "make all"},
		{"completed", `"agentMessage","text":"It is made.\n\nThe end."`, "It is made."},
		{"completed", `"reasoning","summary":["I think"]`, "It is made."},
		{"started", `"mcpToolCall","server":"forms","tool":"ask","arguments":{"n":1}`, `forms/ask {"n":1}`},
		{"started", `"commandExecution","command":"login ` + testKey + `"`, "login [redacted]"},
		{
			"started",
			`"commandExecution","command":"echo ` + strings.Repeat("日", 300) + `"`,
			"echo " + strings.Repeat("日", 194) + "…",
		},
	} {
		say(
			`{"method":"item/` + step.method + `","params":{"threadId":"t","turnId":"u",` +
				`"item":{"id":"i","type":` + step.item + `}}}`,
		)
		test.Equal(t, "activity after "+step.item, w.rec.get().Activity, step.want)
	}
}

// The rate limits stay valid JSON, which ps reads, even if a secret looks like a number in
// them.
func TestRateLimitsStayJSON(t *testing.T) {
	r := newRig(t, "say hm")
	r.Redactor.Add([]string{"17900000"})
	w, say := r.spoken(func(*eventWatch, agent.Event) {})
	for _, reset := range []string{"1790000000", "1800000000"} {
		say(
			`{"method":"account/rateLimits/updated","params":{"rateLimits":` +
				`{"primary":{"usedPercent":7,"resetsAt":` + reset + `}}}}`,
		)
		limits := w.rec.get().RateLimits
		if good := reset == "1800000000"; good != strings.Contains(string(limits), reset) ||
			limits != nil && !json.Valid(limits) {
			t.Errorf("stored %s", limits)
		}
	}
}

// unseen is a machine that does not tell what is in a workspace.
type unseen struct {
	host.Machine
	why error
}

func (u unseen) Inspect(context.Context, host.WorkspaceRequest) (host.InspectAnswer, error) {
	return host.InspectAnswer{}, u.why
}

// A handover whose work can't be looked at, as during a stop, stays for the delivery.
func TestHandoverStays(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	broken := errors.New("the disk is gone")
	for _, c := range []struct {
		name string
		ctx  context.Context
		why  error
		want error
	}{
		{"stopped", stopped, stopped.Err(), nil},
		{"a fault of the machine", t.Context(), broken, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := newTestJob(t)
			a.site.Machine = unseen{a.site.Machine, c.why}
			a.site.space = &host.Workspace{Path: t.TempDir()}
			wish := reconcile.Handover{State: "Human Review", Summary: "done"}
			a.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &wish })
			more, err := a.turns.settlement.takeHandover(c.ctx, wish)
			test.Equal(t, "another turn", more, false)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			test.Equal(t, "the handover waits", a.rec.get().Delivery.Handover.Waits(), true)
		})
	}
}
