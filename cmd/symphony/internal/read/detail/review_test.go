package detail

import (
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// An issue is handed over from the end of the run until a person moves it back. A pass that
// settles the run releases the issue a moment later.
func TestHandsOver(t *testing.T) {
	cfg := &workflow.Config{Policy: reconcile.Policy{ActiveStates: []string{"Todo"}}}
	ended := reconcile.Run{Kind: reconcile.AgentRun, Outcome: reconcile.Succeeded, MovedTo: "Human Review"}
	backToTodo := ended
	backToTodo.MovedTo = "Todo"
	settled := ended
	settled.Settled = true
	for name, c := range map[string]struct {
		run   reconcile.Run
		claim *reconcile.Claim
		want  bool
	}{
		"the run has ended":         {ended, &reconcile.Claim{Status: reconcile.Running}, true},
		"its run is settled":        {settled, &reconcile.Claim{Kind: reconcile.Continuation}, true},
		"a person has moved it":     {settled, &reconcile.Claim{Kind: reconcile.Requested}, false},
		"a person has taken it on":  {settled, nil, false},
		"the agent only worked on":  {reconcile.Run{Kind: reconcile.AgentRun, Outcome: reconcile.Succeeded}, nil, false},
		"the agent moved it itself": {backToTodo, nil, false},
	} {
		r := &issueReader{Facts: view.Facts{Config: cfg}, runs: []reconcile.Run{c.run}, claim: c.claim}
		test.Equal(t, name, r.handsOver(Issue{Status: reconcile.StatusWaiting}), c.want)
	}
}
