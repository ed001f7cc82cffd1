package calls

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A text is cut to so many bytes of JSON, and no shorter than necessary.
func TestWithin(t *testing.T) {
	for _, s := range []string{"short", strings.Repeat("ö\"\n", 1000), strings.Repeat("ab12", 1000)} {
		kept := Within(s, 500)
		if !strings.HasPrefix(s, kept) || SizeOf(kept) > 500 || kept != s && SizeOf(kept) < 490 {
			t.Errorf("%.10s: %d bytes of %d", s, SizeOf(kept), SizeOf(s))
		}
	}
	test.Equal(t, "no room", Within("abc", 0), "")
	test.Equal(t, "four bytes", Within("abc", 4), "ab")
}

func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\u003c\u003e\u0026"}`: `{"a":"<>&"}`,
		`"\\u003c \n \u00e9"`:        `"\\u003c \n \u00e9"`,
		`"\`:                         `"\`,
	} {
		test.Equal(t, in, plainJSON.Replace(in), want)
	}
}
