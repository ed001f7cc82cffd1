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

	"github.com/agnivade/levenshtein"
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

// Nearest returns up to three known names that resemble a mistyped name, the most similar
// first. It ignores case and surrounding space. Two names are similar if at most a third of
// their characters differ, or if either contains the other.
func Nearest(name string, known []string) []string {
	type match struct {
		name string
		far  int
	}
	partOf := func(word, in string) bool { return len(word) >= 3 && strings.Contains(in, word) }
	want := strings.ToLower(strings.TrimSpace(name))
	var matches []match
	for _, k := range known {
		have := strings.ToLower(k)
		far := levenshtein.ComputeDistance(want, have)
		longer := max(utf8.RuneCountInString(want), utf8.RuneCountInString(have))
		// two swapped letters are two edits
		near := far <= 1 || longer > 3 && far <= max(2, longer/3)
		if near || partOf(want, have) || partOf(have, want) {
			matches = append(matches, match{k, far})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(a.far, b.far) })
	names := []string{}
	for _, m := range matches {
		if len(names) < 3 && !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names
}

// Misspelt returns the known name that was probably meant with a name: the most similar one, if
// at most two letters differ, or one of a short name, or two of it that are swapped, as in Tood;
// empty if there is none. A name that contains another one, such as To Do later, is not misspelt.
func Misspelt(name string, known []string) string {
	want := strings.ToLower(strings.TrimSpace(name))
	most := 2
	if utf8.RuneCountInString(want) < 6 {
		most = 1
	}
	found := ""
	for _, k := range known {
		have := strings.ToLower(k)
		far := levenshtein.ComputeDistance(want, have)
		if far == 2 && sorted(want) == sorted(have) {
			far = 1
		}
		if far <= most {
			found = k
			most = far - 1
		}
	}
	return found
}

// sorted returns the letters of a word in the order of the alphabet.
func sorted(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}

// DidYouMean returns `, did you mean "name"?` for the most similar known name, or an empty
// string. format formats the name, for example %q or --%s.
func DidYouMean(name string, known []string, format string) string {
	near := Nearest(name, known)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(", did you mean "+format+"?", near[0])
}

// DidYouMeanIssue is DidYouMean for the identifier of an issue, see NearestIssue.
func DidYouMeanIssue(ref string, known []string) string {
	near := NearestIssue(ref, known)
	if near == "" {
		return ""
	}
	return ", did you mean " + near + "?"
}

// NearestIssue returns the most similar identifier of an issue: TASK-1 for TASK1, and never
// TASK-4, because another number is another issue. It is empty if there is none.
func NearestIssue(ref string, known []string) string {
	digitsOf := func(id string) string { return strings.Map(onlyDigits, id) }
	isSame := func(id string) bool { return digitsOf(id) == digitsOf(ref) }
	near := Nearest(ref, Filter(known, isSame))
	if len(near) == 0 {
		return ""
	}
	return near[0]
}

// onlyDigits drops all other characters, for strings.Map.
func onlyDigits(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
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
