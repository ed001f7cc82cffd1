package calls

import (
	"sort"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/text"
)

// MaxTokens limits a result: hosts cut or refuse one of more than 25,000 tokens.
const MaxTokens = 25_000

// Tokens returns how many tokens a text takes in a model: rather too many, because each model
// counts in its own way. English prose has about four bytes a token, source code three, and a
// hash or base64 fewer than two.
func Tokens(s string) int {
	total := 0
	rest := s
	before := otherRune
	for rest != "" {
		kind, length, size := nextRun(rest)
		rest = rest[size:]
		after := otherRune
		if rest != "" {
			after, _ = classify(rest)
		}
		total += costOf(kind, length, size, before, after)
		before = kind
	}
	return max(total, len(s)/4)
}

// runeClass is a class of characters whose runs tokens do not cross.
type runeClass int

const (
	otherRune runeClass = iota
	lowerRune
	upperRune
	digitRune
	spaceRune
	wideRune // not ASCII
)

// classify returns the class and the size of the first character.
func classify(s string) (class runeClass, size int) {
	c := s[0]
	switch {
	case c >= utf8.RuneSelf:
		_, size = utf8.DecodeRuneInString(s)
		return wideRune, size
	case c >= 'a' && c <= 'z':
		return lowerRune, 1
	case c >= 'A' && c <= 'Z':
		return upperRune, 1
	case c >= '0' && c <= '9':
		return digitRune, 1
	case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		return spaceRune, 1
	}
	return otherRune, 1
}

// nextRun returns the class, the characters and the bytes of the run at the beginning.
func nextRun(s string) (class runeClass, length, size int) {
	class, size = classify(s)
	length = 1
	if class == wideRune { // each has its own cost
		return class, length, size
	}
	for size < len(s) {
		next, width := classify(s[size:])
		if next != class {
			break
		}
		size += width
		length++
	}
	return class, length, size
}

// costOf returns the tokens of a run between runs of other classes.
func costOf(class runeClass, length, size int, before, after runeClass) int {
	startsWord := before == spaceRune || before == otherRune
	switch class {
	case lowerRune:
		if length > 20 { // no word
			return (length + 1) / 2
		}
		return 1 + (length-1)/4
	case upperRune:
		if length == 1 && startsWord && after == lowerRune { // a word such as Symphony
			return 0
		}
		return 1 + (length-1)/2
	case digitRune:
		return (length + 1) / 2
	case spaceRune:
		if length == 1 && (after == lowerRune || after == upperRune) { // a part of the word
			return 0
		}
		return 1 + length/16
	case wideRune: // é takes a token, 中 up to two, an emoji up to four
		if size == utf8.UTFMax {
			return size
		}
		return max(1, size-1)
	case otherRune: // pairs such as ": are a token
		return (length + 1) / 2
	}
	return size
}

// TokensOf returns the tokens of a value as JSON.
func TokensOf(value any) int { return Tokens(string(text.JSON(value))) }

// Within returns the beginning of a text that takes at most so many bytes, and tokens as JSON.
func Within(s string, bytes, tokens int) string {
	s = text.Within(s, max(0, bytes))
	if len(s) <= tokens/2 || TokensOf(s) <= tokens { // a byte takes at most two as JSON
		return s
	}
	tooLong := sort.Search(len(s), func(n int) bool { return TokensOf(text.Within(s, n)) > tokens })
	return text.Within(s, tooLong-1)
}

// plainJSON returns JSON in which <, > and & are written as they are. The SDK writes \u003c for
// <, which takes four tokens and which a model has to decode in each diff.
func plainJSON(s string) string {
	plain := make([]byte, 0, len(s))
	for s != "" {
		if s[0] != '\\' || len(s) < 2 {
			plain = append(plain, s[0])
			s = s[1:]
			continue
		}
		if len(s) >= 6 {
			known, isEscaped := htmlEscapes[s[:6]]
			if isEscaped {
				plain = append(plain, known)
				s = s[6:]
				continue
			}
		}
		plain = append(plain, s[:2]...)
		s = s[2:]
	}
	return string(plain)
}

var htmlEscapes = map[string]byte{`\u003c`: '<', `\u003e`: '>', `\u0026`: '&'}
