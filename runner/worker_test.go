package runner

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/team"
)

// TestOutcomes checks the outcome of runs. Scripts test failing hooks and common faults of
// agents.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name    string
		script  string
		answers []answer
		change  func(*rig)
		outcome reconcile.Outcome
		code    string
		check   func(*testing.T, *rig, reconcile.Run)
	}{
		{
			name:    "one turn, then a person moves the issue",
			script:  "sh echo x > made",
			outcome: reconcile.EndedRun,
			check: func(t *testing.T, r *rig, run reconcile.Run) {
				if run.Turns != 1 || run.TurnsDone != 1 || !run.Progress || run.Tokens.Total != 1050 || run.ThreadID == "" {
					t.Errorf("%+v", run)
				}
				var phases []reconcile.Phase
				for _, row := range r.journal.updates {
					phases = append(phases, row.Phase)
				}
				test.Equal(t, "phases", slices.Compact(phases), []reconcile.Phase{
					reconcile.PreparingWorkspace, reconcile.BuildingPrompt, reconcile.LaunchingAgent,
					reconcile.InitializingSession, reconcile.StreamingTurn, reconcile.Finishing,
				})
			},
		},
		{
			name:    "as many turns as allowed",
			script:  "sh true",
			answers: []answer{in("Todo")},
			outcome: reconcile.EndedRun,
			check: func(t *testing.T, _ *rig, run reconcile.Run) {
				if run.Turns != 3 || run.TurnsDone != 3 || run.Progress || run.Tokens.Total != 3*1050 {
					t.Errorf("%+v", run)
				}
			},
		},
		{
			name:    "an agent that does nothing",
			script:  "say Done.",
			answers: []answer{in("Todo")},
			outcome: reconcile.EndedRun,
			check: func(t *testing.T, _ *rig, run reconcile.Run) {
				test.Equal(t, "turns", run.TurnsDone, 2)
			},
		},
		{
			name:    "terminal before the start",
			answers: []answer{in("Done")},
			outcome: reconcile.Canceled,
			code:    reconcile.StopTerminal,
			check:   untouched,
		},
		{
			name:    "no tracker at the start",
			answers: []answer{broken},
			outcome: reconcile.Failed,
			code:    "linear_api_status",
			check:   untouched,
		},
		{
			name:    "an agent that prints the key",
			script:  "say it is " + testKey + "\nsh echo " + testKey + "; exit 3\nfail other " + testKey,
			outcome: reconcile.Failed,
			code:    "turn_failed",
			change: func(r *rig) {
				r.Here.Config.Command = "echo starting with " + testKey + " >&2; " + r.Here.Config.Command
			},
			check: func(t *testing.T, r *rig, run reconcile.Run) {
				test.Contains(t, "the secret", run.ErrorText, "[redacted]")
				test.Contains(t, "the secret", test.Read(t, filepath.Join(r.Dir, stderrFile)), "with [redacted]")
			},
		},
		{
			name:    "the prompt can't be rendered",
			script:  "error line 3: unknown variable",
			outcome: reconcile.Failed,
			code:    "template_render_error",
		},
		{
			name: "a file instead of the workspace", change: func(r *rig) {
				test.OK(r.t, os.Mkdir(r.root, 0o700))
				test.OK(r.t, os.WriteFile(r.space(), []byte("mine"), 0o600))
			},
			outcome: reconcile.Failed, code: "invalid_workspace_cwd",
			check: func(t *testing.T, r *rig, _ reconcile.Run) {
				test.Equal(t, "the file", test.Read(t, r.space()), "mine")
			},
		},
		{
			name:    "silence",
			script:  "background sleep 1000\nhang",
			outcome: reconcile.TimedOut,
			code:    "turn_timeout",
			change: func(r *rig) {
				r.Here.Config.StallTimeout = 0
				r.Here.Config.TurnTimeout = 400 * time.Millisecond
			},
		},
		{
			name:    "another directory instead of the workspace",
			outcome: reconcile.Failed,
			code:    "invalid_workspace_cwd",
			change: func(r *rig) {
				r.Here.Config.Hooks.BeforeRun = `mv "$SYMPHONY_WORKSPACE" "$SYMPHONY_WORKSPACE.old" && mkdir "$SYMPHONY_WORKSPACE"`
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.script, c.answers...)
			if c.change != nil {
				c.change(r)
			}
			run := r.ends(c.outcome, c.code)
			if held, err := heldLease(r); err != nil || held && c.code != "workspace_busy" {
				t.Errorf("the lease is held: %v, %v", held, err)
			}
			if c.check != nil {
				c.check(t, r, run)
			}
		})
	}
}

func heldLease(r *rig) (bool, error) {
	root, found, err := workspace.FindRoot(r.root)
	if err != nil || !found {
		return false, err
	}
	return root.Held("ABC-1")
}

