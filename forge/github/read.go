package github

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	batch = 50 // pull requests of one request
	// reviews of each pull request in that request, and of one in each further request
	reviewPage = 30
	maxName    = 255  // bytes of the name of a check, a branch or a file
	maxAddress = 2048 // bytes of the address of a check

	// enoughReviews is how many bytes of the reviews of one pull request are read before older
	// ones are left out. 300 reviews with a comment of 200 letters have a tenth of it.
	enoughReviews = 8 << 20
)

//go:embed query
var queries embed.FS

// document is a request with the fragments that it uses, as the folder query has them.
func document(names ...string) string { return transport.Document(queries, names...) }

// commit is a commit with its checks.
type commit struct {
	OID    string `json:"oid"`
	Rollup struct {
		State    string                 `json:"state"`
		Contexts transport.List[*check] `json:"contexts"` // null is what the token may not see
	} `json:"statusCheckRollup"`
}

// check is a CheckRun, which is of GitHub Actions if it has a workflow, or a StatusContext. In
// the queries, fields that the core has too have its names.
type check struct {
	reconcile.Check
	Status string `json:"status"`
	Ended  string `json:"conclusion"`
	Suite  struct {
		Run *struct {
			Workflow struct {
				Name string `json:"name"`
			} `json:"workflow"`
		} `json:"workflowRun"`
	} `json:"checkSuite"`
}

// pull is a pull request.
type pull struct {
	reconcile.Pull
	Commits transport.List[struct {
		Commit commit `json:"commit"`
	}] `json:"commits"`
	Reviews transport.List[review] `json:"reviews"`
	// Opinions are the last approval or request for changes of each person who may push.
	Opinions transport.List[review] `json:"latestOpinionatedReviews"`
}

type review struct {
	reconcile.Review
	Author *struct {
		Type  string `json:"__typename"`
		Login string `json:"login"`
	} `json:"author"`
	Commit   commit                                  `json:"commit"`
	Comments transport.List[reconcile.ReviewComment] `json:"comments"`
}

// checkStates are the states of checks by GitHub's words. A check that has ended with another
// word has no verdict.
var checkStates = map[string]string{
	"SUCCESS":         reconcile.CheckSuccess,
	"FAILURE":         reconcile.CheckFailure,
	"TIMED_OUT":       reconcile.CheckFailure,
	"STARTUP_FAILURE": reconcile.CheckFailure,
	"ERROR":           reconcile.CheckFailure,
	"NEUTRAL":         reconcile.CheckSkipped,
	"SKIPPED":         reconcile.CheckSkipped,
	"PENDING":         reconcile.CheckPending,
	"EXPECTED":        reconcile.CheckPending,
}

// job finds the numbers of the run and the job in the address of a check of GitHub Actions.
// GraphQL has only 32 bits of them.
var job = text.Pattern(`/actions/runs/(\d{1,18})/job/(\d{1,18})$`)

// value returns the check.
func (c *check) value() reconcile.Check {
	if run := c.Suite.Run; run != nil {
		c.Name = run.Workflow.Name + " / " + c.Name
		if m := job().FindStringSubmatch(c.URL); m != nil {
			c.Run, _ = strconv.ParseInt(m[1], 10, 64)
			c.Job, _ = strconv.ParseInt(m[2], 10, 64)
		}
	}
	if c.Status == "COMPLETED" || c.State != "" {
		c.State = cmp.Or(checkStates[c.Ended+c.State], reconcile.CheckOpen)
	}
	c.State = cmp.Or(c.State, reconcile.CheckPending)
	c.Name = text.Short(c.Name, maxName)
	c.URL = text.Short(c.URL, maxAddress)
	return c.Check
}

