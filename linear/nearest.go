package linear

import (
	"slices"
	"strings"
)

// nearest picks, from what exists, up to three names that were probably meant, the best one first.
func nearest(name string, existing []string) []string {
	type match struct {
		name string
		far  int
	}
	want := []rune(strings.ToLower(strings.TrimSpace(name)))
	var matches []match
	for _, e := range unique(existing) {
		have := []rune(strings.ToLower(e))
		far := distance(want, have)
		near := far <= allowed(max(len(want), len(have)))
		if !near && len(want) >= 3 && len(have) >= 3 &&
			(strings.Contains(string(have), string(want)) || strings.Contains(string(want), string(have))) {
			near = true
		}
		if near {
			matches = append(matches, match{e, far})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return a.far - b.far })
	names := []string{}
	for _, m := range matches[:min(3, len(matches))] {
		names = append(names, m.name)
	}
	return names
}

// allowed is how many edits a word of n letters may be away; two swapped letters are two edits.
func allowed(n int) int {
	if n <= 3 {
		return 1
	}
	return max(2, n/3)
}

// distance counts the edits from one word to the other (Levenshtein).
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