func untouched(t *testing.T, r *rig, _ reconcile.Run) {
	t.Helper()
	test.Equal(t, "a workspace root was created", test.Exists(t, r.root), false)
}

// awaitEvent waits until the events contain a text.
func (r *rig) awaitEvent(text string) {
	r.t.Helper()
	path := filepath.Join(r.Dir, eventsFile)
	test.Until(r.t, "event "+text, func() bool {
		data, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(data), text)
	})
}

// streaming is the event of an agent that has begun to write a message.
const streaming = `"kind":"message","ended":false`

// A signal ends a run, with the stop reason that is stored. Its turn is interrupted, and the
// agent exits before after_run runs.
func TestStopWhileStreaming(t *testing.T) {
	for _, c := range []struct {
		reason  string
		outcome reconcile.Outcome
		code    string
	}{
		{reconcile.StopOperator, reconcile.Canceled, reconcile.StopOperator},
		{"", reconcile.InterruptedRun, "terminated"},
	} {
		t.Run(c.code, func(t *testing.T) {
			r := newRig(t, "stream 100000 5ms")
			r.Here.Config.Hooks.AfterRun = `echo "$SYMPHONY_OUTCOME" > after; ps -eo args | grep -c "[a]pp-server --home ` + filepath.Dir(
				r.root,
			) + `" >> after; true`
			go func() {
				r.awaitEvent(streaming)
				r.journal.setStop(c.reason)
				close(r.terminate)
			}()
			run := r.ends(c.outcome, c.code)
			test.Equal(t, "it was only stopped", run.OnlyStopped, c.reason != "")
			test.Equal(t, "what after_run saw", test.Read(t, r.space("after")), string(c.outcome)+"\n0\n")
			test.Contains(
				t,
				"events",
				test.Read(t, filepath.Join(r.Dir, eventsFile)),
				agent.EventTurnCancelled,
			)
		})
	}
}

// An agent that exits together with its worker, as in a shutdown, has not failed.
func TestAgentAndWorkerEndTogether(t *testing.T) {
	r := newRig(t, "sh true\ncrash")
	go func() {
		r.awaitEvent(agent.EventTurnEndedWithError)
		close(r.terminate)
	}()
	r.ends(reconcile.InterruptedRun, "terminated")
}

// changing returns a tool of the tracker. Calls whose arguments contain "change" change the
// issue.
func changing(answer func(args string) reconcile.ToolAnswer) []reconcile.AgentTool {
	return []reconcile.AgentTool{{
		Name: "linear_graphql", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		ChangesIssue: func(args json.RawMessage) bool { return strings.Contains(string(args), "change") },
		Call: func(_ context.Context, _ reconcile.Issue, args json.RawMessage) reconcile.ToolAnswer {
			return answer(string(args))
		},
	}}
}

// A change of the issue by the agent's tool is written to the row before and after the call.
// It is also an event, and what it creates is stored. A call that only reads is neither.
func TestChangeByTheAgent(t *testing.T) {
	r := newRig(t, `tool linear_graphql {"query":"read"}`+"\n"+`tool linear_graphql {"query":"change"}`)
	var before []reconcile.Run // as written when the tool was called
	state := "Todo"
	r.tracker.answers = []answer{func() (map[string]reconcile.Issue, error) { return in(state)() }}
	r.Tracker.Tools = changing(func(args string) reconcile.ToolAnswer {
		r.journal.mu.Lock()
		defer r.journal.mu.Unlock()
		before = append(before, r.journal.updates[len(r.journal.updates)-1])
		if strings.Contains(args, "read") {
			return reconcile.ToolAnswer{Text: "Bearer words are read as they are", Success: true}
		}
		state = "Human Review"
		return reconcile.ToolAnswer{
			Text:    "the key is " + testKey,
			Success: true,
			Mutation: &reconcile.Mutation{
				Fields:    []string{"commentCreate"},
				Query:     "mutation { … }",
				Success:   true,
				Variables: json.RawMessage(`{"body":"the key is ` + testKey + `"}`),
				Created:   []reconcile.Created{{Kind: "comment", ID: "c-1"}},
			},
		}
	})
	run := r.ends(reconcile.Succeeded, "")
	if len(before) != 2 || !before[0].MovedAt.IsZero() || before[1].MovedAt.IsZero() ||
		before[1].MovedTo != "" ||
		run.MovedTo != "Human Review" {
		t.Errorf("written at the calls: %+v, then %q", before, run.MovedTo)
	}
	events := test.Read(t, filepath.Join(r.Dir, eventsFile))
	test.Equal(t, "events", strings.Count(events, `"event":"tracker_mutation"`), 1)
	test.Contains(t, "events", events, `"variables":{"body":"the key is [redacted]"}`)
	test.Equal(t, "stored", r.journal.created, []reconcile.Created{{Kind: "comment", ID: "c-1"}})
}

