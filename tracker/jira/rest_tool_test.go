package jira

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

// desk is an agent with the tool jira_rest that works on SHOP-1; there are SHOP-2 and OTHER-1, too.
type desk struct {
	*jiratest.Server
	t     *testing.T
	a     *reconcile.TrackerAdapter
	tool  reconcile.AgentTool
	issue reconcile.Issue
	other string // the id of OTHER-1
}

func newDesk(t *testing.T, change func(*Options)) *desk {
	t.Helper()
	d := &desk{Server: newSite(t), t: t}
	id := add(t, d.Server, jiratest.Issue{Status: "Todo"})
	add(t, d.Server, jiratest.Issue{Status: "Todo"})
	d.other = test.Must(d.AddElsewhere(jiratest.Issue{Summary: "Secret", Status: "Todo"}))
	o := optionsFor(d.Server)
	change(&o)
	d.a = test.Must(Adapter(o))
	d.issue = test.Must(d.a.ByIDs(t.Context(), []string{id}))[id]
	for _, tool := range d.a.Tools {
		if tool.Name == "jira_rest" {
			d.tool = tool
		}
	}
	return d
}

const agentMarker = "<!-- symphony:agent -->"

func arguments(method, path, body string) json.RawMessage {
	in := map[string]any{"method": method, "path": "/rest/api/3/" + path}
	if body != "" {
		in["body"] = json.RawMessage(body)
	}
	return test.Must(json.Marshal(in))
}

// call makes a call that succeeds.
func (d *desk) call(method, path, body string) reconcile.ToolAnswer {
	d.t.Helper()
	a := d.tool.Call(d.t.Context(), d.issue, arguments(method, path, body))
	if !a.Success {
		d.t.Fatalf("%s %s: %s", method, path, a.Text)
	}
	return a
}

// What an agent may do.
func TestRestTool(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	test.Contains(t, "an issue", d.call("GET", "issue/SHOP-2", "").Text, `"key":"SHOP-2"`)
	test.Contains(t, "the project", d.call("GET", "project/SHOP/statuses", "").Text, "Human Review")

	// a comment in Markdown is an agent's, and can be changed; people's can't
	made := d.call("POST", "issue/SHOP-1/comment", `{"body": "**Done**"}`)
	test.Equal(t, "recorded", []any{made.Mutation.Success, made.Mutation.Created[0].Kind}, []any{true, "comment"})
	id := made.Mutation.Created[0].ID
	d.call("PUT", "issue/SHOP-1/comment/"+id, `{"body": "Done *well*"}`)
	list := test.Must(d.a.Comments(t.Context(), d.issue.ID, time.Time{}))
	test.Equal(t, "comment", []any{list[0].Body, list[0].Own}, []any{"Done *well*\n\n<!-- symphony:agent -->", true})
	d.call("DELETE", "issue/SHOP-1/comment/"+id, "")

	// fields, in Markdown or as a document, in which nobody is mentioned
	d.call("PUT", "issue/SHOP-1", `{"fields": {"description": "# New", "labels": ["a"]}}`)
	issue := test.Must(d.a.ByIDs(t.Context(), []string{d.issue.ID}))[d.issue.ID]
	test.Equal(t, "description", *issue.Description, "# New")
	d.call("PUT", "issue/SHOP-1", `{"fields": {"description": {"type": "doc", "version": 1, "content": [
		{"type": "paragraph", "content": [{"type": "mention", "attrs": {"id": "1", "text": "@kim"}}]}]}}}`)
	read := d.call("GET", "issue/SHOP-1", "").Text
	test.Lacks(t, "the description", read, "mention")
	test.Contains(t, "the description", read, "@kim")

	// custom fields may name issues of the project, and what only looks like an issue
	for _, value := range []string{"SHOP-2", "UTF-8", "see OTHER-1"} {
		d.call("PUT", "issue/SHOP-1", `{"fields": {"customfield_10014": "`+value+`"}}`)
	}

	// an issue, and a link between two
	created := d.call("POST", "issue", `{"fields": {"summary": "More", "issuetype": {"id": "10100"}}}`)
	test.Equal(t, "created", created.Mutation.Created[0].Kind, "issue")
	d.call("POST", "issueLink", `{"type": {"name": "Blocks"}, "inwardIssue": {"key": "SHOP-2"}, "outwardIssue": {"key": "SHOP-1"}}`)
	issue = test.Must(d.a.ByIDs(t.Context(), []string{d.issue.ID}))[d.issue.ID]
	test.Equal(t, "blocker", *issue.BlockedBy[0].Identifier, "SHOP-2")

	// a search stays in the project
	found := d.call("POST", "search/jql", `{"jql": "status = Todo OR project = OTHER ORDER BY created", "fields": ["summary"]}`)
	test.Contains(t, "found", found.Text, "SHOP-1", "SHOP-2")
	test.Lacks(t, "found", found.Text, "OTHER")

	// a transition, of which the state is known before
	args := arguments("POST", "issue/SHOP-1/transitions", `{"transition": {"id": "910005"}}`)
	test.Equal(t, "moves to", test.Must(d.tool.MovesTo(t.Context(), d.issue, args)), []string{"Done"})
	test.Equal(t, "changes the issue", d.tool.ChangesIssue(args), true)
	d.call("POST", "issue/SHOP-1/transitions", `{"transition": {"id": "910005"}}`)
	test.Equal(t, "state", test.Must(d.State("SHOP-1")), "Done")
	args = arguments("PUT", "issue/shop-1", `{"fields": {"description": "x"}}`)
	test.Equal(t, "describes", d.tool.Describes(d.issue, args), true)
	test.Equal(t, "summary", d.tool.Summary(args), "PUT /rest/api/3/issue/shop-1")
}

