package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/proc"
)

// callBook is a Calls in memory.
type callBook struct {
	mu     sync.Mutex
	calls  []reconcile.Call
	wake   chan struct{}
	refuse int // how many more times EndCall fails
}

func (b *callBook) QueuedCalls(context.Context, string) (queued []reconcile.Call, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.calls {
		if c.Status == reconcile.CallQueued {
			queued = append(queued, c)
		}
	}
	return queued, nil
}

func (b *callBook) change(id string, f func(*reconcile.Call) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.calls {
		if b.calls[i].ID == id {
			return f(&b.calls[i])
		}
	}
	return reconcile.ErrConflict
}

func (b *callBook) BeginCall(ctx context.Context, id string, now time.Time) error {
	return b.change(id, func(c *reconcile.Call) error {
		if c.Status != reconcile.CallQueued || ctx.Err() != nil {
			return errors.Join(reconcile.ErrConflict, ctx.Err())
		}
		c.Status = reconcile.CallRunning
		c.StartedAt = now
		return nil
	})
}

func (b *callBook) EndCall(_ context.Context, ended reconcile.Call) error {
	return b.change(ended.ID, func(c *reconcile.Call) error {
		switch {
		case b.refuse > 0:
			b.refuse--
			return errors.New("the disk is full")
		case c.Ended():
			return reconcile.ErrConflict
		}
		*c = ended
		return nil
	})
}

// freeRig is the worker of an agent without an issue.
type freeRig struct {
	*rig
	book  *callBook
	ended chan reconcile.Run
}

// newFreeRig returns a worker that works in a directory of its own once start is called.
func newFreeRig(t *testing.T) *freeRig {
	t.Helper()
	r := &freeRig{
		rig:   newRig(t, ""),
		book:  &callBook{wake: make(chan struct{}, 1)},
		ended: make(chan reconcile.Run, 1),
	}
	r.run.Kind = reconcile.FreeRun
	r.run.IssueID = "a"
	r.run.Identifier = "a"
	r.run.WorkspaceRoot = ""
	r.run.WorkspacePath = filepath.Join(r.root, "free")
	test.OK(t, os.MkdirAll(r.run.WorkspacePath, 0o700))
	r.Free = &Free{
		Calls:   r.book,
		Wake:    r.book.wake,
		Guarded: func(context.Context) ([]string, error) { return nil, nil },
	}
	return r
}

// start lets the worker work. At the end of the test it is stopped.
func (r *freeRig) start() {
	go func() {
		run, err := r.work()
		if err != nil {
			r.t.Errorf("Run: %v", err)
		}
		r.ended <- run
		close(r.ended)
	}()
	r.t.Cleanup(func() {
		r.stop()
		for range r.ended { // also of a test that has not waited for the end
		}
	})
}

// stop asks the worker to end, as Kill does.
func (r *freeRig) stop() {
	r.journal.setStop(reconcile.StopOperator)
	select {
	case <-r.terminate:
	default:
		close(r.terminate)
	}
}

// add stores calls and wakes the worker.
func (r *freeRig) add(calls ...reconcile.Call) {
	r.t.Helper()
	r.book.mu.Lock()
	for _, c := range calls {
		c.Status = reconcile.CallQueued
		if c.Params == nil {
			c.Params = []byte("{}")
		}
		r.book.calls = append(r.book.calls, c)
	}
	r.book.mu.Unlock()
	select {
	case r.book.wake <- struct{}{}:
	default:
	}
}

// until waits until a call satisfies ok, and returns it.
func (r *freeRig) until(id string, ok func(reconcile.Call) bool) (last reconcile.Call) {
	r.t.Helper()
	test.Until(r.t, "call "+id, func() bool {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		i := slices.IndexFunc(r.book.calls, func(c reconcile.Call) bool { return c.ID == id })
		last = r.book.calls[i]
		return ok(last)
	})
	return last
}

// wants waits for the end of a call and checks its status and its result, or its error: the
// code, and a part of the text.
func (r *freeRig) wants(id string, status reconcile.CallStatus, what string) reconcile.Call {
	r.t.Helper()
	c := r.until(id, reconcile.Call.Ended)
	got := string(c.Result)
	if c.Result == nil {
		got = c.ErrorCode + ": " + c.ErrorText
	}
	if c.Status != status || !strings.Contains(got, what) {
		r.t.Errorf("call %s: %s %s, want %s %s", id, c.Status, got, status, what)
	}
	return c
}

func conversationCall(id string) reconcile.Call {
	return reconcile.Call{ID: id, Verb: reconcile.CallConversation}
}

