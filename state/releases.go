package state

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Release is an issue that was released after at least one run, with a summary of the runs
// since it was claimed.
type Release struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Title      string  `json:"title"`
	URL        *string `json:"url"`
	Branch     *string `json:"branch_name"`
	Reason     string  `json:"reason"` // a reason to stop or to skip
	From       string  `json:"from_state"`
	// null if the tracker no longer returned the issue
	To        *string              `json:"to_state"`
	ClaimedAt time.Time            `json:"claimed_at"`
	At        time.Time            `json:"at"`
	Runs      int                  `json:"runs"`
	Runtime   time.Duration        `json:"-"`
	Models    []reconcile.ModelUse `json:"-"`
	Links     []reconcile.Link     `json:"links"`
	// how many objects the agents created in the tracker, by kind
	Created map[string]int `json:"created"`
	Labels  []string       `json:"labels"`
	// the result that the last agent reported, or the first line of its last message
	Words   string `json:"last_words"`
	Commits int    `json:"commits"` // that were delivered since the claim
	// the commit on which verify.command passed last; empty if it did not pass, or did not run
	Verified string `json:"verified_commit"`
	// InReview: the agent handed the issue over to a person, and nobody has moved it since.
	InReview bool `json:"in_review"`
}

const releaseColumns = `issue_id, identifier, title, url, branch, reason, from_state, to_state,
	claimed_at, released_at, runs, runtime_ms, usage, links, created, labels, words, commits, verified,
	in_review`

func releaseFields(r *Release) []any {
	return []any{
		&r.IssueID, &r.Identifier, &r.Title, nilOf(&r.URL), nilOf(&r.Branch), &r.Reason, &r.From, nilOf(&r.To),
		stampOf(&r.ClaimedAt), stampOf(&r.At), &r.Runs, millisOf(&r.Runtime), jsonOf(&r.Models),
		jsonOf(&r.Links), jsonOf(&r.Created), jsonOf(&r.Labels), &r.Words, &r.Commits,
		&r.Verified, &r.InReview,
	}
}

// HandedOver reports whether the issue was moved on, by its agent or by a person. An issue that
// was archived, for instance, is released in the state that it had.
func (r Release) HandedOver() bool {
	left := r.Reason == reconcile.StopTerminal || r.Reason == reconcile.StopInactive
	return left && (r.To == nil || *r.To != r.From)
}

// handedOver is HandedOver in a statement.
const handedOver = `(reason IN ('` + reconcile.StopTerminal + `', '` + reconcile.StopInactive + `')
	AND to_state IS NOT from_state)`

