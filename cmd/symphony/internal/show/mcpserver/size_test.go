package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// checkCut checks that a text tells how many bytes of so many were cut.
func checkCut(t *testing.T, s string, whole int) {
	t.Helper()
	match := regexp.MustCompile(`… \((at least )?(\d+) bytes more: .*\)$`).FindStringSubmatchIndex(s)
	if match == nil {
		t.Fatalf("%.20s… does not tell how much was cut", s)
	}
	test.Equal(t, "what is kept and cut", match[0]+test.Must(strconv.Atoi(s[match[4]:match[5]])), whole)
}

// Output of a command is cut to what hosts take, whatever it consists of. What codex itself has
// cut off is not counted.
func TestOutputFits(t *testing.T) {
	t.Parallel()
	random := make([]byte, 100<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for name, output := range map[string]string{
		"hex":    fmt.Sprintf("%x", random),
		"base64": base64.StdEncoding.EncodeToString(random),
		"quotes": strings.Repeat("\"\n", 50<<10),
		"prose":  strings.Repeat("All tests pass. ", 10<<10),
		"emoji":  strings.Repeat("😀", 30<<10),
	} {
		out := execOut{AgentID: "one", ExecResult: agent.ExecResult{Stdout: output, Stderr: output}}
		out.limit()
		if tokens := calls.TokensOf(out); tokens > calls.MaxTokens || tokens < calls.MaxTokens/3 {
			t.Errorf("%s: %d tokens", name, tokens)
		}
		checkCut(t, out.Stdout, len(output))
		checkCut(t, out.Stderr, len(output))
	}
	out := execOut{ExecResult: agent.ExecResult{Stdout: strings.Repeat("x", agent.MostOutput)}}
	out.limit()
	test.Contains(t, "the end", out.Stdout, "(at least ")
}

// A diff is read in parts that hosts take, and that make the whole.
func TestPartsOfADiff(t *testing.T) {
	t.Parallel()
	whole := []byte(strings.Repeat("größe\t\"<>\"\n", 10<<10))
	var read []byte
	for len(read) < len(whole) {
		rest := whole[len(read):]
		kept := firstRunes(rest[:min(len(rest), 50_001)], len(rest) > 50_001)
		kept = withinTokens(kept, resultTokens)
		if tokens := calls.TokensOf(validText(kept)); tokens > resultTokens || len(kept) == 0 {
			t.Fatalf("%d bytes with %d tokens", len(kept), tokens)
		}
		test.Equal(t, "what is no text", strings.Count(validText(kept), "\uFFFD"), 0)
		read = append(read, kept...)
	}
	test.Equal(t, "all parts", string(read), string(whole))
	few := whole[2:][:diffBytes(1)] // it begins with ö
	test.Equal(t, "the smallest part", string(firstRunes(few, true)), "öß")
	test.Equal(t, "without room", len(withinTokens([]byte("äö"), 0)), 2)
}

// An event that no result could contain is cut.
func TestEventFits(t *testing.T) {
	t.Parallel()
	payload := json.RawMessage(`"` + strings.Repeat("é", calls.MaxTokens) + `"`)
	e := agentEvent{Event: payload}
	e.limit()
	if tokens := e.size().tokens; tokens > resultTokens {
		t.Errorf("%d tokens", tokens)
	}
	checkCut(t, e.Event.(string), len(payload))
}

// The diffs of requests are cut to what hosts take.
func TestDiffsFit(t *testing.T) {
	t.Parallel()
	diff := strings.Repeat("+a\n", 10_000)
	out := listRequestsOut{Requests: []requestState{{RequestID: "one.1"}, {RequestID: "one.2", CutBytes: 7}}}
	out.addDiffs([][]reconcile.RequestChange{{{Diff: diff}}, {{Diff: diff}}})
	if tokens := calls.TokensOf(out); tokens > calls.MaxTokens || tokens < calls.MaxTokens/2 {
		t.Errorf("%d tokens", tokens)
	}
	cut := out.Requests[0].CutBytes + out.Requests[1].CutBytes - 7
	kept := len(out.Requests[0].Diffs[0]) + len(out.Requests[1].Diffs[0])
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
	if tokens := calls.TokensOf(v); tokens > calls.MaxTokens {
		t.Errorf("%d tokens", tokens)
	}
	checkCut(t, *v.Issue.Description, len(long))
	checkCut(t, v.Requests[0].Detail.Changes[0].Diff, len(long))
}
