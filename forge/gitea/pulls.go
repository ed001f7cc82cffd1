package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// pull is a pull request, in Gitea's words.
type pull struct {
	ID        int64  `json:"id"`
	Number    int    `json:"number"`
	URL       string `json:"html_url"`
	State     string `json:"state"` // open or closed
	Merged    bool   `json:"merged"`
	Draft     bool   `json:"draft"`
	Mergeable bool   `json:"mergeable"`
	Head      branch `json:"head"`
	Base      branch `json:"base"`
}

// pullOpen is the State of a pull request that is open.
const pullOpen = "open"

// branch is a side of a pull request.
type branch struct {
	// Label is its name. Ref is, too, but of a head that was deleted it is refs/pull/N/head.
	Label      string `json:"label"`
	Ref        string `json:"ref"`
	SHA        string `json:"sha"`
	Repository int64  `json:"repo_id"`
}

// name is the ID of the pull request in the words of the core. The number belongs to the
// repository, this id to the server.
func (p pull) name() string { return "gitea-pull-" + strconv.FormatInt(p.ID, 10) }

func (p pull) branch() string { return p.Head.Label }

// isForeign reports whether the branch is in a fork.
func (p pull) isForeign() bool { return p.Head.Repository != p.Base.Repository }

// readPull reads a pull request. The error wraps reconcile.ErrGone if there is none.
func (h *hub) readPull(ctx context.Context, number int) (pull, error) {
	p, err := get[pull](ctx, h, giteaapi.ReadRepository, fmt.Sprintf("/pulls/%d", number))
	if err == nil && p.Number != number {
		return p, h.Fail(
			"forge_unknown_payload",
			fmt.Sprintf("the answer contains pull request %d instead of %d", p.Number, number),
		)
	}
	return p, err
}