// scriptCall is a turn in the conversation c, in which the agent runs a script.
func scriptCall(id, script string) reconcile.Call {
	params := TurnCall{Items: []agent.Input{{Type: "text", Text: "```agent\n" + script + "\n```"}}}
	return reconcile.Call{
		ID:           id,
		Verb:         reconcile.CallTurn,
		Conversation: "c",
		Params:       test.Must(json.Marshal(params)),
	}
}

func running(c reconcile.Call) bool { return c.Status == reconcile.CallRunning }

// Conversations and turns. All are stored at once: a turn waits for its
// conversation and for the turn before it.
func TestCallsOfAnAgent(t *testing.T) {
	r := newFreeRig(t)
	elsewhere := t.TempDir()
	r.Here.Env = append(r.Here.Env, "MY_TOKEN=0123456789abcdef")
	r.add(
		conversationCall("c"),
		scriptCall("t1", "sh pwd > where\nsay one"),
		scriptCall("t2", "sh cat where\nsay two"),
		conversationCall("other"),
		reconcile.Call{
			ID: "image", Verb: reconcile.CallTurn, Conversation: "other",
			Params: []byte(
				`{"items":[{"type":"text","text":"` + "```agent\\nsh pwd > cwd\\nsay seen\\n```" + `"},{"type":"localImage","path":"/x.png"}],"cwd":"` + elsewhere + `"}`,
			),
		},
		reconcile.Call{ID: "x", Verb: reconcile.CallTurn, Conversation: "nowhere"},
		reconcile.Call{ID: "y", Verb: "dance"},
		reconcile.Call{ID: "z", Verb: reconcile.CallTurn, Conversation: "c", Params: []byte(`{"cwd":7}`)},
		reconcile.Call{
			ID:           "s",
			Verb:         reconcile.CallSteer,
			Conversation: "other",
			Params:       []byte(`{"items":[]}`),
		},
	)
	r.start()
	test.Equal(
		t,
		"the conversation has a thread",
		r.wants("c", reconcile.CallCompleted, `"userAgent":"symphony/`).ThreadID != "",
		true,
	)
	r.wants("t1", reconcile.CallCompleted, `"lastMessage":"one"`)
	r.wants("t2", reconcile.CallCompleted, `"lastMessage":"two"`)
	r.wants("image", reconcile.CallCompleted, `"lastMessage":"seen"`)
	r.wants("x", reconcile.CallFailed, `not_found: the agent has no conversation "nowhere"`)
	r.wants("y", reconcile.CallFailed, `unknown call "dance"`)
	r.wants("z", reconcile.CallFailed, "parameters of turn")
	if s := r.until("s", reconcile.Call.Ended); s.Status == reconcile.CallFailed && s.ErrorCode != "no_turn" {
		t.Errorf("steer: %+v", s) // the turn may have begun
	}
	test.Equal(
		t,
		"where the turn worked",
		test.Read(t, filepath.Join(r.run.WorkspacePath, "where")),
		r.run.WorkspacePath+"\n",
	)
	test.Equal(
		t,
		"where it worked",
		test.Read(t, filepath.Join(elsewhere, "cwd")),
		test.Must(filepath.EvalSymlinks(elsewhere))+"\n",
	)
	r.stop()
	run := <-r.ended
	test.Equal(
		t,
		"outcome, code and turns",
		[]any{
			run.Outcome,
			run.ErrorCode,
			run.Turns,
			run.TurnsDone,
		},
		[]any{reconcile.Canceled, reconcile.StopOperator, 3, 3},
	)
	test.Equal(
		t,
		"the temporary files of the agent are left",
		test.Exists(t, filepath.Join(r.Dir, "work")),
		false,
	)
}

// An agent has a limited number of conversations. One that was refused does not count.
func TestConversationsOfAnAgentAreLimited(t *testing.T) {
	r := newFreeRig(t)
	j := r.newJob(r.run, func(error) {})
	test.OK(t, j.open())
	defer j.close()
	c := j.newClientCalls()
	call := func(id string) {
		// starts no codex
		r.add(reconcile.Call{
			ID:     id,
			Verb:   reconcile.CallConversation,
			Params: []byte(`{"model":7}`),
		})
		c.begin(t.Context(), reconcile.Call{
			ID:     id,
			Verb:   reconcile.CallConversation,
			Params: []byte(`{"model":7}`),
		})
		c.working.Wait()
	}
	for i := range maxConversations - 1 {
		c.conversations[fmt.Sprint(i)] = c.add()
	}
	for _, id := range []string{"a", "b"} {
		call(id)
		r.wants(id, reconcile.CallFailed, "parameters of conversation")
	}
	c.conversations["last"] = c.add()
	call("c")
	r.wants("c", reconcile.CallFailed, "not_possible: the agent has 16 conversations")
}

