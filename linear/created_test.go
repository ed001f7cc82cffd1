package linear_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

// The tool learns the ids of created entities whatever the agent asks for, and the agent reads only what it asked for.
func TestToolKnowsWhatItCreated(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{})
	tool := linear.Tool(newClient(t, s), false)
	on := `issueId: "` + i.ID + `"`
	for name, tc := range map[string]struct {
		query string
		vars  map[string]any
		want  string // the answer; %s where there is one of its own id
		kinds []string
	}{
		"only success": {
			query: `mutation { commentCreate(input: {` + on + `, body: "a {b} é"}) { success } }`,
			want:  `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"by another name": {
			query: `mutation($i: CommentCreateInput!) { mine: commentCreate(input: $i) @include(if: true) { success } }`,
			vars:  map[string]any{"i": map[string]string{"issueId": i.ID, "body": "x"}},
			want:  `{"data":{"mine":{"success":true}}}`, kinds: []string{"comment"},
		},
		"two at once, after a comment with äöüß": {
			query: "# ÄÖÜäöüß\nmutation {\n  a: commentCreate(input: {" + on + `, body: "ä"}) { success } ` +
				`b: attachmentLinkURL(` + on + `, url: "https://example.com/ö") { success } }`,
			want: `{"data":{"a":{"success":true},"b":{"success":true}}}`, kinds: []string{"comment", "attachment"},
		},
		"in a fragment": {
			query: `mutation { ...F } fragment F on Mutation { ... on Mutation { commentCreate(input: {` + on + `, body: "x"}) { success } } }`,
			want:  `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"a text about our own name": {
			query: `mutation { commentCreate(input: {` + on + `, body: "symphonyCreated is taken out"}) { success } } # symphonyCreated`,
			want:  `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"the agent's own use of our name": {
			query: `mutation { commentCreate(input: {` + on + `, body: "x"}) { symphonyCreated: comment { body } } }`,
			want:  `{"data":{"commentCreate":{"symphonyCreated":{"body":"x"}}}}`,
		},
		"changed, not created": {
			query: `mutation { issueUpdate(id: "` + i.ID + `", input: {title: "x"}) { success } }`,
			want:  `{"data":{"issueUpdate":{"success":true}}}`,
		},
		"not carried out": {
			query: `mutation { commentCreate(input: {issueId: "no such issue", body: "x"}) { success } }`,
		},
		"no such field": {
			query: `mutation { commentCreate(input: {` + on + `, body: "x"}) { success nonsense } }`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.ClearLog()
			args := must(json.Marshal(map[string]any{"query": tc.query, "variables": tc.vars}))
			a := tool.Call(t.Context(), args)
			if a.Mutation == nil || a.Mutation.Query != tc.query || a.Success != (tc.want != "") || a.Mutation.Success != a.Success {
				t.Fatalf("%+v, %+v", a, a.Mutation)
			}
			if tc.want != "" && a.Text != tc.want || strings.Contains(a.Text, "symphonyCreated") != strings.Contains(tc.want, "symphonyCreated") {
				t.Errorf("the agent reads %s", a.Text)
			}
			var kinds []string
			for _, c := range a.Mutation.Created {
				kinds = append(kinds, c.Kind)
				if c.Kind == "comment" && !hasComment(t, s, i.Identifier, c.ID) {
					t.Errorf("%s is no comment of the issue", c.ID)
				}
			}
			slices.Sort(kinds)
			slices.Sort(tc.kinds)
			if !slices.Equal(kinds, tc.kinds) {
				t.Errorf("created %v, want %v", a.Mutation.Created, tc.kinds)
			}
		})
	}
}

func hasComment(t *testing.T, s *lineartest.Server, issue, id string) bool {
	t.Helper()
	return slices.ContainsFunc(must(s.Issue(issue)).Comments, func(c lineartest.Comment) bool { return c.ID == id })
}

// An agent that asks for the id itself gets it, with all values as Linear sent them.
func TestToolLeavesTheAnswerAsItIs(t *testing.T) {
	const body = `{"data" : {"c":{ "symphonyCreated":{"id":"1"}, "success" : true,"n":1.50,"comment":{"id":"1","z":null,"a":"\u00e9"}},` +
		`"d":{"success":true,"symphonyCreated":null},"e":{"symphonyCreated":{"id":"2"}},"f":null},"extensions":{"x":1}}`
	const want = `{"data":{"c":{"comment":{"id":"1","z":null,"a":"\u00e9"},"n":1.50,"success":true},` +
		`"d":{"success":true},"e":{},"f":null},"extensions":{"x":1}}`
	const query = `"mutation { c: commentCreate(input: {}) { success } d: issueCreate(input: {}) { success } e: reactionCreate(input: {}) { success } }"`
	a := linear.Tool(answering(t, 200, body), false).Call(t.Context(), json.RawMessage(query))
	equal(t, "read", a.Text, want)
	made := a.Mutation.Created
	if len(made) != 2 || made[0] != (reconcile.Created{Kind: "comment", ID: "1"}) || made[1] != (reconcile.Created{Kind: "reaction", ID: "2"}) {
		t.Errorf("created %+v", made)
	}
}

// If Linear rejects the added question, the agent's own query is sent instead. A mutation that failed while it was executed
// is not sent again.
func TestToolGivesUpItsOwnQuestion(t *testing.T) {
	const rejected = `{"errors":[{"message":"no such field","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`
	const failed = `{"data":null,"errors":[{"message":"symphonyCreated can't be read","path":["commentCreate","symphonyCreated"],` +
		`"extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`
	for answer, want := range map[string]struct {
		sent int
		code string
		text string
	}{
		rejected: {2, "", `{"data":{"commentCreate":{"success":true}}}`},
		failed:   {1, "linear_unknown_payload", "can't be read; the mutation may have been carried out"},
	} {
		sent := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent++
			text := `{"data":{"commentCreate":{"success":true}}}`
			if strings.Contains(string(body), "symphonyCreated") {
				text = answer
			}
			if answer == rejected && text == answer {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(srv.Close)
		c := clientOf(srv.URL)
		a := linear.Tool(c, false).Call(t.Context(), json.RawMessage(`"mutation { commentCreate(input: {}) { success } }"`))
		if a.Success != (want.code == "") || sent != want.sent || !strings.Contains(a.Text, want.text) || !strings.Contains(a.Text, want.code) {
			t.Errorf("sent %d times: %+v", sent, a)
		}
	}
}
