package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// job is a job of a pipeline, the start of another pipeline, or a status that another program has
// reported.
type job struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	State      string `json:"status"`
	MayFail    bool   `json:"allow_failure"`
	URL        string `json:"web_url"`
	Target     string `json:"target_url"`  // of a status
	PipelineID int64  `json:"pipeline_id"` // of a status
}

// pipeline is a run of the jobs for a commit.
type pipeline struct {
	ID     int64  `json:"id"`
	Commit string `json:"sha"`
	Ref    string `json:"ref"`
	State  string `json:"status"`
	Source string `json:"source"`
	URL    string `json:"web_url"`
}

// external is the source of pipelines that consist of what other programs have reported.
const external = "external"

// pending are the states of what waits or is at work.
var pending = []string{
	"created", "waiting_for_resource", "waiting_for_callback", "preparing", "pending", "running", "scheduled",
}

// state returns the state of a check. ended: its pipeline is at work no more, so that what has not
// begun waits for a person.
func (j job) state(ended bool) string {
	switch {
	case j.State == "success":
		return reconcile.CheckSuccess
	case j.State == "failed" && j.MayFail, j.State == "skipped":
		return reconcile.CheckSkipped
	case j.State == "failed":
		return reconcile.CheckFailure
	case slices.Contains(pending, j.State) && !ended:
		return reconcile.CheckPending
	}
	return reconcile.CheckOpen // canceled, or manual
}

// readChecks implements reconcile.Forge.
func (h *hub) readChecks(ctx context.Context, ref string) (reconcile.Checks, error) {
	commit, err := get[struct {
		SHA string `json:"id"`
	}](ctx, h, "/repository/commits/"+url.PathEscape(ref), nil)
	if err != nil {
		return reconcile.Checks{}, err
	}
	return h.checksOf(ctx, commit.SHA, 0)
}

// countedPipeline returns the pipeline that counts for the present commit of a merge request; none
// for 0. GitLab's head pipeline may be that of an earlier commit, or of a merge train, which tries
// several merge requests together: then it is the newest other one.
func (h *hub) countedPipeline(ctx context.Context, p pull) (int64, error) {
	if p.Pipeline == nil {
		return 0, nil
	}
	counts, err := h.counts(ctx, p, *p.Pipeline)
	if err != nil || counts {
		return p.Pipeline.ID, err
	}
	all, err := get[[]pipeline](ctx, h, fmt.Sprintf("/merge_requests/%d/pipelines", p.Number), nil)
	if err != nil {
		return 0, err
	}
	for _, run := range all { // the newest first
		if run.Source == external || run.Commit != p.Head && run.Ref != p.ref("merge") {
			continue
		}
		counts, err := h.counts(ctx, p, run)
		if err != nil || counts {
			return run.ID, err
		}
	}
	return 0, nil
}

// counts reports whether a pipeline tests the present commit of a merge request.
func (h *hub) counts(ctx context.Context, p pull, run pipeline) (bool, error) {
	switch run.Ref {
	case p.ref("train"):
		return false, nil
	case p.ref("merge"):
		// The merged result is a commit of its own, whose parents tell what was merged.
		merged, err := get[struct {
			Parents []string `json:"parent_ids"`
		}](ctx, h, "/repository/commits/"+url.PathEscape(run.Commit), nil)
		if errors.Is(err, reconcile.ErrGone) {
			return false, nil
		}
		return slices.Contains(merged.Parents, p.Head), err
	}
	return run.Commit == p.Head, nil
}

// ref is a reference that GitLab keeps for a merge request: head, merge or train.
func (p pull) ref(name string) string {
	return fmt.Sprintf("refs/merge-requests/%d/%s", p.Number, name)
}

