package trackertest

import (
	"encoding/json"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// CallOf returns a call of a tool.
func CallOf(tool string, args map[string]any) Call {
	return Call{Tool: tool, Args: test.Must(json.Marshal(args))}
}

// ByIssueUpdate is Backend.ToMove of a tracker with the tool issue_update.
func ByIssueUpdate(_ reconcile.Issue, state string) Call {
	return CallOf("issue_update", map[string]any{"state": state})
}

// ByIssueComment is Backend.ToComment of a tracker with the tool issue_comment.
func ByIssueComment(_ reconcile.Issue, text string) Call {
	return CallOf("issue_comment", map[string]any{"text": text})
}

// RefusedIssueCalls are calls of these two tools that are refused, for Backend.Refused.
func RefusedIssueCalls(other reconcile.Issue) map[string]Call {
	return map[string]Call{
		"another issue":   CallOf("issue_update", map[string]any{"state": "closed", "issue": other.ID}),
		"no state":        CallOf("issue_update", map[string]any{}),
		"symphony's mark": CallOf("issue_comment", map[string]any{"text": "<!-- symphony:request RUN 1 -->"}),
	}
}
