package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host"
)

// loose is an attempt without processes, for what needs none.
func loose(t *testing.T, answers ...answer) (*job, *rig) {
	t.Helper()
	r := newRig(t, "say hm", answers...)
	return r.newJob(r.run, func(error) {}), r
}

// times repeats an answer.
func times(n int, k answer, then ...answer) []answer {
	return append(slices.Repeat([]answer{k}, n), then...)
}

// limited is what the tracker says until its reset.
type limited struct {
	err *reconcile.Error
	at  time.Time
}

func (l limited) Error() string      { return l.err.Error() }
func (l limited) Unwrap() error      { return l.err }
func (l limited) ResetAt() time.Time { return l.at }

// Between two turns a tracker that is down is asked again and again, at most for a quarter of an hour.
func TestPatientRefresh(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the clock of synctest begins
	limit := func() (map[string]reconcile.Issue, error) {
		return nil, limited{&reconcile.Error{Code: "tracker_rate_limited", Message: "later"}, began.Add(5 * time.Minute)}
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
		{"down for a minute", times(6, broken, in("Todo")), 0, time.Minute, 7, func(err error) bool { return err == nil }},
		{"moved on meanwhile", times(6, broken, in("Done")), 0, time.Minute, 7, func(err error) bool {
			var moved errMovedOn
			return errors.As(err, &moved) && moved.reason == reconcile.StopTerminal
		}},
		{"down for good", []answer{broken}, 0, refreshPatience, 90, func(err error) bool {
			var gone errTrackerGone
			return errors.As(err, &gone) && strings.Contains(err.Error(), "HTTP 503")
		}},
		{"stopped meanwhile", []answer{broken}, 25 * time.Second, 25 * time.Second, 3, func(err error) bool { return errors.Is(err, errTerminated) }},
		{"not the tracker's fault", []answer{strange}, 0, 0, 1, func(err error) bool { return reconcileCode(err) == "issue_not_found" }},
		{"not before its reset", []answer{limit, in("Todo")}, 0, 5 * time.Minute, 2, func(err error) bool { return err == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r := loose(t, c.answers...)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { cancel(errTerminated) })
				}
				start := time.Now()
				err := a.refreshPatiently(ctx)
				if took := time.Since(start); !c.check(err) || took != c.took || r.tracker.asked < c.asked || r.tracker.asked > c.asked+1 {
					t.Errorf("%v after %v and %d questions", err, took, r.tracker.asked)
				}
			})
		})
	}
}

func reconcileCode(err error) string {
	var e *reconcile.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

// A tracker that stays away after a turn makes the run interrupted, with a code that counts no failure.
func TestTrackerGone(t *testing.T) {
	a, _ := loose(t)
	outcome, code, message := a.judge(t.Context(), errTrackerGone{&reconcile.Error{Code: "linear_api_status", Message: "HTTP 503"}})
	if outcome != reconcile.InterruptedRun || !reconcile.TrackerFault(code) || !strings.Contains(message, "HTTP 503") {
		t.Errorf("%s %s %q", outcome, code, message)
	}
}

// A full disk is the machine's fault wherever a run meets it.
func TestDiskFullIsNobodysFault(t *testing.T) {
	a, _ := loose(t)
	for _, err := range []error{
		fmt.Errorf("log: %w", &os.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}),
		fmt.Errorf("event log: %w", syscall.EDQUOT),
	} {
		if _, code, message := a.judge(t.Context(), err); code != "disk_full" || message == "" {
			t.Errorf("%v is %s", err, code)
		}
	}
}

