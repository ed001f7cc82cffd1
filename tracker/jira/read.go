package jira

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// page is how many ids a request for a list wants, the most that Jira returns.
	page = 5000
	// batch is how many issues a request by id may name.
	batch = 100
)

// Candidates implements reconcile.Tracker: the issues in the given states, the oldest first.
// Without states no request is made.
func (c *client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	wanted := text.Filter(text.Unique(states), func(s string) bool { return reconcile.NormalizeState(s) != "" })
	if len(wanted) == 0 {
		return []reconcile.Issue{}, nil
	}
	me, err := c.whoami(ctx)
	if err != nil {
		return nil, err
	}
	known, err := c.statuses(ctx)
	if err != nil {
		return nil, err
	}
	isWanted := func(state string) bool {
		return slices.ContainsFunc(wanted, func(s string) bool { return reconcile.SameState(s, state) })
	}
	var chosen []string
	for _, s := range known {
		if isWanted(s.Name) && text.IsNumber(s.ID) {
			chosen = append(chosen, s.ID)
		}
	}
	if len(chosen) == 0 {
		const warning = "no status of the project %s is called %s: there are %s"
		c.api.WarnOnce(fmt.Sprintf(warning, c.o.Project, strings.Join(wanted, " or "), shown(known)))
		return []reconcile.Issue{}, nil
	}
	ids, err := c.search(ctx, c.query(chosen))
	if err != nil {
		return nil, err
	}
	records, err := c.fetch(ctx, ids)
	if err != nil {
		return nil, err
	}
	list := []reconcile.Issue{}
	for _, id := range ids {
		raw, found := records[id]
		if !found { // it was deleted since the index was written, or its error is reported
			continue
		}
		issue, _, err := c.read(ctx, raw, me)
		if err != nil {
			return nil, err
		}
		if issue.Malformed != "" || isWanted(issue.State) && !issue.Elsewhere {
			list = append(list, issue)
		}
	}
	return list, nil
}

// query is the JQL of the issues with these statuses.
func (c *client) query(statuses []string) string {
	jql := fmt.Sprintf(`project = "%s" AND status IN (%s)`, c.key(), strings.Join(statuses, ", "))
	if c.o.JQL != "" {
		jql += " AND (" + c.o.JQL + ")"
	}
	return jql + " ORDER BY created ASC"
}

// mostExpected is how many issues Jira compares with its index in a search.
const mostExpected = 50

// expect implements reconcile.TrackerAdapter: the newest of these issues, by their ids.
func (c *client) expect(ids []string) {
	var list []int64
	for _, id := range ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if err == nil && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected = list[max(0, len(list)-mostExpected):]
}

// search returns the ids of the issues that a query finds.
func (c *client) search(ctx context.Context, jql string) ([]string, error) {
	var ids []string
	seen := map[string]bool{}
	token := ""
	c.mu.Lock()
	expected := c.expected
	c.mu.Unlock()
	for range maxPages {
		body := map[string]any{"jql": jql, "fields": []string{"id"}, "maxResults": page}
		if len(expected) > 0 {
			body["reconcileIssues"] = expected
		}
		if token != "" {
			body["nextPageToken"] = token
		}
		found, err := do[struct {
			Issues []struct {
				ID string `json:"id"`
			} `json:"issues"`
			Next string `json:"nextPageToken"`
		}](ctx, c, http.MethodPost, "/search/jql", nil, body)
		if err != nil {
			return nil, c.badQuery(ctx, err)
		}
		if found.Issues == nil {
			return nil, c.api.Fail(unknownPayload, "the answer contains no list of issues")
		}
		for _, i := range found.Issues {
			if !text.IsNumber(i.ID) {
				return nil, c.api.Fail(unknownPayload, "an issue in the answer has no id")
			}
			ids = append(ids, i.ID)
		}
		if found.Next == "" {
			return text.Unique(ids), nil
		}
		if seen[found.Next] {
			return nil, c.api.Fail(unknownPayload, "the token of the next page repeats")
		}
		seen[found.Next] = true
		token = found.Next
	}
	return nil, c.endless("issues")
}

// badQuery explains the refusal of a query: it contains a condition of the operator, or a key that
// the project does not have any more.
func (c *client) badQuery(ctx context.Context, err error) error {
	e, known := errors.AsType[*reconcile.Error](err)
	if !known || e.Status != http.StatusBadRequest {
		return err
	}
	if c.o.JQL != "" {
		e.Hint = "correct tracker.provider.jql: try it in Jira's search for issues"
	}
	p, unknown := c.project(ctx)
	if unknown == nil && !strings.EqualFold(p.Key, c.o.Project) {
		e.Hint = c.renamed(p.Key)
	}
	return err
}