func (h hub) read(ctx context.Context, numbers []int) (map[int]reconcile.Pull, error) {
	found := make(map[int]reconcile.Pull, len(numbers))
	for part := range slices.Chunk(numbers, batch) {
		if err := h.readBatch(ctx, part, reviewPage, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readBatch adds pull requests with that many reviews to found. If people have written so much
// that the answer is too large, it asks for half of the pull requests at a time, and for half
// of the reviews of a single one.
func (h hub) readBatch(ctx context.Context, numbers []int, reviews int, found map[int]reconcile.Pull) error {
	var body strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&body, "    p%d: pullRequest(number: %d) { ...Pull }\n", n, n)
	}
	fields, err := h.query(
		ctx,
		readPulls,
		"query SymphonyPulls($owner: String!, $name: String!, $reviews: Int!) {\n"+
			"  repository(owner: $owner, name: $name) {\n    nameWithOwner\n"+body.String()+"  }\n}\n"+document("pull", "review", "checks"),
		map[string]any{"reviews": reviews},
	)
	e, _ := errors.AsType[*reconcile.Error](err)
	switch half := len(numbers) / 2; {
	case e != nil && e.Code == "answer_too_large" && half > 0:
		if err = h.readBatch(ctx, numbers[:half], reviews, found); err == nil {
			err = h.readBatch(ctx, numbers[half:], reviews, found)
		}
		return err
	case e != nil && e.Code == "answer_too_large" && reviews > 1:
		return h.readBatch(ctx, numbers, reviews/2, found)
	case err != nil:
		return err
	}
	for _, n := range numbers {
		p, err := decode[*pull](h, "pull request", fields[fmt.Sprint("p", n)])
		switch {
		case err != nil:
			return err
		case p == nil: // it does not exist
			continue
		case p.Number != n:
			return h.Fail(
				"forge_unknown_payload",
				fmt.Sprintf("the answer contains pull request %d instead of %d", p.Number, n),
			)
		}
		for _, newest := range p.Commits.Nodes {
			if p.Checks, err = h.allChecks(ctx, newest.Commit); err != nil {
				return err
			}
		}
		if err := h.addOlderReviews(ctx, p, reviews, len(fields[fmt.Sprint("p", n)])); err != nil {
			return err
		}
		found[n] = p.value()
	}
	return nil
}

// addOlderReviews adds the reviews before the first page, up to reconcile.MaxReviews and
// enoughReviews, and the last verdict of everyone who may push, however old it is. Without
// these verdicts, anyone could hide what a maintainer asks for behind many or long comments.
// size is how many reviews the first page has, which has taken that many bytes.
func (h hub) addOlderReviews(ctx context.Context, p *pull, size, bytes int) error {
	if !p.Reviews.PageInfo.HasPreviousPage {
		return nil
	}
	page := p.Reviews
	for page.PageInfo.HasPreviousPage && len(p.Reviews.Nodes) < reconcile.MaxReviews && bytes < enoughReviews {
		older, took, err := h.readReviews(
			ctx,
			p.Number,
			document("reviews", "review"),
			size,
			page.PageInfo.StartCursor,
		)
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
func (h hub) readVerdicts(ctx context.Context, number int) (all []review, err error) {
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
	ctx context.Context, number int, query string, size int, before string,
) (p *pull, bytes int, err error) {
	vars := map[string]any{"number": number, "reviews": size}
	if before != "" {
		vars["before"] = before
	}
	fields, err := h.query(ctx, readPulls, query, vars)
	if e, _ := errors.AsType[*reconcile.Error](err); e != nil && e.Code == "answer_too_large" && size > 1 {
		return h.readReviews(ctx, number, query, size/2, before)
	}
	if err != nil {
		return nil, 0, err
	}
	raw := fields["pullRequest"]
	p, err = decode[*pull](h, "pull request", raw)
	if err == nil && p == nil {
		err = h.gone(readPulls, fmt.Sprint("there is no pull request ", number))
	}
	return p, len(raw), err
}

// value returns the pull request.
func (p *pull) value() reconcile.Pull {
	p.State = strings.ToLower(p.State)
	p.Mergeable = strings.ToLower(p.Mergeable)
	p.Branch = text.Short(p.Branch, maxName)
	p.Base = text.Short(p.Base, maxName)
	for _, r := range p.Reviews.Nodes {
		if r.State != "PENDING" {
			p.Pull.Reviews = append(p.Pull.Reviews, r.value())
		}
	}
	return p.Pull
}

func (r review) value() reconcile.Review {
	v := r.Review
	v.Role = strings.ToLower(v.Role)
	v.State = strings.ToLower(v.State)
	v.Commit = r.Commit.OID
	v.Author = "ghost"
	if a := r.Author; a != nil {
		v.Author = a.Login
		v.Bot = a.Type == "Bot"
	}
	if v.Bot { // a user could have the same login
		v.Author += "[bot]"
	}
	v.Body = text.Short(v.Body, reconcile.MaxReviewText)
	v.CommentsCut = r.Comments.PageInfo.HasNextPage
	for _, c := range r.Comments.Nodes {
		c.File = text.Short(c.File, maxName)
		c.Body = text.Short(c.Body, reconcile.MaxReviewText)
		v.Comments = append(v.Comments, c)
	}
	return v
}

func (h hub) readChecks(ctx context.Context, ref string) (reconcile.Checks, error) {
	c, err := h.readCommit(ctx, ref, nil)
	if err != nil {
		return reconcile.Checks{}, err
	}
	return h.allChecks(ctx, *c)
}

var commitID = text.Pattern(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// readCommit reads a commit, or the newest commit of a branch, with a page of its checks.
func (h hub) readCommit(ctx context.Context, ref string, after any) (*commit, error) {
	if !commitID().MatchString(ref) {
		ref = "refs/heads/" + ref
	}
	fields, err := h.query(ctx, readPulls, document("commit", "checks"), map[string]any{
		"ref":   ref,
		"after": after,
	})
	if err != nil {
		return nil, err
	}
	c, err := decode[*commit](h, "commit", fields["object"])
	if err == nil && (c == nil || c.OID == "") {
		err = h.gone(readPulls, "there is no commit "+ref)
	}
	return c, err
}

// allChecks returns the checks of a commit, sorted by their names. It reads those that are not
// on the first page: GitHub can't be asked for the failed ones alone.
func (h hub) allChecks(ctx context.Context, c commit) (reconcile.Checks, error) {
	most := reconcile.MaxChecks
	if checkStates[c.Rollup.State] == reconcile.CheckFailure {
		most = reconcile.MaxChecksRead
	}
	checks := reconcile.Checks{Commit: c.OID, State: checkStates[c.Rollup.State]}
	for {
		page := c.Rollup.Contexts
		for _, one := range page.Nodes {
			if one == nil {
				checks.Hidden = true
				continue
			}
			checks.List = append(checks.List, one.value())
		}
		checks.Cut = page.PageInfo.HasNextPage
		if !checks.Cut || len(checks.List) >= most || len(page.Nodes) == 0 {
			break
		}
		next, err := h.readCommit(ctx, c.OID, page.PageInfo.EndCursor)
		if err != nil {
			return checks, err
		}
		c = *next
	}
	checks.List, checks.Cut = shortList(checks.List, checks.Cut)
	slices.SortStableFunc(checks.List, func(a, b reconcile.Check) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Job, b.Job))
	})
	return checks, nil
}

// shortList returns at most reconcile.MaxChecks checks, and whether others are missing than
// those that have succeeded. cut: some are missing already.
func shortList(list []reconcile.Check, cut bool) ([]reconcile.Check, bool) {
	if len(list) <= reconcile.MaxChecks {
		return list, cut
	}
	weights := map[string]int{
		reconcile.CheckFailure: 0,
		reconcile.CheckPending: 1,
		reconcile.CheckOpen:    2,
	}
	weight := func(c reconcile.Check) int {
		if w, counts := weights[c.State]; counts {
			return w
		}
		return len(weights)
	}
	slices.SortStableFunc(list, func(a, b reconcile.Check) int { return cmp.Compare(weight(a), weight(b)) })
	missing := list[reconcile.MaxChecks:]
	return list[:reconcile.MaxChecks], cut || weight(missing[0]) < len(weights)
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
		return false, h.gone(readPulls, fmt.Sprint("there is no pull request ", number))
	}
	for _, c := range p.Commits.Nodes {
		if c.Commit.OID == commit {
			return true, nil
		}
	}
	return false, nil
}

