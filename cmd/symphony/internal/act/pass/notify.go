package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// hooksAtOnce bounds the notification hooks that run at the same time.
const hooksAtOnce = 16

// byPass names a pass as the process that delivers a notification. Passes run one at a time,
// so another pass that took a notification is dead.
const byPass = "pass"

// Notifier runs hooks.on_attention for notifications that have not been delivered.
type Notifier struct {
	P    *wiring.Project
	DB   *state.DB
	Hook runner.AttentionHook
	By   string // the process that delivers: a run's id, or byPass
	// IssueID confines it to an issue, unless it is empty.
	IssueID string
	// standing are current conditions that are not stored as events.
	standing []reconcile.Attention
}

// AttentionHook returns the workflow's hooks.on_attention.
func AttentionHook(p *wiring.Project, cfg *workflow.Config) runner.AttentionHook {
	stateDir := "" // symphony finds the default directory by itself
	base, _ := p.Lookup("XDG_STATE_HOME")
	given, _ := p.Lookup("SYMPHONY_STATE_DIR")
	if given != "" || state.DefaultDir(base, p.Env.Home, p.Path) != p.StateDir {
		stateDir = p.StateDir
	}
	return runner.AttentionHook{
		Script:       cfg.Hooks.OnAttention,
		Where:        fmt.Sprintf("%s:%d", cfg.FileName, cfg.Lines["hooks.on_attention"]),
		Timeout:      cfg.Hooks.Timeout,
		Env:          p.Environ(),
		Home:         p.Env.Home,
		Workflow:     p.Path,
		StateDir:     stateDir,
		Secrets:      cfg.SecretVars,
		SecretValues: wiring.Secrets(p, cfg),
		Now:          p.Env.Now,
		Commands:     wiring.NewCommands(),
	}
}

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
	hook := AttentionHook(p, r.Config).OfPass(p.StateDir)
	r.addError(giveUpLeft(ctx, p, db, hook))
	if strings.TrimSpace(r.Config.Hooks.OnAttention) == "" {
		r.addError(db.Attentions.DropAttentions(ctx, p.Env.Now()))
		return
	}
	n := Notifier{
		P:        p,
		DB:       db,
		Hook:     hook,
		By:       byPass,
		standing: accountAttentions(wiring.OpenAccount(p, r.Config.Codex.Home), p.Env.Now()),
	}
	kept, err := keptAttentions(ctx, p, db)
	r.addError(err)
	n.standing = append(n.standing, kept...)
	ran, err := n.deliver(ctx)
	if ran {
		err = errors.Join(err, n.Hook.EndLeftovers(ctx))
	}
	r.addError(err)
}

// giveUpLeft ends the hooks of a pass that was killed, whose time nothing limits any more, and
// gives up their notifications.
func giveUpLeft(ctx context.Context, p *wiring.Project, db *state.DB, hook runner.AttentionHook) error {
	now := p.Env.Now()
	left, err := db.Attentions.LeftAttentions(ctx, now, runner.AttentionPatience, byPass)
	if err != nil || !left {
		return err
	}
	if err := hook.EndLeftovers(ctx); err != nil {
		return err
	}
	return db.Attentions.GiveUpAttentions(ctx, p.Env.Now(), runner.AttentionPatience, byPass)
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

// deliver runs the hook for each open notification, several at once, and reports whether it
// ran at all.
func (n Notifier) deliver(ctx context.Context) (ran bool, err error) {
	open, err := n.DB.Attentions.OpenAttentions(
		ctx,
		n.P.Env.Now(),
		runner.AttentionPatience,
		n.IssueID,
		n.standing...)
	if err != nil || len(open) == 0 {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, n.Hook.Bound())
	defer cancel()
	startBy, cancelStart := context.WithTimeout(bounded, n.Hook.Bound()/2)
	defer cancelStart()

	var mu sync.Mutex
	var results []runner.AttentionResult
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, hooksAtOnce)
	for _, a := range open {
		slots <- struct{}{}
		if startBy.Err() != nil {
			break // too little time is left; the next pass delivers it
		}
		wg.Go(func() {
			defer func() { <-slots }()
			one, err := n.deliverOne(ctx, bounded, a)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if one != nil {
				results = append(results, *one)
				errs = append(errs, one.Err)
			}
		})
	}
	wg.Wait()
	return len(results) > 0, errors.Join(append(errs, n.Hook.WriteLog(results))...)
}

// deliverOne takes a notification and runs the hook for it. The result is nil if another
// process delivers it.
func (n Notifier) deliverOne(
	ctx, bounded context.Context,
	a state.OpenAttention,
) (*runner.AttentionResult, error) {
	if a.TakenBy != "" && a.TakenBy != byPass && wiring.Alive(n.P.StateDir, a.TakenBy) {
		return nil, nil //nolint:nilnil // its worker lives, and was suspended for a while
	}
	took, err := n.DB.Attentions.TakeAttention(
		ctx,
		n.P.Env.Now(),
		runner.AttentionPatience,
		a.Attention,
		n.By,
	)
	if err != nil || !took {
		return nil, err
	}
	result := n.Hook.Run(bounded, a.Attention)
	if result.Unfinished {
		return &result, nil // a later pass tries once more
	}
	failure := ""
	if result.Err != nil {
		failure = exit.From(result.Err).Message
	}
	return &result, n.DB.Attentions.DoneAttention(context.WithoutCancel(ctx), n.P.Env.Now(), a.Key, failure)
}

// Start delivers the notifications of a worker in the background. wake starts a delivery and
// returns at once; stop ends a hook that is running, and waits for it.
func (n Notifier) Start(ctx context.Context, log *slog.Logger) (wake func(context.Context), stop func()) {
	if strings.TrimSpace(n.Hook.Script) == "" {
		return func(context.Context) {}, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	wakeups := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-wakeups:
			case <-ctx.Done():
				return
			}
			if _, err := n.deliver(ctx); err != nil {
				log.LogAttrs(ctx, slog.LevelWarn, "attention", slog.String("error", err.Error()))
			}
		}
	}()
	wake = func(context.Context) {
		select {
		case wakeups <- struct{}{}:
		default: // a delivery is about to begin anyway
		}
	}
	stop = func() {
		cancel()
		<-done
	}
	return wake, stop
}
