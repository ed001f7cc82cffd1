package linear

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	pageSize = 50 // specification 11.2
	batch    = 50 // ids per request
	// commentBatch is how many issues are asked for their last comments at once, the most that
	// Linear returns in a page.
	commentBatch = 250
	innerPage    = 100 // labels or relations of an issue in a further page
)

// Candidates implements reconcile.Tracker: the issues of the project or team in the given
// states, newest first. Without states no request is made.
func (c *Client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	names := spellings(states)
	if len(names) == 0 {
		return []reconcile.Issue{}, nil
	}
	slugs := c.slugIDs()
	if len(slugs) == 0 {
		issues, _, err := c.candidates(ctx, document("team_candidates"), map[string]any{
			"team":       c.team,
			"stateNames": names,
		})
		if err != nil {
			return nil, err
		}
		return issues, nil
	}
	for _, slug := range slugs {
		issues, found, err := c.candidates(ctx, document("candidates"), map[string]any{
			"projectSlug": slug,
			"stateNames":  names,
		})
		if err != nil {
			return nil, err
		}
		if found {
			c.settleSlug(slug)
			return issues, nil
		}
	}
	return []reconcile.Issue{}, nil
}

// candidates reads all pages of a query for candidates. found reports whether it led to an
// issue, of whichever team.
func (c *Client) candidates(
	ctx context.Context,
	query string,
	vars map[string]any,
) (issues []reconcile.Issue, found bool, err error) {
	vars["first"] = pageSize
	issues = []reconcile.Issue{}
	seen := map[string]bool{} // an issue that changes between two requests may be on both pages
	err = c.eachIssue(ctx, "candidates", query+c.fields, vars, func(w *wireIssue) error {
		found = true
		issue, err := c.issue(ctx, w)
		if err != nil {
			m, isMalformed := errors.AsType[*malformed](err)
			if !isMalformed {
				return err
			}
			id := c.Scrub(cmp.Or(m.id, m.identifier, "unknown"))
			issue = reconcile.Issue{
				ID:         id,
				Identifier: c.Scrub(cmp.Or(m.identifier, id)),
				Malformed:  c.Scrub(m.reason),
			}
		}
		ofOtherTeam := c.team != "" && issue.Elsewhere // the query asks for a project
		if !seen[issue.ID] && !ofOtherTeam {
			seen[issue.ID] = true
			issues = append(issues, issue)
		}
		return nil
	})
	return issues, found, err
}

// ByIDs implements reconcile.Tracker. Only issues that are missing are asked for among the
// archived ones.
func (c *Client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	ids = text.Unique(ids)
	found := make(map[string]reconcile.Issue, len(ids))
	for some := range slices.Chunk(ids, batch) {
		if err := c.read(ctx, document("by_ids"), some, found); err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(slices.Clone(some), func(id string) bool {
			_, has := found[id]
			return has
		})
		if len(missing) == 0 || c.bare {
			continue
		}
		archived := map[string]reconcile.Issue{}
		err := c.read(ctx, document("archived"), missing, archived)
		// A server that does not know archived issues returns none.
		if err != nil && !errors.Is(err, reconcile.ErrRejected) {
			return nil, err
		}
		for id, issue := range archived {
			issue.Archived = true
			found[id] = issue
		}
	}
	return found, nil
}

// read adds the issues with these ids to found.
func (c *Client) read(
	ctx context.Context,
	query string,
	ids []string,
	found map[string]reconcile.Issue,
) error {
	vars := map[string]any{"ids": ids, "first": batch}
	return c.eachIssue(ctx, "issues by id", query+c.fields, vars, func(w *wireIssue) error {
		issue, err := c.issue(ctx, w)
		if err != nil {
			return c.asUnknown(err)
		}
		found[issue.ID] = issue
		return nil
	})
}