// The outcome is tried for as long as a disk may be full.
func TestConcludePatiently(t *testing.T) {
	for _, c := range []struct {
		name  string
		until time.Duration
		want  error
	}{
		{"full for a while", 9 * time.Minute, nil},
		{"full for good", time.Hour, syscall.ENOSPC},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r := loose(t)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				full := fmt.Errorf("disk: %w", syscall.ENOSPC)
				r.journal.refuse = func(reconcile.Run) error {
					if time.Since(began) < c.until {
						return full
					}
					return nil
				}
				r.journal.changed = make(chan struct{}) // of this bubble
				a.rec.change(func(run *reconcile.Run) { run.Outcome = reconcile.Succeeded })
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // a stopped run has an outcome too
				err := a.conclude(ctx)
				if c.want == nil && (err != nil || len(r.journal.finished) != 1) || c.want != nil && err == nil {
					t.Errorf("%v after %v, %d recorded", err, time.Since(began), len(r.journal.finished))
				}
			})
		})
	}
}

// The first agent on a codex home starts alone; the others wait for its initialize, at most 5 s.
func TestFirstLaunch(t *testing.T) {
	type event struct {
		who int
		at  time.Duration
	}
	for _, c := range []struct {
		name string
		// first says what becomes of each agent and when, counted from its launch; negative: never.
		took time.Duration
		ok   bool
		want []time.Duration // when each of three agents is launched
	}{
		{"it answers", time.Second, true, []time.Duration{0, time.Second, time.Second}},
		{"it fails", time.Second, false, []time.Duration{0, time.Second, 2 * time.Second}},
		{"it hangs", -1, false, []time.Duration{0, launchBound, launchBound}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, r := loose(t)
			must(t, os.MkdirAll(r.StateDir, 0o700))
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				launched := make(chan event, 3)
				for i := range 3 {
					go func() {
						time.Sleep(time.Duration(i) * time.Millisecond) // in this order
						done, err := a.lockLaunch(t.Context())
						if err != nil {
							t.Error(err)
						}
						launched <- event{i, time.Since(began)}
						if c.took >= 0 {
							time.Sleep(c.took)
							done(c.ok)
						} else {
							time.Sleep(time.Minute)
						}
						done(false) // a second word, as at the agent's end, changes nothing
					}()
				}
				var at []time.Duration
				for range 3 {
					at = append(at, (<-launched).at)
				}
				slices.Sort(at)
				for i, want := range c.want {
					if d := at[i] - want; d < 0 || d > 60*time.Millisecond {
						t.Errorf("agents were launched at %v, want %v", at, c.want)
						break
					}
				}
				time.Sleep(2 * time.Minute)
				_, used, _ := r.journal.Meta(t.Context(), "codex_home:")
				if used != c.ok {
					t.Errorf("the home counts as used: %v", used)
				}
				if used {
					start := time.Now()
					if _, err := a.lockLaunch(t.Context()); err != nil || time.Since(start) > 0 {
						t.Errorf("a later agent waited %v: %v", time.Since(start), err)
					}
				}
			})
		})
	}
}

// What waits for the first agent ends with its run.
func TestStopBeforeLaunch(t *testing.T) {
	a, r := loose(t)
	must(t, os.MkdirAll(r.StateDir, 0o700))
	first, err := a.lockLaunch(t.Context())
	must(t, err)
	defer first(false)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errTerminated) })
	began := time.Now()
	if _, err := a.lockLaunch(ctx); !errors.Is(err, errTerminated) || time.Since(began) > launchBound-time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A thread is gone on with by the issue's next run, and its tokens are counted once.
