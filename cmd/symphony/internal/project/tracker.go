package project

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// NewTracker makes the adapter of a configuration. warn receives what the tracker sends and the adapter ignores; it may be
// nil.
func NewTracker(cfg *workflow.Config, now func() time.Time, warn func(string)) (*reconcile.TrackerAdapter, error) {
	return newTracker(cfg, now, warn, false)
}

// NewTrackerWithoutProxy is NewTracker for a check on behalf of a schedule, which does not see the proxy that this
// process's environment names.
func NewTrackerWithoutProxy(cfg *workflow.Config, now func() time.Time) (*reconcile.TrackerAdapter, error) {
	return newTracker(cfg, now, nil, true)
}

func newTracker(cfg *workflow.Config, now func() time.Time, warn func(string), ignoreProxy bool) (*reconcile.TrackerAdapter, error) {
	t := cfg.Tracker
	return linear.Adapter(linear.Options{
		Endpoint: t.Endpoint, APIKey: t.APIKey.Reveal(), ProjectSlug: t.ProjectSlug, CAFile: t.CAFile,
		ReadOnly: t.ToolScope == "read", Now: now, Warn: warn, IgnoreProxy: ignoreProxy,
	})
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

	once sync.Once
	err  error
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return v.t.ByIDs(ctx, ids)
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return v.t.Candidates(ctx, states)
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

// verifiedKey holds the names that were checked.
const verifiedKey = "verified"

func (v *verified) check(ctx context.Context) error {
	t, n := v.cfg.Tracker, TrackerNames(v.cfg)
	names := fmt.Sprintf("%q", slices.Concat([]string{t.Endpoint, t.ProjectSlug, n.Assignee}, n.Labels, []string{""}, n.States))
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		if err != nil || known == names {
			return err
		}
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	found, err := v.t.Verify(ctx, n)
	var known *reconcile.Error
	switch {
	case errors.Is(err, reconcile.ErrRejected): // the check is advisory
		warn("the tracker did not check the project, states and labels: " + err.Error())
	case errors.As(err, &known) && known.Code == "tracker_project_not_found":
		known.Message = v.path + ": tracker.project_slug: " + known.Message
		return err
	case err != nil:
		return err
	}
	for _, u := range found.States {
		if slices.Contains(t.NamedStates, u.Name) {
			warn("the project has no state " + u.String())
		}
	}
	for _, u := range found.Labels {
		warn("tracker.required_labels: the tracker has no label " + u.String())
	}
	if found.Assignee != nil {
		warn("tracker.assignee: the tracker has no user " + found.Assignee.String())
	}
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, names)
}

// FetchIssue asks the tracker for an issue by its identifier.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(cfg, p.Env.Now, WarnTo(p.Env.NewLog(slog.LevelWarn, term.TextLog)))
	if err != nil {
		return nil, err
	}
	return tracker.Find(ctx, ref)
}
