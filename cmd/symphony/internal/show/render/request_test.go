package render

import (
	"bytes"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestReasonWraps checks that prose is broken between words on a terminal, and what is
// approved is not.
func TestReasonWraps(t *testing.T) {
	page := &bytes.Buffer{}
	w := &term.Env{Stdout: page, Width: 34}
	Request(w, reconcile.Request{Kind: reconcile.CommandRequest, Detail: reconcile.RequestDetail{
		Command: "npm  install react@19.0.0 react-dom@19.0.0",
		Reason:  "needs to run outside the sandbox",
	}})
	test.Equal(t, "it", page.String(), "  command      npm  install react@19.0.0 react-dom@19.0.0\n"+
		"  reason       needs to run\n               outside the sandbox\n")
}
