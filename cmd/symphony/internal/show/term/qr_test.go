package term

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// The code of a link fits the terminals that get it; others get nothing.
func TestPrintQR(t *testing.T) {
	draw := func(width int, locale string) string {
		var out strings.Builder
		w := &Env{}
		w.Stdout = &out
		w.Width = width
		w.Environ = []string{"LC_ALL=" + locale}
		w.PrintQR(
			"http://[fd00:1234:5678:9abc:def0:1234:5678:9abc]:7967/" +
				"login?token=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG",
		)
		return out.String()
	}
	lines := strings.Split(strings.TrimSuffix(draw(widestQR, "C.UTF-8"), "\n"), "\n")
	for _, line := range lines {
		if n := len([]rune(line)); n > widestQR || n < 2*len(lines)-2 || strings.Trim(line, "█▀▄ ") != "" {
			t.Fatalf("%d lines, one of %d characters: %s", len(lines), n, line)
		}
	}
	test.Equal(t, "elsewhere", draw(widestQR-1, "C.UTF-8")+draw(0, "C.UTF-8")+draw(widestQR, "C"), "")
}
