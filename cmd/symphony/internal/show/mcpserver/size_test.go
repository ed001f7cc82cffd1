package mcpserver

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// checkCut checks that a text tells how many bytes of so many were cut.
func checkCut(t *testing.T, s string, whole int) {
	t.Helper()
	match := regexp.MustCompile(`… \((\d+) bytes more: .*\)$`).FindStringSubmatchIndex(s)
	if match == nil {
		t.Fatalf("%.20s… does not tell how much was cut", s)
	}
	test.Equal(t, "what is kept and cut", match[0]+test.Must(strconv.Atoi(s[match[2]:match[3]])), whole)
}

// A diff is read in parts that hosts take, and that make the whole.
func TestPartsOfADiff(t *testing.T) {
	t.Parallel()
	whole := []byte(strings.Repeat("größe\t\"<>\"\n", 10<<10))
	var read []byte
	for len(read) < len(whole) {
		rest := whole[len(read):]
		kept := firstRunes(rest[:min(len(rest), 50_001)], len(rest) > 50_001)
		kept = fitting(kept, resultBytes)
		if size := calls.SizeOf(validText(kept)); size > resultBytes || len(kept) == 0 {
			t.Fatalf("%d bytes, as JSON %d", len(kept), size)
		}
		test.Equal(t, "what is no text", strings.Count(validText(kept), "\uFFFD"), 0)
		read = append(read, kept...)
	}
	test.Equal(t, "all parts", string(read), string(whole))
	test.Equal(t, "without room", len(fitting([]byte("äö"), 0)), 2)
}

// An event that no result could contain is cut.
func TestEventFits(t *testing.T) {
	t.Parallel()
	payload := json.RawMessage(`"` + strings.Repeat("é", calls.MaxBytes) + `"`)
	e := agentEvent{Event: payload}
	e.limit()
	if size := calls.SizeOf(e); size > mostRead {
		t.Errorf("%d bytes", size)
	}
	checkCut(t, e.Event.(string), len(payload))
}

// The diffs of requests are cut to what hosts take.
func TestDiffsFit(t *testing.T) {
	t.Parallel()
	diff := strings.Repeat("+a\n", 10_000)
	requests := []requestState{{RequestID: "one.1"}, {RequestID: "one.2", CutBytes: 7}}
	out := waitAgentOut{Agents: []agentState{{Requests: requests}}}
	out.addDiffs([][]reconcile.RequestChange{{{Diff: diff}}, {{Diff: diff}}})
	if size := calls.SizeOf(out); size > calls.MaxBytes || size < calls.MaxBytes/2 {
		t.Errorf("%d bytes", size)
	}
	cut := requests[0].CutBytes + requests[1].CutBytes - 7
	kept := len(requests[0].Diffs[0]) + len(requests[1].Diffs[0])
	test.Equal(t, "what is kept and cut", kept+cut, 2*len(diff))
}

// The long texts of an issue are cut if they would not fit into an answer.
func TestIssueFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("All tests pass. ", 10<<10)
	v := detail.Issue{
		Issue:       detail.KnownIssue{Description: new(long)},
		LastMessage: new(long),
		Requests:    []view.RequestRow{{}},
	}
	v.Requests[0].Detail.Changes = []reconcile.RequestChange{{Diff: long}}
	limitIssue(&v)
	if size := calls.SizeOf(v); size > calls.MaxBytes {
		t.Errorf("%d bytes", size)
	}
	checkCut(t, *v.Issue.Description, len(long))
	checkCut(t, v.Requests[0].Detail.Changes[0].Diff, len(long))
}
