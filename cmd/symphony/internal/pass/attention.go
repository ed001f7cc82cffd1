package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// attentionsAtOnce bounds the hooks that are run side by side.
const attentionsAtOnce = 16

// teller runs hooks.on_attention for what a person has not been told of.
type Teller struct {
	P    *project.Project
	Db   *state.DB
	Hook runner.AttentionHook
	By   string // who tells: a run's id, or ofPass
	// issueID confines it to one issue, where it is not empty; standing is what is told of without being stored.
	IssueID  string
	standing []reconcile.Attention
}

// ofPass is who takes an attention in a pass. There is only one at a time, so that one of another pass is a dead one's.
const ofPass = "pass"

func AttentionHook(p *project.Project, cfg *workflow.Config) runner.AttentionHook {
	named := "" // where symphony would not find the state directory from the home directory
	base, _ := p.Lookup("XDG_STATE_HOME")
	if given, _ := p.Lookup("SYMPHONY_STATE_DIR"); given != "" || state.DefaultDir(base, p.Env.Home, p.Path) != p.StateDir {
		named = p.StateDir
	}
	return runner.AttentionHook{
		Script: cfg.Hooks.OnAttention, Timeout: cfg.Hooks.Timeout, Env: p.Environ(), Home: p.Env.Home, Workflow: p.Path, StateDir: named,
		Secrets: cfg.SecretVars(), SecretValues: []string{cfg.Tracker.APIKey.Reveal()}, Now: p.Env.Now,
	}
}

// tellPeople is the end of a pass: whatever a person has not been told of is told now. It takes no longer than the
// hook's bound and what it takes to end those that hang; what goes wrong is a warning.
func tellPeople(ctx context.Context, p *project.Project, db *state.DB, r *Result) {
	if r.Cfg == nil || ctx.Err() != nil { // whoever broke the pass off waits for no hook: the next one tells
		return
	}
	ctx = context.WithoutCancel(ctx)
	hook := AttentionHook(p, r.Cfg).OfPass(p.StateDir)
	if err := endLeftHooks(ctx, db, hook); err != nil {
		r.fail(err)
	}
	if strings.TrimSpace(r.Cfg.Hooks.OnAttention) == "" {
		if err := db.DropAttentions(ctx, p.Env.Now()); err != nil {
			r.fail(err)
		}
		return
	}
	t := Teller{P: p, Db: db, Hook: hook, By: ofPass}
	t.standing = accountAttentions(project.OpenAccount(p, r.Cfg.Codex.Home), p.Env.Now())
	told, err := t.tell(ctx)
	if len(told) > 0 {
		err = errors.Join(err, t.Hook.EndLeftovers(ctx))
	}
	if err != nil {
		r.fail(err)
	}
	if err := failedHooks(told); err != nil {
		r.fail(err)
	}
}

// endLeftHooks ends what a pass that was killed has left of its hooks: nobody else bounds their time any more.
func endLeftHooks(ctx context.Context, db *state.DB, hook runner.AttentionHook) error {
	now := hook.Now()
	left, err := db.LeftAttentions(ctx, now, runner.AttentionPatience, ofPass)
	if err != nil || !left {
		return err
	}
	if err := hook.EndLeftovers(ctx); err != nil {
		return err
	}
	return db.GiveUpAttentions(ctx, now, runner.AttentionPatience, ofPass)
}

// accountAttentions tell of what stops all projects of a codex account: it is written down with the account.
func accountAttentions(a *state.Account, now time.Time) []reconcile.Attention {
	s, err := a.Read(now)
	switch {
	case err != nil: // it counts for nothing, and the pass has said so
		return nil
	case s.Limit != nil:
		return []reconcile.Attention{reconcile.LimitAttention(*s.Limit, a.Home, now)}
	case s.Block != nil:
		b := *s.Block
		b.Since = s.Since
		a := reconcile.BlockAttention(b)
		a.At = now // it is stored for as long as others from then on, however long the block has stood
		return []reconcile.Attention{a}
	}
	return nil
}

// failedHooks is one error for all that failed, nil where none did.
func failedHooks(told []runner.AttentionResult) error {
	var first *reconcile.Error
	more := 0
	for _, one := range told {
		switch {
		case one.Err == nil:
		case first == nil:
			first = exit.From(one.Err)
		default:
			more++
		}
	}
	if first == nil {
		return nil
	}
	if more > 0 {
		all := *first
		all.Message += fmt.Sprintf(" (and %d more)", more)
		first = &all
	}
	return first
}

// tell runs the hook for all that is open, side by side, and returns how each ended.
func (t Teller) tell(ctx context.Context) ([]runner.AttentionResult, error) {
	open, err := t.Db.OpenAttentions(ctx, t.P.Env.Now(), runner.AttentionPatience, t.IssueID, t.standing...)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, t.Hook.Bound())
	defer cancel()
	late, cancelLate := context.WithTimeout(bounded, t.Hook.Bound()/2)
	defer cancelLate()

	var mu sync.Mutex
	var told []runner.AttentionResult
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, attentionsAtOnce)
	for _, a := range open {
		slots <- struct{}{}
		if late.Err() != nil {
			break // it would not get its time: the next pass begins with it
		}
		wg.Go(func() {
			defer func() { <-slots }()
			one, err := t.tellOne(ctx, bounded, a)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
			if one != nil {
				told = append(told, *one)
			}
		})
	}
	wg.Wait()
	return told, errors.Join(append(errs, t.Hook.WriteLog(told))...)
}

// tellOne takes one and runs the hook for it; nil where it is somebody else's to tell.
func (t Teller) tellOne(ctx, bounded context.Context, a state.OpenAttention) (*runner.AttentionResult, error) {
	if a.TakenBy != "" && a.TakenBy != ofPass && project.Alive(t.P.StateDir, a.TakenBy) {
		return nil, nil //nolint:nilnil // a worker that was kept from ending it for a while, by a suspend for instance
	}
	took, err := t.Db.TakeAttention(ctx, t.P.Env.Now(), runner.AttentionPatience, a.Attention, t.By)
	if err != nil || !took {
		return nil, err
	}
	told := t.Hook.Run(bounded, a.Attention)
	if told.Unfinished {
		return &told, nil // a later pass tries once more
	}
	failure := ""
	if told.Err != nil {
		failure = exit.From(told.Err).Message
	}
	return &told, t.Db.DoneAttention(context.WithoutCancel(ctx), t.P.Env.Now(), a.Key, failure)
}

// attending lets a worker tell of its requests. attend returns at once; stop waits for a hook that is still at work,
// which it ends.
func (t Teller) Attending(ctx context.Context, log *slog.Logger) (attend func(context.Context), stop func()) {
	if strings.TrimSpace(t.Hook.Script) == "" {
		return func(context.Context) {}, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	wake, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
			told, err := t.tell(ctx)
			if err = errors.Join(err, failedHooks(told)); err != nil {
				log.LogAttrs(ctx, slog.LevelWarn, "attention", slog.String("error", err.Error()))
			}
		}
	}()
	attend = func(context.Context) {
		select {
		case wake <- struct{}{}:
		default: // it is about to look anyway
		}
	}
	return attend, func() { cancel(); <-done }
}
