package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

var now = time.Date(2026, 11, 20, 3, 8, 0, 0, time.UTC)

// TestPageFits checks that the rows give way first, and the summary last, and that a page never
// has more lines than the screen.
func TestPageFits(t *testing.T) {
	lines := func(name string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(name, i))
		}
		return list
	}
	p := page{head: lines("head", 3), rows: lines("row", 5), summary: []string{"summary"}}
	for height, want := range map[int]string{
		9: "head0 head1 head2 row0 row1 row2 row3 row4 summary",
		7: "head0 head1 head2 row0 row1 … 3 more summary",
		5: "head0 head1 head2 … 4 more summary",
		4: "head0 … 2 more lines: symphony ps shows them … 4 more summary",
		2: "… 4 more summary",
		1: "summary",
	} {
		test.Equal(t, fmt.Sprint("in ", height, " lines"), strings.Join(p.fit(height), " "), want)
	}
	p.foot = lines("foot", 6)
	for height, want := range map[int]string{
		12: "head0 head1 head2 row0 … 4 more foot0 foot1 foot2 foot3 foot4 foot5 summary",
		6: "… 3 more lines: symphony ps shows them … 4 more " +
			"foot0 foot1 … 4 more lines: symphony ps shows them summary",
		1: "summary",
		0: "",
	} {
		test.Equal(t, fmt.Sprint("a long foot in ", height, " lines"), strings.Join(p.fit(height), " "), want)
	}
	for height := range 20 {
		n := len(p.fit(height))
		if n > height {
			t.Errorf("%d lines on a screen of %d", n, height)
		}
	}
}

// TestRowsThatLack checks that rows which a limit cut count as missing, and the line that says
// so does not.
func TestRowsThatLack(t *testing.T) {
	p := page{rows: []string{"ISSUE"}, more: 5, summary: []string{"summary"}}
	for i := range 20 {
		p.rows = append(p.rows, fmt.Sprint("A-", i+1))
	}
	lines := func(list []string) string { return strings.Join(list[len(list)-3:], ", ") }
	test.Equal(t, "all rows of the limit", lines(p.fit(23)), "A-20, … 5 more, summary")
	test.Equal(t, "fewer", lines(p.fit(22)), "A-19, … 6 more, summary")
	test.Equal(t, "nine", lines(p.fit(12)), "A-9, … 16 more, summary")
}

// TestScreenLines checks that a line that is longer than the terminal is wide counts as
// several.
func TestScreenLines(t *testing.T) {
	n := screenLines([]string{"", "日本語12", "日本語123", "\x1b[1m" + strings.Repeat("x", 21) + "\x1b[0m"}, 8)
	test.Equal(t, "the lines", n, 1+1+2+3)
}