// readRequired implements reconcile.Forge. Classic protections and rulesets both require
// checks.
func (h hub) readRequired(ctx context.Context, number int) ([]string, error) {
	fields, err := h.query(ctx, readPulls, document("required"), map[string]any{"number": number})
	e, known := errors.AsType[*reconcile.Error](err)
	if known && !reconcile.EndsByItself(e.Code, e.Status) && !errors.Is(err, reconcile.ErrGone) {
		// an older GitHub Enterprise, or a token that may not see it: no check is called
		// missing then
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := decode[*struct {
		Base *struct {
			Protection *struct {
				Contexts []string `json:"requiredStatusCheckContexts"`
			} `json:"refUpdateRule"`
			Rules transport.List[struct {
				Parameters *struct {
					Checks []struct {
						Context string `json:"context"`
					} `json:"requiredStatusChecks"`
				} `json:"parameters"`
			}] `json:"rules"`
		} `json:"baseRef"`
	}](h, "pull request", fields["pullRequest"])
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, h.gone(readPulls, fmt.Sprint("there is no pull request ", number))
	case p.Base == nil:
		return nil, nil
	}
	var names []string
	if p.Base.Protection != nil {
		names = p.Base.Protection.Contexts
	}
	for _, rule := range p.Base.Rules.Nodes {
		if rule.Parameters == nil {
			continue
		}
		for _, check := range rule.Parameters.Checks {
			names = append(names, check.Context)
		}
	}
	names = text.Map(
		names[:min(len(names), reconcile.MaxChecks)],
		func(name string) string { return text.Short(name, maxName) },
	)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// logTimeout bounds the transfer of a log, which may have hundreds of megabytes.
const logTimeout = 2 * time.Minute

// readLog implements reconcile.Forge. GitHub redirects to a log at another host for a minute.
func (h hub) readLog(ctx context.Context, job int64) (string, error) {
	a, err := h.do(ctx, readActions, http.MethodGet, fmt.Sprintf("/actions/jobs/%d/logs", job), nil)
	if e, known := errors.AsType[*reconcile.Error](err); known && errors.Is(err, reconcile.ErrGone) {
		e.Hint = "the job is still at work, or its log was deleted; otherwise " + h.lacks(readActions)
	}
	if err != nil {
		return "", err
	}
	end := &text.Tail{Limit: reconcile.MaxLog}
	if err := h.download(ctx, a, end); err != nil {
		return "", h.Fail(
			"forge_api_request",
			fmt.Sprintf("the log of job %d was not transferred: %v", job, err),
		)
	}
	log, _ := end.Text()
	return strings.ToValidUTF8(h.Scrub(string(log)), "\uFFFD"), nil
}

// download writes what an answer leads to. The token is not sent there, and errors do not
// contain the address, which is a secret.
func (h hub) download(ctx context.Context, a transport.Answer, to io.Writer) error {
	at := a.Header.Get("Location")
	if a.Status != http.StatusFound ||
		!strings.HasPrefix(at, "https://") && strings.HasPrefix(h.Endpoint, "https://") {
		return fmt.Errorf("the answer %d leads to no log", a.Status)
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return errors.New("its address is malformed")
	}
	answer, err := h.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("its host answers %d", answer.StatusCode)
	}
	_, err = io.Copy(to, answer.Body)
	return err
}

func (h hub) rerun(ctx context.Context, run int64) error {
	_, err := h.do(
		ctx,
		runActions,
		http.MethodPost,
		fmt.Sprintf("/actions/runs/%d/rerun-failed-jobs", run),
		nil,
	)
	if err != nil && strings.Contains(err.Error(), "already running") {
		return nil
	}
	return err
}
