// Package notify tells a person with hooks.on_attention what waits: an agent that asks, an issue
// that is held, a project in which nothing can start.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// hooksAtOnce bounds the notification hooks that run at the same time.
const hooksAtOnce = 16

// ByPass names a pass as the process that delivers a notification. Passes run one at a time,
// so another pass that took a notification is dead.
const ByPass = "pass"

// Notifier runs hooks.on_attention for notifications that have not been delivered.
type Notifier struct {
	P    *wiring.Project
	DB   *state.DB
	Hook Hook
	By   string // the process that delivers: a run's id, or ByPass
	// IssueID confines it to an issue, unless it is empty.
	IssueID string
	// Standing are current conditions that are not stored as events.
	Standing []reconcile.Attention
}

// HookOf returns the workflow's hooks.on_attention.
func HookOf(p *wiring.Project, cfg *workflow.Config) Hook {
	stateDir := "" // symphony finds the default directory by itself
	base, _ := p.Lookup("XDG_STATE_HOME")
	given, _ := p.Lookup("SYMPHONY_STATE_DIR")
	if given != "" || state.DefaultDir(base, p.Env.Home, p.Path) != p.StateDir {
		stateDir = p.StateDir
	}
	return Hook{
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

// Deliver runs the hook for each open notification, several at once, and reports whether it
// ran at all.
func (n Notifier) Deliver(ctx context.Context) (ran bool, err error) {
	open, err := n.DB.Attentions.OpenAttentions(
		ctx,
		n.P.Env.Now(),
		Patience,
		n.IssueID,
		n.Standing...)
	if err != nil || len(open) == 0 {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, n.Hook.Bound())
	defer cancel()
	startBy, cancelStart := context.WithTimeout(bounded, n.Hook.Bound()/2)
	defer cancelStart()

	var mu sync.Mutex
	var results []Result
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
) (*Result, error) {
	if a.TakenBy != "" && a.TakenBy != ByPass && wiring.Alive(n.P.StateDir, a.TakenBy) {
		return nil, nil //nolint:nilnil // its worker lives, and was suspended for a while
	}
	took, err := n.DB.Attentions.TakeAttention(
		ctx,
		n.P.Env.Now(),
		Patience,
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
			n.deliver(ctx, log)
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

// deliver delivers the open notifications and logs an error. After the end of ctx it is none:
// the next pass delivers what is left.
func (n Notifier) deliver(ctx context.Context, log *slog.Logger) {
	_, err := n.Deliver(ctx)
	if err != nil && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelWarn, "attention", slog.String("error", err.Error()))
	}
}
