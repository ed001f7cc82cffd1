package project

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// NewTracker makes the adapter of a configuration. warn receives what the tracker sends and the adapter ignores; it may be
// nil.
func NewTracker(cfg *workflow.Config, now func() time.Time, warn func(string)) (*reconcile.TrackerAdapter, error) {
	return linear.Adapter(trackerOptions(cfg, now, warn))
}

// NewTrackerWithoutProxy is NewTracker for a check on behalf of a schedule, which does not see the proxy that this
// process's environment names.
func NewTrackerWithoutProxy(cfg *workflow.Config, now func() time.Time) (*reconcile.TrackerAdapter, error) {
	o := trackerOptions(cfg, now, nil)
	o.IgnoreProxy = true
	return linear.Adapter(o)
}

func trackerOptions(cfg *workflow.Config, now func() time.Time, warn func(string)) linear.Options {
	t := cfg.Tracker
	return linear.Options{
		Endpoint: t.Endpoint, APIKey: t.APIKey.Reveal(), ProjectSlug: t.ProjectSlug, CAFile: t.CAFile,
		ReadOnly: t.ToolScope == "read", Now: now, Warn: warn,
	}
}

// TrackerSetup is how init connects a project to a tracker.
func TrackerSetup() reconcile.TrackerSetup { return linear.Setup() }

// WarnTo writes warnings to a log.
func WarnTo(log *slog.Logger) func(string) { return func(text string) { log.Warn(text) } }

// TrackerNames are the names of a workflow that a tracker can look up.
func TrackerNames(cfg *workflow.Config) reconcile.TrackerNames {
	p := cfg.Policy
	return reconcile.TrackerNames{States: slices.Concat(p.ActiveStates, p.TerminalStates), Labels: p.RequiredLabels, Assignee: p.Assignee}
}

// VerifyFirst returns the tracker such that its first read checks whether project, states, labels and assignee exist.
// The database remembers the names that were checked; without one (nil) every process checks.
func VerifyFirst(t *reconcile.TrackerAdapter, db *state.DB, cfg *workflow.Config, path string, warn func(string)) *reconcile.TrackerAdapter {
	if t.Verify == nil {
		return t
	}
	checked := *t
	checked.Tracker = &verified{t: t, db: db, cfg: cfg, path: path, warn: warn}
	return &checked
}

type verified struct {
	t    *reconcile.TrackerAdapter
	db   *state.DB
	cfg  *workflow.Config
	path string
	warn func(string)

	once     sync.Once
	err      error
	rejected error // the tracker does not answer the question; reported once, after it has answered another
	reported sync.Once
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	issues, err := v.t.ByIDs(ctx, ids)
	if err == nil {
		err = v.accept(ctx)
	}
	return issues, err
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	issues, err := v.t.Candidates(ctx, states)
	if err == nil {
		err = v.accept(ctx)
	}
	return issues, err
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

// names identifies what is checked.
func (v *verified) names() string {
	t, n := v.cfg.Tracker, TrackerNames(v.cfg)
	return fmt.Sprintf("%q", slices.Concat([]string{t.Endpoint, t.ProjectSlug, n.Assignee}, n.Labels, []string{""}, n.States))
}

func (v *verified) check(ctx context.Context) error {
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		if err != nil || known == v.names() {
			return err
		}
	}
	found, err := v.t.Verify(ctx, TrackerNames(v.cfg))
	if errors.Is(err, reconcile.ErrRejected) {
		v.rejected = err
		return nil
	}
	if err != nil {
		var known *reconcile.Error
		if errors.As(err, &known) && known.Code == "tracker_project_not_found" {
			known.Message = v.path + ": tracker.project_slug: " + known.Message
		}
		return err
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	for _, u := range found.States {
		if slices.Contains(v.cfg.Tracker.NamedStates, u.Name) {
			warn("the project has no state " + u.String())
		}
	}
	for _, u := range found.Labels {
		warn("tracker.required_labels: the tracker has no label " + u.String())
	}
	if found.Assignee != nil {
		warn("tracker.assignee: the tracker has no user " + found.Assignee.String())
	}
	return v.remember(ctx)
}

// accept reports a rejected check once another read has worked: the check is advisory.
func (v *verified) accept(ctx context.Context) (err error) {
	if v.rejected == nil {
		return nil
	}
	v.reported.Do(func() {
		v.warn(fmt.Sprintf("%s: the tracker did not check the project, states and labels: %v", v.path, v.rejected))
		err = v.remember(ctx)
	})
	return err
}

func (v *verified) remember(ctx context.Context) error {
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, v.names())
}

const verifiedKey = "verified"

// FetchIssue asks the tracker for an issue by its identifier.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(cfg, p.Env.Now, WarnTo(NewLog(p.Env, slog.LevelWarn)))
	if err != nil {
		return nil, err
	}
	return tracker.Find(ctx, ref)
}