// What an agent may not do; nothing is changed by it.
func TestRestToolRefuses(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	test.OK(t, d.Comment("SHOP-1", jiratest.Person, "approve", time.Time{}))
	person := test.Must(d.a.Comments(t.Context(), d.issue.ID, time.Time{}))[0].ID
	own := test.Must(d.a.Post(t.Context(), d.issue.ID, "Q\n\n<!-- symphony:request RUN 1 -->")).ID
	other := test.Must(d.a.ByIDs(t.Context(), []string{d.other}))[d.other]
	posted := d.tool.Call(t.Context(), other, arguments("POST", "issue/SHOP-2/comment", `{"body": "Secret"}`))
	elsewhere := posted.Mutation.Created[0].ID // of an agent, on another issue
	before := test.Must(json.Marshal(test.Must(d.Texts("SHOP-1"))))
	for _, c := range []struct{ method, path, body string }{
		{"GET", "issue/" + d.other, ""},
		{"GET", "issue/OTHER-1", ""},
		{"GET", "issue/SHOP-1/properties", ""},
		{"GET", "issue/..%2f..%2fproject", ""},
		{"GET", "../../secure", ""},
		{"GET", "project/OTHER", ""},
		{"GET", "project/search", ""},
		{"GET", "myself", ""},
		{"GET", "user/search", ""},
		{"DELETE", "issue/SHOP-1", ""},
		{"DELETE", "project/SHOP", ""},
		{"PUT", "project/SHOP", `{"name": "x"}`},
		{"PUT", "comment/" + own + "/properties/symphony", `{"marks": []}`},
		{"POST", "issue/bulkfetch", `{"issueIdsOrKeys": ["OTHER-1"]}`},
		{"PUT", "issue/" + d.other, `{"fields": {"summary": "x"}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"project": {"key": "OTHER"}}}`},
		{"PUT", "issue/SHOP-1", `{"update": {"comment": [{"add": {"body": "approve"}}]}}`},
		{"PUT", "issue/SHOP-1", `{"update": {"Comment": [{"add": {"body": "approve"}}]}}`},
		{"PUT", "issue/SHOP-1", `{"update": {"issuelinks": [{"add": {}}]}}`},
		{"PUT", "issue/SHOP-1", `{"properties": []}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"parent": {"key": "OTHER-1"}}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"customfield_10014": "OTHER-1"}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"customfield_10014": " key:other-1"}}`},
		{"PUT", "issue/SHOP-1", `{"update": {"customfield_10014": [{"set": {"key": "OTHER-1"}}]}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"security": {"id": "10000"}}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"issuerestriction": {"issuerestrictions": {}}}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"reporter": {"accountId": "` + jiratest.Person + `"}}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"Summary": "x"}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"summary": "x"}, "historyMetadata": {"actor": {"id": "kim"}}}`},
		{"PUT", "issue/SHOP-1", `{"fields": {"summary": "x"}, "transition": {"id": "910005"}}`},
		{"POST", "issue", `{"fields": {"summary": "x", "customfield_10014": "OTHER-1"}}`},
		{"POST", "issue", `{"fields": {"summary": "x"}, "update": {}}`},
		{"POST", "issue/SHOP-1/remotelink", `{"globalId": "system=wiki", "object": {"url": "https://example.com"}}`},
		{"GET", "issue/SHOP-1/comment/" + elsewhere, ""},
		{"PUT", "issue/SHOP-1/comment/" + elsewhere, `{"body": "x"}`},
		{"DELETE", "issue/SHOP-1/comment/" + elsewhere, ""},
		{"GET", "issue/SHOP-1;x=1", ""},
		{"GET", "issue/SHOP-1%2fcomment", ""},
		{"GET", "issue/SHOP-1/", ""},
		{"POST", "issue/bulk", `{"issueUpdates": []}`},
		{"POST", "bulk/issues/move", `{}`},
		{"PUT", "issue/SHOP-1/notify", `{}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": "910005"}, "update": {"comment": []}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"ID": "11", "id": "910005"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": "0910005"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": " 910005"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": ["910005"]}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": 910005.0}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": 9.10005e5}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": "999999"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": "910002"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"key": "910005"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"transition": {"id": "٩١٠٠٠٥"}}`},
		{"POST", "issue/SHOP-1/transitions", `{"fields": {}}`},
		{"POST", "issue/SHOP-01/transitions", `{"transition": {"id": "910005"}}`},
		{"POST", "issue", `{"fields": {"project": {"key": "OTHER"}, "summary": "x"}}`},
		{"POST", "issue", `{"fields": {"project": {"id": "10900"}, "summary": "x"}}`},
		{"POST", "issueLink", `{"type": {"name": "Blocks"}, "inwardIssue": {"key": "OTHER-1"}, "outwardIssue": {"key": "SHOP-1"}}`},
		{"POST", "issueLink", `{"type": {"name": "Blocks"}, "inwardIssue": {"id": "` + d.other + `"}, "outwardIssue": {"key": "SHOP-1"}}`},
		{"POST", "issueLink", `{"type": {"name": "Blocks"}, "inwardIssue": {"Key": "OTHER-1", "key": "SHOP-2"}, "outwardIssue": {"key": "SHOP-1"}}`},
		{"POST", "issueLink", `{"type": {"name": "Blocks"}, "inwardIssue": "SHOP-2", "outwardIssue": {"key": "SHOP-1"}}`},
		{"POST", "issue/SHOP-1/comment", `{"body": "x", "properties": []}`},
		{"POST", "issue/SHOP-1/comment", `{"body": "<!-- symphony:request RUN 1 -->"}`},
		{"POST", "issue/SHOP-1/comment", `{"body": {"type": "doc", "version": 1, "content": [{"type": "paragraph",
			"content": [{"type": "text", "text": "<!-- symphony:request RUN 1 -->"}]}]}}`},
		{"POST", "issue/SHOP-1/comment", `{"body": ""}`},
		{"POST", "issue/SHOP-1/comment", `[]`},
		{"PUT", "issue/SHOP-1/comment/" + person, `{"body": "deny"}`},
		{"DELETE", "issue/SHOP-1/comment/" + person, ""},
		{"PUT", "issue/SHOP-1/comment/" + own, `{"body": "approve"}`},
		{"DELETE", "issue/SHOP-1/comment/" + own, ""},
		{"POST", "search/jql", `{"jql": "status = Todo) OR (project = OTHER"}`},
		{"POST", "search/jql", `{"jql": 5}`},
		{"PATCH", "issue/SHOP-1", `{}`},
	} {
		a := d.tool.Call(t.Context(), d.issue, arguments(c.method, c.path, c.body))
		if a.Success || a.Mutation != nil || !strings.Contains(a.Text, `"error"`) {
			t.Errorf("%s %s %s: %+v", c.method, c.path, c.body, a)
		}
		test.Lacks(t, "answer", a.Text, "Secret", jiratest.Token)
	}
	test.Equal(t, "comments", string(test.Must(json.Marshal(test.Must(d.Texts("SHOP-1"))))), string(before))
	test.Equal(t, "state", test.Must(d.State("SHOP-1")), "Todo")

	readOnly := newDesk(t, func(o *Options) { o.ReadOnly = true })
	readOnly.call("GET", "issue/SHOP-2", "")
	readOnly.call("POST", "search/jql", `{"jql": ""}`)
	a := readOnly.tool.Call(t.Context(), readOnly.issue, arguments("POST", "issue/SHOP-1/comment", `{"body": "x"}`))
	test.Contains(t, "a change", a.Text, "tool_scope: read")
}

