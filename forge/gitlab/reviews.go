package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// note is a note of a discussion.
type note struct {
	gitlabapi.Note
	Resolved bool `json:"resolved"`
	Position *struct {
		Head    string `json:"head_sha"`
		NewPath string `json:"new_path"`
		NewLine int    `json:"new_line"`
		OldPath string `json:"old_path"`
	} `json:"position"` // nil for a note on no line
}

// version is what the merge request was from a time on.
type version struct {
	Head string    `json:"head_commit_sha"`
	At   time.Time `json:"created_at"`
}

// together is how long after another one a note belongs to the same review.
const together = 2 * time.Minute

const (
	maxNotes    = 2000 // of a merge request
	maxComments = 50   // on lines, of a review
)

// GitLab's own notes, by which verdicts have a time.
const (
	saysApproved   = "approved this merge request"
	saysUnapproved = "unapproved this merge request"
	saysChanges    = "requested changes"
)

// readReviews makes the reviews of a merge request, the oldest first: a verdict with what the same
// person wrote just before it, and the other notes, those together that a person wrote within two
// minutes. Texts of resolved discussions are left out, and what symphony or an agent has written.
func (h *hub) readReviews(ctx context.Context, p pull) ([]reconcile.Review, error) {
	path := fmt.Sprintf("/merge_requests/%d", p.Number)
	var notes []note
	err := list(ctx, h, path+"/discussions", nil, func(found []struct {
		Notes []note `json:"notes"`
	},
	) bool {
		for _, d := range found {
			notes = append(notes, d.Notes...)
		}
		return len(notes) < maxNotes
	})
	if err != nil {
		return nil, err
	}
	verdicts, err := h.verdicts(ctx, path)
	if err != nil {
		return nil, err
	}
	isTheirs := func(n note) bool {
		return n.Author != nil && !reconcile.Marked(n.Body)
	}
	notes = text.Filter(notes, isTheirs)
	if len(notes) == 0 && len(verdicts) == 0 {
		return nil, nil
	}
	slices.SortFunc(notes, func(a, b note) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	versions, err := get[[]version](ctx, h, path+"/versions", nil)
	if err != nil {
		return nil, err
	}
	b := &builder{pull: p, versions: versions, verdicts: verdicts, last: map[int64]int{}}
	for _, n := range notes {
		b.add(n)
	}
	b.addUndated()
	b.reviews = slices.DeleteFunc(b.reviews, (*made).isResolved)
	if err := h.complete(ctx, b); err != nil {
		return nil, err
	}
	return b.newest(), nil
}

// verdict is the present verdict of a person.
type verdict struct {
	user  gitlabapi.Account
	state string // approved or changes_requested
	at    time.Time
	dated bool // a note of GitLab's own tells when
}

// verdicts reads the present verdicts, by the ids of their authors.
func (h *hub) verdicts(ctx context.Context, path string) (map[int64]*verdict, error) {
	found := map[int64]*verdict{}
	reviewers, err := get[[]struct {
		User  gitlabapi.Account `json:"user"`
		State string            `json:"state"`
		At    time.Time         `json:"created_at"` // since when the person is a reviewer
	}](ctx, h, path+"/reviewers", nil)
	if err != nil {
		return nil, err
	}
	for _, r := range reviewers {
		if r.State == "requested_changes" {
			found[r.User.ID] = &verdict{user: r.User, state: "changes_requested", at: r.At}
		}
	}
	approvals, err := get[struct {
		By []struct {
			User gitlabapi.Account `json:"user"`
			At   time.Time         `json:"approved_at"`
		} `json:"approved_by"`
	}](ctx, h, path+"/approvals", nil)
	if err != nil {
		return nil, err
	}
	for _, a := range approvals.By {
		if found[a.User.ID] == nil {
			found[a.User.ID] = &verdict{user: a.User, state: "approved", at: a.At}
		}
	}
	return found, nil
}

// made is a review that is being made, with the id of its author.
type made struct {
	reconcile.Review
	author int64
	until  time.Time // of its newest note
}

// isResolved reports whether nothing is left of a review.
func (m *made) isResolved() bool {
	return m.State == "commented" && m.Body == "" && len(m.Comments) == 0
}

// builder makes reviews of notes.
type builder struct {
	pull     pull
	versions []version // the newest first
	verdicts map[int64]*verdict
	reviews  []*made
	last     map[int64]int // the place of the last review of an author
}

// add adds a note to the last review of its author, or begins another one. A verdict ends its
// review: what the person writes afterwards may be about a later commit. A resolved note adds no
// text, but counts for the rest, so that a review keeps its id when one of its notes is resolved.
func (b *builder) add(n note) {
	state := ""
	if n.System {
		switch n.Body {
		case saysApproved:
			state = "approved"
		case saysChanges:
			state = "changes_requested"
		case saysUnapproved:
		default:
			return
		}
	}
	at, has := b.last[n.Author.ID]
	isNew := !has || n.CreatedAt.Sub(b.reviews[at].until) > together || b.reviews[at].State != "commented"
	if n.Body == saysUnapproved && n.System {
		return // what GitLab says about the present tells that
	}
	if isNew {
		at = len(b.reviews)
		b.begin(*n.Author, strconv.FormatInt(n.ID, 10), n.CreatedAt)
	}
	r := b.reviews[at]
	r.until = n.CreatedAt
	r.At = n.CreatedAt
	r.Commit = b.commitAt(n.CreatedAt)
	if n.Position != nil {
		r.Commit = cmp.Or(n.Position.Head, r.Commit)
	}
	switch {
	case n.System:
		r.State = state
		r.ID = "gitlab-note-" + strconv.FormatInt(n.ID, 10)
	case n.Resolved:
	case n.Position == nil:
		r.Body = text.Short(strings.TrimSpace(r.Body+"\n\n"+n.Body), reconcile.MaxReviewText)
	case len(r.Comments) == maxComments:
		r.CommentsCut = true
	default:
		c := reconcile.ReviewComment{
			File: text.Short(cmp.Or(n.Position.NewPath, n.Position.OldPath), maxName),
			Body: text.Short(n.Body, reconcile.MaxReviewText),
		}
		if n.Position.Head == b.pull.Head { // the line may be elsewhere after a push
			c.Line = n.Position.NewLine
		}
		r.Comments = append(r.Comments, c)
	}
}

// begin begins a review.
func (b *builder) begin(author gitlabapi.Account, id string, at time.Time) {
	b.last[author.ID] = len(b.reviews)
	b.reviews = append(b.reviews, &made{
		Review: reconcile.Review{
			ID:     "gitlab-note-" + id,
			Author: text.Short(author.Login, maxName),
			Bot:    author.IsBot(),
			Role:   "none",
			State:  "commented",
			At:     at,
			Commit: b.commitAt(at),
		},
		author: author.ID,
		until:  at,
	})
}

// commitAt returns the newest commit of the merge request at a time.
func (b *builder) commitAt(at time.Time) string {
	commit := b.pull.Head
	for _, v := range b.versions {
		commit = v.Head
		if !v.At.After(at) {
			break
		}
	}
	return commit
}

// addUndated dismisses verdicts that are not the present ones any more, and adds those of which
// GitLab has no note of its own.
func (b *builder) addUndated() {
	for i, r := range b.reviews {
		if r.State == "commented" {
			continue
		}
		v := b.verdicts[r.author]
		isLast := !slices.ContainsFunc(b.reviews[i+1:], func(later *made) bool {
			return later.author == r.author && later.State != "commented"
		})
		if isLast && v != nil && v.state == r.State {
			v.dated = true
		} else if isLast {
			r.State = "dismissed"
		}
	}
	for id, v := range b.verdicts {
		if v.dated {
			continue
		}
		b.begin(v.user, v.state+"-"+strconv.FormatInt(id, 10), v.at)
		b.reviews[len(b.reviews)-1].State = v.state
	}
	slices.SortStableFunc(b.reviews, func(x, y *made) int {
		return cmp.Or(x.At.Compare(y.At), strings.Compare(x.ID, y.ID))
	})
}

// complete finds out which authors may push.
func (h *hub) complete(ctx context.Context, b *builder) error {
	for _, r := range b.reviews {
		may, err := h.isWriter(ctx, r.author)
		if err != nil {
			return err
		}
		r.Writer = may
		if may {
			r.Role = "member"
		}
	}
	return nil
}

// newest returns the newest reviews, and the verdicts of writers, however old they are. Without
// these verdicts anyone could hide a maintainer's request behind many comments.
func (b *builder) newest() []reconcile.Review {
	var values []reconcile.Review
	for i, r := range b.reviews {
		isVerdict := r.Writer && (r.State == "approved" || r.State == "changes_requested")
		if len(b.reviews)-i <= reconcile.MaxReviews || isVerdict {
			values = append(values, r.Review)
		}
	}
	return values
}
