package wire

import (
	"strings"
	"testing"
)

// White space must not hide that a text was cut: an operator would take the beginning of a
// command for all of it.
func TestShortShowsItsCut(t *testing.T) {
	blanks := strings.Repeat(" \n", 2000)
	for text, want := range map[string]string{
		"echo ok;" + blanks + "rm -r x": "echo ok; …",
		blanks + "echo ok" + blanks:     "echo ok",
		strings.Repeat("é", 20):         "ééééééééé…",
	} {
		if got := Short(text, 10); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