// LastComments returns the times of the newest comments of issues, by id. Issues without
// comments are missing in it.
func (c *Client) LastComments(ctx context.Context, ids []string) (map[string]time.Time, error) {
	last := make(map[string]time.Time, len(ids))
	for some := range slices.Chunk(text.Unique(ids), commentBatch) {
		vars := map[string]any{"ids": some, "first": commentBatch}
		err := c.eachIssue(ctx, "last comments", document("last_comments"), vars, func(w *wireIssue) error {
			for _, n := range text.OrEmpty(w.Comments.value).Nodes {
				if at := text.Time(text.OrEmpty(n.CreatedAt)); at != nil {
					last[text.OrEmpty(w.ID.value)] = *at
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return last, nil
}

// ByIdentifier reads an issue by its identifier, such as ABC-1, its web address, or its id.
// The code of the error is issue_not_found if there is no such issue, or the key's user may
// not see it.
func (c *Client) ByIdentifier(ctx context.Context, identifier string) (*reconcile.Issue, error) {
	identifier = strings.TrimSpace(identifier)
	given := identifier
	address, isAddress := text.IssueAddress(given)
	if isAddress {
		identifier = address[strings.LastIndexByte(address, '/')+1:]
	}
	if identifier == "" {
		return nil, c.missing(identifier)
	}
	data, err := ask[struct {
		Issue struct {
			ID string `json:"id"`
		} `json:"issue"`
	}](ctx, c, document("by_identifier"), map[string]any{"id": identifier})
	if errors.Is(err, reconcile.ErrGone) {
		return nil, c.missing(identifier)
	}
	if err != nil {
		return nil, err
	}
	found, err := c.ByIDs(ctx, []string{data.Issue.ID})
	if err != nil {
		return nil, err
	}
	issue, exists := found[data.Issue.ID]
	if !exists {
		return nil, c.missing(identifier)
	}
	if isAddress && !isAt(issue, address) { // another workspace may have the same identifier
		return nil, c.missing(given)
	}
	return &issue, nil
}

// isAt reports whether an issue has a web address.
func isAt(issue reconcile.Issue, address string) bool {
	if issue.URL == nil {
		return false
	}
	own, _ := text.IssueAddress(*issue.URL)
	return own == address
}

// missing returns the error of an issue that does not exist.
func (c *Client) missing(identifier string) error {
	return reconcile.NewError(
		"issue_not_found",
		c.Scrub(fmt.Sprintf("Linear has no issue %q", identifier)),
		"check the identifier, and that the user of the API key may see the issue",
	).WithCause(reconcile.ErrGone)
}

// eachIssue reads all pages of a query for issues.
func (c *Client) eachIssue(
	ctx context.Context,
	what, query string,
	vars map[string]any,
	each func(*wireIssue) error,
) error {
	return transport.Pages(c.Client, what, vars, func() (page list[wireIssue], err error) {
		data, err := ask[struct {
			Issues list[wireIssue] `json:"issues"`
		}](ctx, c, query, vars)
		if err != nil {
			return page, err
		}
		for i := range data.Issues.Nodes {
			if err := each(&data.Issues.Nodes[i]); err != nil {
				return page, err
			}
		}
		return data.Issues, nil
	})
}

// asUnknown turns *malformed into the error of a request for a certain issue. It returns other
// errors unchanged.
func (c *Client) asUnknown(err error) error {
	m, isMalformed := errors.AsType[*malformed](err)
	if !isMalformed {
		return err
	}
	return c.Fail(
		"linear_unknown_payload",
		fmt.Sprintf("issue %q is malformed: %s", cmp.Or(m.id, m.identifier), m.reason),
	)
}

// spellings adds the usual capitalisations of each state name, because Linear's filter is
// case-sensitive and states are not (specification 4.2).
func spellings(states []string) []string {
	var all []string
	for _, s := range states {
		s = strings.TrimSpace(s)
		lower := strings.ToLower(s)
		all = append(all, s, titled(lower, true), titled(lower, false), lower, strings.ToUpper(s))
	}
	return text.Unique(all)
}

// titled capitalises every word, or only the first.
func titled(s string, every bool) string {
	r := []rune(s)
	start := true
	for i, c := range r {
		if start && unicode.IsLetter(c) {
			r[i] = unicode.ToUpper(c)
		}
		start = every && !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '\'' && c != '’'
	}
	return string(r)
}
