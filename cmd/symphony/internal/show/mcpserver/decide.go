package mcpserver

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/reconcile"
)

type decideIn struct {
	RequestID string   `json:"requestId"`
	Decision  string   `json:"decision" jsonschema:"approve_for_session also approves later requests like it"`
	Answers   []string `json:"answers,omitempty" jsonschema:"one for each question, in order"`
	Reason    string   `json:"reason,omitempty" jsonschema:"of a denial"`
}

type decidedOut struct {
	RequestID string `json:"requestId"`
	Decision  string `json:"decision"`
	Taken     bool   `json:"taken" jsonschema:"the agent has received the decision"`
}

// addDecisionTool registers the tool that decides requests of agents.
func addDecisionTool(t *calls.Tools, all *agents.Agents) {
	calls.Add(t, calls.Tool{
		Name:   "decide_request",
		Effect: calls.Permits,
		Description: "Approve, deny or answer what an agent asks. " +
			"Ask your user first, unless you were told what you may approve. " +
			"Do not use it for a secret: a person answers that in a terminal.",
	}, func(ctx context.Context, in decideIn) (decidedOut, error) {
		return decideRequest(ctx, all, in)
	})
}

// decideRequest stores a decision, which is refused if only a person may take it.
func decideRequest(ctx context.Context, all *agents.Agents, in decideIn) (decidedOut, error) {
	d := requests.Decision{
		How:    reconcile.RequestDecision(in.Decision),
		Reason: in.Reason,
		Texts:  in.Answers,
	}
	switch d.How {
	case reconcile.DecideApprove, reconcile.DecideForSession, reconcile.DecideDeny, reconcile.DecideAnswer:
		r, err := all.DecideAsModel(ctx, in.RequestID, d)
		return decidedOut{
			RequestID: in.RequestID,
			Decision:  string(r.Decision),
			Taken:     !r.EndedAt.IsZero(),
		}, err
	}
	return decidedOut{}, reconcile.NewError(
		agents.CodeInvalid,
		fmt.Sprintf("unknown decision %q", in.Decision),
		"use approve, approve_for_session, deny or answer",
	)
}
