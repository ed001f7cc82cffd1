package linear

import (
	"encoding/json"
	"testing"
)

func TestChangesIssue(t *testing.T) {
	tool := Tool(nil, false)
	for query, want := range map[string]bool{
		`mutation { issueUpdate(id: "A-1", input: {stateId: "x"}) { success } }`:                     true,
		`mutation M($i: String!) { done: issueArchive(id: $i) { success } }`:                         true,
		`mutation { ...F } fragment F on Mutation { issueUpdate(id: "A-1", input: {}) { success } }`: true,
		`mutation { commentCreate(input: {issueId: "A-1", body: "x"}) { success } }`:                 false,
		`query { issue(id: "A-1") { id } }`:                                                          false,
		`{ issues { nodes { id } } }`:                                                                false,
		`not graphql`:                                                                                false,
	} {
		args, err := json.Marshal(map[string]string{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.ChangesIssue(args); got != want {
			t.Errorf("ChangesIssue(%s) = %v", query, got)
		}
		if Tool(nil, true).ChangesIssue(args) {
			t.Errorf("%s is refused, and is said to change the issue", query)
		}
	}
}