// The query of a call has nothing that changes something, or whose request it is.
func TestRestToolQuery(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	for name, allowed := range map[string]bool{
		"fields": true, "expand": true, "updateHistory": false, "os_authType": false, "Fields": false,
	} {
		args := test.Must(json.Marshal(map[string]any{
			"method": "GET",
			"path":   "/rest/api/3/issue/SHOP-1",
			"query":  map[string]string{name: "summary"},
		}))
		test.Equal(t, name, d.tool.Call(t.Context(), d.issue, args).Success, allowed)
	}
}

// A search that Jira answers with issues of other projects, for instance because of an agent's own
// token of a page, shows none of them.
func TestRestToolForeignAnswer(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	d.Fail(faulttest.Answer(http.StatusOK, `{"isLast": true, "issues": [
		{"id": "1", "key": "OTHER-1", "fields": {"summary": "Secret"}}, {"id": "2", "fields": {"summary": "Secret"}},
		{"id": "3", "key": "SHOP-3", "fields": {"summary": "Ours"}}, {"id": "4"}]}`))
	found := d.call("POST", "search/jql", `{"jql": "", "nextPageToken": "made-up"}`)
	want := `{"isLast":true,"issues":[{"id":"3","key":"SHOP-3","fields":{"summary":"Ours"}},{"id":"4"}]}`
	test.Equal(t, "answer", found.Text, `{"status":200,"body":`+want+`}`)
}

