// Package suggest says what may be meant with a word that is not known: the nearest known word,
// else all of them.
package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// Nearest returns the known word that resembles a mistyped one most, such as status for stauts;
// empty if none is near.
func Nearest(word string, known []string) string { return cmp.Or(Near(word, known)...) }

// Near returns up to three known words that resemble a mistyped one, the most similar first. It
// ignores case and surrounding space. Two words are similar if at most a third of their letters
// differ, of short ones a single letter, or if either contains the other.
func Near(word string, known []string) []string {
	type match struct {
		word string
		far  int
	}
	want := strings.ToLower(strings.TrimSpace(word))
	var matches []match
	for _, k := range known {
		have := strings.ToLower(k)
		far := distance(want, have)
		if far <= allowed(want, have) || isPart(want, have) || isPart(have, want) {
			matches = append(matches, match{k, far})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(a.far, b.far) })
	words := []string{}
	for _, m := range matches {
		if len(words) < 3 && !slices.Contains(words, m.word) {
			words = append(words, m.word)
		}
	}
	return words
}

// distance is the number of letters in which two words differ. Two swapped ones, as in Tood, count
// once.
func distance(a, b string) int {
	far := levenshtein.ComputeDistance(a, b)
	if far == 2 && sorted(a) == sorted(b) {
		return 1
	}
	return far
}

// sorted returns the letters of a word in the order of the alphabet.
func sorted(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}

// allowed is how many letters of two similar words differ at most.
func allowed(a, b string) int {
	longer := max(utf8.RuneCountInString(a), utf8.RuneCountInString(b))
	switch {
	case longer < 2: // another letter is another word, such as the flag -n
		return 0
	case longer < 6:
		return 1
	}
	return max(2, longer/3)
}

func isPart(word, in string) bool { return len(word) >= 3 && strings.Contains(in, word) }

// Instead is the part of a sentence that tells what there is instead of a word: `did you mean
// "status"?`, or `known are name, status and title` if none of these is near. It is empty if
// nothing is known.
func Instead(word string, known []string) string {
	near := Nearest(word, known)
	switch {
	case near != "":
		return fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		return ""
	case len(known) == 1:
		return "only " + known[0] + " is known"
	}
	last := len(known) - 1
	return "known are " + strings.Join(known[:last], ", ") + " and " + known[last]
}

// Misspelt returns the known name that was probably meant with a name: the nearest one by distance
// alone, without spaces and hyphens, as To Do for Todoo. A name that contains another one, such as
// To Do later, is not misspelt.
func Misspelt(name string, known []string) string {
	want := joined(name)
	most := 2
	length := utf8.RuneCountInString(want)
	switch {
	case length < 2:
		most = 0
	case length < 6:
		most = 1
	}
	found := ""
	for _, k := range known {
		far := distance(want, joined(k))
		if far <= most {
			found = k
			most = far - 1
		}
	}
	return found
}

// joined is a name in small letters, with its words written as one: todo for To-Do.
func joined(name string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name))
}

// DidYouMeanIssue is the end of a sentence about an issue that is not known: ", did you mean TASK-1?"
// for the one that Issue returns, or an empty string.
func DidYouMeanIssue(ref string, known []string) string {
	near := Issue(ref, known)
	if near == "" {
		return ""
	}
	return ", did you mean " + near + "?"
}

// Issue returns the known identifier of an issue that resembles a mistyped one most: TASK-1 for
// TASK1, and never TASK-4, because another number is another issue. It is empty if there is none.
func Issue(ref string, known []string) string {
	sameNumber := func(id string) bool { return strings.Map(onlyDigits, id) == strings.Map(onlyDigits, ref) }
	var possible []string
	for _, id := range known {
		if sameNumber(id) {
			possible = append(possible, id)
		}
	}
	return Nearest(ref, possible)
}

// onlyDigits drops all other characters, for strings.Map.
func onlyDigits(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}