// checksOf reads the checks of a commit: the jobs of a pipeline, and what other programs have
// reported. Without a pipeline it is the newest of the commit. There may be two for the same commit,
// one for the branch and one for the merge request, of which GitLab counts the latter.
func (h *hub) checksOf(ctx context.Context, commit string, chosen int64) (reconcile.Checks, error) {
	checks := reconcile.Checks{Commit: commit}
	all, err := get[[]pipeline](ctx, h, "/pipelines", url.Values{
		"sha":      {commit},
		"order_by": {"id"},
		"sort":     {"desc"},
		"per_page": {strconv.Itoa(gitlabapi.Page)},
	})
	if err != nil {
		return checks, err
	}
	is := func(p pipeline) bool { return p.ID == chosen || chosen == 0 && p.Source != external }
	run := text.First(all, is)
	if run.ID == 0 && chosen != 0 { // of the merged result, which is another commit
		run, err = get[pipeline](ctx, h, fmt.Sprintf("/pipelines/%d", chosen), nil)
		if err != nil {
			return checks, err
		}
	}
	known := map[int64]bool{}
	if run.ID != 0 && run.Source != external {
		checks.List, err = h.jobsOf(ctx, run, known)
		if err != nil {
			return checks, err
		}
	}
	err = list(ctx, h, "/repository/commits/"+commit+"/statuses", nil, func(statuses []job) bool {
		for _, s := range statuses {
			of := text.First(all, func(p pipeline) bool { return p.ID == s.PipelineID })
			// A pipeline that is not in the list is an old one, or was started by another.
			isOther := s.PipelineID != 0 && s.PipelineID != run.ID && of.Source != external
			if !known[s.ID] && !isOther {
				checks.List = append(checks.List, reconcile.Check{
					Name:  text.Short(s.Name, maxName),
					State: s.state(false),
					URL:   text.Short(s.Target, maxAddress),
				})
			}
		}
		return len(checks.List) < reconcile.MaxChecksRead
	})
	if err != nil {
		return checks, err
	}
	cut := len(checks.List) >= reconcile.MaxChecksRead
	checks.State = reconcile.StateOfChecks(checks.List, cut)
	checks.List, checks.Cut = reconcile.ShortChecks(checks.List, cut)
	return checks, nil
}

// jobsOf reads the jobs of a pipeline, with the pipelines that it starts. It adds their ids to
// known.
func (h *hub) jobsOf(ctx context.Context, run pipeline, known map[int64]bool) ([]reconcile.Check, error) {
	var checks []reconcile.Check
	ended := !slices.Contains(pending, run.State)
	add := func(jobs []job, ofJobs bool) bool {
		for _, j := range jobs {
			if known[j.ID] {
				continue
			}
			known[j.ID] = true
			c := reconcile.Check{
				Name:  text.Short(j.Name, maxName),
				State: j.state(ended),
				URL:   text.Short(j.URL, maxAddress),
			}
			if ofJobs {
				c.Job = j.ID
				c.Run = run.ID
			}
			checks = append(checks, c)
		}
		return len(checks) < reconcile.MaxChecksRead
	}
	path := fmt.Sprintf("/pipelines/%d", run.ID)
	err := list(ctx, h, path+"/jobs", nil, func(jobs []job) bool { return add(jobs, true) })
	if err == nil && len(checks) >= reconcile.MaxChecksRead && run.State == "failed" {
		failed := url.Values{"scope": {"failed"}} // they may be among the others
		err = list(ctx, h, path+"/jobs", failed, func(jobs []job) bool { return add(jobs, true) })
	}
	if err != nil {
		return nil, err
	}
	err = list(ctx, h, path+"/bridges", nil, func(jobs []job) bool { return add(jobs, false) })
	if err != nil {
		return nil, err
	}
	if run.State == "failed" && reconcile.StateOfChecks(checks, false) != reconcile.CheckFailure {
		// such as one whose configuration has an error, so that it has no jobs
		checks = append(checks, reconcile.Check{
			Name:  "pipeline",
			State: reconcile.CheckFailure,
			URL:   text.Short(run.URL, maxAddress),
		})
	}
	return checks, nil
}

// readLog implements reconcile.Forge. Not every release can send a part of a log.
func (h *hub) readLog(ctx context.Context, id int64) (string, error) {
	path := h.path("/jobs/%s/trace", strconv.FormatInt(id, 10))
	a, err := h.Ask(ctx, transport.Request{
		Method: http.MethodGet,
		Path:   path,
		Tail:   4 * reconcile.MaxLog, // with colours and the like
	})
	if err != nil {
		return "", h.named(ctx, err)
	}
	if len(a.Body) == 0 {
		gone := h.Fail("forge_api_status", fmt.Sprintf("GitLab has no log of job %d", id)).WithCause(reconcile.ErrGone)
		return "", gone.WithHint("the job has not begun, or its log was deleted")
	}
	end := &text.Tail{Limit: reconcile.MaxLog}
	_, _ = end.Write([]byte(plainLog(string(a.Body)))) // it never fails
	log, _ := end.Text()
	return strings.ToValidUTF8(string(log), "\uFFFD"), nil
}

var (
	escapes  = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	sections = regexp.MustCompile(`section_(?:start|end):\d+:[^\r\n]*\r?`)
)

// plainLog returns a log as GitLab shows it: without colours, without the marks of sections, and
// without what the rest of a line has overwritten.
func plainLog(log string) string {
	log = sections.ReplaceAllString(escapes.ReplaceAllString(log, ""), "")
	lines := strings.Split(log, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	return strings.Join(lines, "\n")
}
