package gitea

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// mayMerge implements reconcile.Forge.
func (h *hub) mayMerge(ctx context.Context, base string) (bool, error) {
	base, err := h.baseOr(ctx, base)
	if err != nil {
		return false, err
	}
	branch, err := get[struct {
		May bool `json:"user_can_merge"`
	}](ctx, h, giteaapi.ReadRepository, "/branches/"+url.PathEscape(base))
	return branch.May, err
}

// readMerge implements reconcile.Forge. Gitea neither says whether something that the base
// requires is missing, nor whether the branch must contain the base, nor since when a label has
// its name.
func (h *hub) readMerge(ctx context.Context, number int) (reconcile.MergeRules, error) {
	p, err := h.readPull(ctx, number)
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	repository, err := get[struct {
		Merge  bool `json:"allow_merge_commits"`
		Rebase bool `json:"allow_rebase"`
		Squash bool `json:"allow_squash_merge"`
	}](ctx, h, giteaapi.ReadRepository, "")
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	base, err := get[struct {
		Checked   bool `json:"enable_status_check"`
		Approvals int  `json:"required_approvals"`
	}](ctx, h, giteaapi.ReadRepository, "/branches/"+url.PathEscape(p.Base.Ref))
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	return reconcile.MergeRules{
		Head:    p.Head.SHA,
		Methods: reconcile.MergeMethods(repository.Squash, repository.Merge, repository.Rebase),
		Missing: base.Checked || base.Approvals > 0,
		Auto:    true,
	}, nil
}

// merge implements reconcile.Forge.
func (h *hub) merge(ctx context.Context, m reconcile.Merging) error {
	_, err := h.askMerge(ctx, m, false)
	return err
}

// armMerge implements reconcile.Forge. Gitea merges at once if nothing is missing. It agrees to
// merge a branch later that its base has left behind, and then never does, so it is asked for a
// merge first.
func (h *hub) armMerge(ctx context.Context, m reconcile.Merging) (merged bool, err error) {
	err = h.merge(ctx, m)
	if err == nil || errors.Is(err, reconcile.ErrBehind) || !errors.Is(err, reconcile.ErrRejected) {
		return err == nil, err
	}
	a, err := h.askMerge(ctx, m, true)
	if err != nil && strings.Contains(err.Error(), "already scheduled") {
		return false, nil
	}
	return err == nil && a.Status == http.StatusOK, err
}

// askMerge asks for a merge, now or once nothing is missing.
func (h *hub) askMerge(ctx context.Context, m reconcile.Merging, later bool) (transport.Answer, error) {
	a, err := h.ask(ctx, giteaapi.WriteRepository, transport.Request{
		Method: http.MethodPost,
		Path:   h.mergePath(m.Number),
		Body: map[string]any{
			"Do":                        m.Method,
			"head_commit_id":            m.Head,
			"merge_when_checks_succeed": later,
		},
	})
	e, known := errors.AsType[*reconcile.Error](err)
	isLater := known && (strings.Contains(e.Message, "try again later") || strings.Contains(e.Message, "out of date"))
	if isLater {
		e.Err = reconcile.ErrLater
	}
	if known && strings.Contains(e.Message, "behind the base branch") {
		e.Err = reconcile.ErrBehind
	}
	if err == nil && len(bytes.TrimSpace(a.Body)) > 0 { // Gitea says nothing more than the status
		err = h.Unreadable("none of Gitea's to a merge", a.Body, nil)
	}
	return a, err
}

// disarmMerge implements reconcile.Forge.
func (h *hub) disarmMerge(ctx context.Context, number int) error {
	_, err := h.ask(ctx, giteaapi.WriteRepository, transport.Request{
		Method: http.MethodDelete,
		Path:   h.mergePath(number),
	})
	if errors.Is(err, reconcile.ErrGone) { // nothing was scheduled
		return nil
	}
	return err
}

func (h *hub) mergePath(number int) string {
	return fmt.Sprintf("/repos/%s/pulls/%d/merge", h.o.Repository, number)
}
