package calls

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Texts of all kinds take a plausible number of tokens: prose few, a hash many.
func TestTokens(t *testing.T) {
	hash := fmt.Sprintf("%x", sha256.Sum256(nil))
	for name, c := range map[string]struct {
		text        string
		least, most float64 // bytes for each token
	}{
		"nothing":  {"", 0, 0},
		"prose":    {strings.Repeat("The agent has changed two files, and all tests pass. ", 50), 2.8, 4},
		"code":     {strings.Repeat("\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", name, err)\n\t}\n", 50), 2, 3.5},
		"a hash":   {strings.Repeat(hash, 20), 1, 2},
		"base64":   {strings.Repeat("aGVsbG8gd29ybGQK7Qx9ZpT2", 50), 1, 2},
		"a line":   {strings.Repeat("x", 1000), 1, 2},
		"spaces":   {strings.Repeat(" ", 1000), 3, 4},
		"Chinese":  {strings.Repeat("代理", 100), 1, 2},
		"Umlaute":  {strings.Repeat("größe ", 100), 1, 3},
		"an emoji": {strings.Repeat("😀", 100), 1, 1},
	} {
		tokens := Tokens(c.text)
		each := 0.0
		if tokens > 0 {
			each = float64(len(c.text)) / float64(tokens)
		}
		t.Logf("%s: %.1f bytes a token", name, each)
		if each < c.least || each > c.most {
			t.Errorf("%s: %d tokens, %.1f bytes each, want %.1f to %.1f", name, tokens, each, c.least, c.most)
		}
	}
}

// A text is cut to so many tokens, and no shorter than necessary.
func TestWithin(t *testing.T) {
	for _, s := range []string{"short", strings.Repeat("ö\"\n", 1000), strings.Repeat("ab12", 1000)} {
		kept := Within(s, 10_000, 500)
		if !strings.HasPrefix(s, kept) || TokensOf(kept) > 500 || kept != s && TokensOf(kept) < 490 {
			t.Errorf("%.10s: %d tokens of %d", s, TokensOf(kept), TokensOf(s))
		}
	}
	test.Equal(t, "no room", Within("abc", 10, 0), "")
	test.Equal(t, "two bytes", Within("abc", 2, 100), "ab")
}

func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\u003c\u003e\u0026"}`: `{"a":"<>&"}`,
		`"\\u003c \n \u00e9"`:        `"\\u003c \n \u00e9"`,
		`"\`:                         `"\`,
	} {
		test.Equal(t, in, plainJSON(in), want)
	}
}
