package linear_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

func TestCommentsSince(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 123e6, time.UTC) }
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{Comments: []lineartest.Comment{
		{ID: "c1", Author: "kim@example.com", Body: "old", CreatedAt: at(1)},
		{ID: "c2", Body: "a *new* one", CreatedAt: at(3)},
		{ID: "c3", Bot: "GitHub", Body: "merged", CreatedAt: at(5)},
		{ID: "c4", Author: "kim@example.com", Body: "last", CreatedAt: at(4)},
	}})
	add(t, s, lineartest.Issue{Comments: []lineartest.Comment{{Body: "of another issue", CreatedAt: at(6)}}})
	got := must(newClient(t, s).Comments(t.Context(), i.ID, at(1)))
	want := []reconcile.Comment{
		{ID: "c3", Author: "GitHub", Body: "merged", CreatedAt: at(5)},
		{ID: "c4", Author: "Kim Poe", Body: "last", CreatedAt: at(4)},
		{ID: "c2", Author: "Robin Doe", Body: "a *new* one", CreatedAt: at(3)},
	}
	equal(t, "comments after the first", got, want)
}

func TestCommentsFollowPagesToTheirBound(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for n, want := range map[int]int{0: 0, 120: 120, 230: 200} {
		s := startLinear(t, lineartest.Config{})
		i := lineartest.Issue{}
		for k := range n {
			i.Comments = append(i.Comments, lineartest.Comment{Body: fmt.Sprint(k), CreatedAt: began.Add(time.Duration(k) * time.Second)})
		}
		got, err := newClient(t, s).Comments(t.Context(), add(t, s, i).ID, began.Add(-time.Hour))
		if err != nil || len(got) != want {
			t.Errorf("%d of %d comments, %v", len(got), n, err)
			continue
		}
		for k, c := range got {
			if c.Body != fmt.Sprint(n-1-k) {
				t.Errorf("comment %d is %q: not the newest first", k, c.Body)
				break
			}
		}
	}
}

func TestCommentsThatCannotBeRead(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	_, err := newClient(t, s).Comments(t.Context(), "ABC-7", time.Time{})
	wantCode(t, err, "issue_not_found")
	for body, want := range map[string]string{
		`{"data": {"issue": null}}`:                                                                         "no list of comments",
		`{"data": {"issue": {"comments": {"nodes": null}}}}`:                                                "no list of comments",
		`{"data": {"issue": {"comments": {"nodes": [{"id": "c"}]}}}}`:                                       "no id or no time",
		`{"data": {"issue": {"comments": {"nodes": [{"createdAt": "2026-03-01T12:00:00Z"}]}}}}`:             "no id or no time",
		`{"data": {"issue": {"comments": {"nodes": [], "pageInfo": {"hasNextPage": true}}}}}`:               "no cursor",
		`{"errors": [{"message": "broken", "extensions": {"code": "INTERNAL_SERVER_ERROR"}}], "data":null}`: "broken",
	} {
		if _, err := answering(t, 200, body).Comments(t.Context(), "x", time.Time{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
