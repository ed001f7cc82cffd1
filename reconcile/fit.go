package reconcile

import (
	"context"
	"errors"
)

// CodeIncompatible: the installed codex does not understand what its clients of this version say. CodeUnchecked:
// whether it does could not be found out.
const (
	CodeIncompatible = "codex_incompatible"
	CodeUnchecked    = "codex_unchecked"
)

// Fit is what a pass has found out about the agent that it would start.
type Fit struct {
	// Err says why one started now could not do its work; nil where nothing is known against it.
	Err error
	// Changed: it is another agent than the one that was known before.
	Changed bool
}

// agentFits reports whether agents that the pass starts can do their work. Where they can't, the snapshot says so, and
// the pass plans again; all that starts no agent goes on.
func (t *tick) agentFits(ctx context.Context) bool {
	if t.Agent == nil {
		return true
	}
	err := t.lookAtAgent(ctx).Err
	if err == nil {
		return true
	}
	known := &Error{Code: CodeUnchecked, Message: err.Error(), Err: err}
	errors.As(err, &known)
	t.fail("", known)
	t.unfit = &Block{Code: known.Code, Message: known.Message, Since: t.snapshot.Now, OfAgent: true}
	if old := t.recorded.HostBlock; old != nil && old.Code == known.Code {
		t.unfit.Since = old.Since
	}
	t.snapshot.Unfit = t.unfit
	return false
}

// lookAtAgent asks once in a pass.
func (t *tick) lookAtAgent(ctx context.Context) Fit {
	if t.fit == nil {
		fit := t.Agent(ctx)
		t.fit = &fit
	}
	return *t.fit
}

// askedAbout reports whether this pass has looked at what the block is about.
func (t *tick) askedAbout(b Block) bool {
	if b.OfAgent {
		return t.fit != nil
	}
	return t.asked
}

// unblockAgent ends the block that a run has left which met an agent that it could not work with, as soon as there is
// another agent: that one need not wait for a probe.
func (t *tick) unblockAgent(ctx context.Context) {
	b := t.snapshot.AgentBlock
	if t.Agent == nil || t.DryRun || t.snapshot.DispatchOff || b == nil || b.Code != CodeIncompatible {
		return
	}
	if fit := t.lookAtAgent(ctx); fit.Err != nil || !fit.Changed {
		return
	}
	if err := t.Store.Commit(ctx, t.Now(), Change{AgentBlock: &Block{}}); err != nil {
		t.fail("state_write", err)
		return
	}
	t.snapshot.AgentBlock = nil
}
