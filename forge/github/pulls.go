package github

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	batch = 50 // pull requests in a request
	// reviews of each pull request in that request, and of a single pull request in each
	// further request
	reviewPage = 30
	// enoughReviews is the number of bytes of a pull request's reviews after which older
	// reviews are left out. 300 reviews with a comment of 200 letters take a tenth of it.
	enoughReviews = 8 << 20
	// tooLarge is the code of an answer that is longer than a client takes.
	tooLarge = "answer_too_large"
)

// pull is a pull request, in GitHub's words.
type pull struct {
	ID        string `json:"id"`
	Number    int    `json:"number"`
	URL       string `json:"url"`
	State     string `json:"state"` // such as OPEN
	Draft     bool   `json:"draft"`
	Branch    string `json:"branch"`
	Head      string `json:"head"`
	Base      string `json:"base"`
	Mergeable string `json:"mergeable"` // such as CONFLICTING
	InQueue   bool   `json:"isInMergeQueue"`
	// AutoMerge is not nil if GitHub merges it by itself.
	AutoMerge *struct{} `json:"autoMergeRequest"`
	Commits   transport.List[struct {
		Commit commit `json:"commit"`
	}] `json:"commits"`
	Reviews transport.List[review] `json:"reviews"`
	// Opinions are the last approval or request for changes of each person who may push.
	Opinions transport.List[review] `json:"latestOpinionatedReviews"`
}

// review is a review of a pull request with the comments on its lines, in GitHub's words.
type review struct {
	ID     string `json:"id"`
	Author *struct {
		Type  string `json:"__typename"`
		Login string `json:"login"`
	} `json:"author"`
	Role     string                                  `json:"role"` // such as OWNER
	Writer   bool                                    `json:"writer"`
	State    string                                  `json:"state"` // such as CHANGES_REQUESTED
	At       time.Time                               `json:"at"`
	Commit   commit                                  `json:"commit"`
	Body     string                                  `json:"body"`
	Comments transport.List[reconcile.ReviewComment] `json:"comments"`
}

