package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestMessageOfRunningIssue checks that show prints the end of the last message of a running
// agent.
func TestMessageOfRunningIssue(t *testing.T) {
	page := &bytes.Buffer{}
	said := strings.TrimSpace(strings.Repeat("line\n", 9) + strings.Repeat("word ", 10))
	w := &term.Env{Stdout: page, Width: 30}
	v := detail.Issue{Status: reconcile.StatusRunning, LastMessage: &said}
	v.Issue.Identifier = "WEB-1"
	printLog(w, v)
	test.Contains(
		t,
		"it",
		page.String(),
		"LAST MESSAGE  the end; all of it: symphony logs WEB-1 --last message\n"+strings.Repeat(
			"  line\n",
			8,
		)+"  word",
	)
	test.Equal(t, "its lines", strings.Count(page.String(), "\n"), 1+messageLines)
	v.Status = reconcile.StatusHandedOver
	page.Reset()
	printLog(w, v)
	test.Lacks(t, "the message of an ended run", page.String(), "all of it")
}

// A command of verify that printed nothing adds no empty line.
func TestNoOutputOfVerify(t *testing.T) {
	var out strings.Builder
	printOutput(&term.Env{Stdout: &out}, " \n")
	test.Equal(t, "the output", out.String(), "")
}
