package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// conversation is one of a free run, with a process of codex of its own. If codex exits, the next call starts it again and goes
// on with the thread.
type conversation struct {
	*job
	// clientCalls.mu guards these three.
	turns     []reconcile.Call // that wait
	running   *runningTurn     // nil before the first one, and when none waits
	runsTurns bool             // a goroutine carries out its turns

	opened chan struct{} // closed when the call that opens the conversation has ended; nil for a conversation without a thread
	failed error         // why the conversation could not be opened; set before opened is closed

	mu     sync.Mutex // held while codex is started or ended
	live   *liveCodex // nil if none was started, or it has exited
	params ConversationCall
}

// liveCodex is a process of codex that has answered, with the thread of its conversation.
type liveCodex struct {
	*agentProcess
	server agent.Server
}

// runningTurn is the turn of a conversation. done is closed when its end is stored.
type runningTurn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// awaitOpened waits until the conversation is open. It returns why it could not be opened.
func (t *conversation) awaitOpened(ctx context.Context) error {
	if t == nil || t.opened == nil {
		return nil
	}
	select {
	case <-t.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if t.failed == nil {
		return nil
	}
	code, message := codeOf(t.failed)
	return &reconcile.Error{Code: code, Message: "the conversation was not opened: " + message}
}

// converse opens the conversation of a call.
func (t *conversation) converse(ctx context.Context, call *reconcile.Call, p ConversationCall) (ConversationResult, error) {
	if err := refuseSettings(p.Config); err != nil {
		return ConversationResult{}, err
	}
	t.params = p
	g, err := t.ensure(ctx)
	if err != nil {
		return ConversationResult{}, err
	}
	call.ThreadID = t.params.ThreadID
	return ConversationResult{
		ThreadID: call.ThreadID, Model: g.session.Model(), UserAgent: g.server.UserAgent, Resumed: p.ThreadID != "",
	}, nil
}

// harmless are the settings of codex that a client may change. Others start programs outside the sandbox, or reach further than
// the sandbox of a turn.
var harmless = []string{
	"compact_prompt", "hide_agent_reasoning", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity", "personality",
	"show_raw_agent_reasoning", "web_search",
}

func refuseSettings(config map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(harmless, name) {
			return &reconcile.Error{
				Code:    "invalid_argument",
				Message: fmt.Sprintf("config: a client can't set %q, only %s", name, strings.Join(harmless, ", ")),
			}
		}
	}
	return nil
}

// dir returns the directory in which a turn or a command starts: the one that the call names, that of the conversation, or the agent's.
// It is in that of the agent, and where it leads may change: the sandbox is that of the agent's directory.
func (t *conversation) dir(named string) string { return cmp.Or(named, t.params.Cwd, t.space.Path) }

// profiles returns the flags that give all commands of codex the profiles of the agent's directory. They protect its git directory, and
// that of a repository in it where the conversation starts.
func (t *conversation) profiles(ctx context.Context) (flags string, err error) {
	guarded, err := t.Free.Guarded(ctx)
	if err != nil {
		return "", err
	}
	if unclear := t.Config.Patterns(*t.space); len(unclear) > 0 {
		return "", reconcile.NewError("invalid_argument", "codex's sandbox takes these paths for patterns: "+strings.Join(unclear, ", "),
			"use directories without *?[]{} in their paths")
	}
	for dir := t.dir(""); dir != t.space.Path && paths.Inside(t.space.Path, dir); dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if _, err := os.Lstat(git); err == nil {
			guarded = append(guarded, git)
		}
	}
	return confine.ProfileFlags(t.Config.DirectoryProfiles(t.space.Path, *t.space, guarded)), nil
}

// endOutdated ends codex before a turn if it was started with other profiles than now: a project may have been added since.
func (t *conversation) endOutdated(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live == nil {
		return nil
	}
	flags, err := t.profiles(ctx)
	if err == nil && flags != t.flags {
		t.live.end(context.WithoutCancel(ctx))
		t.live = nil
	}
	return err
}

// ensure starts codex, and opens the thread of the conversation, unless both are done.
func (t *conversation) ensure(ctx context.Context) (*liveCodex, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live != nil {
		select {
		case <-t.live.session.Done(): // it has exited
			t.live.end(context.WithoutCancel(ctx))
			t.live = nil
		default:
			return t.live, nil
		}
	}
	var err error
	if t.flags, err = t.profiles(ctx); err != nil {
		return nil, err
	}
	live := &liveCodex{}
	g, err := openAgent(ctx, t.job, t.options, func(g *agentProcess) (err error) {
		live.agentProcess = g
		if live.server, err = g.initialize(ctx); err == nil && t.opened != nil {
			err = t.openThread(ctx, live)
		}
		return err
	})
	if err != nil {
		g.end(context.WithoutCancel(ctx))
		return nil, err
	}
	t.live = live
	return live, nil
}

