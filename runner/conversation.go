package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/symphony-cron/symphony/runner/host"
)

// conversation belongs to a free run, and has a process of its own. If the process exits,
// the next call starts it again and goes on with the thread.
type conversation struct {
	*parts
	agents *launcher // of this conversation alone

	// clientCalls.mu guards these three.
	turns     []reconcile.Call // that wait
	running   *runningTurn     // nil before the first turn, and when none waits
	runsTurns bool             // a goroutine carries out its turns

	// closed when the call that opens the conversation ends; nil for a conversation without a
	// thread
	opened chan struct{}
	failed error // why the conversation could not be opened; set before opened is closed

	mu     sync.Mutex // held while the agent is started or ended
	live   *liveAgent // nil if none was started, or it exited
	params ConversationCall
}

// add makes another conversation, without a process. The caller holds mu.
func (cc *clientCalls) add() *conversation {
	agents := cc.agents.in(cc.site)
	// a conversation may begin much later: it runs the login profile itself
	agents.shell.loginAt = time.Time{}
	if n := len(cc.made) + 1; n > 1 {
		agents.stderr = fmt.Sprintf("agent-%d.stderr", n)
	}
	c := &conversation{parts: cc.parts, agents: agents}
	cc.made = append(cc.made, c)
	return c
}

// liveAgent is a process of the agent that answered, with the thread of its conversation.
type liveAgent struct {
	*agentProcess
	server agent.Server
}

// runningTurn is the turn of a conversation. done is closed when its end is stored.
type runningTurn struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// awaitOpened waits until the conversation is open. It returns why it could not be opened.
func (c *conversation) awaitOpened(ctx context.Context) error {
	if c == nil || c.opened == nil {
		return nil
	}
	select {
	case <-c.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.failed == nil {
		return nil
	}
	code, message := codeOf(c.failed)
	return &reconcile.Error{Code: code, Message: "the conversation was not opened: " + message}
}

// converse opens the conversation of a call.
func (c *conversation) converse(
	ctx context.Context,
	call *reconcile.Call,
	p ConversationCall,
) (ConversationResult, error) {
	if err := refuseSettings(p.Config); err != nil {
		return ConversationResult{}, err
	}
	c.params = p
	g, err := c.ensure(ctx)
	if err != nil {
		return ConversationResult{}, err
	}
	call.ThreadID = c.params.ThreadID
	return ConversationResult{
		ThreadID:  call.ThreadID,
		Model:     g.session.Model(),
		UserAgent: g.server.UserAgent,
		Resumed:   p.ThreadID != "",
	}, nil
}

// harmless are the settings of the agent that a client may change. Others start programs outside
// the sandbox, or reach further than the sandbox of a turn.
var harmless = []string{
	"compact_prompt", "hide_agent_reasoning", "model_reasoning_effort", "model_reasoning_summary",
	"model_verbosity", "personality", "show_raw_agent_reasoning",
}

func refuseSettings(config map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(harmless, name) {
			return &reconcile.Error{
				Code: "invalid_argument",
				Message: fmt.Sprintf(
					"config: a client can't set %q, only %s",
					name,
					strings.Join(harmless, ", "),
				),
			}
		}
	}
	return nil
}

// dir returns the directory in which a turn or a command starts: the call names it, or the
// conversation, or else it is the agent's. It is inside the agent's directory, and a link in
// its path may change: so the sandbox is always made for the agent's directory.
func (c *conversation) dir(named string) string {
	return cmp.Or(named, c.params.Cwd, c.site.space.Path)
}

// profiles returns the flags that give all commands of the agent the profiles of its
// directory. They protect its git directory, and also the git directory of a repository in it
// where the conversation starts.
func (c *conversation) profiles(ctx context.Context) (flags string, err error) {
	guarded, err := c.Free.Guarded(ctx)
	if err != nil {
		return "", err
	}
	if unclear := c.site.Config.Patterns(*c.site.space); len(unclear) > 0 {
		return "", reconcile.NewError(
			"invalid_argument",
			"the sandbox takes these paths for patterns: "+strings.Join(unclear, ", "),
			"use directories without *?[]{}",
		)
	}
	for dir := c.dir(""); dir != c.site.space.Path && paths.Inside(c.site.space.Path, dir); dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		if _, err := os.Lstat(git); err == nil {
			guarded = append(guarded, git)
		}
	}
	var git host.GitDirs // of a worktree, where the agent commits
	if !c.site.Config.ProtectGit {
		git, err = c.site.Machine.GitDirs(ctx, host.GitDirsRequest{Path: c.site.space.Path})
		if err != nil {
			return "", err
		}
	}
	profiles := c.site.Config.DirectoryProfiles(c.site.space.Path, *c.site.space, guarded, git.Writable...)
	return confine.ProfileFlags(profiles), nil
}

// endOutdated ends the agent before a turn if it was started with other profiles than now: a
// project may have been added since.
func (c *conversation) endOutdated(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return nil
	}
	flags, err := c.profiles(ctx)
	if err != nil {
		return err
	}
	if flags != c.agents.flags {
		c.live.end(context.WithoutCancel(ctx))
		c.live = nil
	}
	return nil
}

