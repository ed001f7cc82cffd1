package gitlab

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// pull is a merge request, in GitLab's words.
type pull struct {
	ID       int64  `json:"id"`
	Number   int    `json:"iid"`
	URL      string `json:"web_url"`
	State    string `json:"state"` // opened, closed, merged, or locked while it is merged
	Draft    bool   `json:"draft"`
	Branch   string `json:"source_branch"`
	Base     string `json:"target_branch"`
	Head     string `json:"sha"`
	From     int64  `json:"source_project_id"`
	To       int64  `json:"target_project_id"`
	Conflict bool   `json:"has_conflicts"`
	Status   string `json:"detailed_merge_status"`
	Armed    bool   `json:"merge_when_pipeline_succeeds"`
	// MergeError is why GitLab could not make the last merge.
	MergeError string `json:"merge_error"`
	// Pipeline is the newest one. After a push it may be that of an earlier commit.
	Pipeline *pipeline `json:"head_pipeline"`
}

// name is the ID of the merge request in the words of the core. The number belongs to the project,
// this id to the server.
func (p pull) name() string { return "gitlab-merge-request-" + strconv.FormatInt(p.ID, 10) }

func (p pull) isOpen() bool { return p.State == "opened" || p.State == "locked" }

// isForeign reports whether the branch is in a fork.
func (p pull) isForeign() bool { return p.From != p.To }

// isUnsure reports whether GitLab has not found out yet whether the merge request can be merged.
func (p pull) isUnsure() bool {
	switch p.Status {
	case "unchecked", "checking", "preparing", "approvals_syncing", "cannot_be_merged_recheck":
		return true
	}
	return false
}

// readPull reads a merge request. The error wraps reconcile.ErrGone if there is none.
func (h *hub) readPull(ctx context.Context, number int) (pull, error) {
	p, err := get[pull](ctx, h, fmt.Sprintf("/merge_requests/%d", number), nil)
	if err == nil && p.Number != number {
		return p, h.Fail(
			"forge_unknown_payload",
			fmt.Sprintf("the answer contains merge request %d instead of %d", p.Number, number),
		)
	}
	return p, err
}

// read implements reconcile.Forge. An open merge request takes seven requests and more.
func (h *hub) read(ctx context.Context, numbers []int) (map[int]reconcile.Pull, error) {
	found := make(map[int]reconcile.Pull, len(numbers))
	if len(numbers) == 0 {
		return found, nil
	}
	for _, n := range numbers {
		p, err := h.readPull(ctx, n)
		if errors.Is(err, reconcile.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		value := p.value()
		if p.isOpen() {
			counted, err := h.countedPipeline(ctx, p)
			if err != nil {
				return nil, err
			}
			value.Checks, err = h.checksOf(ctx, p.Head, counted)
			if err != nil {
				return nil, err
			}
			value.Reviews, err = h.readReviews(ctx, p)
			if err != nil {
				return nil, err
			}
		}
		found[n] = value
	}
	if len(found) == 0 {
		// The project may be hidden, which looks as if no merge request existed.
		if _, err := h.project(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// value returns the merge request in the words of the core, without its checks and reviews.
func (p pull) value() reconcile.Pull {
	v := reconcile.Pull{
		ID:        p.name(),
		Number:    p.Number,
		URL:       p.URL,
		State:     p.State,
		Draft:     p.Draft,
		Branch:    text.Short(p.Branch, maxName),
		Head:      p.Head,
		Base:      text.Short(p.Base, maxName),
		Mergeable: "mergeable",
		AutoMerge: reconcile.AutoMergeOff,
		Checks:    reconcile.Checks{Commit: p.Head},
	}
	switch {
	case p.isOpen():
		v.State = "open"
	case p.State == "merged":
		v.State = reconcile.PullMerged
	}
	// Other words of the status say why people may not merge yet.
	switch {
	case p.Status == "conflict", p.Conflict && !p.isUnsure():
		v.Mergeable = "conflicting"
	case p.isUnsure():
		v.Mergeable = "unknown"
	}
	if p.Armed {
		v.AutoMerge = reconcile.AutoMergeOn
	}
	return v
}

// buildsOn implements reconcile.Forge.
func (h *hub) buildsOn(ctx context.Context, number int, commit string) (bool, error) {
	builds := false
	path := fmt.Sprintf("/merge_requests/%d/commits", number)
	err := list(ctx, h, path, nil, func(commits []struct {
		SHA string `json:"id"`
	},
	) bool {
		for _, c := range commits {
			builds = builds || c.SHA == commit
		}
		return false // only the newest
	})
	return builds, err
}