// An interrupt ends the running turn and those that wait, and nothing else. Input is added to
// a turn from its beginning on.
func TestInterruptAndSteer(t *testing.T) {
	r := newFreeRig(t)
	r.start()
	steer := func(id string) reconcile.Call {
		return reconcile.Call{
			ID:           id,
			Verb:         reconcile.CallSteer,
			Conversation: "c",
			Params:       []byte(`{"items":[{"type":"text","text":"more of it"}]}`),
		}
	}
	r.add(conversationCall("c"), steer("s1"))
	r.wants("s1", reconcile.CallFailed, "no_turn: no turn is running")
	r.add(scriptCall("t1", "hang"), scriptCall("t2", "say no"))
	r.until("t1", running)
	r.add(steer("s2"))
	r.wants("s2", reconcile.CallCompleted, "{}")
	r.add(reconcile.Call{
		ID:           "i1",
		Verb:         reconcile.CallInterrupt,
		Conversation: "c",
	}, scriptCall("t3", "say later"))
	r.wants("i1", reconcile.CallCompleted, "{}")
	r.wants("t1", reconcile.CallInterrupted, "interrupted: a client")
	if t3 := r.until("t3", reconcile.Call.Ended); t3.Status == reconcile.CallFailed {
		t.Errorf("%+v", t3) // the interrupt may come after it
	}
	r.wants("t2", reconcile.CallInterrupted, "interrupted: a client")
	r.add(reconcile.Call{ID: "i2", Verb: reconcile.CallInterrupt, Conversation: "c"})
	r.wants("i2", reconcile.CallCompleted, "{}")
	r.add(scriptCall("t4", "say still here"))
	r.wants("t4", reconcile.CallCompleted, "still here")
}

// oneTurn is a Calls that refuses every turn after a while, and sees how many are about to run
// at once.
type oneTurn struct {
	callBook
	running, most atomic.Int32
}

func (o *oneTurn) BeginCall(context.Context, string, time.Time) error {
	now := o.running.Add(1)
	defer o.running.Add(-1)
	o.most.Store(max(o.most.Load(), now))
	time.Sleep(20 * time.Millisecond)
	return reconcile.ErrConflict
}

// Two turns of one conversation never run at once, even if an interrupt comes before the first
// has begun.
func TestTurnsOfAConversationDoNotOverlap(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // no turn begins before this goroutine waits
	r := newFreeRig(t)
	calls := &oneTurn{}
	r.Free.Calls = calls
	j := r.newJob(r.run, func(error) {})
	test.OK(t, j.open())
	defer j.close()
	c := j.newClientCalls()
	c.conversations["c"] = c.add()
	ctx := t.Context()
	c.begin(ctx, scriptCall("1", "say no"))
	c.interrupt(ctx, c.conversations["c"])
	c.begin(ctx, scriptCall("2", "say no"))
	time.Sleep(time.Millisecond)
	c.begin(ctx, scriptCall("3", "say no"))
	c.working.Wait()
	test.Equal(t, "turns at once", calls.most.Load(), 1)
}

// If codex exits during a turn, the turn fails, and the next one continues the thread.
func TestCodexExitsDuringATurn(t *testing.T) {
	r := newFreeRig(t)
	r.start()
	r.add(
		conversationCall("c"),
		scriptCall("t1", "say first"),
		scriptCall("t2", "crash"),
		scriptCall("t3", "say again"),
	)
	thread := r.wants("c", reconcile.CallCompleted, "threadId").ThreadID
	r.wants("t1", reconcile.CallCompleted, "first")
	r.wants("t2", reconcile.CallFailed, "port_exit: the agent exited unexpectedly, exit status 1")
	r.wants("t3", reconcile.CallCompleted, "again")
	test.Until(t, "row after the third turn", func() bool { return r.journal.lastRow().TurnsDone == 2 })
	test.Equal(t, "thread of the turns", r.journal.lastRow().ThreadID, thread)
}

// A turn right after codex was killed does not fail: codex is started again.
func TestTurnAfterCodexWasKilled(t *testing.T) {
	r := newFreeRig(t)
	r.start()
	r.add(conversationCall("c"), scriptCall("t1", "sh pwd\nsay first"))
	r.wants("t1", reconcile.CallCompleted, "first")
	for _, p := range test.Must(proc.Descendants(os.Getpid())) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended with its parent
	}
	r.add(scriptCall("t2", "say again"))
	r.wants("t2", reconcile.CallCompleted, "again")
}

// What an agent has done in one turn is not what it does in the next.
func TestActivityOfANewTurn(t *testing.T) {
	r := newFreeRig(t)
	r.start()
	r.add(conversationCall("c"), scriptCall("t1", "sh pwd\nsay first"))
	r.wants("t1", reconcile.CallCompleted, "first")
	test.Until(t, "the activity", func() bool { return r.journal.lastRow().Activity != "" })
	r.add(scriptCall("t2", "hang"))
	r.until("t2", running)
	test.Until(t, "no activity of the new turn", func() bool { return r.journal.lastRow().Activity == "" })
}

