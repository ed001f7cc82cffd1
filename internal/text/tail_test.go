package text

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"

	"pgregory.net/rapid"
)

// What is kept begins with a whole line, however the text was written: a line may be a secret.
func TestTail(t *testing.T) {
	for in, want := range map[string]string{
		"short":                   "short",
		"0123456789":              "0123456789",
		"first\n0123456789":       "0123456789",
		"the secret\nis over":     "is over",
		"one line without an end": "",
		"progress 1\r100 %":       "100 %",
		"first\nsecond line\n":    "",
	} {
		tail := Tail{Limit: 10}
		_, _ = tail.Write([]byte(in))
		got, before := tail.Text()
		test.Equal(
			t,
			"the text, and the bytes before it",
			[]any{string(got), before},
			[]any{want, int64(len(in) - len(want))},
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		tail := Tail{Limit: 10}
		whole := ""
		for _, part := range rapid.SliceOf(rapid.StringMatching(`[a-c\n]{0,30}`)).Draw(t, "parts") {
			_, _ = tail.Write([]byte(part))
			whole += part
		}
		got, before := tail.Text()
		kept, isEnd := strings.CutSuffix(whole, string(got))
		if !isEnd || len(got) > 10 || before != int64(len(kept)) ||
			got != nil && kept != "" && !strings.HasSuffix(kept, "\n") {
			t.Errorf("%q is kept of %q", got, whole)
		}
	})
}
