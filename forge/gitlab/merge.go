package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// mayMerge implements reconcile.Forge. Which roles may merge into a protected branch, GitLab tells
// in two places: the branch says whether developers may, and the rule names all others.
func (h *hub) mayMerge(ctx context.Context, base string) (bool, error) {
	me, err := h.Me(ctx)
	if err != nil {
		return false, err
	}
	level, err := h.levelOf(ctx, me.ID)
	if err != nil || level < gitlabapi.Developer {
		return false, err
	}
	if base == "" {
		project, err := h.project(ctx)
		if err != nil {
			return false, err
		}
		base = project.DefaultBranch
	}
	branch, err := get[struct {
		Protected     bool `json:"protected"`
		MayPush       bool `json:"can_push"` // who may push, may merge, too
		DevelopersMay bool `json:"developers_can_merge"`
	}](ctx, h, "/repository/branches/"+url.PathEscape(base), nil)
	if err != nil || !branch.Protected || branch.MayPush || branch.DevelopersMay {
		return err == nil, err
	}
	rule, err := get[struct {
		Merge []struct {
			Level int   `json:"access_level"`
			User  int64 `json:"user_id"`
			Group int64 `json:"group_id"`
		} `json:"merge_access_levels"`
	}](ctx, h, "/protected_branches/"+url.PathEscape(base), nil)
	if isHidden(err) {
		return level >= gitlabapi.Maintainer, nil // a rule for several branches, or for other eyes
	}
	if err != nil {
		return false, err
	}
	for _, who := range rule.Merge {
		isRole := who.User == 0 && who.Group == 0 && who.Level > 0
		// Who is in a group is not asked: a merge will tell.
		if who.User == me.ID || who.Group != 0 || isRole && level >= who.Level {
			return true, nil
		}
	}
	return false, nil
}

// isHidden reports whether an error means that GitLab does not show something.
func isHidden(err error) bool {
	e, known := errors.AsType[*reconcile.Error](err)
	return errors.Is(err, reconcile.ErrGone) || known && e.Status == http.StatusForbidden
}

// readMerge implements reconcile.Forge. Since when a label has its name, GitLab does not say.
func (h *hub) readMerge(ctx context.Context, number int) (reconcile.MergeRules, error) {
	p, err := h.readPull(ctx, number)
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	project, err := h.project(ctx)
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	isFast := project.MergeMethod == "ff"
	always := project.SquashOption == "always"
	return reconcile.MergeRules{
		Head: p.Head,
		// A fast-forward leaves what a rebase would.
		Methods: reconcile.MergeMethods(project.SquashOption != "never", !isFast && !always, isFast && !always),
		Missing: p.lacks() || p.isUnsure() && project.NeedsGreen,
		Auto:    true,
		Queue:   project.MergeTrains,
		Behind:  p.Status == "need_rebase",
		Linear:  isFast,
	}, nil
}

// lacks reports whether something that the project requires is missing. The words for that are
// many, and get more.
func (p pull) lacks() bool {
	switch p.Status {
	case "mergeable", "need_rebase", "conflict", "draft_status", "not_open", "":
		return false
	}
	return !p.isUnsure()
}

// merge implements reconcile.Forge.
func (h *hub) merge(ctx context.Context, m reconcile.Merging) error {
	_, err := h.askMerge(ctx, m, false)
	return err
}

// armMerge implements reconcile.Forge. GitLab merges at once if nothing is missing, and forgets it
// at the next push. Older releases refuse it while no pipeline is at work.
func (h *hub) armMerge(ctx context.Context, m reconcile.Merging) (merged bool, err error) {
	project, err := h.project(ctx)
	if err != nil {
		return false, err
	}
	if project.MergeTrains {
		return false, h.boardTrain(ctx, m)
	}
	p, err := h.askMerge(ctx, m, true)
	return err == nil && p.State == "merged", err
}

// boardTrain puts a merge request on the merge train of its base, at once or when nothing is missing.
// The usual request for a merge goes past the train: https://gitlab.com/gitlab-org/gitlab/-/issues/593465.
func (h *hub) boardTrain(ctx context.Context, m reconcile.Merging) error {
	p, err := h.readPull(ctx, m.Number)
	if err != nil {
		return err
	}
	if p.Armed && p.Head == m.Head { // it is on the train
		return nil
	}
	_, err = h.Ask(ctx, transport.Request{
		Method: http.MethodPost,
		Path:   h.path("/merge_trains/merge_requests/%d", m.Number),
		Body: map[string]any{
			"sha":                    m.Head,
			"squash":                 m.Method == "squash",
			"auto_merge":             true,
			"when_pipeline_succeeds": true, // for releases before 17.11
		},
	})
	if err != nil {
		return h.notMerged(ctx, m, h.named(ctx, err))
	}
	return nil
}

// askMerge asks for a merge of a commit, now or once nothing is missing.
func (h *hub) askMerge(ctx context.Context, m reconcile.Merging, later bool) (pull, error) {
	sent := map[string]any{"sha": m.Head, "squash": m.Method == "squash"}
	if later {
		sent["auto_merge"] = true
		sent["merge_when_pipeline_succeeds"] = true // for releases before 17.11
	}
	a, err := h.Ask(ctx, transport.Request{
		Method: http.MethodPut,
		Path:   h.path("/merge_requests/%d/merge", m.Number),
		Body:   sent,
	})
	if err != nil {
		return pull{}, h.notMerged(ctx, m, h.named(ctx, err))
	}
	p, err := transport.Decode[pull](h.Client.Client, a.Body)
	if err == nil && p.Number != m.Number {
		err = h.Fail("forge_unknown_payload", fmt.Sprintf("the answer does not contain merge request %d", m.Number))
	}
	return p, err
}

// notMerged completes the error of a merge that GitLab has refused.
func (h *hub) notMerged(ctx context.Context, m reconcile.Merging, err error) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known {
		return err
	}
	switch e.Status {
	case http.StatusUnauthorized: // it says the same of an invalid token
		_, readErr := h.readPull(ctx, m.Number)
		if readErr != nil {
			return err
		}
		e.Err = reconcile.ErrRejected
		e.Hint = fmt.Sprintf("let the account of %s merge into the branch, in the project's settings", h.o.By)
	case http.StatusConflict: // a commit was pushed since
		e.Err = reconcile.ErrLater
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnprocessableEntity: // releases differ in which one they answer
		e.Err = reconcile.ErrRejected
		p, readErr := h.readPull(ctx, m.Number)
		if readErr != nil {
			return err
		}
		e.Message += " (" + strings.TrimSuffix(p.Status+": "+text.Short(p.MergeError, maxName), ": ") + ")"
		switch {
		case p.isUnsure():
			e.Err = reconcile.ErrLater
		case p.Status == "mergeable" && p.MergeError == "":
			e.Err = reconcile.ErrLater // what was missing is there since, or there is nothing to wait for
		case p.Status == "need_rebase":
			e.Err = reconcile.ErrBehind
		}
	}
	return err
}

// disarmMerge implements reconcile.Forge.
func (h *hub) disarmMerge(ctx context.Context, number int) error {
	_, err := h.ask(ctx, http.MethodPost, h.path("/merge_requests/%d/cancel_merge_when_pipeline_succeeds", number), nil)
	if errors.Is(err, reconcile.ErrGone) {
		return nil
	}
	if !errors.Is(err, reconcile.ErrRejected) {
		return err
	}
	// GitLab refuses it, with one of several answers, if there is nothing to cancel.
	p, readErr := h.readPull(ctx, number)
	if readErr != nil || p.Armed {
		return err
	}
	return nil
}
