package pass

import (
	"context"
	"errors"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/notify"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// notifyPeople delivers notifications at the end of a pass. It takes at most the time limit of
// the hook, and the time to end hooks that hang.
func (c *current) notifyPeople(ctx context.Context) {
	r := c.r
	p := c.p
	db := c.db
	if r.Config == nil || ctx.Err() != nil { // after a signal the next pass delivers them
		return
	}
	ctx = context.WithoutCancel(ctx)
	hook := notify.HookOf(p, r.Config).OfPass(p.StateDir)
	r.addError(giveUpLeft(ctx, p, db, hook))
	if strings.TrimSpace(r.Config.Hooks.OnAttention) == "" {
		r.addError(db.Attentions.DropAttentions(ctx, p.Env.Now()))
		return
	}
	n := notify.Notifier{
		P:        p,
		DB:       db,
		Hook:     hook,
		By:       notify.ByPass,
		Standing: accountAttentions(p, wiring.PassPolicy(p, r.Config)),
	}
	kept, err := keptAttentions(ctx, p, db)
	r.addError(err)
	n.Standing = append(n.Standing, kept...)
	ran, err := n.Deliver(ctx)
	if ran {
		err = errors.Join(err, n.Hook.EndLeftovers(ctx))
	}
	r.addError(err)
}

// giveUpLeft ends the hooks of a pass that was killed, whose time nothing limits any more, and
// gives up their notifications.
func giveUpLeft(ctx context.Context, p *wiring.Project, db *state.DB, hook notify.Hook) error {
	now := p.Env.Now()
	left, err := db.Attentions.LeftAttentions(ctx, now, notify.Patience, notify.ByPass)
	if err != nil || !left {
		return err
	}
	if err := hook.EndLeftovers(ctx); err != nil {
		return err
	}
	return db.Attentions.GiveUpAttentions(ctx, p.Env.Now(), notify.Patience, notify.ByPass)
}

// accountAttentions returns the conditions that keep agents from working in all projects of
// their accounts, which are stored with the accounts. An account that can't be read has none,
// which the pass reported.
func accountAttentions(p *wiring.Project, pol reconcile.Policy) (list []reconcile.Attention) {
	now := p.Env.Now()
	for _, a := range wiring.Accounts(p, pol) {
		s, err := a.Read(now)
		if err != nil {
			continue
		}
		if s.Block != nil {
			s.Block.Since = s.Since
		}
		account := reconcile.Account{Agent: a.Agent, Limit: s.Limit, Block: s.Block}
		attention, is := pol.AccountAttention(account, wiring.Instead(p, pol, a.Agent, now), now)
		if is {
			list = append(list, attention)
		}
	}
	return list
}

// keptAttentions returns the notifications of workspaces that are kept because of unsaved
// work.
func keptAttentions(ctx context.Context, p *wiring.Project, db *state.DB) ([]reconcile.Attention, error) {
	recorded, err := db.Store.State(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := view.Kept(ctx, p.StateDir, db, recorded)
	if err != nil {
		return nil, err
	}
	return text.Map(kept, reconcile.KeptAttention), nil
}
