package calls

import (
	"sort"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// MaxBytes limits a result: hosts cut or refuse one of more than 25,000 tokens. English prose has
// about four bytes a token, source code three, and most other text at least two.
const MaxBytes = 50_000

// SizeOf returns the bytes of a value as JSON.
func SizeOf(value any) int { return len(text.JSON(value)) }

// Within returns the beginning of a text that takes at most so many bytes as JSON.
func Within(s string, bytes int) string {
	s = text.Within(s, max(0, bytes))
	if SizeOf(s) <= bytes {
		return s
	}
	tooLong := sort.Search(len(s), func(n int) bool { return SizeOf(text.Within(s, n)) > bytes })
	return text.Within(s, tooLong-1)
}

// plainJSON writes <, > and & as they are. The SDK writes \u003c for <, which takes four tokens and
// which a model has to decode in each diff. The first pair keeps what follows an escaped backslash.
var plainJSON = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
