package render

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
)

// A title of ten thousand letters takes one line of the screen; a pipe gets all of it.
func TestLongTitle(t *testing.T) {
	w := &term.Env{}
	var out strings.Builder
	w.Stdout = &out
	title := strings.Repeat("日本", 5000)
	v := view.Issue{Issue: view.KnownIssue{Identifier: "ABC-1", Title: &title}}
	Issue(w, v)
	if !strings.HasPrefix(out.String(), "issue\tABC-1\t"+title+"\n") {
		t.Error("in a pipe something of it is missing")
	}
	out.Reset()
	w.Width = 40
	Issue(w, v)
	if line, _, _ := strings.Cut(out.String(), "\n"); term.Cells(line) > 40 || !strings.HasSuffix(line, "本…") {
		t.Errorf("it takes %d cells: %s", term.Cells(line), line)
	}
}
