package view

import (
	"context"
	"math"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// BudgetRow is agent.budget_per_day, and what runs have used of it on this day of UTC.
type BudgetRow struct {
	Written string    `json:"budget"` // such as "5M tokens" or "20 USD"
	Unit    string    `json:"unit"`   // tokens, or the currency of agent.prices
	Most    float64   `json:"most"`   // in that unit
	Used    float64   `json:"used"`
	Reached bool      `json:"reached"` // passes start nothing more on this day
	Until   time.Time `json:"until"`   // the end of the day
	// Message reports that it is reached, and until when; null if it is not.
	Message *string `json:"message"`
}

// UsedToday returns what runs have used on this day of UTC; nil without a budget, and before the first pass.
func UsedToday(ctx context.Context, p *project.Project, cfg *workflow.Config) ([]reconcile.ModelUse, error) {
	if !cfg.Policy.DailyBudget.Set() || !p.HasState() {
		return nil, nil
	}
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return db.Store.UsedOn(ctx, p.Env.Now())
}

// readBudget reads what was used of the budget today; nil if the workflow sets none.
func (f *facts) readBudget(ctx context.Context) (*BudgetRow, error) {
	if f.cfg == nil || !f.cfg.Policy.DailyBudget.Set() {
		return nil, nil
	}
	b := f.cfg.Policy.DailyBudget
	var err error
	if f.today, err = f.db.Store.UsedOn(ctx, f.now); err != nil {
		return nil, err
	}
	row := &BudgetRow{Written: b.Written, Unit: "tokens", Most: b.Most(), Until: reconcile.DayEnd(f.now)}
	row.Used = math.Round(b.Used(f.today)*1e4) / 1e4 // as Amount
	if b.Amount > 0 {
		row.Unit = b.Prices.Currency
	}
	if row.Reached = b.Reached(f.today); row.Reached {
		row.Message = new(b.Text(f.p.Env.Now()))
	}
	return row, nil
}
