package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// talk is one conversation of a free run, with a process of codex of its own. If codex exits, the next call starts it again and goes
// on with the thread.
type talk struct {
	*job
	turns   []reconcile.Call // that wait; clientCalls.mu guards it and running
	running *runningTurn     // nil if there is none

	mu     sync.Mutex // held while codex is started or ended
	agent  *agentProcess
	server agent.Server
	opened bool // params are set
	params ConversationCall
	// profile is the name of the thread's permission profile, "" for none.
	profile string
}

// runningTurn is the turn of a talk. done is closed when its end is stored.
type runningTurn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// converse opens the conversation of a call.
func (t *talk) converse(ctx context.Context, call *reconcile.Call, p ConversationCall) (ConversationResult, error) {
	if p.Cwd != "" {
		space := *t.space
		space.Path, t.space = p.Cwd, &space
	}
	t.params, t.opened = p, true
	g, err := t.ensure(ctx)
	if err != nil {
		return ConversationResult{}, err
	}
	call.ThreadID = t.params.ThreadID
	return ConversationResult{
		ThreadID: t.params.ThreadID, Model: g.session.Model(), UserAgent: t.server.UserAgent, Resumed: p.ThreadID != "",
	}, nil
}

// ensure starts codex, and opens the thread of the conversation, unless both are done.
func (t *talk) ensure(ctx context.Context) (*agentProcess, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.agent != nil {
		select {
		case <-t.agent.session.Done(): // it has exited
			t.agent.end(context.WithoutCancel(ctx))
			t.agent = nil
		default:
			return t.agent, nil
		}
	}
	g, err := openAgent(ctx, t.job, t.options, func(g *agentProcess) (err error) {
		if t.server, err = g.initialize(ctx); err == nil && t.opened {
			err = t.openThread(ctx, g)
		}
		return err
	})
	if err != nil {
		g.end(context.WithoutCancel(ctx))
		return nil, err
	}
	t.agent = g
	return g, nil
}

func (t *talk) openThread(ctx context.Context, g *agentProcess) error {
	config, err := t.Config.ThreadConfig(ctx, t.Host, t.run.ID, *t.space, g.environ)
	if err != nil {
		return err
	}
	for name, value := range t.params.Config {
		config[name] = value
	}
	policy, err := t.policy(ctx, nil)
	if err != nil {
		return err
	}
	if t.params.SandboxPolicy == nil {
		if profile := t.Config.Profile(policy); profile != nil {
			confine.AddProfile(config, profile)
			t.profile = confine.ProfileName
		}
	}
	params := agent.ThreadParams{
		Name: t.run.Identifier, Cwd: t.space.Path, ApprovalPolicy: t.approval(nil), Config: config, Model: t.params.Model,
		BaseInstructions: t.params.BaseInstructions, DeveloperInstructions: t.params.DeveloperInstructions,
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

// approval and policy return the rules of a turn: its own, or those of the conversation, or those of a run.
func (t *talk) approval(own json.RawMessage) json.RawMessage {
	for _, p := range []json.RawMessage{own, t.params.ApprovalPolicy} {
		if len(p) > 0 {
			return p
		}
	}
	return t.Config.ApprovalPolicy
}

func (t *talk) policy(ctx context.Context, own json.RawMessage) (json.RawMessage, error) {
	for _, p := range []json.RawMessage{own, t.params.SandboxPolicy} {
		if len(p) > 0 {
			return p, nil
		}
	}
	return t.Config.TurnPolicy(ctx, t.Host, *t.space)
}

func (t *talk) options(g *agentProcess) agent.Options {
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
func (t *talk) turn(ctx context.Context, p TurnCall) (TurnResult, error) {
	g, err := t.ensure(ctx)
	if err != nil {
		return TurnResult{}, err
	}
	policy, err := t.policy(ctx, p.SandboxPolicy)
	if err != nil {
		return TurnResult{}, err
	}
	profile := t.profile
	if p.SandboxPolicy != nil {
		profile = ""
	}
	t.rec.change(func(r *reconcile.Run) { r.Turns++ })
	g.beginTurn()
	turn, err := g.session.RunTurn(ctx, agent.TurnParams{
		Items: p.Items, Model: p.Model, Effort: p.Effort, Cwd: cmp.Or(p.Cwd, t.space.Path),
		ApprovalPolicy: t.approval(p.ApprovalPolicy), SandboxPolicy: policy, Permissions: profile,
	})
	t.rec.usage(ctx, g.session)
	if err != nil && turn.Status == "" { // it goes on
		t.interrupt(g)
	}
	if err == nil {
		t.rec.change(func(r *reconcile.Run) { r.TurnsDone++ })
		t.shareSuccess(ctx)
	}
	t.rec.flush(ctx)
	return TurnResult{TurnID: turn.ID, LastMessage: turn.LastMessage}, g.explain(ctx, err)
}

// interrupt ends the running turn of codex, or codex.
func (t *talk) interrupt(g *agentProcess) {
	ctx, cancel := context.WithTimeout(context.Background(), interruptBound)
	defer cancel()
	if err := g.session.Interrupt(ctx); err != nil {
		t.warn("turn not interrupted: codex is ended", err)
		t.stop(context.Background())
	}
}

func (t *talk) steer(ctx context.Context, items []agent.Input) error {
	t.mu.Lock()
	g := t.agent
	t.mu.Unlock()
	err := agent.ErrNoTurn
	if g != nil {
		err = g.session.Steer(ctx, items)
	}
	if errors.Is(err, agent.ErrNoTurn) {
		return &reconcile.Error{Code: "no_turn", Message: "no turn is running in the conversation", Hint: "send the input as a turn"}
	}
	return err
}

// ask carries out a call that needs no turn.
func (t *talk) ask(ctx context.Context, call reconcile.Call) (any, error) {
	g, err := t.ensure(ctx)
	if err != nil {
		return nil, err
	}
	switch call.Verb {
	case reconcile.CallLogin:
		login, err := g.session.Login(ctx, t.space.Path)
		return LoginResult{login, t.server.UserAgent}, err
	case reconcile.CallDiff:
		return decoded(call, func(p ExecCall) (any, error) {
			return g.session.DiffToRemote(ctx, cmp.Or(p.Cwd, t.space.Path))
		})
	case reconcile.CallExec:
		return decoded(call, func(p ExecCall) (any, error) {
			policy, err := t.policy(ctx, p.SandboxPolicy)
			if err != nil {
				return nil, err
			}
			limit := cmp.Or(time.Duration(p.TimeoutMS)*time.Millisecond, execTimeout)
			return g.session.Exec(ctx, agent.ExecParams{Command: p.Command, Cwd: cmp.Or(p.Cwd, t.space.Path), SandboxPolicy: policy, Timeout: limit})
		})
	}
	return nil, fmt.Errorf("unknown call %q", call.Verb)
}

// stop ends codex.
func (t *talk) stop(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.agent.end(ctx)
	t.agent = nil
}
