package gitea

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// status is the last status of a context of a commit. Gitea's own Actions report their jobs as
// statuses, too.
type status struct {
	Context string   `json:"context"` // of a job: WORKFLOW / JOB (EVENT)
	State   string   `json:"status"`
	URL     string   `json:"target_url"`
	Creator *account `json:"creator"` // nil for a job
}

// checkStates are the states of checks by Gitea's words. Another word gives no verdict.
var checkStates = map[string]string{
	"pending": reconcile.CheckPending,
	"success": reconcile.CheckSuccess,
	"failure": reconcile.CheckFailure,
	"error":   reconcile.CheckFailure,
	"warning": reconcile.CheckSkipped,
	"skipped": reconcile.CheckSkipped,
}

// readChecks implements reconcile.Forge.
func (h *hub) readChecks(ctx context.Context, ref string) (reconcile.Checks, error) {
	path := "/commits/" + url.PathEscape(ref) + "/status"
	var all []status
	commit := ""
	for n := 1; ; n++ {
		combined, err := get[struct {
			SHA      string   `json:"sha"`
			Statuses []status `json:"statuses"`
		}](ctx, h, giteaapi.ReadRepository, fmt.Sprintf("%s?limit=%d&page=%d", path, giteaapi.Page, n))
		if err != nil {
			return reconcile.Checks{}, err
		}
		commit = cmp.Or(commit, combined.SHA)
		all = append(all, combined.Statuses...)
		if len(combined.Statuses) < giteaapi.Page || len(all) >= reconcile.MaxChecksRead {
			break
		}
	}
	checks := reconcile.Checks{Commit: commit}
	hasJobs := slices.ContainsFunc(all, func(s status) bool { return s.Creator == nil })
	if hasJobs {
		var err error
		hasJobs, err = h.namesJobs(ctx)
		if err != nil {
			return checks, err
		}
	}
	for _, s := range all {
		checks.List = append(checks.List, h.check(s, hasJobs))
	}
	if checks.Commit == "" { // without statuses Gitea does not say which commit it is
		var err error
		checks.Commit, err = h.commitOf(ctx, ref)
		if err != nil {
			return checks, err
		}
	}
	cut := len(all) >= reconcile.MaxChecksRead
	checks.State = reconcile.StateOfChecks(checks.List, cut)
	checks.List, checks.Cut = reconcile.ShortChecks(checks.List, cut)
	return checks, nil
}

// commitOf returns the commit of a branch, or the commit itself.
func (h *hub) commitOf(ctx context.Context, ref string) (string, error) {
	commit, err := get[struct {
		SHA string `json:"sha"`
	}](ctx, h, giteaapi.ReadRepository, "/git/commits/"+url.PathEscape(ref)+"?stat=false&files=false&verification=false")
	if err == nil && commit.SHA == "" {
		err = h.Fail("forge_unknown_payload", "the answer contains no commit "+ref)
	}
	return commit.SHA, err
}

// job finds the numbers of the run and the job in the path of a check.
var job = text.Pattern(`/actions/runs/(\d{1,18})/jobs/(\d{1,18})$`)

// check returns a status in the words of the core.
func (h *hub) check(s status, namesJobs bool) reconcile.Check {
	c := reconcile.Check{
		Name:  text.Short(s.Context, maxName),
		State: cmp.Or(checkStates[s.State], reconcile.CheckOpen),
		URL:   text.Short(s.URL, maxAddress),
	}
	if !strings.HasPrefix(s.URL, "/") {
		return c
	}
	if site, known := h.site(); known {
		// The path contains the path of the server's pages already.
		c.URL = text.Short(site.Scheme+"://"+site.Host+s.URL, maxAddress)
	}
	m := job().FindStringSubmatch(s.URL)
	if s.Creator != nil || !namesJobs || m == nil {
		return c
	}
	c.Run, _ = strconv.ParseInt(m[1], 10, 64)
	c.Job, _ = strconv.ParseInt(m[2], 10, 64)
	return c
}

// readLog implements reconcile.Forge. Only the end of the log is transferred, or, by a server that
// does not send parts, kept.
func (h *hub) readLog(ctx context.Context, job int64) (string, error) {
	path := fmt.Sprintf("/repos/%s/actions/jobs/%d", h.o.Repository, job)
	a, err := h.ask(ctx, giteaapi.ReadRepository, transport.Request{
		Method: http.MethodGet,
		Path:   path + "/logs",
		Range:  fmt.Sprintf("bytes=-%d", reconcile.MaxLog+1),
		Tail:   reconcile.MaxLog,
	})
	e, known := errors.AsType[*reconcile.Error](err)
	if known && e.Status == http.StatusInternalServerError && h.isAtWork(ctx, path) {
		e.Err = reconcile.ErrGone
	}
	if known && errors.Is(err, reconcile.ErrGone) {
		e.Hint = "the job is still at work, or its log was deleted; otherwise " + h.Lacks(giteaapi.ReadRepository)
	}
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(a.Body), "\uFFFD"), nil
}

// isAtWork reports whether a job has not ended, so that it has no log.
func (h *hub) isAtWork(ctx context.Context, path string) bool {
	a, err := h.ask(ctx, giteaapi.ReadRepository, transport.Request{Method: http.MethodGet, Path: path})
	if err != nil {
		return false
	}
	job, err := transport.Decode[struct {
		Status string `json:"status"`
	}](h.Client.Client, a.Body)
	return err == nil && job.Status != "completed"
}

// rerun implements reconcile.Forge: it starts the failed jobs of a run again.
func (h *hub) rerun(ctx context.Context, run int64) error {
	path := fmt.Sprintf("/actions/runs/%d/rerun-failed-jobs", run)
	_, err := call[struct{}](ctx, h, giteaapi.WriteRepository, http.MethodPost, path, nil)
	return err
}
