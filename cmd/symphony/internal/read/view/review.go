package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
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
	// words are the agent's summary, or the first line of its last message; empty if it said nothing.
	words string
}

func (r ReviewRow) addTo(v *Overview) { v.Reviews = append(v.Reviews, r) }

// addReviews adds the issues that wait for a review, the oldest first.
func (v *Overview) addReviews(ctx context.Context, f *Facts) error {
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
			words: r.Words,
		}
		row.PullAddress = text.OrNull(r.PullRequest)
		pull, read := pulls[r.IssueID]
		if read {
			row.PullAddress = &pull.URL
			row.PullRequest = &pull
		}
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

// text says what the review waits for, and how the checks of the pull request are.
func (r ReviewRow) text() string {
	if r.WaitsFor != nil {
		return "waits for " + r.WaitsFor.Text
	}
	words := "waits for your review"
	if p := r.PullRequest; p != nil && p.Checks != "" {
		words += "; checks " + p.Checks
	}
	return words
}

// brief is what a list of reviews says: the agent's words.
func (r ReviewRow) brief() string {
	words, _, _ := strings.Cut(r.words, "\n")
	if words == "" || r.WaitsFor != nil {
		return ""
	}
	if p := r.PullRequest; p != nil && p.Checks != "" {
		return "checks " + p.Checks + "; " + words
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
		row.Brief = r.brief()
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
		n += len(v.Reviews)
		if len(v.Reviews) > 0 && (oldest.IssueID == "" || v.Reviews[0].Since.Before(oldest.Since)) {
			oldest = v.Reviews[0]
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
