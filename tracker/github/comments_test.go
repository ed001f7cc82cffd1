package github

import (
	"net/http"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func TestComments(t *testing.T) {
	s := &recorder{}
	next := "" // the Link of the first answer
	c := clientOf(t, serving(t, func(w http.ResponseWriter, r *http.Request) {
		if next != "" && r.URL.Query().Get("page") == "1" {
			w.Header().Set("Link", next)
		}
		s.ServeHTTP(w, r)
	}), func(o *Options) { o.Repositories = []string{"acme/web-shop"} })
	since := testNow
	next = `<http://x/?page=2>; rel="next", <http://x/?page=2>; rel="last"`
	s.answers = []recorded{
		{
			200,
			`[{"id": 1, "body": "old, but edited", "created_at": "2026-03-01T11:00:00Z", "user": {"id": 5, "login": "ann"}},
			{"id": 2, "body": "approve", "created_at": "2026-03-01T12:00:01Z", "updated_at": "2026-03-01T12:00:02Z", "user": {"id": 5, "login": "ann"}}]`,
			"",
		},
		{
			200,
			`[{"id": 3, "body": "did it ` + testToken + `\n\n<!-- symphony:agent -->", ` +
				`"created_at": "2026-03-01T12:00:02Z", "updated_at": "2026-03-01T12:00:02Z", "user": null}]`,
			"",
		},
	}
	got := test.Must(c.comments.read(t.Context(), "12", since))
	want := []reconcile.Comment{
		{
			ID:        "3",
			Author:    "ghost",
			Own:       true,
			Body:      "did it [token]\n\n<!-- symphony:agent -->",
			CreatedAt: testNow.Add(2 * time.Second),
		},
		{
			ID:        "2",
			Author:    "ann",
			AuthorIDs: []string{"ann", "id:5"},
			Edited:    true,
			Body:      "approve",
			CreatedAt: testNow.Add(time.Second),
		},
	}
	test.Equal(t, "comments", got, want)
	const path = "GET /repos/acme/web-shop/issues/12/comments?page="
	const rest = "&per_page=100&since=2026-03-01T12%3A00%3A00Z"
	test.Equal(t, "requests", s.take(), path+"1"+rest+"\n"+path+"2"+rest)
}

func TestPostAndEdit(t *testing.T) {
	s := &recorder{}
	c := clientOf(
		t,
		serving(t, s.ServeHTTP),
		func(o *Options) { o.Repositories = []string{"acme/web-shop", "acme/api"} },
	)
	s.answers = []recorded{
		{
			201,
			`{"id": 9, "body": "x", "created_at": "2026-03-01T12:00:01Z", "user": {"id": 5, "login": "ann"}}`,
			"",
		},
	}
	posted := test.Must(c.comments.post(t.Context(), "acme/api#12", "x"))
	if posted.ID != "9" || !posted.CreatedAt.Equal(testNow.Add(time.Second)) ||
		s.take() != `POST /repos/acme/api/issues/12/comments {"body":"x"}` {
		t.Errorf("posted %+v", posted)
	}
	test.Must(c.comments.edit(t.Context(), "acme/api#12", "9", "y"))
	test.Equal(t, "sent", s.take(), `PATCH /repos/acme/api/issues/comments/9 {"body":"y"}`)
	s.answers = []recorded{{404, `{"message": "Not Found"}`, ""}, {410, `{"message": "Gone"}`, ""}}
	wantCode(t, test.Err(c.comments.post(t.Context(), "acme/api#13", "x")), "issue_not_found")
	wantCode(t, test.Err(c.comments.read(t.Context(), "acme/api#13", testNow)), "issue_not_found")
	for _, id := range []string{"", "12", "acme/other#1", "acme/api#x", "acme/api#-1"} {
		wantCode(t, test.Err(c.comments.read(t.Context(), id, testNow)), "issue_not_found")
	}
}