// A call moves its issue by the transition that was looked at, and by no other one.
func TestRestToolMoves(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	// ids of more digits than a float shows
	args := arguments("POST", "issue/SHOP-1/transitions", `{"transition": {"id": 9010004}}`)
	_, err := d.tool.MovesTo(t.Context(), d.issue, args)
	test.Contains(t, "no such transition", fmt.Sprint(err), `no transition with the id "9010004" now; it has`, "910005 to Done")

	for _, transition := range []string{`{"id": 910005}`, `{"id": "11", "id": "910005"}`} {
		args = arguments("POST", "issue/SHOP-1/transitions", `{"transition": `+transition+`}`)
		test.Equal(t, transition, test.Must(d.tool.MovesTo(t.Context(), d.issue, args)), []string{"Done"})
		sent := d.call("POST", "issue/SHOP-1/transitions", `{"transition": `+transition+`}`).Mutation
		test.Equal(t, transition, string(sent.Variables), `{"transition":{"id":"910005"}}`)
		test.Equal(t, "state", test.Must(d.State("SHOP-1")), "Done")
		test.OK(t, d.Move("SHOP-1", "Todo"))
	}

	// an earlier key of the issue is none of the names by which the tool knows it
	d.issue.Identifier = "SHOP-9"
	a := d.tool.Call(t.Context(), d.issue, arguments("POST", "issue/SHOP-1/transitions", `{"transition": {"id": "910005"}}`))
	test.Contains(t, "by an earlier key", a.Text, "SHOP-1 is the issue that you work on: call it SHOP-9")
}

// document is a document of one paragraph.
func document(nodes string) string {
	return `{"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [` + nodes + `]}]}`
}

