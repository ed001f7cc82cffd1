package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// sameAnswer is a transport with one answer to all requests. More than maxRequests are too
// many.
type sameAnswer struct {
	t         *testing.T
	n, status int
	body      string
}

const maxRequests = 30

func (s *sameAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.n++
	if s.n > maxRequests {
		s.t.Fatal("requests without end")
	}
	header := http.Header{"Etag": {"x"}, "Location": {"/x"}, "X-Ratelimit-Remaining": {"1"}}
	return &http.Response{
		StatusCode: s.status,
		Header:     header,
		Body:       io.NopCloser(strings.NewReader(s.body)),
		Request:    r,
	}, nil
}

// FuzzAnswers sends the client arbitrary answers. The client must not panic or send requests
// without end, every error must have a code, and neither an issue nor an error or warning may
// contain the token, which a proxy may send back.
func FuzzAnswers(f *testing.F) {
	const full = `{"number":1,"id":7,"node_id":"I","title":"T","body":"B","state":"open","html_url":"u","labels":[{"name":"a"},"p1"],"assignees":[{"login":"kim"}],
		"created_at":"2026-03-01T12:00:00Z","updated_at":"2026-03-01T12:00:00Z","issue_dependencies_summary":{"total_blocked_by":1}}`
	const issue = `{"number":1,"id":"I","fullDatabaseId":"7","title":"T","state":"OPEN","updatedAt":"2026-03-01T12:00:00Z","labels":{"nodes":[{"name":"a"}]},
		"blockedBy":{"nodes":[{"number":2,"state":"OPEN","repository":{"nameWithOwner":"o/x"}}]},"projectItems":{"nodes":[{"project":{"url":"x"}}]}}`
	for _, body := range []string{
		"[" + full + "]",
		`[{"number":1},7,null,` + full + `]`,
		`{"data":{"r0":{"nameWithOwner":"o/n","i0":` + issue + `,"p0":{"nodes":[{"url":"u"}]}}}}`,
		`{"data":{"repository":{"nameWithOwner":"o/r",` +
			`"issues":{"nodes":[` + issue + `],"pageInfo":{"hasNextPage":true,"endCursor":"c"}}}}}`,
		`{"data":{"owner":{"projectV2":{"items":{"nodes":[{"content":` + issue + `}]}}}}}`,
		`{"message":"` + testToken + `"}`,
		`{"data":{"r0":null},"errors":[{"type":"NOT_FOUND","path":["r0","i0"],` +
			`"message":"\u0067hp_0123456789abcdefghij"}]}`,
		"",
		"null",
		"\xff{",
	} {
		for _, status := range []int{200, 301, 403, 500} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 || len(body) > 1<<16 {
			t.Skip()
		}
		judge := func(what string, v any, err error) {
			text := string(test.Must(json.Marshal(v))) + fmt.Sprint(err)
			test.Lacks(t, what, text, testToken)
			if known := (*reconcile.Error)(nil); err != nil && (!errors.As(err, &known) || known.Code == "") {
				t.Errorf("%s: the error has no code: %v", what, err)
			}
		}
		for _, project := range []string{"", "https://github.com/orgs/o/projects/1"} {
			memory := &trackertest.Memory{}
			client := func() *Client {
				return test.Must(New(Options{
					Options: transport.Options{
						Key:       testToken,
						Now:       func() time.Time { return testNow },
						Transport: &sameAnswer{t: t, status: status, body: body},
						Warn:      func(text string) { judge("a warning", text, nil) },
					},
					Repositories:   []string{"o/r"},
					Project:        project,
					Memory:         memory,
					PriorityLabels: []string{"p1"},
					Branch:         func(i reconcile.Issue) string { return i.Identifier },
				}))
			}
			for range 2 { // the second time with Memory
				list, err := client().Candidates(t.Context(), []string{"open"})
				judge("Candidates", list, err)
				delete(memory.Values, transport.LimitKey("tracker"))
			}
			found, err := client().ByIDs(t.Context(), []string{"1", "2"})
			judge("ByIDs", found, err)
			delete(memory.Values, transport.LimitKey("tracker"))
			names, err := client().Verify(t.Context(), reconcile.TrackerNames{
				States:   []string{"open"},
				Labels:   []string{"x"},
				Assignee: "kim",
			})
			judge("Verify", names, err)
			delete(memory.Values, transport.LimitKey("tracker"))
		}
	})
}