// ensure starts the agent, and opens the thread of the conversation, unless both are done.
func (c *conversation) ensure(ctx context.Context) (*liveAgent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		select {
		case <-c.live.session.Done(): // it exited
			c.live.end(context.WithoutCancel(ctx))
			c.live = nil
		default:
			return c.live, nil
		}
	}
	flags, err := c.profiles(ctx)
	if err != nil {
		return nil, err
	}
	c.agents.flags = flags
	live := &liveAgent{}
	g, err := c.agents.open(ctx, c.options, func(g *agentProcess) error {
		server, err := g.initialize(ctx)
		if err != nil {
			return err
		}
		live.agentProcess = g
		live.server = server
		if c.opened == nil {
			return nil
		}
		return c.openThread(ctx, live)
	})
	if err != nil {
		g.end(context.WithoutCancel(ctx))
		return nil, err
	}
	c.live = live
	return live, nil
}

// openThread starts the thread of the conversation, or resumes it.
func (c *conversation) openThread(ctx context.Context, g *liveAgent) error {
	where := *c.site.space
	where.Path = c.dir("")
	config, err := c.site.Config.ThreadConfig(ctx, c.site.Machine, c.run.ID, where, g.environ)
	if err != nil {
		return err
	}
	maps.Copy(config, c.params.Config)
	params := agent.ThreadParams{
		Name:                  c.run.Identifier,
		Cwd:                   where.Path,
		ApprovalPolicy:        firstGiven(c.params.ApprovalPolicy, c.site.Config.ApprovalPolicy),
		Config:                config,
		Model:                 c.params.Model,
		BaseInstructions:      c.params.BaseInstructions,
		DeveloperInstructions: c.params.DeveloperInstructions,
	}
	if c.params.ThreadID != "" {
		err = g.session.ResumeThread(ctx, c.params.ThreadID, params)
	} else {
		c.params.ThreadID, err = g.session.StartThread(ctx, params)
	}
	if err != nil {
		return err
	}
	c.rec.change(func(r *reconcile.Run) {
		r.ThreadID = c.params.ThreadID
		r.Model = g.session.Model()
	})
	c.rec.flush(ctx)
	return nil
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

// sandbox returns the permission profile of a turn, or the policy that replaces it: the call's own,
// the conversation's, or else the profile of the agent's directory.
func (c *conversation) sandbox(own json.RawMessage) (policy json.RawMessage, profile string) {
	policy = firstGiven(own, c.params.SandboxPolicy)
	if policy == nil {
		return nil, confine.ProfileName
	}
	if confine.ReadsOnly(policy) {
		return nil, confine.ReadOnlyProfileName
	}
	return policy, ""
}

func (c *conversation) options(g *agentProcess) agent.Options {
	desk := c.desk
	desk.Gone = g.gone
	return agent.Options{
		TurnTimeout:  c.site.Config.TurnTimeout,
		StallTimeout: c.site.Config.StallTimeout,
		OnApproval:   c.site.Config.OnApproval,
		OnQuestion:   c.site.Config.OnQuestion,
		Busy:         g.busy,
		Ask:          desk.Decide,
		Now:          c.Now,
		OnEvent:      c.newListener().follow(g),
	}
}

// turn carries out a turn. If ctx ends first, it interrupts the turn.
func (c *conversation) turn(ctx context.Context, p TurnCall) (TurnResult, error) {
	if err := c.endOutdated(ctx); err != nil {
		return TurnResult{}, err
	}
	g, err := c.ensure(ctx)
	if err != nil {
		return TurnResult{}, err
	}
	policy, profile := c.sandbox(p.SandboxPolicy)
	c.rec.change(func(r *reconcile.Run) {
		r.Turns++
		r.Activity = ""
	})
	c.rec.flush(ctx)
	params := agent.TurnParams{
		Items:          p.Items,
		Model:          p.Model,
		Effort:         p.Effort,
		Cwd:            c.dir(p.Cwd),
		ApprovalPolicy: firstGiven(p.ApprovalPolicy, c.params.ApprovalPolicy, c.site.Config.ApprovalPolicy),
		SandboxPolicy:  policy,
		Permissions:    profile,
	}
	g.beginTurn()
	turn, err := g.session.RunTurn(ctx, params)
	exited, _ := errors.AsType[*agent.Error](err)
	if exited != nil && exited.Code == agent.CodePortExit && turn.ID == "" && ctx.Err() == nil {
		// It exited before it took the turn, which was not known yet.
		c.stop(context.WithoutCancel(ctx))
		g, err = c.ensure(ctx)
		if err != nil {
			return TurnResult{}, err
		}
		g.beginTurn()
		turn, err = g.session.RunTurn(ctx, params)
	}
	c.rec.storeTokens(ctx, g.session)
	err = g.explain(ctx, err)
	if err == nil {
		c.rec.change(func(r *reconcile.Run) { r.TurnsDone++ })
		c.accountWorked(ctx)
	} else if turn.Status == "" { // it goes on
		c.interrupt(g)
	}
	c.rec.flush(ctx)
	return TurnResult{TurnID: turn.ID, LastMessage: turn.LastMessage}, err
}

// interrupt ends the running turn, or else the agent.
func (c *conversation) interrupt(g *liveAgent) {
	ctx, cancel := context.WithTimeout(context.Background(), interruptBound)
	defer cancel()
	if err := g.session.Interrupt(ctx); err != nil {
		warn(c.Log, "turn not interrupted: the agent is ended", err)
		c.stop(context.Background())
	}
}

// steer adds input to the running turn. Error: agent.ErrNoTurn.
func (c *conversation) steer(ctx context.Context, items []agent.Input) error {
	c.mu.Lock()
	g := c.live
	c.mu.Unlock()
	if g == nil {
		return agent.ErrNoTurn
	}
	return g.session.Steer(ctx, items)
}

// stop ends the agent.
func (c *conversation) stop(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.end(ctx)
		c.live = nil
	}
}
