package gitlab

import (
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
)

// subjects are the first parts of the paths in readable, for the words of the tool.
var subjects = []string{"issues", "jobs", "labels", "merge_requests", "milestones", "pipelines", "repository"}

// readable are the paths below a project that the tool reads. NUMBER is a number, and * any text,
// such as the name of a branch. Whole paths are compared, because a route of GitLab takes a suffix:
// pipelines/7/variables.json is the same as pipelines/7/variables. Everything else, such as
// variables, hooks and tokens, may contain secrets.
var readable = []string{
	"issues",
	"issues/NUMBER",
	"issues/NUMBER/closed_by",
	"issues/NUMBER/discussions",
	"issues/NUMBER/discussions/*",
	"issues/NUMBER/links",
	"issues/NUMBER/notes",
	"issues/NUMBER/notes/NUMBER",
	"issues/NUMBER/participants",
	"issues/NUMBER/related_merge_requests",
	"issues/NUMBER/resource_label_events",
	"issues/NUMBER/resource_milestone_events",
	"issues/NUMBER/resource_state_events",
	"jobs",
	"jobs/NUMBER",
	"jobs/NUMBER/trace",
	"labels",
	"labels/*",
	"merge_requests",
	"merge_requests/NUMBER",
	"merge_requests/NUMBER/approval_state",
	"merge_requests/NUMBER/approvals",
	"merge_requests/NUMBER/changes",
	"merge_requests/NUMBER/closes_issues",
	"merge_requests/NUMBER/commits",
	"merge_requests/NUMBER/diffs",
	"merge_requests/NUMBER/discussions",
	"merge_requests/NUMBER/discussions/*",
	"merge_requests/NUMBER/notes",
	"merge_requests/NUMBER/notes/NUMBER",
	"merge_requests/NUMBER/participants",
	"merge_requests/NUMBER/pipelines",
	"merge_requests/NUMBER/related_issues",
	"merge_requests/NUMBER/resource_label_events",
	"merge_requests/NUMBER/resource_state_events",
	"merge_requests/NUMBER/reviewers",
	"merge_requests/NUMBER/versions",
	"merge_requests/NUMBER/versions/NUMBER",
	"milestones",
	"milestones/NUMBER",
	"milestones/NUMBER/issues",
	"milestones/NUMBER/merge_requests",
	"pipelines",
	"pipelines/latest",
	"pipelines/NUMBER",
	"pipelines/NUMBER/bridges",
	"pipelines/NUMBER/jobs",
	"pipelines/NUMBER/test_report",
	"pipelines/NUMBER/test_report_summary",
	"repository/blobs/*",
	"repository/blobs/*/raw",
	"repository/branches",
	"repository/branches/*",
	"repository/commits",
	"repository/commits/*",
	"repository/commits/*/comments",
	"repository/commits/*/diff",
	"repository/commits/*/discussions",
	"repository/commits/*/merge_requests",
	"repository/commits/*/refs",
	"repository/commits/*/statuses",
	"repository/compare",
	"repository/contributors",
	"repository/files/*",
	"repository/files/*/blame",
	"repository/files/*/raw",
	"repository/merge_base",
	"repository/tags",
	"repository/tags/*",
	"repository/tree",
}

// elsewhere are the names in a query by which GitLab would read another project, or would answer
// another account.
var elsewhere = []string{
	"access_token", "feed_token", "from_project_id", "id", "job_token", "private_token", "sudo",
}

// checkQuery returns an error, which is for the agent, unless a query stays in the project.
func checkQuery(query map[string]any) error {
	for name := range query {
		field, _, _ := strings.Cut(name, "[") // GitLab reads id[] and id[x] as id, too
		field = strings.ToLower(strings.TrimSpace(field))
		if slices.Contains(elsewhere, field) {
			return agenttool.Refusal(
				"query_refused",
				"query."+field+" is not allowed: this tool reads the project of this run's issue, as symphony's account",
			)
		}
	}
	return nil
}

// mayRead reports whether the tool reads the path with these decoded parts.
func mayRead(parts []string) bool {
	return slices.ContainsFunc(readable, func(path string) bool {
		return slices.EqualFunc(strings.Split(path, "/"), parts, fits)
	})
}

// fits reports whether a part of a path fits a part of a rule.
func fits(rule, part string) bool {
	switch rule {
	case "NUMBER":
		return text.IsNumber(part)
	case "*":
		return true
	}
	return rule == part
}
