package view

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// facts reads what a report tells.
func GatherReport(ctx context.Context, p *project.Project, when Window) (Facts, error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return Facts{}, err
	}
	defer db.Close()
	now := p.Env.Now()
	happened, err := db.Report(ctx, now, when.Since, when.Until)
	if err != nil {
		return Facts{}, err
	}
	var claims []state.Standing
	if when.Present {
		if claims, err = db.Standings(ctx); err != nil {
			return Facts{}, err
		}
	}
	purse, account := readPrices(p)
	f := NewFacts(happened, claims, purse, now)
	if account != nil && when.Present {
		f.AddAccount(*account, when)
	}
	return f, nil
}

// purse has the prices that the workflow gives, and what stops its account. Where it can't be read the report goes on without them.
func readPrices(p *project.Project) (Purse, *project.BlockedRow) {
	env := p.Environment(nil)
	env.KeyOptional = true
	err := p.SourceErr
	if err == nil {
		cfg, parseErr := workflow.Parse(p.Source, env)
		if parseErr == nil {
			return Purse{cfg.Agent.Prices}, project.AccountBlock(project.OpenAccount(p, cfg.Codex.Home), p.Env.Now())
		}
		err = parseErr
	}
	for _, e := range workflow.Faults(err) {
		fmt.Fprintln(p.Env.Stderr, "symphony: warning: without estimates of money:", term.Visible(e.Message))
	}
	return Purse{}, nil
}
