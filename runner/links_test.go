package runner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

func pr(u string) reconcile.Link { return reconcile.Link{Kind: linkPullRequest, URL: u} }

func TestPullRequestsInAText(t *testing.T) {
	for text, want := range map[string][]reconcile.Link{
		"nothing here": nil,
		"Opened https://github.com/acme/app/pull/7.":                       {pr("https://github.com/acme/app/pull/7")},
		"see [the PR](https://github.com/acme/app/pull/7/files#diff-1) ok": {pr("https://github.com/acme/app/pull/7")},
		"https://git.example.com:8443/g/sub/app/-/merge_requests/12?a=b":   {pr("https://git.example.com:8443/g/sub/app/-/merge_requests/12")},
		"http://bb.example.com/projects/A/repos/b/pull-requests/3/overview": {pr("http://bb.example.com/" +
			"projects/A/repos/b/pull-requests/3")},
		"`https://gitea.example.com/o/r/pulls/4`": {pr("https://gitea.example.com/o/r/pulls/4")},
		"two: https://github.com/o/r/pull/1, https://github.com/o/r/pull/2": {
			pr("https://github.com/o/r/pull/1"),
			pr("https://github.com/o/r/pull/2"),
		},
		"no number: https://github.com/o/r/pull/new/branch":       nil,
		"no repository: https://github.com/pull/7":                nil,
		"an issue: https://github.com/o/r/issues/7":               nil,
		"with a password: https://x:secret@github.com/o/r/pull/8": {pr("https://github.com/o/r/pull/8")},
		"no address: httpx://github.com/o/r/pull/8 http https://": nil,
		"broken: https://github.com:port/o/r/pull/8":              nil,
	} {
		test.Equal(t, text, linksIn(text, false), want)
	}
}

// TestLinksInItem checks that links come from the agent's messages and from the output of
// commands that create a pull request. Other output may name any pull request.
func TestLinksInItem(t *testing.T) {
	const url = "https://github.com/o/r/pull/7"
	for _, c := range []struct {
		item  *agent.Item
		links int
	}{
		{&agent.Item{Kind: agent.ItemMessage, Ended: true, Text: "done: " + url}, 1},
		{&agent.Item{
			Kind:    agent.ItemCommand,
			Ended:   true,
			Command: "gh pr create --fill",
			Output:  "Creating …\n" + url + "\n",
		}, 1},
		{&agent.Item{Kind: agent.ItemCommand, Ended: true, Command: "gh pr list", Output: url}, 0},
		{&agent.Item{Kind: agent.ItemMessage, Text: url}, 0}, // it has only started
		{&agent.Item{Kind: agent.ItemPrompt, Ended: true, Text: url}, 0},
		{nil, 0},
	} {
		if got := linksInItem(c.item); len(got) != c.links || len(got) == 1 && got[0] != pr(url) {
			t.Errorf("%+v: got %v", c.item, got)
		}
	}
}

func TestLinksInMutation(t *testing.T) {
	const page, pull = "https://docs.example.com/a?b=c", "https://github.com/o/r/pull/7"
	for name, c := range map[string]struct {
		m    reconcile.Mutation
		want []reconcile.Link
	}{
		"a comment": {
			reconcile.Mutation{
				Fields:    []string{"commentCreate"},
				Success:   true,
				Variables: json.RawMessage(`{"input":{"body":"` + page + ` and ` + pull + `"}}`),
			},
			[]reconcile.Link{pr(pull)},
		},
		"an attachment": {
			reconcile.Mutation{
				Fields:  []string{"attachmentLinkURL"},
				Success: true,
				Query:   `mutation { attachmentLinkURL(url: "` + page + `", issueId: "x") { success } }`,
			},
			[]reconcile.Link{{Kind: linkAttachment, URL: page}},
		},
		"attachments in a list": {
			reconcile.Mutation{
				Fields:    []string{"attachmentCreate"},
				Success:   true,
				Variables: json.RawMessage(`{"b":["` + page + `"],"a":{"url":"` + pull + `"},"n":1}`),
			},
			[]reconcile.Link{pr(pull), {Kind: linkAttachment, URL: page}},
		},
		"one that failed": {
			reconcile.Mutation{
				Fields:    []string{"commentCreate"},
				Variables: json.RawMessage(`{"body":"` + pull + `"}`),
			}, nil,
		},
	} {
		test.Equal(t, name, linksInMutation(c.m), c.want)
	}
}

// The run's row has the model and each link once, without secrets, before the run has ended.
func TestRunKeepsLinksAndModel(t *testing.T) {
	r := newRig(
		t,
		"say I opened https://github.com/o/r/pull/7 and https://github.com/ghp_0123456789abcdef/r/pull/8\n"+
			"say It is https://github.com/o/r/pull/7\nsh gh() { echo https://github.com/o/r/pull/9; }; "+
			"gh pr create\ntool linear_graphql {}",
	)
	r.Tracker.Tools = changing(func(string) reconcile.ToolAnswer {
		return reconcile.ToolAnswer{
			Success: true,
			Text:    "{}",
			Mutation: &reconcile.Mutation{
				Fields:  []string{"attachmentLinkURL"},
				Success: true,
				Query:   `url: "https://example.com/1"`,
			},
		}
	})
	r.Here.Env = append(r.Here.Env, "GH_TOKEN=ghp_0123456789abcdef")
	run := r.ends(reconcile.EndedRun, "")
	// Tool calls run concurrently with the handling of events.
	slices.SortFunc(run.Links, func(a, b reconcile.Link) int { return strings.Compare(a.URL, b.URL) })
	test.Equal(t, "links", run.Links, []reconcile.Link{
		{Kind: linkAttachment, URL: "https://example.com/1"},
		pr("https://github.com/[redacted]/r/pull/8"),
		pr("https://github.com/o/r/pull/7"), pr("https://github.com/o/r/pull/9"),
	})
	test.Equal(t, "model", run.Model, "scripted")
	if !slices.ContainsFunc(r.journal.updates, func(row reconcile.Run) bool {
		return len(row.Links) > 0 && row.Phase == reconcile.StreamingTurn && row.TurnsDone == 0
	}) {
		t.Error("no link was stored during the turn")
	}
}