// A stop in the middle of a hook kills the hook.
func TestStopDuringAHook(t *testing.T) {
	r := newRig(t, "say no")
	r.Here.Config.Hooks.BeforeRun = "touch begun; sleep 1000"
	go func() {
		test.Until(t, "start of the hook", func() bool { return test.Exists(t, r.space("begun")) })
		r.journal.setStop(reconcile.StopInactive)
		close(r.terminate)
	}()
	r.ends(reconcile.Canceled, reconcile.StopInactive)
	if r.tracker.asked != 1 || test.Exists(t, filepath.Join(r.Dir, stderrFile)) {
		t.Error("an agent was started")
	}
}

// A stop after a completed turn does not undo it.
func TestStopAfterTheTurn(t *testing.T) {
	r := newRig(t, "say done")
	r.tracker.answers = []answer{in("Todo"), func() (map[string]reconcile.Issue, error) {
		r.journal.setStop(reconcile.StopOperator)
		close(r.terminate)
		test.Until(t, "read of the stop reason", r.journal.stopWasRead)
		return in("Human Review")()
	}}
	run := r.ends(reconcile.EndedRun, "")
	test.Equal(t, "turns", []any{run.TurnsDone, run.Turns}, []any{1, 1})
}

// If a pass has settled the run, the worker ends its agent and records nothing.
func TestRowLost(t *testing.T) {
	r := newRig(t, "stream 100000 5ms")
	r.journal.refuse = func(run reconcile.Run) error {
		if run.Turns > 0 {
			return reconcile.ErrConflict
		}
		return nil
	}
	_, err := r.work()
	test.Equal(t, "the end of the worker", len(r.journal.finished), 0)
	test.ErrorIs(t, "the end of the worker", err, reconcile.ErrConflict)
}

// theirOrigin is the origin of ABC-1.
const theirOrigin = "tracker.example id-1"

// claimBy is the claim of ABC-1 by a machine.
func claimBy(machine string) string {
	claim := team.Claim{
		Token:      machine,
		Machine:    machine,
		Account:    "ann",
		Project:    "demo",
		IssueID:    "id-1",
		Identifier: "ABC-1",
		Origin:     theirOrigin,
		Status:     team.Working,
		TermMS:     time.Hour.Milliseconds(),
	}
	return claim.Content()
}

// theirs is a remote in which the machine right has the claim of ABC-1.
type theirs struct{ team.Remote }

func (theirs) Look(context.Context) ([]team.Entry, error) {
	key := team.Key(theirOrigin)
	return []team.Entry{{Key: key, Object: "of right", Content: claimBy("right")}}, nil
}

// claims stores the claims of this machine in memory.
type claims struct {
	own  []team.Own
	seen []team.Seen
}

func (c *claims) OwnClaims(context.Context) ([]team.Own, error) { return c.own, nil }
func (c *claims) SaveOwnClaims(_ context.Context, own []team.Own) ([]team.Own, error) {
	c.own = own
	return own, nil
}
func (c *claims) DropOwnClaims(context.Context, []string) error         { return nil }
func (c *claims) SeenClaims(context.Context) ([]team.Seen, error)       { return c.seen, nil }
func (c *claims) SaveSeenClaims(_ context.Context, s []team.Seen) error { c.seen = s; return nil }

func (*claims) Refusals(context.Context) ([]team.Refusal, error) { return nil, nil }

func (*claims) SaveRefusals(context.Context, []team.Refusal) error { return nil }

// A run that finds only at its last step that another machine has its issue ends as one that
// was stopped for that, not as a success.
func TestClaimIsLostAtTheHandover(t *testing.T) {
	r := newRig(t, `tool hand_over {"summary": "done"}`, in("Todo"))
	r.Here.Config.Handoff.State = "Human Review"
	now := team.Instant{Boot: "boot", Since: time.Hour}
	r.Team = &team.Member{
		Remote: theirs{},
		Journal: &claims{own: []team.Own{{
			Issue:   team.Issue{ID: r.run.IssueID, Identifier: r.run.Identifier},
			Key:     team.Key(theirOrigin),
			Version: 1,
			Content: claimBy("left"),
			Object:  "of left",
			Renewed: now,
		}}},
		Terms:   team.Terms{Term: time.Hour},
		Machine: "left",
		Account: "ann",
		Project: "demo",
		Now:     time.Now,
		Clock:   func() team.Instant { return now },
	}
	run := r.ends(reconcile.Canceled, team.CodeLost)
	test.Contains(t, "message", run.ErrorText, "ann on right has the claim of ABC-1 now")
}
