package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// An answer that is no GraphQL, or not what was asked for, is told without the types of Go.
func TestOtherJSON(t *testing.T) {
	type wanted struct {
		Viewer struct {
			Login string `json:"login"`
		} `json:"viewer"`
	}
	c := &Client{Service: Service{Setting: "tracker.endpoint"}}
	for body, message := range map[string]string{
		`[]`:                               "the answer is not GraphQL: []",
		`[{"id": 1}]`:                      `the answer is not GraphQL: [{"id": 1}]`,
		`{"message": "hello"}`:             `the answer is not GraphQL: {"message": "hello"}`,
		`"ok"`:                             `the answer is not GraphQL: "ok"`,
		`{"errors": "none"}`:               `the answer is not GraphQL: {"errors": "none"}`,
		`{"data": []}`:                     `the answer is not GraphQL: {"data": []}`,
		`{"data": {"viewer": []}}`:         "the answer has an unexpected shape: data.viewer is of the type array",
		`{"data": {"viewer":{"login":1}}}`: "the answer has an unexpected shape: data.viewer.login is of the type number",
	} {
		_, err := GraphQL[wanted](c, Answer{Body: []byte(body)})
		test.Contains(t, "the error about "+body, fmt.Sprint(err), message)
		test.Lacks(t, "the error about "+body, fmt.Sprint(err), "struct", "Go ")
	}
}

func TestPagesAreBounded(t *testing.T) {
	fetched := 0
	err := Pages(&Client{}, "things", map[string]any{}, func() (page List[int], err error) {
		fetched++
		page.Nodes = []int{1}
		page.PageInfo.HasNextPage = true
		page.PageInfo.EndCursor = strings.Repeat("x", fetched)
		return page, nil
	})
	test.Contains(t, "the error", fmt.Sprint(err), "more than 200 pages")
	test.Equal(t, "pages", fetched, maxPages)
}
