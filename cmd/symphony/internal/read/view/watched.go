package view

import (
	"context"
	"slices"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// WatchedRow is an open pull request that passes watch.
type WatchedRow struct {
	IssueHead
	PullRequest string          `json:"pull_request_url"`
	WaitsFor    reconcile.Waits `json:"waits_for"`
}

// LookErrorRow is why the last look at the pull requests of a project failed.
type LookErrorRow struct {
	Project string `json:"project"`
	state.LookError
}

// Feedback says how pull requests are watched; false if they are not. Where the workflow can't
// be read, nothing is known of reviews.
func (f *Facts) Feedback() (reconcile.Feedback, bool) {
	if f.Config == nil {
		return reconcile.Feedback{}, true
	}
	return f.Config.Feedback, f.Config.Feedback.On()
}

// addWatched adds the watched pull requests, and the errors of watching them.
func (v *Overview) addWatched(ctx context.Context, f *Facts) error {
	v.Watched = []WatchedRow{}
	v.LookErrors = []LookErrorRow{}
	feedback, on := f.Feedback()
	if !on {
		return nil
	}
	watches, err := f.DB.Views.Watches(ctx)
	if err != nil {
		return err
	}
	for _, w := range watches {
		waits := w.WaitsFor(feedback, f.Now)
		if waits == nil || !f.wants(w.IssueID) {
			continue
		}
		last, _, err := f.DB.Runs.Last(ctx, w.IssueID)
		if err != nil {
			return err
		}
		head := IssueHead{
			Project:    f.Name,
			IssueID:    w.IssueID,
			Identifier: w.Identifier,
			IssueURL:   last.Issue.URL,
			Title:      last.Issue.Title,
			labels:     last.Issue.Labels,
		}
		v.Watched = append(v.Watched, WatchedRow{head, w.Pull.URL, *waits})
	}
	slices.SortFunc(v.Watched, func(a, b WatchedRow) int {
		return text.CompareNatural(a.Identifier, b.Identifier)
	})
	errs, err := f.DB.Views.LookErrors(ctx)
	if err != nil {
		return err
	}
	for _, e := range errs {
		v.LookErrors = append(v.LookErrors, LookErrorRow{f.Name, e})
	}
	return nil
}

// PullWords are what people call the pull requests that the project watches.
func (v Overview) PullWords() reconcile.PullWords {
	addresses := text.Map(v.Watched, func(r WatchedRow) string { return r.PullRequest })
	for _, e := range v.LookErrors {
		if e.PullRequest != "" {
			addresses = append(addresses, e.PullRequest)
		}
	}
	return reconcile.PullWordsOf(addresses...)
}