func TestResume(t *testing.T) {
	const script = "attempt 0:\ntokens 300 30\nattempt 1+:\ntokens 500 50\nturn 2:\ntokens 7 0"
	r := newRig(t, script, in("Todo"), in("Todo"), in("Todo"))
	r.Config.MaxTurns = 1
	first := r.ends(reconcile.Succeeded, "")
	if first.Tokens.Total != 330 {
		t.Errorf("the first run used %+v", first.Tokens)
	}
	again := func(id string, change func()) reconcile.Run {
		t.Helper()
		r.next(id)
		r.run.Attempt = 1
		r.journal.finished = nil
		change()
		return r.ends(reconcile.Succeeded, "")
	}
	run := again("run-2", func() {})
	if run.ThreadID != first.ThreadID || run.Tokens != (reconcile.Tokens{Input: 500, Cached: 125, Output: 50, Reasoning: 10, Total: 550}) {
		t.Errorf("thread %s, before %s; used %+v", run.ThreadID, first.ThreadID, run.Tokens)
	}
	if got := r.journal.threads[run.ThreadID]; got.Total != 880 {
		t.Errorf("the thread used %+v", got)
	}
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"two failures", func() { r.journal.failures = 2 }},
		{"switched off", func() { r.journal.failures, r.Config.ResumeThread = 0, false }},
		{"a new workspace", func() { r.Config.ResumeThread = true; must(t, os.RemoveAll(r.space())) }},
		{"another directory's thread", func() { r.journal.lastIn = "0123" }},
		{"forgotten by codex", func() {
			must(t, os.RemoveAll(filepath.Join(filepath.Dir(r.root), "codex")))
			must(t, os.Mkdir(filepath.Join(filepath.Dir(r.root), "codex"), 0o700))
		}},
	} {
		before := r.journal.last
		run := again("run-"+strings.ReplaceAll(c.name, " ", "-"), c.change)
		if run.ThreadID == before || run.ThreadID == "" || run.Tokens.Total != 550 {
			t.Errorf("%s: thread %s, before %s; used %+v", c.name, run.ThreadID, before, run.Tokens)
		}
	}
}

// occupy starts an agent that has the thread open, with that mark in its environment.
func (r *rig) occupy(thread, mark string) {
	r.t.Helper()
	exe, err := os.Executable()
	must(r.t, err)
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), exe, "app-server", "--home", filepath.Join(filepath.Dir(r.root), "codex"))
	cmd.Env = []string{agentVar + "=1", mark, "PATH=" + os.Getenv("PATH")}
	stdin, err := cmd.StdinPipe()
	must(r.t, err)
	stdout, err := cmd.StdoutPipe()
	must(r.t, err)
	must(r.t, cmd.Start())
	s := codex.New(agent.Streams{Stdin: stdin, Stdout: stdout}, agent.Options{ClientVersion: "1"})
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.Done()
		_ = cmd.Wait()
	})
	_, err = s.Initialize(r.t.Context())
	must(r.t, err)
	must(r.t, s.ResumeThread(r.t.Context(), thread, agent.ThreadParams{Cwd: r.space()}))
}

// A thread that our own orphan has open is taken back; a stranger's is left to him.
func TestThreadInUse(t *testing.T) {
	for _, c := range []struct {
		name    string
		ours    bool
		resumed bool
	}{
		{"an orphan of ours", true, true},
		{"a stranger", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "say hm", in("Todo"))
			r.Config.MaxTurns = 1
			first := r.ends(reconcile.Succeeded, "")
			r.next("run-2")
			r.journal.finished = nil
			mark := "SYMPHONY_RUN_ID=" + first.ID
			if !c.ours {
				mark += "-of-somebody-else"
			}
			r.occupy(first.ThreadID, mark)
			run := r.ends(reconcile.Succeeded, "")
			if (run.ThreadID == first.ThreadID) != c.resumed {
				t.Errorf("thread %s after %s", run.ThreadID, first.ThreadID)
			}
			list := r.prompts(run.ThreadID)
			if last := list[len(list)-1]; strings.HasPrefix(last, agent.GuidanceTitle) != c.resumed || strings.Contains(last, agent.EarlierWork) == c.resumed {
				t.Errorf("it is told\n%s", last)
			}
		})
	}
}