// read implements reconcile.Forge. An open pull request takes three requests, and one more for
// each review with comments on lines.
func (h *hub) read(ctx context.Context, numbers []int) (map[int]reconcile.Pull, error) {
	found := make(map[int]reconcile.Pull, len(numbers))
	if len(numbers) == 0 {
		return found, nil
	}
	writers := &writers{h: h}
	for _, n := range numbers {
		p, err := h.readPull(ctx, n)
		if errors.Is(err, reconcile.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		value := p.value()
		if value.State == pullOpen {
			value.Checks, err = h.readChecks(ctx, p.Head.SHA)
			if err != nil && !errors.Is(err, reconcile.ErrGone) {
				return nil, err
			}
			value.Reviews, err = h.readReviews(ctx, p, writers)
			if err != nil {
				return nil, err
			}
		}
		found[n] = value
	}
	if len(found) == 0 {
		// The repository may be hidden, which looks as if no pull request existed.
		if _, err := get[struct{}](ctx, h, giteaapi.ReadRepository, ""); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// value returns the pull request in the words of the core, without its checks and reviews.
func (p pull) value() reconcile.Pull {
	v := reconcile.Pull{
		ID:     p.name(),
		Number: p.Number,
		URL:    p.URL,
		State:  p.State,
		Draft:  p.Draft,
		Branch: text.Short(p.branch(), maxName),
		Head:   p.Head.SHA,
		Base:   text.Short(p.Base.Ref, maxName),
		// Gitea says "not mergeable" of a conflict, of a draft, and before it has looked. Git
		// tells whether it is a conflict.
		Mergeable: "unknown",
		Checks:    reconcile.Checks{Commit: p.Head.SHA},
	}
	if p.Merged {
		v.State = reconcile.PullMerged
	}
	if p.State == pullOpen {
		v.BaseCommit = p.Base.SHA
	}
	if p.Mergeable {
		v.Mergeable = "mergeable"
	}
	return v
}

// review is a review of a pull request, in Gitea's words.
type review struct {
	ID        int64     `json:"id"`
	User      *account  `json:"user"`
	State     string    `json:"state"`
	Body      string    `json:"body"`
	Commit    string    `json:"commit_id"`
	Official  bool      `json:"official"` // an approval or a rejection by someone who may push
	Dismissed bool      `json:"dismissed"`
	Comments  int       `json:"comments_count"`
	At        time.Time `json:"submitted_at"`
}

// reviewStates are the states of reviews by Gitea's words. Others are no reviews yet: a review
// that is being written, and a request for one.
var reviewStates = map[string]string{
	"APPROVED":        "approved",
	"REQUEST_CHANGES": "changes_requested",
	"COMMENT":         "commented",
}

const (
	maxReviewsRead = 2000 // of a pull request, the oldest first, to find the verdicts of writers
	maxCommented   = 50   // reviews whose comments on lines are read: the newest
	maxComments    = 50   // on lines, of a review
)

// readReviews reads the reviews of a pull request: the newest, and the last verdict of everyone
// who may push, however old it is. Without these verdicts anyone could hide a maintainer's
// request behind many comments.
func (h *hub) readReviews(ctx context.Context, p pull, w *writers) ([]reconcile.Review, error) {
	var all []review
	path := fmt.Sprintf("/pulls/%d/reviews", p.Number)
	err := list(ctx, h, giteaapi.ReadRepository, path, url.Values{}, func(reviews []review) bool {
		for _, r := range reviews {
			if reviewStates[r.State] != "" {
				all = append(all, r)
			}
		}
		return len(all) < maxReviewsRead
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b review) int { return a.At.Compare(b.At) })
	var values []reconcile.Review
	for i, r := range all {
		left := len(all) - i // with this one
		if left > reconcile.MaxReviews && (!r.Official || r.Dismissed) {
			continue
		}
		v, err := r.value(ctx, w)
		if err != nil {
			return nil, err
		}
		v.CommentsCut = r.Comments > maxComments
		if r.Comments > 0 && !r.Dismissed && left <= maxCommented {
			v.Comments, err = h.readComments(ctx, p, r)
			if err != nil {
				return nil, err
			}
		}
		values = append(values, v)
	}
	return values, nil
}

// value returns the review in the words of the core, without its comments on lines.
func (r review) value(ctx context.Context, w *writers) (reconcile.Review, error) {
	v := reconcile.Review{
		ID:     "gitea-review-" + strconv.FormatInt(r.ID, 10),
		Author: "ghost",
		Role:   "none",
		State:  reviewStates[r.State],
		At:     r.At,
		Commit: r.Commit,
		Body:   text.Short(r.Body, reconcile.MaxReviewText),
	}
	if r.Dismissed {
		v.State = "dismissed"
	}
	if r.User == nil || r.User.ID == giteaapi.GhostID {
		return v, nil
	}
	v.Author = text.Short(r.User.Login, maxName)
	v.Bot = r.User.ID < 0
	may, err := w.has(ctx, r)
	if err != nil {
		return v, err
	}
	v.Writer = may
	if may {
		v.Role = "collaborator"
	}
	return v, nil
}

// readComments reads the comments of a review on lines.
func (h *hub) readComments(ctx context.Context, p pull, r review) ([]reconcile.ReviewComment, error) {
	comments, err := get[[]struct {
		File   string `json:"path"`
		Line   int    `json:"position"` // in the new file of the commit
		Commit string `json:"commit_id"`
		Body   string `json:"body"`
	}](ctx, h, giteaapi.ReadRepository, fmt.Sprintf("/pulls/%d/reviews/%d/comments", p.Number, r.ID))
	if err != nil {
		return nil, err
	}
	var values []reconcile.ReviewComment
	for _, c := range comments[:min(len(comments), maxComments)] {
		v := reconcile.ReviewComment{
			File: text.Short(c.File, maxName),
			Body: text.Short(c.Body, reconcile.MaxReviewText),
		}
		if c.Commit == p.Head.SHA { // the line may be elsewhere after a push
			v.Line = c.Line
		}
		values = append(values, v)
	}
	return values, nil
}

// writers finds out who may push to the repository. The people to whom an issue can be assigned
// are those, and the only list of them that is not for administrators alone.
type writers struct {
	h      *hub
	logins map[string]bool // nil before they are read
}

// has reports whether the author of a review may push.
func (w *writers) has(ctx context.Context, r review) (bool, error) {
	if r.Official {
		return true, nil
	}
	if w.logins == nil {
		users, err := get[[]account](ctx, w.h, giteaapi.ReadRepository, "/assignees")
		if err != nil {
			return false, err
		}
		w.logins = map[string]bool{}
		for _, u := range users {
			w.logins[u.Login] = true
		}
	}
	return w.logins[r.User.Login], nil
}

// buildsOn implements reconcile.Forge.
func (h *hub) buildsOn(ctx context.Context, number int, commit string) (bool, error) {
	const newest = 100
	read := 0
	builds := false
	path := fmt.Sprintf("/pulls/%d/commits", number)
	err := list(ctx, h, giteaapi.ReadRepository, path, url.Values{}, func(commits []struct {
		SHA string `json:"sha"`
	},
	) bool {
		for _, c := range commits {
			builds = builds || c.SHA == commit
		}
		read += len(commits)
		return !builds && read < newest
	})
	return builds, err
}
