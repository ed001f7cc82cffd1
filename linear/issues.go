package linear

import (
	"cmp"
	"context"
	_ "embed" // the queries
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	pageSize  = 50  // specification 11.2
	batch     = 50  // ids in one request
	innerPage = 100 // labels or relations in a further page of one issue
)

// The requests. The fragments that a request uses are appended to it.
var (
	//go:embed query/issue_fields.graphql
	issueFields string
	//go:embed query/relation_fields.graphql
	relationFields string
	//go:embed query/candidates.graphql
	candidatesQuery string
	//go:embed query/by_ids.graphql
	byIDsQuery string
	//go:embed query/by_identifier.graphql
	byIdentifierQuery string
	//go:embed query/more_labels.graphql
	moreLabelsQuery string
	//go:embed query/more_relations.graphql
	moreRelationsQuery string
)

// Candidates implements reconcile.Tracker: the project's issues in the given states, newest first. Without states no request is
// made.
func (c *Client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	names := spellings(states)
	if len(names) == 0 {
		return []reconcile.Issue{}, nil
	}
	c.mu.Lock()
	slugs := c.slugs
	c.mu.Unlock()
	var issues []reconcile.Issue
	for _, slug := range slugs {
		var found bool
		var err error
		if issues, found, err = c.candidates(ctx, slug, names); err != nil {
			return nil, err
		}
		if found {
			c.settleSlug(slug)
			break
		}
	}
	return issues, nil
}

func (c *Client) candidates(ctx context.Context, slug string, states []string) (issues []reconcile.Issue, found bool, err error) {
	vars := map[string]any{"projectSlug": slug, "stateNames": states, "first": pageSize}
	issues = []reconcile.Issue{}
	seen := map[string]bool{} // an issue that changes between two requests may be on both pages
	err = c.eachIssue(ctx, "candidates", candidatesQuery, vars, func(w *wireIssue) error {
		found = true
		issue, err := c.issue(ctx, w)
		if m := (*malformed)(nil); errors.As(err, &m) {
			id := c.scrub(cmp.Or(m.id, m.identifier, "unknown"))
			issue = reconcile.Issue{ID: id, Identifier: c.scrub(cmp.Or(m.identifier, id)), Malformed: c.scrub(m.reason)}
		} else if err != nil {
			return err
		}
		if !seen[issue.ID] {
			seen[issue.ID] = true
			issues = append(issues, issue)
		}
		return nil
	})
	return issues, found, err
}

// ByIDs implements reconcile.Tracker.
func (c *Client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	ids = unique(ids)
	found := make(map[string]reconcile.Issue, len(ids))
	for len(ids) > 0 {
		n := min(batch, len(ids))
		vars := map[string]any{"ids": ids[:n], "first": batch}
		ids = ids[n:]
		err := c.eachIssue(ctx, "issues by id", byIDsQuery, vars, func(w *wireIssue) error {
			issue, err := c.issue(ctx, w)
			if err != nil {
				return c.asUnknown(err)
			}
			found[issue.ID] = issue
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// ByIdentifier reads one issue by its identifier, such as ABC-1, its web address, or its id. The error has the code issue_not_found if there is
// no such issue, or the key's user may not see it.
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
		Issue *wireIssue `json:"issue"`
	}](ctx, c, byIdentifierQuery+issueFields+relationFields, map[string]any{"id": identifier})
	if errors.Is(err, errNotFound) || err == nil && data.Issue == nil {
		return nil, c.missing(identifier)
	}
	if err != nil {
		return nil, err
	}
	issue, err := c.issue(ctx, data.Issue)
	if err != nil {
		return nil, c.asUnknown(err)
	}
	if isAddress { // another workspace may have the same identifier
		if own, _ := text.IssueAddress(*cmp.Or(issue.URL, &identifier)); own != address {
			return nil, c.missing(given)
		}
	}
	return &issue, nil
}

func (c *Client) missing(identifier string) error {
	return &reconcile.Error{
		Code: "issue_not_found", Message: c.scrub(fmt.Sprintf("Linear has no issue %q", identifier)),
		Hint: "check the identifier, and that the user of the API key may see the issue",
	}
}

// eachIssue reads all pages of a query for issues.
func (c *Client) eachIssue(ctx context.Context, what, query string, vars map[string]any, each func(*wireIssue) error) error {
	return c.pages(what, vars, func(vars map[string]any) (pageInfo, error) {
		data, err := ask[struct {
			Issues list[wireIssue] `json:"issues"`
		}](ctx, c, query+issueFields+relationFields, vars)
		if err != nil {
			return pageInfo{}, err
		}
		if data.Issues.Nodes == nil {
			return pageInfo{}, c.fail("linear_unknown_payload", "the answer contains no list of "+what)
		}
		for i := range data.Issues.Nodes {
			if err := each(&data.Issues.Nodes[i]); err != nil {
				return pageInfo{}, err
			}
		}
		return data.Issues.PageInfo, nil
	})
}

// asUnknown turns *malformed into the error of a request for a certain issue. It returns other errors unchanged.
func (c *Client) asUnknown(err error) error {
	m := (*malformed)(nil)
	if !errors.As(err, &m) {
		return err
	}
	return c.fail("linear_unknown_payload", fmt.Sprintf("issue %q is malformed: %s", cmp.Or(m.id, m.identifier), m.reason))
}

// spellings adds the usual capitalisations of each state name, because Linear's filter is case-sensitive and states are not
// (specification 4.2).
func spellings(states []string) []string {
	var all []string
	for _, s := range states {
		s = strings.TrimSpace(s)
		lower := strings.ToLower(s)
		all = append(all, s, titled(lower, true), titled(lower, false), lower, strings.ToUpper(s))
	}
	return unique(all)
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

// unique returns the list without empty strings and duplicates.
func unique(in []string) []string {
	seen := make(map[string]bool, len(in))
	out := make([]string, 0, len(in))
	for _, s := range in {
		if s != "" && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