// What a running turn has used is seen while it runs, and survives the worker.
func TestTokensOfARunningTurn(t *testing.T) {
	r := newRig(t, "tokens 100 10\nstream 100000 5ms")
	go func() {
		r.journal.until(t, "tokens", func(run reconcile.Run) bool {
			return run.Tokens.Total == 110 && run.Outcome == "" && run.TurnsDone == 0 && run.Phase == reconcile.StreamingTurn
		})
		r.journal.mu.Lock()
		for id, used := range r.journal.threads {
			if used.Total != 110 {
				t.Errorf("thread %s has used %+v", id, used)
			}
		}
		if len(r.journal.threads) != 1 {
			t.Errorf("%d threads are stored", len(r.journal.threads))
		}
		r.journal.mu.Unlock()
		close(r.terminate)
	}()
	if run := r.ends(reconcile.InterruptedRun, "terminated"); run.Tokens.Total != 110 {
		t.Errorf("%+v", run.Tokens)
	}
}

// eager starts an agent that has spoken before anybody listens.
type eager struct{ host.Host }

func (e eager) Start(ctx context.Context, x host.StartRequest) (host.Process, error) {
	spoken := filepath.Join(x.Dir, "spoken")
	x.Argv[2] = `for i in 1 2 3; do echo '{"method":"configWarning","params":{"summary":"s"}}'; done; touch spoken; ` + x.Argv[2]
	child, err := e.Host.Start(ctx, x)
	for err == nil && !exists(spoken) {
		time.Sleep(time.Millisecond)
	}
	return child, err
}

// What an agent says first of all is an event like any other. (With -race: the session must be known to
// whoever handles it.)
func TestEarlyEvents(t *testing.T) {
	r := newRig(t, "say hm")
	r.Host = eager{r.Host}
	r.ends(reconcile.Succeeded, "")
	if n := strings.Count(read(t, filepath.Join(r.Dir, eventsFile)), "\"message\":\"configuration: s\""); n != 3 {
		t.Errorf("%d of 3 events", n)
	}
}

// TestFailedStartShowsStderr: the error of every start that failed ends with what the agent wrote to its stderr.
func TestFailedStartShowsStderr(t *testing.T) {
	for fault, code := range map[string]string{"initialize-error=no": "codex_incompatible", "thread-error=no": "response_error", "version=0.1.0": "codex_incompatible"} {
		t.Run(fault, func(t *testing.T) {
			r := newRig(t, "say hm")
			r.Config.Command = "echo config.toml is broken >&2; exec " + r.Config.Command + " --fault " + fault
			if run := r.ends(reconcile.Failed, code); !strings.Contains(run.ErrorText, "config.toml is broken") {
				t.Errorf("error %q", run.ErrorText)
			}
		})
	}
}

// The last words of an agent are kept, however soon it ends after them.
func TestLastWords(t *testing.T) {
	r := newRig(t, "say hm")
	r.Config.Command = `echo '{"method":"warning","params":{"message":"first words"}}'; head -c 100000 /dev/zero | tr '\0' x >&2; echo last words >&2; exit 9`
	run := r.ends(reconcile.Failed, "port_exit")
	if !strings.Contains(run.ErrorText, "status 9: ") || !strings.HasSuffix(run.ErrorText, "last words") {
		t.Errorf("%.300q", run.ErrorText)
	}
	if !strings.HasSuffix(read(t, filepath.Join(r.Dir, stderrFile)), "last words\n") {
		t.Error("its stderr lacks the end")
	}
	if !strings.Contains(read(t, filepath.Join(r.Dir, eventsFile)), "first words") {
		t.Error("its events lack what it said")
	}
}

// So are those of one that ends as it should.
func TestLastWordsAtTheEnd(t *testing.T) {
	r := newRig(t, "say hm")
	r.Config.Command += "; head -c 60000 /dev/zero | tr '\\0' x >&2; echo last words >&2"
	r.ends(reconcile.Succeeded, "")
	if !strings.HasSuffix(read(t, filepath.Join(r.Dir, stderrFile)), "last words\n") {
		t.Error("its stderr lacks the end")
	}
}
