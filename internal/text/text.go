// Package text holds the small functions on strings that several packages need.
package text

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Within is the longest beginning of s of at most n bytes that does not end inside a character.
func Within(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(0, n)]
}

// Plural is "1 run" or "3 runs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// PathInside reports whether path is dir or lies below it, by name alone: it does not resolve links.
func PathInside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Nearest lists up to three of the known names that a mistyped name may have meant, the best first. Case and
// surrounding space do not matter. A name is near when at most a third of its characters differ, or when it is part
// of the known name or the other way round.
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
		far, longer := editDistance([]rune(want), []rune(have)), max(utf8.RuneCountInString(want), utf8.RuneCountInString(have))
		near := far <= 1 || longer > 3 && far <= max(2, longer/3) // two swapped letters are two edits
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

// editDistance counts the characters to change, insert or delete to get from one word to another (Levenshtein).
func editDistance(from, to []rune) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			change := diagonal
			if from[i] != to[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

// DidYouMean is `, did you mean "name"?` for the nearest known name, or empty. format is how a name is written,
// such as %q or --%s.
func DidYouMean(name string, known []string, format string) string {
	near := Nearest(name, known)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf(", did you mean "+format+"?", near[0])
}