// A codex that does not start fails the conversation and its turns, with the reason. The agent
// lives on.
func TestCodexDoesNotStart(t *testing.T) {
	for _, c := range []struct{ name, command, code, text string }{
		{"hangs", "--fault silent-initialize", "response_timeout", "initialize"},
		{"exits after initialize", "--fault thread-error=gone", "response_error", "gone"},
		{"too old", "--fault version=0.100.0", "codex_incompatible", "0.100.0"},
		{"conversations nonsense", "yes #", "codex_incompatible", "initialize"},
		{"is missing", "/missing/codex", "codex_not_found", `"/missing/codex app-server" can't be run`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFreeRig(t)
			r.Here.Config.InitializeTimeout = 10 * time.Second
			if c.text == "initialize" { // it never answers, but must have said something
				r.Here.Config.InitializeTimeout = 2 * time.Second
			}
			if strings.HasPrefix(c.command, "--") {
				r.Here.Config.Command += " " + c.command
			} else {
				r.Here.Config.Command = c.command + " app-server"
			}
			r.add(conversationCall("c"), scriptCall("t", "say no"))
			r.start()
			test.Equal(t, "code", r.wants("c", reconcile.CallFailed, c.text).ErrorCode, c.code)
			r.wants("t", reconcile.CallFailed, c.code+": the conversation was not opened: ")
			r.stop()
			test.Equal(t, "outcome of the agent", (<-r.ended).Outcome, reconcile.Canceled)
		})
	}
}

// An agent without a call for its idle time ends, but not in the middle of a turn, and not
// while one waits.
func TestIdle(t *testing.T) {
	r := newFreeRig(t)
	r.Free.Idle = time.Nanosecond
	r.add(conversationCall("c"), scriptCall("t1", "sleep 30ms"), scriptCall("t2", "sleep 30ms\nsay done"))
	r.start()
	r.wants("t2", reconcile.CallCompleted, "done")
	r.add() // wakes the worker
	run := <-r.ended
	test.Equal(
		t,
		"outcome, code and text",
		[]any{
			run.Outcome,
			run.ErrorCode,
			run.ErrorText,
		},
		[]any{reconcile.Succeeded, "idle", "it had nothing to do for 1ns"},
	)
}

// An agent ends with its host, even in the middle of a turn.
func TestHostGone(t *testing.T) {
	r := newFreeRig(t)
	var gone atomic.Bool
	r.Free.Orphaned = gone.Load
	r.start()
	r.add(conversationCall("c"), scriptCall("t1", "background sleep 60s\nhang"), scriptCall("t2", "say no"))
	r.until("t1", running)
	gone.Store(true)
	r.add() // wakes the worker
	run := <-r.ended
	test.Equal(
		t,
		"outcome and code",
		[]any{run.Outcome, run.ErrorCode},
		[]any{reconcile.Canceled, "host_gone"},
	)
	for _, id := range []string{"t1", "t2"} {
		r.wants(id, reconcile.CallInterrupted, "host_gone: the program that started the agent has exited")
	}
}

// An end that can't be stored is stored later, because a client waits for it.
func TestEndOfACallIsNotLost(t *testing.T) {
	r := newFreeRig(t)
	r.Here.Machine = nil
	synctest.Test(t, func(t *testing.T) {
		r.book.refuse = 2
		r.add(conversationCall("c"))
		r.newJob(r.run, func(error) {}).newClientCalls().store(t.Context(), reconcile.Call{
			ID:     "c",
			Status: reconcile.CallCompleted,
		})
		test.Equal(t, "status", r.book.calls[0].Status, reconcile.CallCompleted)
	})
}

// A client may change only harmless settings of codex: others start programs, or widen the
// sandbox.
func TestSettingsOfClients(t *testing.T) {
	for config, refused := range map[string]string{
		`{"model_reasoning_effort":"low"}`:                             "",
		`{"web_search":"live"}`:                                        "web_search",
		`{"notify":["sh","-c","id"]}`:                                  "notify",
		`{"mcp_servers":{"x":{"command":"id"}}}`:                       "mcp_servers",
		`{"shell_environment_policy":{"inherit":"all"}}`:               "shell_environment_policy",
		`{"model_verbosity":"low","projects./.trust_level":"trusted"}`: "projects./.trust_level",
	} {
		var p ConversationCall
		test.OK(t, json.Unmarshal([]byte(`{"config":`+config+`}`), &p))
		err := refuseSettings(p.Config)
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), `"`+refused+`"`) {
			t.Errorf("%s: %v", config, err)
		}
	}
}
