package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Days are the handovers and the ends of runs since a time, and the use of models since the
// day of that time. The database adds up the runs: an open page reads this all the time, and
// the sums come from an index alone.
type Days struct {
	Handovers []Handover
	Outcomes  []DayOutcome
	Uses      []ModelDay
}

// Handover is an issue that was released because its state was no longer active.
type Handover struct{ ClaimedAt, At time.Time }

func handoverFields(h *Handover) []any {
	return []any{stampOf(&h.ClaimedAt), stampOf(&h.At)}
}

// DayOutcome sums up the agent's runs that ended on the same day (UTC) with the same outcome.
type DayOutcome struct {
	Date    string // YYYY-MM-DD
	Outcome reconcile.Outcome
	Runs    int
	Runtime time.Duration
}

func dayOutcomeFields(o *DayOutcome) []any {
	return []any{&o.Date, &o.Outcome, &o.Runs, millisOf(&o.Runtime)}
}

// ModelDay is the use of a model on a day (UTC).
type ModelDay struct {
	Date string // YYYY-MM-DD
	reconcile.ModelUse
}

func modelDayFields(d *ModelDay) []any {
	return slices.Concat([]any{&d.Date, &d.Model}, tokenFields(&d.Tokens))
}

// Days returns the handovers, ends of runs and uses since a time, from a single snapshot of
// the database.
func (v Views) Days(ctx context.Context, since time.Time) (Days, error) {
	var d Days
	err := v.view(ctx, "read the last days", func(t tx) error { return d.read(t, since) })
	return d, err
}

func (d *Days) read(t tx, since time.Time) error {
	var err error
	d.Handovers, err = rows(t, handoverFields, `SELECT claimed_at, released_at FROM releases
		WHERE released_at >= ? AND `+handedOver, stamp(since))
	if err != nil {
		return fmt.Errorf("handovers: %w", err)
	}
	d.Outcomes, err = rows(t, dayOutcomeFields, `SELECT date(ended_at / 86400000 * 86400, 'unixepoch'), outcome,
		count(*), sum(runtime_ms) FROM runs WHERE kind = 'agent' AND ended_at >= ?
		GROUP BY ended_at / 86400000, outcome`, stamp(since))
	if err != nil {
		return fmt.Errorf("outcomes by day: %w", err)
	}
	d.Uses, err = readDays(t, since)
	if err != nil {
		return fmt.Errorf("tokens by day: %w", err)
	}
	return nil
}

// readDays returns the use of models on the days since a time.
func readDays(t tx, since time.Time) ([]ModelDay, error) {
	return rows(t, modelDayFields, `SELECT day, model, `+tokenColumns+` FROM model_totals
		WHERE day >= ? ORDER BY day, model`, since.UTC().Format(time.DateOnly))
}
