package runner

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// The terminal of a takeover asks for the approvals for which a run asks, whether the policy is
// a word or an object.
func TestApprovalPolicyOfTheTerminal(t *testing.T) {
	for _, c := range []struct{ policy, flags string }{
		{`"on-request"`, ` '--ask-for-approval' 'on-request' `},
		{
			`{"granular":{"rules":true,"sandbox_approval":false,"skill_approval":null}}`,
			` '-c' 'approval_policy={"granular"={"rules"=true,"sandbox_approval"=false}}' `,
		},
	} {
		r := newRig(t, "say hm")
		r.Here.Config.ApprovalPolicy = json.RawMessage(c.policy)
		h := &Holding{Here: r.Here, ID: r.run.ID, job: r.newJob(r.run, func(error) {})}
		h.job.site.space = &host.Workspace{Path: t.TempDir()}
		test.Contains(t, "the command", test.Must(h.command(t.Context(), "")), c.flags)
	}
	r := newRig(t, "say hm")
	r.Here.Config.ApprovalPolicy = json.RawMessage("5")
	_, err := (&Holding{Here: r.Here}).approval(map[string]any{})
	test.Contains(t, "the error", fmt.Sprint(err), "codex.approval_policy: neither a word nor an object")
}