// read implements reconcile.Forge.
func (h hub) read(ctx context.Context, numbers []int) (map[int]reconcile.Pull, error) {
	found := make(map[int]reconcile.Pull, len(numbers))
	for part := range slices.Chunk(numbers, batch) {
		if err := h.readBatch(ctx, part, reviewPage, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readBatch adds pull requests to found, with up to that many reviews each. If people wrote so
// much that the answer is too large, it asks for half of the pull requests at a time, and for
// half of the reviews of a single pull request.
func (h hub) readBatch(ctx context.Context, numbers []int, reviews int, found map[int]reconcile.Pull) error {
	fields, err := h.query(ctx, readPulls, pullsQuery(numbers), map[string]any{"reviews": reviews})
	if err != nil {
		half := len(numbers) / 2
		switch {
		case isTooLarge(err) && half > 0:
			if err := h.readBatch(ctx, numbers[:half], reviews, found); err != nil {
				return err
			}
			return h.readBatch(ctx, numbers[half:], reviews, found)
		case isTooLarge(err) && reviews > 1:
			return h.readBatch(ctx, numbers, reviews/2, found)
		}
		return err
	}
	for _, n := range numbers {
		raw := fields[fmt.Sprint("p", n)]
		p, err := decode[*pull](h, "pull request", raw)
		if err != nil {
			return err
		}
		if p == nil { // it does not exist
			continue
		}
		if p.Number != n {
			return h.Fail(
				"forge_unknown_payload",
				fmt.Sprintf("the answer contains pull request %d instead of %d", p.Number, n),
			)
		}
		var checks reconcile.Checks
		for _, newest := range p.Commits.Nodes {
			checks, err = h.allChecks(ctx, newest.Commit)
			if err != nil {
				return err
			}
		}
		if err := h.addOlderReviews(ctx, p, reviews, len(raw)); err != nil {
			return err
		}
		found[n] = p.value(checks)
	}
	return nil
}

// pullsQuery returns the query for pull requests by their numbers.
func pullsQuery(numbers []int) string {
	var body strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&body, "    p%d: pullRequest(number: %d) { ...Pull }\n", n, n)
	}
	return "query SymphonyPulls($owner: String!, $name: String!, $reviews: Int!) {\n" +
		"  repository(owner: $owner, name: $name) {\n    nameWithOwner\n" + body.String() + "  }\n}\n" +
		document("pull", "review", "checks")
}

// isTooLarge reports whether an answer had more bytes than a client takes.
func isTooLarge(err error) bool {
	e, known := errors.AsType[*reconcile.Error](err)
	return known && e.Code == tooLarge
}

// addOlderReviews adds the reviews before the first page, up to reconcile.MaxReviews and
// enoughReviews, and the last verdict of everyone who may push, however old it is. Without
// these verdicts, anyone could hide a maintainer's request behind many or long comments. The
// first page contained size reviews, in so many bytes.
func (h hub) addOlderReviews(ctx context.Context, p *pull, size, bytes int) error {
	if !p.Reviews.PageInfo.HasPreviousPage {
		return nil
	}
	page := p.Reviews
	for page.PageInfo.HasPreviousPage && len(p.Reviews.Nodes) < reconcile.MaxReviews && bytes < enoughReviews {
		query := document("reviews", "review")
		older, took, err := h.readReviews(ctx, p.Number, query, size, page.PageInfo.StartCursor)
		if err != nil {
			return err
		}
		bytes += took
		page = older.Reviews
		if len(page.Nodes) == 0 {
			break
		}
		p.Reviews.Nodes = slices.Concat(page.Nodes, p.Reviews.Nodes)
	}
	verdicts, err := h.readVerdicts(ctx, p.Number)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, r := range p.Reviews.Nodes {
		known[r.ID] = true
	}
	older := text.Filter(verdicts, func(r review) bool { return !known[r.ID] })
	p.Reviews.Nodes = slices.Concat(older, p.Reviews.Nodes)
	return nil
}

// readVerdicts reads the last verdict of everyone who may push, the oldest first. Of more than
// reconcile.MaxReviews people it reads the newest verdicts.
func (h hub) readVerdicts(ctx context.Context, number int) ([]review, error) {
	var all []review
	before := ""
	for len(all) < reconcile.MaxReviews {
		// a whole page, though long reviews of others may have made their pages small
		p, _, err := h.readReviews(ctx, number, document("opinions", "review"), reviewPage, before)
		if err != nil {
			return nil, err
		}
		page := p.Opinions
		all = slices.Concat(page.Nodes, all)
		if !page.PageInfo.HasPreviousPage || len(page.Nodes) == 0 {
			break
		}
		before = page.PageInfo.StartCursor
	}
	return all, nil
}

// readReviews sends a query for that many reviews of a pull request. If they are more than an
// answer may contain, it asks for half of them. It also returns the bytes of the answer.
func (h hub) readReviews(
	ctx context.Context,
	number int,
	query string,
	size int,
	before string,
) (p *pull, bytes int, err error) {
	vars := map[string]any{"number": number, "reviews": size}
	if before != "" {
		vars["before"] = before
	}
	fields, err := h.query(ctx, readPulls, query, vars)
	if isTooLarge(err) && size > 1 {
		return h.readReviews(ctx, number, query, size/2, before)
	}
	if err != nil {
		return nil, 0, err
	}
	raw := fields["pullRequest"]
	p, err = decode[*pull](h, "pull request", raw)
	if err != nil {
		return nil, 0, err
	}
	if p == nil {
		return nil, 0, h.noPull(readPulls, number)
	}
	return p, len(raw), nil
}

// value returns the pull request in the words of the core.
func (p *pull) value(checks reconcile.Checks) reconcile.Pull {
	v := reconcile.Pull{
		ID:        p.ID,
		Number:    p.Number,
		URL:       p.URL,
		State:     strings.ToLower(p.State),
		Draft:     p.Draft,
		Branch:    text.Short(p.Branch, maxName),
		Head:      p.Head,
		Base:      text.Short(p.Base, maxName),
		Mergeable: strings.ToLower(p.Mergeable),
		Checks:    checks,
		AutoMerge: reconcile.AutoMergeOff,
	}
	if p.InQueue || p.AutoMerge != nil {
		v.AutoMerge = reconcile.AutoMergeOn
	}
	for _, r := range p.Reviews.Nodes {
		if r.State != "PENDING" {
			v.Reviews = append(v.Reviews, r.value())
		}
	}
	return v
}

// value returns the review in the words of the core.
func (r review) value() reconcile.Review {
	v := reconcile.Review{
		ID:          r.ID,
		Author:      "ghost",
		Role:        strings.ToLower(r.Role),
		Writer:      r.Writer,
		State:       strings.ToLower(r.State),
		At:          r.At,
		Commit:      r.Commit.OID,
		Body:        text.Short(r.Body, reconcile.MaxReviewText),
		CommentsCut: r.Comments.PageInfo.HasNextPage,
	}
	if r.Author != nil {
		v.Author = r.Author.Login
		v.Bot = r.Author.Type == "Bot"
	}
	if v.Bot { // a user could have the same login
		v.Author += "[bot]"
	}
	for _, c := range r.Comments.Nodes {
		v.Comments = append(v.Comments, reconcile.ReviewComment{
			File: text.Short(c.File, maxName),
			Line: c.Line,
			Body: text.Short(c.Body, reconcile.MaxReviewText),
		})
	}
	return v
}

// buildsOn implements reconcile.Forge.
func (h hub) buildsOn(ctx context.Context, number int, commit string) (bool, error) {
	fields, err := h.query(ctx, readPulls, document("commits"), map[string]any{"number": number})
	if err != nil {
		return false, err
	}
	p, err := decode[*pull](h, "pull request", fields["pullRequest"])
	if err != nil {
		return false, err
	}
	if p == nil {
		return false, h.noPull(readPulls, number)
	}
	for _, c := range p.Commits.Nodes {
		if c.Commit.OID == commit {
			return true, nil
		}
	}
	return false, nil
}
