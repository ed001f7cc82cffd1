package main

import (
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// passConfig is the configuration of a pass, to which that variable belongs. With a wrong one the workflow is given
// beside the error: it is good for all but starting something.
func readPassConfig(p *project.Project) (*workflow.Config, error) {
	cfg, err := p.Config()
	if err == nil {
		_, err = project.MaxAgents(p)
	}
	return cfg, err
}

var (
	_ reconcile.Accounts = (*project.PassAccount)(nil)
	_ runner.SlotSource  = (*project.PassAccount)(nil)
	_ runner.Account     = (*state.Account)(nil)
)

// accountBlock is what of the account stops the project, as ps shows it; nil if nothing does.
func accountBlock(a *state.Account, now time.Time) *blockedRow {
	s, err := a.Read(now)
	switch {
	case err != nil: // it counts for nothing, and each pass says so
		return nil
	case s.Limit != nil:
		return &blockedRow{
			Since: s.Limit.Since.UTC(), Reason: reconcile.CodeAgentQuota, Message: s.Limit.Text(a.Home, now), NextTry: s.Limit.Until.UTC(),
		}
	case s.Block != nil:
		return &blockedRow{Since: s.Block.Since.UTC(), Reason: s.Block.Code, Message: s.Block.Message, NextTry: s.Block.NextTry.UTC()}
	}
	return nil
}