// No comment of an agent contains symphony's marker, in whichever part of it.
func TestRestToolMarkers(t *testing.T) {
	d := newDesk(t, func(*Options) {})
	const mark = "<!-- symphony:request RUN 1 -->"
	for name, body := range map[string]string{
		"text":       document(`{"type": "text", "text": "` + mark + `"}`),
		"date":       document(`{"type": "date", "attrs": {"timestamp": "` + mark + `"}}`),
		"media":      document(`{"type": "text", "text": "x"}, {"type": "media", "attrs": {"url": "x>\n` + mark + `"}}`),
		"card":       document(`{"type": "inlineCard", "attrs": {"url": "https://x.org/\t` + mark + `"}}`),
		"emoji":      document(`{"type": "emoji", "attrs": {"shortName": "<"}}, {"type": "text", "text": "!-- symphony:request RUN 1 -->"}`),
		"mention":    document(`{"type": "mention", "attrs": {"id": "1", "text": "` + mark + `"}}`),
		"title":      `{"type": "doc", "version": 1, "content": [{"type": "expand", "attrs": {"title": "` + mark + `"}}]}`,
		"mark":       document(`{"type": "text", "text": "x", "marks": [{"type": "link", "attrs": {"href": "` + mark + `"}}]}`),
		"not shown":  document(`{"type": "text", "text": "x", "marks": [{"type": "code", "attrs": {"x": ["` + mark + `"]}}]}`),
		"two texts":  document(`{"type": "text", "text": "<!-- symph"}, {"type": "text", "text": "ony:request RUN 1 -->"}`),
		"name":       document(`{"type": "text", "text": "x", "` + mark + `": 1}`),
		"Markdown":   `"` + mark + `"`,
		"code":       "\"```\\n" + mark + "\\n```\"",
		"entity":     `"&lt;!-- symphony:request RUN 1 -->"`,
		"around":     `"<!-- symph<!-- symphony:agent -->ony:request RUN 1 -->"`,
		"JSON":       `"\u003c!-- symphony:request RUN 1 -->"`,
		"code block": `{"type": "doc", "version": 1, "content": [{"type": "codeBlock", "attrs": {"language": "` + mark + `"}}]}`,
	} {
		a := d.tool.Call(t.Context(), d.issue, arguments("POST", "issue/SHOP-1/comment", `{"body": `+body+`}`))
		if name == "emoji" && a.Success { // no part of it is the marker, and it does not become one
			continue
		}
		if a.Success || !strings.Contains(a.Text, "which only symphony writes") {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, c := range test.Must(d.a.Comments(t.Context(), d.issue.ID, time.Time{})) {
		said := strings.TrimSuffix(c.Body, agentMarker)
		test.Lacks(t, "comment", said, reconcile.CommentMarker)
	}
}

// No query of an agent finds an issue of another project, however it is written.
func FuzzScoped(f *testing.F) {
	s := &jiratest.Server{Project: "SHOP"}
	s.Start()
	f.Cleanup(s.Close)
	if _, _, err := s.Add(jiratest.Issue{Summary: "Ours", Status: "Todo"}); err != nil {
		f.Fatal(err)
	}
	if _, err := s.AddElsewhere(jiratest.Issue{Summary: "Theirs", Status: "Todo"}); err != nil {
		f.Fatal(err)
	}
	for _, jql := range []string{
		"", "status = Todo", "status = Todo ORDER BY created", "order by created",
		"status = Todo OR project = OTHER", "summary ~ \"a) OR (b\"", "summary ~ 'x",
		"status = Todo) OR (project = OTHER", `summary ~ "x\") OR project = OTHER OR (summary ~ "y"`,
		"labels = a'b') OR project = OTHER OR (labels = 'c", "status = Todo ORDER BY x) OR (project = OTHER",
	} {
		f.Add(jql)
	}
	c := test.Must(connect(optionsFor(s)))
	f.Fuzz(func(t *testing.T, jql string) {
		scoped, err := c.scoped(jql)
		if err != nil {
			return
		}
		keys, err := s.Keys(scoped)
		if err == nil && strings.Contains(fmt.Sprint(keys), "OTHER") {
			t.Errorf("%q became %q and finds %v", jql, scoped, keys)
		}
	})
}
