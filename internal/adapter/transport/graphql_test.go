package transport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

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
