package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// merging is what a merge of a pull request depends on, in GitHub's words.
type merging struct {
	Auto      bool `json:"autoMergeAllowed"`
	MayMerge  bool `json:"mergeCommitAllowed"`
	MayRebase bool `json:"rebaseMergeAllowed"`
	MaySquash bool `json:"squashMergeAllowed"`
	Pull      *struct {
		ID       string    `json:"id"`
		Head     string    `json:"head"`
		Status   string    `json:"status"` // such as CLEAN
		HasQueue bool      `json:"isMergeQueueEnabled"`
		InQueue  bool      `json:"isInMergeQueue"`
		Request  *struct{} `json:"autoMergeRequest"`
	} `json:"pullRequest"`
}

// The states of a pull request that can't be merged now, in GitHub's words.
const (
	statusBehind  = "BEHIND"
	statusBlocked = "BLOCKED"
)

// readMerging reads what a merge of a pull request depends on.
func (h hub) readMerging(ctx context.Context, number int) (merging, error) {
	answer, err := h.ask(ctx, writeContents, document("merge"), map[string]any{"number": number})
	if err != nil {
		return merging{}, err
	}
	raw, err := json.Marshal(answer.Repository)
	if err != nil {
		return merging{}, fmt.Errorf("read how pull request %d is merged: %w", number, err)
	}
	m, err := decode[merging](h, "pull request", raw)
	if err != nil {
		return m, err
	}
	if m.Pull == nil {
		return m, h.noPull(writeContents, number)
	}
	return m, nil
}

// mayMerge implements reconcile.Forge.
func (h hub) mayMerge(ctx context.Context, _ string) (bool, error) {
	fields, err := h.query(ctx, readPulls, document("rights"), map[string]any{})
	if err != nil {
		return false, err
	}
	may, err := decode[string](h, "right", fields["viewerPermission"])
	return may == "ADMIN" || may == "MAINTAIN" || may == "WRITE", err
}

// readMerge implements reconcile.Forge.
func (h hub) readMerge(ctx context.Context, number int) (reconcile.MergeRules, error) {
	m, err := h.readMerging(ctx, number)
	if err != nil {
		return reconcile.MergeRules{}, err
	}
	return reconcile.MergeRules{
		Head:    m.Pull.Head,
		Methods: reconcile.MergeMethods(m.MaySquash, m.MayMerge, m.MayRebase),
		Missing: m.Pull.Status == statusBlocked,
		Auto:    m.Auto,
		Queue:   m.Pull.HasQueue,
		Behind:  m.Pull.Status == statusBehind,
	}, nil
}

// merge implements reconcile.Forge.
func (h hub) merge(ctx context.Context, m reconcile.Merging) error {
	path := fmt.Sprintf("/pulls/%d/merge", m.Number)
	a, err := h.do(ctx, writeContents, http.MethodPut, path, map[string]string{
		"sha":          m.Head,
		"merge_method": m.Method,
	})
	if err != nil {
		return refusedMerge(err)
	}
	made, err := githubapi.Decode[struct {
		Merged bool `json:"merged"`
	}](h.Client.Client, "answer to a merge", a.Body)
	if err == nil && !made.Merged {
		err = h.Fail("forge_unknown_payload", "the answer does not say that the pull request is merged")
	}
	return err
}

// refusedMerge says whether a merge that GitHub refused may succeed soon.
func refusedMerge(err error) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known {
		return err
	}
	changed := strings.Contains(e.Message, "was modified") || strings.Contains(e.Message, "in progress")
	switch {
	case e.Status == http.StatusConflict, changed:
		e.Err = reconcile.ErrLater
	case e.Status == http.StatusMethodNotAllowed:
		e.Err = reconcile.ErrRejected
	}
	return err
}

// armMerge implements reconcile.Forge. GitHub arms nothing if nothing is missing: then the pull
// request is merged at once, or put into the merge queue.
func (h hub) armMerge(ctx context.Context, m reconcile.Merging) (merged bool, err error) {
	now, err := h.readMerging(ctx, m.Number)
	if err != nil {
		return false, err
	}
	if now.Pull.Request != nil || now.Pull.InQueue {
		return false, nil
	}
	vars := map[string]any{"id": now.Pull.ID, "head": m.Head}
	if !now.Pull.HasQueue { // a queue has its own
		vars["method"] = strings.ToUpper(m.Method)
	}
	err = h.mutate(ctx, "auto_merge", vars)
	isReady := transport.RefusedFor(err, "clean status") || transport.RefusedFor(err, "unstable status")
	switch {
	case isReady && now.Pull.HasQueue:
		delete(vars, "method")
		return false, h.mutate(ctx, "enqueue", vars)
	case isReady:
		return true, h.merge(ctx, m)
	}
	return false, err
}

// disarmMerge implements reconcile.Forge.
func (h hub) disarmMerge(ctx context.Context, number int) error {
	m, err := h.readMerging(ctx, number)
	if errors.Is(err, reconcile.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	vars := map[string]any{"id": m.Pull.ID}
	if m.Pull.InQueue {
		if err := h.mutate(ctx, "dequeue", vars); err != nil {
			return err
		}
	}
	if m.Pull.Request == nil {
		return nil
	}
	return h.mutate(ctx, "no_auto_merge", vars)
}

// mutate makes a change by a document of the folder query.
func (h hub) mutate(ctx context.Context, name string, vars map[string]any) error {
	none := func(transport.GraphQLError) bool { return false }
	_, missing, err := githubapi.GraphQL[struct{}](ctx, h.Client, document(name), vars, none)
	if err != nil {
		return refusedMerge(h.explain(err, writeContents))
	}
	if len(missing) > 0 {
		return h.gone(writeContents, transport.Messages(missing))
	}
	return nil
}