// openThread starts the thread of the conversation, or resumes it.
func (t *conversation) openThread(ctx context.Context, g *liveCodex) error {
	where := *t.space
	where.Path = t.dir("")
	config, err := t.Config.ThreadConfig(ctx, t.Machine, t.run.ID, where, g.environ)
	if err != nil {
		return err
	}
	maps.Copy(config, t.params.Config)
	params := agent.ThreadParams{
		Name: t.run.Identifier, Cwd: where.Path, ApprovalPolicy: firstGiven(t.params.ApprovalPolicy, t.Config.ApprovalPolicy), Config: config,
		Model: t.params.Model, BaseInstructions: t.params.BaseInstructions, DeveloperInstructions: t.params.DeveloperInstructions,
	}
	if t.params.ThreadID != "" {
		err = g.session.ResumeThread(ctx, t.params.ThreadID, params)
	} else {
		t.params.ThreadID, err = g.session.StartThread(ctx, params)
	}
	if err == nil {
		t.rec.change(func(r *reconcile.Run) { r.ThreadID, r.Model = t.params.ThreadID, g.session.Model() })
		t.rec.flush(ctx)
	}
	return err
}

// firstGiven returns the first value that is there. A client's null counts as missing.
func firstGiven(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}

// sandbox returns the permission profile of a turn or a command, or the policy that replaces it: what the call itself names, or the
// conversation, or the profile of the agent's directory.
func (t *conversation) sandbox(own json.RawMessage) (policy json.RawMessage, profile string) {
	switch policy = firstGiven(own, t.params.SandboxPolicy); {
	case policy == nil:
		return nil, confine.ProfileName
	case confine.ReadsOnly(policy):
		return nil, confine.ReadOnlyProfileName
	}
	return policy, ""
}

func (t *conversation) options(g *agentProcess) agent.Options {
	listener := newListener(t.job)
	return agent.Options{
		TurnTimeout: t.Config.TurnTimeout, StallTimeout: t.Config.StallTimeout, OnApproval: t.Config.OnApproval, OnQuestion: t.Config.OnQuestion,
		Busy: g.busy, Ask: g.asker(nil), Now: t.Now,
		OnEvent: func(e agent.Event) {
			<-g.ready
			listener.heard(g, e)
		},
	}
}

// turn carries out one turn. If ctx ends first, it interrupts the turn.
func (t *conversation) turn(ctx context.Context, p TurnCall) (TurnResult, error) {
	if err := t.endOutdated(ctx); err != nil {
		return TurnResult{}, err
	}
	g, err := t.ensure(ctx)
	if err != nil {
		return TurnResult{}, err
	}
	policy, profile := t.sandbox(p.SandboxPolicy)
	t.rec.change(func(r *reconcile.Run) { r.Turns++ })
	g.beginTurn()
	turn, err := g.session.RunTurn(ctx, agent.TurnParams{
		Items: p.Items, Model: p.Model, Effort: p.Effort, Cwd: t.dir(p.Cwd),
		ApprovalPolicy: firstGiven(p.ApprovalPolicy, t.params.ApprovalPolicy, t.Config.ApprovalPolicy),
		SandboxPolicy:  policy, Permissions: profile,
	})
	t.rec.usage(ctx, g.session)
	err = g.explain(ctx, err)
	switch {
	case err == nil:
		t.rec.change(func(r *reconcile.Run) { r.TurnsDone++ })
		t.shareSuccess(ctx)
	case turn.Status == "": // it goes on
		t.interrupt(g)
	}
	t.rec.flush(ctx)
	return TurnResult{TurnID: turn.ID, LastMessage: turn.LastMessage}, err
}

// interrupt ends the running turn of codex, or codex.
func (t *conversation) interrupt(g *liveCodex) {
	ctx, cancel := context.WithTimeout(context.Background(), interruptBound)
	defer cancel()
	if err := g.session.Interrupt(ctx); err != nil {
		t.warn("turn not interrupted: codex is ended", err)
		t.stop(context.Background())
	}
}

// steer adds input to the running turn. Error: agent.ErrNoTurn.
func (t *conversation) steer(ctx context.Context, items []agent.Input) error {
	t.mu.Lock()
	g := t.live
	t.mu.Unlock()
	if g == nil {
		return agent.ErrNoTurn
	}
	return g.session.Steer(ctx, items)
}

// ask carries out a call that needs no turn.
func (t *conversation) ask(ctx context.Context, call reconcile.Call) (any, error) {
	g, err := t.ensure(ctx)
	if err != nil {
		return nil, err
	}
	switch call.Verb {
	case reconcile.CallLogin:
		login, err := g.session.Login(ctx, t.dir(""))
		return LoginResult{login, g.server.UserAgent}, err
	case reconcile.CallDiff:
		return decoded(call, func(p ExecCall) (any, error) {
			return g.session.DiffToRemote(ctx, t.dir(p.Cwd))
		})
	case reconcile.CallExec:
		return decoded(call, func(p ExecCall) (any, error) {
			policy, profile := t.sandbox(p.SandboxPolicy)
			limit := cmp.Or(time.Duration(p.TimeoutMS)*time.Millisecond, execTimeout)
			return g.session.Exec(ctx, agent.ExecParams{
				Command: p.Command, Cwd: t.dir(p.Cwd), Env: t.Config.ExecEnv(t.run.ID, *t.space, g.environ), SandboxPolicy: policy,
				Permissions: profile, Timeout: limit,
			})
		})
	default:
		return nil, fmt.Errorf("unknown call %q", call.Verb)
	}
}

// stop ends codex.
func (t *conversation) stop(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live != nil {
		t.live.end(ctx)
		t.live = nil
	}
}
