package linear

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// However an agent writes the identifier of its issue, the call is about that issue.
func TestMovesToFindsTheIssue(t *testing.T) {
	tool := &tool{}
	issue := reconcile.Issue{ID: "1f0c", Identifier: "ABC-1"}
	archive := func(id string) string {
		return `{"query": "mutation { issueArchive(id: \"` + id + `\") { success } }"}`
	}
	for args, want := range map[string]string{
		archive("ABC-1"):       "[issueArchive]",
		archive("abc-1"):       "[issueArchive]",
		archive(`\u0041BC-1`):  "[issueArchive]",
		archive(`\\u0041BC-1`): "[issueArchive]",
		archive("ABC-2"):       "[]",
		`{"query": "mutation($i: String!) { issueArchive(id: $i) { success } }", ` +
			`"variables": {"i": "\u0041BC-1"}}`: "[issueArchive]",
		`{"query": "mutation($in: X!) { issueUpdate(id: \"ABC-1\", input: $in) { success } }", ` +
			`"variables": {"in": {"team\u0049d": "t"}}}`: "[teamId]",
	} {
		states := test.Must(tool.movesTo(t.Context(), issue, json.RawMessage(args)))
		test.Equal(t, args, fmt.Sprint(states), want)
	}
}

// TestStateIDs finds the states that a mutation of an agent names, or that it may name others.
func TestStateIDs(t *testing.T) {
	for _, c := range []struct{ query, variables, want string }{
		{`mutation { issueUpdate(id: "i", input: {stateId: "s1"}) { success } }`, "", "[s1] true"},
		{
			`mutation($s: String!) { issueUpdate(id: "i", input: {stateId: $s}) { success } }`,
			`{"s": "s1"}`,
			"[s1] true",
		},
		{
			`mutation($in: IssueUpdateInput!) { issueUpdate(id: "i", input: $in) { success } }`,
			`{"in": {"st\u0061teId": "s1"}}`,
			"[s1] true",
		},
		{
			`mutation { a: issueUpdate(id: "i", input: {stateId: "s1"}) { success } b: ` +
				`issueUpdate(id: "i", input: {stateId: "s2"}) { success } }`,
			"",
			"[s1 s2] true",
		},
		{`mutation { issueUpdate(id: "i", input: {title: "t"}) { success } }`, "", "[] true"},
		{`mutation($s: String = "s1") { issueUpdate(id: "i", input: {stateId: $s}) { success } }`, "", "[] false"},
		{`mutation { issueUpdate(id: "i", input: {stateId: """s1"""}) { success } }`, "", "[] false"},
		{"mutation { issueUpdate(id: \"i\", input: {stateId:, #c\n \"s1\"}) { success } }", "", "[] false"},
	} {
		args := test.Must(json.Marshal(map[string]any{
			"query":     c.query,
			"variables": json.RawMessage(cmp.Or(c.variables, "null")),
		}))
		ids, all := test.Must(readInput(args)).stateIDs()
		test.Equal(t, c.query, fmt.Sprint(ids, all), c.want)
	}
}
