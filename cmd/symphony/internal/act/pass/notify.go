package pass

import (
	"context"
	"errors"
	"strings"
	"time"

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
		Standing: accountAttentions(wiring.OpenAccount(p, r.Config.Codex.Home), p.Env.Now()),
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

// accountAttentions returns the conditions that stop all projects of a codex account, which
// are stored with the account. There are none if it can't be read, which the pass reported.
func accountAttentions(account *state.Account, now time.Time) []reconcile.Attention {
	s, err := account.Read(now)
	if err != nil {
		return nil
	}
	if s.Limit != nil {
		return []reconcile.Attention{reconcile.LimitAttention(*s.Limit, account.Home, now)}
	}
	if s.Block == nil {
		return nil
	}
	b := *s.Block
	b.Since = s.Since
	blocked := reconcile.BlockAttention(b)
	blocked.At = now // its storage time begins now, however old the block is
	return []reconcile.Attention{blocked}
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
