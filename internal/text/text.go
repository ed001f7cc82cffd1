// Package text contains small functions on strings that several packages need.
package text

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Within returns the longest prefix of s of at most n bytes that does not end inside a
// character.
func Within(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(0, n)]
}

// Short returns s, cut to n bytes and an ellipsis if it is longer.
func Short(s string, n int) string {
	if short := Within(s, n); short != s {
		return short + "…"
	}
	return s
}

// OneLine replaces white space by single blanks.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// FirstLine returns the first line that is not blank, without its end.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// Unique returns the words of a list without white space around them, each once, and without
// empty ones.
func Unique(list []string) []string {
	words := []string{}
	seen := map[string]bool{"": true}
	for _, word := range list {
		word = strings.TrimSpace(word)
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return words
}

// Map returns f of each element of a list; an empty list for none, which is also empty in
// JSON.
func Map[T, U any](list []T, f func(T) U) []U {
	of := make([]U, len(list))
	for i, v := range list {
		of[i] = f(v)
	}
	return of
}

// First returns the first element of a list for which is holds; the zero value if there is
// none.
func First[T any](list []T, is func(T) bool) (found T) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		found = list[i]
	}
	return found
}

// Filter returns the elements of a list for which keep holds; an empty list for none, as Map.
func Filter[T any](list []T, keep func(T) bool) []T {
	return slices.DeleteFunc(append([]T{}, list...), func(v T) bool { return !keep(v) })
}

// Plural formats a count: "1 run", "3 runs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// IssueAddress returns the part of the web address of an issue that two addresses of it share:
// without the scheme, the title, a comment and a query, in lower case. It is false for
// anything else than a web address.
func IssueAddress(s string) (address string, ok bool) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	for i := len(parts) - 2; i >= 0; i-- {
		if parts[i] == "issue" || parts[i] == "issues" { // of Linear; of GitHub and others
			parts = parts[:i+2]
			break
		}
	}
	return strings.ToLower(u.Host + "/" + strings.Join(parts, "/")), true
}

// CompareNatural compares two texts as a person sorts them: numbers in them by value, so that
// WEB-9 comes before WEB-10.
func CompareNatural(a, b string) int {
	for a != "" && b != "" {
		x := leadingDigits(a)
		y := leadingDigits(b)
		if x == "" || y == "" {
			if c := cmp.Compare(a[0], b[0]); c != 0 {
				return c
			}
			a = a[1:]
			b = b[1:]
			continue
		}
		a = a[len(x):]
		b = b[len(y):]
		x = strings.TrimLeft(x, "0")
		y = strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a, b)
}

const digits = "0123456789"

func leadingDigits(s string) string {
	return s[:len(s)-len(strings.TrimLeft(s, digits))]
}

// IsNumber reports whether a text consists of digits, as 7 does, which stands for ABC-7.
func IsNumber(s string) bool { return s != "" && strings.Trim(s, digits) == "" }

// Pattern returns a regular expression that is compiled when it is first used: a pass with
// nothing to do needs few of them.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
