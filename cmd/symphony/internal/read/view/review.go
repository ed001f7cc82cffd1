package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// ReviewRow is an issue that its agent has handed over, and that waits for a person's review.
type ReviewRow struct {
	IssueHead
	State string    `json:"state"` // in the tracker
	Since time.Time `json:"since"` // when it was handed over
	// PullAddress is the address of the pull request of the issue's branch; null if none is known.
	PullAddress *string `json:"pull_request_url"`
	// PullRequest is the same as it was read last; null if it was not read.
	PullRequest *state.PullRequest `json:"pull_request"`
	// WaitsFor is the wait of its watched pull request, such as for its checks; null if none is
	// watched.
	WaitsFor *reconcile.Waits `json:"waits_for"`
	// movedBack is MovedBack of an issue that is in a state again in which agents work; empty for
	// others, and where Options.Current is not set.
	movedBack string
}

func (r ReviewRow) addTo(v *Overview) { v.Reviews = append(v.Reviews, r) }

// addReviews adds the issues that wait for a review, the oldest first.
func (v *Overview) addReviews(ctx context.Context, f *Facts, current bool) error {
	v.Reviews = []ReviewRow{}
	reviews, err := f.DB.Views.Reviews(ctx)
	if err != nil {
		return err
	}
	pulls := map[string]state.PullRequest{}
	for _, p := range v.PullRequests {
		pulls[p.IssueID] = p.PullRequest
	}
	waits := map[string]reconcile.Waits{}
	for _, w := range v.Watched {
		waits[w.IssueID] = w.WaitsFor
	}
	states := map[string]string{}
	if current && len(reviews) > 0 {
		states = f.statesInFolder(ctx, reviews)
	}
	for _, r := range reviews {
		if !f.wants(r.IssueID) {
			continue
		}
		row := ReviewRow{
			IssueHead: IssueHead{
				Project:    f.Name,
				IssueID:    r.IssueID,
				Identifier: r.Identifier,
				IssueURL:   r.URL,
				Title:      r.Title,
				labels:     r.Labels,
			},
			State: text.OrEmpty(r.To),
			Since: r.At,
		}
		row.PullAddress = text.OrNull(r.PullRequest)
		pull, read := pulls[r.IssueID]
		if read {
			row.PullAddress = &pull.URL
			row.PullRequest = &pull
		}
		row.movedBack = MovedBack(f.Config, r.Release, states[r.IssueID], f.Now)
		wait, watched := waits[r.IssueID]
		if watched {
			row.WaitsFor = &wait
		}
		v.Reviews = append(v.Reviews, row)
	}
	slices.SortStableFunc(v.Reviews, func(a, b ReviewRow) int { // a pass hands over several at once
		return cmp.Or(a.Since.Compare(b.Since), text.CompareNatural(a.Identifier, b.Identifier))
	})
	return nil
}

// statesInFolder returns the states that issues of a folder have now, by their ids. It is empty for
// other trackers, which would take a request, and for what can't be read.
func (f *Facts) statesInFolder(ctx context.Context, reviews []state.Review) map[string]string {
	states := map[string]string{}
	if f.Config == nil || f.Config.Tracker.Folder == "" {
		return states
	}
	tracker, err := wiring.NewTracker(f.Project, f.Config, wiring.TrackerOptions{})
	if err != nil {
		return states
	}
	ids := text.Map(reviews, func(r state.Review) string { return r.IssueID })
	found, err := tracker.ByIDs(ctx, ids)
	if err != nil {
		return states
	}
	for id, issue := range found {
		states[id] = issue.State
	}
	return states
}

// MovedBack says that an issue was handed over, and is in a state again in which agents work; empty if
// it is in another state, or its state is not known. A person may want another run; but git takes back
// the file of an issue without a word, by a checkout or a stash.
func MovedBack(cfg *workflow.Config, release state.Release, current string, now time.Time) string {
	isBack := cfg != nil && current != "" && cfg.Policy.Active(current)
	if !isBack || !release.HandedOver() || release.To == nil {
		return ""
	}
	since := text.Duration(now.Sub(release.At))
	const happened = "it was handed over %s ago in the state %s, and is in %s again"
	back := fmt.Sprintf(happened, since, *release.To, current)
	if cfg.Tracker.Folder != "" {
		back += ": if nobody wants another run, git has taken its file back (checkout or stash): write status: " +
			*release.To + " into it"
	}
	return back
}

// MovedText names the issues that were handed over and are in an active state again; empty for none.
func MovedText(all []Overview) string {
	var moved []string
	for _, v := range all {
		for _, r := range v.Reviews {
			if r.movedBack != "" {
				moved = append(moved, r.Identifier)
			}
		}
	}
	if len(moved) == 0 {
		return ""
	}
	return "handed over, and in an active state again: " + strings.Join(moved, ", ") + "; symphony show ISSUE says more"
}

// text says what the review waits for, and how the checks of the pull request are.
func (r ReviewRow) text() string {
	if r.movedBack != "" {
		return r.movedBack
	}
	if r.WaitsFor != nil {
		return "waits for " + r.WaitsFor.Text
	}
	words := "waits for your review"
	if p := r.PullRequest; p != nil && p.Checks != "" {
		words += "; checks " + p.Checks
	}
	return words
}

// reviewRows are the rows of the issues that wait for a review, if the overview lists them.
func (v Overview) reviewRows() (list []Row) {
	if !v.listsReviews {
		return nil
	}
	for i, r := range v.Reviews {
		row := r.row(reconcile.StatusHandedOver, &r.Since, r.text(), r)
		row.place = i + 1
		row.State = text.OrNull(r.State)
		row.PullRequest = r.PullAddress
		list = append(list, row)
	}
	return list
}

// ReviewsText says how many issues of projects wait for a review, and for how long the oldest
// does, such as "3 wait for your review, the oldest (ABC-7) for 2d 4h"; empty for none.
func ReviewsText(all []Overview) string {
	n := 0
	var oldest ReviewRow
	var age string
	for _, v := range all {
		waiting := text.Filter(v.Reviews, func(r ReviewRow) bool { return r.movedBack == "" })
		n += len(waiting)
		if len(waiting) > 0 && (oldest.IssueID == "" || waiting[0].Since.Before(oldest.Since)) {
			oldest = waiting[0]
			age = text.Age(v.GeneratedAt, oldest.Since)
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("1 waits for your review (%s, for %s)", oldest.Identifier, age)
	}
	return fmt.Sprintf("%d wait for your review, the oldest (%s) for %s", n, oldest.Identifier, age)
}
