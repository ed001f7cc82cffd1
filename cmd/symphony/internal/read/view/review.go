package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	// words are the agent's summary, or the first line of its last message; empty if it said nothing.
	words string
	// turn is what has happened to the issue since, in a folder; the zero value where that is nothing,
	// and where Options.Folder is not set.
	turn turn
}

// turn is what has happened to an issue that was handed over, before a pass has looked at it.
type turn struct {
	text string // such as "its state is now Done"
	// what a person may have to correct, such as "in an active state again"; empty for nothing
	amiss string
}

func (r ReviewRow) addTo(v *Overview) { v.Reviews = append(v.Reviews, r) }

// GoneText says that an issue's file is no longer in its folder.
const GoneText = "its file is gone from the folder"

// markGone says of held issues that are no longer in their folder, which has the issues now. It is nil
// for other trackers.
func markGone(held []HeldRow, now map[string]reconcile.Issue) {
	for i := range held {
		r := &held[i]
		_, isThere := now[r.IssueID]
		if now != nil && !isThere {
			r.Message = GoneText + "; " + r.Message
			r.text = GoneText + "; " + r.text
			r.brief = GoneText + "; " + r.brief
		}
	}
}

// FileOf returns the file of an issue in the folder of the issues; nil for other trackers, and if the
// issue is in no file there.
func (f *Facts) FileOf(ctx context.Context, id string) *string {
	return text.OrNull(f.inFolder(ctx, []string{id})[id].File())
}

// IsGone reports whether an issue is no longer in its folder. It is false for other trackers, and for a
// folder that can't be read.
func (f *Facts) IsGone(ctx context.Context, id string) bool {
	now := f.inFolder(ctx, []string{id})
	_, isThere := now[id]
	return now != nil && !isThere
}

// addReviews adds the issues that wait for a review, the oldest first. It looks at the folder of held
// issues, too.
func (v *Overview) addReviews(ctx context.Context, f *Facts, folder *FolderCache) error {
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
	ids := text.Map(reviews, func(r state.Review) string { return r.IssueID })
	for _, r := range slices.Concat(v.NeedsHelp, v.Held) {
		ids = append(ids, r.IssueID)
	}
	var now map[string]reconcile.Issue
	if folder != nil && len(ids) > 0 {
		now = folder.read(ctx, f, ids)
		markGone(v.NeedsHelp, now)
		markGone(v.Held, now)
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
		if now != nil {
			row.turn = f.turnOf(r, now)
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

// FolderCache keeps the issues that readers have read from the folders of projects. The zero value
// is empty. It is safe for concurrent use.
type FolderCache struct {
	mu sync.Mutex
	of map[string]folderReading // by state directory
}

// folderReading are the issues with these ids that a folder had at a time.
type folderReading struct {
	at     time.Time
	ids    []string
	issues map[string]reconcile.Issue
}

// folderLasts is how long a reading counts as current.
const folderLasts = 10 * time.Second

// read returns the issues with these ids as their folder has them now, or had them a few
// seconds ago; nil for other trackers.
func (c *FolderCache) read(ctx context.Context, f *Facts, ids []string) map[string]reconcile.Issue {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir := f.Project.StateDir
	last := c.of[dir]
	if f.Now.Sub(last.at) < folderLasts && slices.Equal(last.ids, ids) {
		return last.issues
	}
	if c.of == nil {
		c.of = map[string]folderReading{}
	}
	c.of[dir] = folderReading{f.Now, ids, f.inFolder(ctx, ids)}
	return c.of[dir].issues
}

// inFolder returns the issues as a folder has them now, by their ids. It is nil for other
// trackers, which would take a request, and for a folder that can't be read.
func (f *Facts) inFolder(ctx context.Context, ids []string) map[string]reconcile.Issue {
	if f.Config == nil || f.Config.Tracker.Folder == "" {
		return nil
	}
	tracker, err := wiring.NewTracker(f.Project, f.Config, wiring.TrackerOptions{})
	if err != nil {
		return nil
	}
	found, err := tracker.ByIDs(ctx, ids)
	if err != nil {
		return nil
	}
	return found
}

// turnOf returns what has happened to an issue of a folder since it was handed over.
func (f *Facts) turnOf(r state.Review, now map[string]reconcile.Issue) turn {
	issue, isThere := now[r.IssueID]
	back := MovedBack(f.Config, r.Release, issue.State, f.Now)
	switch {
	case !isThere:
		return turn{
			text:  GoneText + ": symphony show " + r.Identifier + " says more",
			amiss: "no longer in the folder",
		}
	case issue.Malformed != "":
		return turn{text: UnreadableText + issue.Malformed, amiss: "with a file that can't be read"}
	case back != "":
		return turn{text: back, amiss: "in an active state again"}
	case issue.Unnamed != "":
		return turn{text: issue.Unnamed, amiss: "in a state that WORKFLOW.md does not name"}
	case f.Config.Policy.Terminal(issue.State):
		return turn{text: "its state is now " + issue.State}
	}
	return turn{}
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

// AmissText names the issues that were handed over and are not as they were then, with what a person
// may have to correct: "handed over, and in an active state again: WEB-1"; empty for none.
func AmissText(all []Overview) string {
	var kinds []string
	names := map[string][]string{}
	for _, v := range all {
		for _, r := range v.Reviews {
			if r.turn.amiss == "" {
				continue
			}
			if names[r.turn.amiss] == nil {
				kinds = append(kinds, r.turn.amiss)
			}
			names[r.turn.amiss] = append(names[r.turn.amiss], r.Identifier)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	each := func(kind string) string { return kind + ": " + strings.Join(names[kind], ", ") }
	return "handed over, and " + strings.Join(text.Map(kinds, each), "; ") + "; symphony show ISSUE says more"
}

// text says what the review waits for, and how the checks of the pull request are.
func (r ReviewRow) text() string {
	if r.turn.text != "" {
		return r.turn.text
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

// brief is what a list of reviews says: the agent's words, where nothing else has happened.
func (r ReviewRow) brief() string {
	words, _, _ := strings.Cut(r.words, "\n")
	if words == "" || r.turn.text != "" || r.WaitsFor != nil {
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
		waiting := text.Filter(v.Reviews, func(r ReviewRow) bool { return r.turn.text == "" })
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