// Releases returns the newest releases of an issue, at most limit of them.
func (v Views) Releases(ctx context.Context, issueID string, limit int) ([]Release, error) {
	return readAll(ctx, v.conn, "read the releases", releaseFields,
		`SELECT `+releaseColumns+` FROM releases WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// Review is an issue that was handed over and waits for a person's review.
type Review struct {
	Release
	PullRequest string // the address of the delivered commit's pull request; empty if none is known
}

// unclaimedReviews selects the releases that wait for a review. A claim, as of an operator's hold,
// hides them while it lasts.
const unclaimedReviews = ` FROM releases WHERE in_review = 1 AND issue_id NOT IN (SELECT issue_id FROM claims)`

// Reviews returns the issues that wait for a review, the oldest handover first.
func (v Views) Reviews(ctx context.Context) ([]Review, error) {
	fields := func(r *Review) []any { return append(releaseFields(&r.Release), &r.PullRequest) }
	return readAll(ctx, v.conn, "read what waits for a review", fields, `SELECT `+releaseColumns+`,
		coalesce((SELECT pull_request FROM deliveries AS d WHERE d.issue_id = releases.issue_id), '')`+
		unclaimedReviews+` ORDER BY released_at, id`)
}

// CountReviews returns how many issues wait for a review.
func (v Views) CountReviews(ctx context.Context) (int, error) {
	n, _, err := readOne(ctx, v.conn, "count what waits for a review", itself[int],
		`SELECT count(*)`+unclaimedReviews)
	return n, err
}

// readReviews returns the issues that wait for a review, for a plan.
func readReviews(t tx) ([]reconcile.InReview, error) {
	fields := func(r *reconcile.InReview) []any { return []any{&r.IssueID, &r.State} }
	return rows(t, fields, `SELECT issue_id, to_state FROM releases WHERE in_review = 1 ORDER BY id`)
}

// endReview records that an issue waits for no review, if it did.
func endReview(t tx, issueID string) error {
	return t.run(`UPDATE releases SET in_review = 0 WHERE issue_id = ? AND in_review = 1`, issueID)
}

// SaveReviews records when the issues in review were refreshed. A power failure may lose that.
func (s Store) SaveReviews(ctx context.Context, now time.Time) error {
	return s.update(ctx, "record the look at reviews", normal, func(t tx) error {
		return setMeta(t, metaReviews, strconv.FormatInt(now.UnixMilli(), 10))
	})
}

// commitRelease records the release of a claim, unless the claim had no run. It adds a
// notification if the agent handed the issue over to a person.
func commitRelease(t tx, now time.Time, c reconcile.Claim, release reconcile.Release) error {
	byAgent, err := movedByAgent(t, c, release)
	if err != nil {
		return err
	}
	isMove := release.Reason == reconcile.StopInactive || release.Reason == reconcile.StopTerminal
	if isMove && !byAgent {
		release.Reason = reconcile.ReleasedByPerson // as when a person parks it
	}
	toPerson, err := addReady(t, now, c, release)
	if err != nil {
		return err
	}
	r, err := releaseOf(t, now, c, release)
	if err != nil {
		return err
	}
	if r.Runs == 0 { // as after a delivery without an agent: an earlier result waits as before
		return nil
	}
	if err := endReview(t, c.IssueID); err != nil {
		return err
	}
	r.InReview = toPerson
	return t.run(
		`INSERT INTO releases (`+releaseColumns+`) VALUES (`+marks(releaseColumns)+`)`,
		releaseFields(&r)...)
}

// releaseOf returns the record of a claim's release, with the sums of its runs.
func releaseOf(t tx, now time.Time, c reconcile.Claim, release reconcile.Release) (Release, error) {
	r := Release{
		IssueID:    c.IssueID,
		Identifier: c.Identifier,
		Title:      c.Issue.Title,
		URL:        c.Issue.URL,
		Branch:     c.Issue.BranchName,
		Reason:     release.Reason,
		From:       c.Issue.State,
		To:         &release.State,
		ClaimedAt:  c.ClaimedAt,
		At:         now,
		Links:      []reconcile.Link{},
		Created:    map[string]int{},
		Labels:     append([]string{}, c.Issue.Labels...),
	}
	runs, err := rows(t, claimedRunFields, `SELECT model, runtime_ms, links, issue ->> '$.state', words,
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, tokens_paid
		FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ? ORDER BY id`,
		c.IssueID, stamp(c.ClaimedAt))
	if err != nil {
		return r, fmt.Errorf("runs of the claim: %w", err)
	}
	if len(runs) == 0 {
		return r, nil
	}
	last := runs[len(runs)-1]
	r.From = runs[0].state
	r.Runs = len(runs)
	r.Words = last.words
	for _, run := range runs {
		r.Runtime += run.runtime
		r.Links = reconcile.MergeLinks(r.Links, run.links)
		r.addUse(run.ModelUse)
	}
	r.Commits, err = countDelivered(t, c)
	if err != nil {
		return r, err
	}
	verified, err := rows(t, itself[string], `SELECT
		coalesce(iif(v ->> '$.exit' = 0 AND v ->> '$.late' IS NULL, v ->> '$.commit', ''), '')
		FROM (SELECT id, nullif(delivery, '') -> '$.handover.verification' AS v FROM runs
			WHERE issue_id = ? AND started_at >= ?)
		WHERE v <> 'null' ORDER BY id DESC LIMIT 1`, c.IssueID, stamp(c.ClaimedAt))
	if err != nil {
		return r, fmt.Errorf("the verified commit: %w", err)
	}
	if len(verified) > 0 {
		r.Verified = verified[0]
	}
	kinds, err := rows(t, itself[string], `SELECT c.kind FROM runs JOIN created c ON c.run_id = runs.id
		WHERE runs.issue_id = ? AND runs.kind = 'agent' AND runs.started_at >= ?`, c.IssueID, stamp(c.ClaimedAt))
	if err != nil {
		return r, fmt.Errorf("what the agents created: %w", err)
	}
	for _, kind := range kinds {
		r.Created[kind]++
	}
	return r, nil
}

// countDelivered returns how many commits were delivered since a claim. The commits that a run
// could not push are pushed by a delivery run.
func countDelivered(t tx, c reconcile.Claim) (int, error) {
	sums, err := rows(t, itself[int], `SELECT coalesce(sum(nullif(delivery, '') ->> '$.commits'), 0)
		FROM runs WHERE issue_id = ? AND kind IN ('agent', 'delivery') AND started_at >= ?`,
		c.IssueID, stamp(c.ClaimedAt))
	if err != nil {
		return 0, fmt.Errorf("count the delivered commits: %w", err)
	}
	return sums[0], nil
}

// addUse adds a run's use of a model.
func (r *Release) addUse(use reconcile.ModelUse) {
	for i, known := range r.Models {
		if known.Model == use.Model {
			r.Models[i].Tokens = known.Tokens.Plus(use.Tokens)
			return
		}
	}
	r.Models = append(r.Models, use)
}

// claimedRun is the part of a run that the release of its claim sums up.
type claimedRun struct {
	reconcile.ModelUse
	runtime time.Duration
	links   []reconcile.Link
	state   string // of the issue when the run began
	words   string
}

func claimedRunFields(r *claimedRun) []any {
	return slices.Concat(
		[]any{&r.Model, millisOf(&r.runtime), jsonOf(&r.links), &r.state, &r.words},
		tokenFields(&r.Tokens))
}