// statuses are the statuses of the project, each once.
func (c *client) statuses(ctx context.Context) ([]status, error) {
	types, err := get[[]struct {
		Statuses []status `json:"statuses"`
	}](ctx, c, "/project/"+url.PathEscape(c.o.Project)+"/statuses", nil)
	if errors.Is(err, reconcile.ErrGone) {
		return nil, c.noProject()
	}
	if err != nil {
		return nil, err
	}
	var list []status
	for _, t := range types {
		for _, s := range t.Statuses {
			same := func(known status) bool { return known.ID == s.ID }
			if !slices.ContainsFunc(list, same) {
				list = append(list, s)
			}
		}
	}
	if len(list) == 0 {
		return nil, c.api.Fail(unknownPayload, "the project "+c.o.Project+" has no statuses")
	}
	return list, nil
}

// shown are the names of statuses in a sentence.
func shown(list []status) string {
	return strings.Join(namesOf(list), ", ")
}

func namesOf(list []status) []string {
	return text.Unique(text.Map(list, func(s status) string { return s.Name }))
}

// noProject is the error of a project that the account does not see.
func (c *client) noProject() error {
	return reconcile.NewError(
		"tracker_project_not_found",
		fmt.Sprintf("Jira shows no project %q", c.o.Project),
		"check tracker.provider.project_key, and that the account of the token may browse the project",
	)
}

// fetch reads issues by their ids, from the database and not from the index of the search. What
// Jira does not return is missing.
func (c *client) fetch(ctx context.Context, ids []string) (map[string]json.RawMessage, error) {
	found := make(map[string]json.RawMessage, len(ids))
	for part := range slices.Chunk(ids, batch) {
		answer, err := do[struct {
			Issues []json.RawMessage `json:"issues"`
		}](ctx, c, http.MethodPost, "/issue/bulkfetch", nil, map[string]any{
			"issueIdsOrKeys": part,
			"fields":         fields,
		})
		if err != nil {
			return nil, err
		}
		if answer.Issues == nil {
			return nil, c.api.Fail(unknownPayload, "the answer contains no list of issues")
		}
		for _, raw := range answer.Issues {
			var named struct {
				ID string `json:"id"`
			}
			_ = json.Unmarshal(raw, &named) // what has no id is in no part
			if !slices.Contains(part, named.ID) {
				return nil, c.api.Fail(
					unknownPayload,
					fmt.Sprintf("the answer contains the issue %q, which was not asked for", named.ID),
				)
			}
			found[named.ID] = raw
		}
	}
	return found, nil
}

