package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

var now = time.Date(2026, 11, 20, 3, 8, 0, 0, time.UTC)

// TestPageFits checks that the rows give way first, and the summary never.
func TestPageFits(t *testing.T) {
	lines := func(name string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(name, i))
		}
		return list
	}
	p := page{head: lines("head", 3), body: lines("row", 5), foot: []string{"foot"}}
	for height, want := range map[int]string{
		9: "head0 head1 head2 row0 row1 row2 row3 row4 foot",
		7: "head0 head1 head2 row0 row1 … 3 more foot",
		5: "head0 head1 head2 … 4 more foot",
		4: "head0 … 2 more lines: symphony ps shows them … 4 more foot",
	} {
		test.Equal(t, fmt.Sprint("in ", height, " lines"), strings.Join(p.fit(height), " "), want)
	}
}

// TestScreenLines checks that a line that is longer than the terminal is wide counts as
// several.
func TestScreenLines(t *testing.T) {
	n := screenLines([]string{"", "日本語12", "日本語123", "\x1b[1m" + strings.Repeat("x", 21) + "\x1b[0m"}, 8)
	test.Equal(t, "the lines", n, 1+1+2+3)
}
