package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// batch is how many issues a request reads by their numbers.
	batch = 50
	// pulls is how many pull requests of a branch name are read. Forks may use the name, too.
	pulls = 10
)

// ByIDs implements reconcile.Tracker: the issues with these ids that exist, by their ids.
func (c *Client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	refs := c.IssuesOf(ids)
	found := make(map[string]reconcile.Issue, len(refs))
	var gone []ref
	err := c.read(ctx, refs, c.branches(ctx, refs), func(at ref, r *record, me string) error {
		if r == nil {
			gone = append(gone, at)
			return nil
		}
		issue := c.issue(*r, me)
		if issue.Malformed != "" {
			return c.Fail(
				"tracker_unknown_payload",
				fmt.Sprintf("issue %q is malformed: %s", issue.ID, issue.Malformed),
			)
		}
		found[issue.ID] = issue
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.memory.Forget(ctx, gone); err != nil {
		return nil, err
	}
	return found, nil
}

// Find returns the issue that people call GH-12, 12, #12, name-12, owner/name#12, or by its
// address. The code of the error is issue_not_found if there is none.
func (c *Client) Find(ctx context.Context, name string) (*reconcile.Issue, error) {
	id, ok := c.IDOf(name)
	if !ok {
		return nil, c.Missing(name)
	}
	found, err := c.ByIDs(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if issue, there := found[id]; there {
		return &issue, nil
	}
	return nil, c.Missing(name)
}

// read reads issues by their numbers and calls each for every issue, with a nil record if it
// does not exist. me is the login of the token's account. It also reads the pull requests of
// the branches of issues.
func (c *Client) read(
	ctx context.Context,
	refs []ref,
	branches map[ref]string,
	each func(at ref, r *record, me string) error,
) error {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b ref) int {
		return cmp.Or(strings.Compare(a.Repo, b.Repo), a.Number-b.Number)
	})
	refs = slices.Compact(refs)
	for part := range slices.Chunk(refs, batch) {
		if err := c.readBatch(ctx, part, branches, each); err != nil {
			return err
		}
	}
	return nil
}

// readBatch is read for at most as many issues as fit into a request.
func (c *Client) readBatch(
	ctx context.Context,
	refs []ref,
	branches map[ref]string,
	each func(at ref, r *record, me string) error,
) error {
	repos := text.Unique(text.Map(refs, func(at ref) string { return at.Repo }))
	query, vars := c.numbersQuery(repos, refs, branches)
	data, missing, err := graphQL[map[string]json.RawMessage](ctx, c.requests, query, vars)
	if err != nil {
		return err
	}
	var viewer account
	_ = json.Unmarshal((*data)["viewer"], &viewer) // me refuses an answer without it
	me, err := c.me(viewer)
	if err != nil {
		return err
	}
	answers, err := c.repositoriesIn(*data, repos)
	if err != nil {
		return err
	}
	for i, at := range refs {
		n := slices.Index(repos, at.Repo)
		raw := answers[n][issueAlias(i)]
		if len(raw) == 0 || string(raw) == "null" {
			path := []any{repoAlias(n), issueAlias(i)}
			isMissing := func(e graphqlError) bool { return slices.Equal(e.Path, path) }
			if !slices.ContainsFunc(missing, isMissing) { // it must not look as if the issue were gone
				return c.Fail(
					"tracker_unknown_payload",
					fmt.Sprintf("the answer contains no issue %d of %s", at.Number, at.Repo),
				)
			}
			if err := each(at, nil, me); err != nil {
				return err
			}
			continue
		}
		r, err := c.numbered(at, raw)
		if err != nil {
			return err
		}
		if list, asked := answers[n][pullsAlias(i)]; asked {
			r.pullRequest = c.pullRequest(list)
		}
		if err := each(at, &r, me); err != nil {
			return err
		}
	}
	return nil
}

// The aliases of a query and its answer: of the nth repository, of the ith issue, and of the
// pull requests for the branch of the ith issue.
func repoAlias(n int) string  { return fmt.Sprint("r", n) }
func issueAlias(i int) string { return fmt.Sprint("i", i) }
func pullsAlias(i int) string { return fmt.Sprint("p", i) }

// repositoriesIn returns the answer of each repository: its name, and by alias its issues and
// lists of pull requests.
func (c *Client) repositoriesIn(
	data map[string]json.RawMessage,
	repos []string,
) ([]map[string]json.RawMessage, error) {
	answers := make([]map[string]json.RawMessage, len(repos))
	for n, repo := range repos {
		if err := json.Unmarshal(data[repoAlias(n)], &answers[n]); err != nil {
			return nil, c.Fail("tracker_unknown_payload", "the answer contains no repository "+repo)
		}
		if answers[n] == nil {
			return nil, c.NoRepository(repo, "")
		}
		var name string
		_ = json.Unmarshal(answers[n]["nameWithOwner"], &name)
		c.Rename(repo, name)
	}
	return answers, nil
}

// numbered reads the issue that an answer contains for a number.
func (c *Client) numbered(at ref, raw json.RawMessage) (record, error) {
	r := fromGraphQL(at.Repo, c.o.Project, raw)
	if r.Number != at.Number && r.Malformed == "" {
		return record{}, c.Fail(
			"tracker_unknown_payload",
			fmt.Sprintf("the answer contains issue %d of %s instead of %d", r.Number, at.Repo, at.Number),
		)
	}
	r.Number = at.Number
	return r, nil
}

// numbersQuery returns the query for issues by their numbers, with its variables.
func (c *Client) numbersQuery(
	repos []string,
	refs []ref,
	branches map[ref]string,
) (string, map[string]any) {
	vars := map[string]any{}
	var params []string
	param := func(name string, value any) string {
		params = append(params, "$"+name+": String!")
		vars[name] = value
		return "$" + name
	}
	fields := "...IssueFields"
	fragments := document("issue_fields")
	if c.o.Project != "" {
		param("field", statusField)
		fields += " projectItems(first: 100) { nodes { ...Column } }"
		fragments += document("column")
	}
	hasBranch := func(at ref) bool { return branches[at] != "" }
	if slices.ContainsFunc(refs, hasBranch) {
		fragments += document("pull_fields")
	}
	var body strings.Builder
	for n, repo := range repos {
		owner, name, _ := strings.Cut(c.Present(repo), "/")
		fmt.Fprintf(&body, "  %s: repository(owner: %s, name: %s) {\n    nameWithOwner\n", repoAlias(n),
			param(fmt.Sprint("owner", n), owner), param(fmt.Sprint("name", n), name))
		for i, at := range refs {
			if at.Repo != repo {
				continue
			}
			fmt.Fprintf(&body, "    %s: issue(number: %d) { %s }\n", issueAlias(i), at.Number, fields)
			if branch := branches[at]; branch != "" {
				head := param(fmt.Sprint("head", i), branch)
				const list = "    %s: pullRequests(headRefName: %s, first: %d, " +
					"orderBy: {field: CREATED_AT, direction: DESC}) { nodes { ...PullFields } }\n"
				fmt.Fprintf(&body, list, pullsAlias(i), head, pulls)
			}
		}
		body.WriteString("  }\n")
	}
	query := "query SymphonyNumbers(" + strings.Join(params, ", ") + ") {\n" +
		"  viewer { login }\n" + body.String() + "}\n" + fragments
	return query, vars
}

// branches returns the branch of each issue with a branch. Of an open issue the record of the
// last pass is known.
func (c *Client) branches(ctx context.Context, refs []ref) map[ref]string {
	if c.o.Branch == nil || len(refs) == 0 {
		return nil
	}
	known := map[ref]record{}
	for _, p := range c.memory.Read(ctx).Repos {
		for _, r := range p.Issues {
			known[r.Ref()] = r
		}
	}
	branches := map[ref]string{}
	for _, at := range refs {
		r, there := known[at]
		if !there {
			r = record{Record: repoissue.Record{Repo: at.Repo, Number: at.Number}}
		}
		branches[at] = c.o.Branch(c.issue(r, ""))
	}
	return branches
}

// checkResults are the results of a pull request's checks by GitHub's words.
var checkResults = map[string]string{
	"SUCCESS":  "passed",
	"FAILURE":  "failed",
	"ERROR":    "failed",
	"PENDING":  "pending",
	"EXPECTED": "pending",
}

// pullRequest returns the newest pull request of a branch of the repository itself, nil if
// there is none.
func (c *Client) pullRequest(raw json.RawMessage) *reconcile.PullRequest {
	var list nodes[struct {
		URL     string `json:"url"`
		State   string `json:"state"`
		Draft   bool   `json:"isDraft"`
		Foreign bool   `json:"isCrossRepository"`
		Review  string `json:"reviewDecision"`
		Commits nodes[struct {
			Commit struct {
				Checks struct {
					State string `json:"state"`
				} `json:"statusCheckRollup"`
			} `json:"commit"`
		}] `json:"commits"`
	}]
	if json.Unmarshal(raw, &list) != nil {
		c.WarnOnce("GitHub's pull requests have an unexpected shape and are ignored")
		return nil
	}
	for _, p := range list.Nodes {
		if p.Foreign || p.URL == "" {
			continue
		}
		found := reconcile.PullRequest{URL: c.Scrub(p.URL), State: strings.ToLower(p.State)}
		if found.State == "open" && p.Draft {
			found.State = "draft"
		}
		found.Review = strings.ToLower(p.Review)
		if found.Review == "review_required" {
			found.Review = "required"
		}
		for _, commit := range p.Commits.Nodes {
			found.Checks = checkResults[commit.Commit.Checks.State]
		}
		return &found
	}
	return nil
}