// ByIDs implements reconcile.Tracker: the issues with these ids that exist, by their ids. An issue
// that was moved to another project is elsewhere.
func (c *client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	ids = text.Filter(text.Unique(ids), text.IsNumber)
	list := make(map[string]reconcile.Issue, len(ids))
	if len(ids) == 0 {
		return list, nil
	}
	me, err := c.knownMe(ctx)
	if err != nil {
		return nil, err
	}
	records, err := c.fetch(ctx, ids)
	if err != nil {
		return nil, err
	}
	gone := 0
	for _, id := range ids {
		raw, found := records[id]
		if !found {
			// Jira leaves out an issue that does not exist, and also one that it can't return now
			raw, err = c.one(ctx, id)
			if errors.Is(err, reconcile.ErrGone) {
				gone++
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		issue, err := c.sound(ctx, raw, id, me)
		if err != nil {
			return nil, err
		}
		list[id] = issue
	}
	if gone > 0 {
		err = c.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// sound decodes an issue that was asked for by its id.
func (c *client) sound(ctx context.Context, raw json.RawMessage, id string, me account) (reconcile.Issue, error) {
	issue, w, err := c.read(ctx, raw, me)
	if err != nil {
		return issue, err
	}
	if issue.Malformed != "" {
		return issue, c.api.Fail(unknownPayload, fmt.Sprintf("issue %q is malformed: %s", id, issue.Malformed))
	}
	if w.ID != id {
		return issue, c.api.Fail(unknownPayload, fmt.Sprintf("the answer contains issue %s instead of %s", w.ID, id))
	}
	return issue, nil
}

// one reads a single issue by its id or key. The error wraps reconcile.ErrGone if there is none,
// or if Jira does not know the token any more.
func (c *client) one(ctx context.Context, name string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, issuePath(name), url.Values{"fields": {strings.Join(fields, ",")}})
}

// confirm returns an error unless issues that Jira does not show are gone: it answers the same to
// a stranger, and to an account that may not see the project.
func (c *client) confirm(ctx context.Context) error {
	if _, err := c.whoami(ctx); err != nil {
		return err
	}
	_, err := c.project(ctx)
	return err
}

// project is the project, in Jira's words.
type project struct {
	ID       string `json:"id"`
	Key      string `json:"key"`
	Name     string `json:"name"`
	Archived bool   `json:"archived"`
}

// project reads the project. The error of one that the account does not see has the code
// tracker_project_not_found.
func (c *client) project(ctx context.Context) (project, error) {
	found, err := get[project](ctx, c, "/project/"+url.PathEscape(c.o.Project), nil)
	if errors.Is(err, reconcile.ErrGone) {
		return found, c.noProject()
	}
	if err == nil && found.ID == "" {
		err = c.api.Fail(unknownPayload, "the answer contains no project "+c.o.Project)
	}
	return found, err
}

// isHere reports whether the project of an issue is the one of the settings. Its key tells that,
// unless somebody has given it another one: Jira still finds the project by the old key, and its
// issues have the new one. So the ids decide.
func (c *client) isHere(ctx context.Context, of project) (bool, error) {
	if strings.EqualFold(of.Key, c.o.Project) {
		return true, nil
	}
	home, err := c.knownHome(ctx)
	if err != nil || home.ID != of.ID {
		return false, err
	}
	c.api.WarnOnce(c.renamed(of.Key))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home.Key = of.Key
	return true, nil
}

// renamed says what to do about a project that has another key than the settings. A corrected
// setting names another project for the rest of the program, which ends its runs.
func (c *client) renamed(key string) string {
	const words = "the project %s is now called %s: correct tracker.provider.project_key while nothing runs"
	return fmt.Sprintf(words, c.o.Project, key)
}

// knownHome is project, which is asked once.
func (c *client) knownHome(ctx context.Context) (project, error) {
	c.mu.Lock()
	home := c.home
	c.mu.Unlock()
	if home.ID != "" {
		return home, nil
	}
	found, err := c.project(ctx)
	if err != nil {
		return found, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home = found
	return found, nil
}

// key is the key that the project has, as far as it is known.
func (c *client) key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.home.Key, c.o.Project)
}

// missing is the error of an issue that does not exist.
func (c *client) missing(name string) error {
	return reconcile.NewError(
		"issue_not_found",
		fmt.Sprintf("there is no issue %q in the project %s", name, c.o.Project),
		"check the name; an issue that was moved to another project is not found either",
	).WithCause(reconcile.ErrGone)
}

// ofIssue turns the error of a request about an issue that does not exist into issue_not_found.
func (c *client) ofIssue(ctx context.Context, id string, err error) error {
	if !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	return c.missing(id)
}

// existing reads an issue of the project. The code of the error is issue_not_found if there is
// none.
func (c *client) existing(ctx context.Context, name string) (reconcile.Issue, error) {
	me, err := c.knownMe(ctx)
	if err != nil {
		return reconcile.Issue{}, err
	}
	raw, err := c.one(ctx, name)
	if err != nil {
		return reconcile.Issue{}, c.ofIssue(ctx, name, err)
	}
	issue, w, err := c.read(ctx, raw, me)
	if err != nil {
		return issue, err
	}
	if issue.Malformed != "" {
		return issue, c.api.Fail(unknownPayload, fmt.Sprintf("issue %q is malformed: %s", name, issue.Malformed))
	}
	isAsked := w.ID == name || !text.IsNumber(name) // a key may have changed
	if issue.Elsewhere || !isAsked {
		return issue, c.missing(name)
	}
	return issue, nil
}

// find returns the issue that people call SHOP-12, 12, by its id or its address. The code of the
// error is issue_not_found if there is none.
func (c *client) find(ctx context.Context, name string) (*reconcile.Issue, error) {
	key := strings.ToUpper(strings.TrimSpace(name))
	if at := strings.LastIndex(key, "/BROWSE/"); at >= 0 && strings.HasPrefix(key, strings.ToUpper(c.site)+"/") {
		key = key[at+len("/BROWSE/"):]
	}
	id := key
	if text.IsNumber(key) {
		key = c.key() + "-" + key
	}
	of, number, _ := strings.Cut(key, "-")
	if !isProjectKey(of) || !text.IsNumber(number) {
		return nil, c.missing(name)
	}
	issue, err := c.existing(ctx, key)
	if errors.Is(err, reconcile.ErrGone) && text.IsNumber(id) {
		issue, err = c.existing(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return &issue, nil
}
