package view

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Health shows whether passes run as they should and how much of the limits is used.
type Health struct {
	Schedule ScheduleHealth `json:"schedule"`
	// Passes are the last passes, whatever started them, the newest first.
	Passes []wiring.LastPassRow `json:"passes"`
	// Limits are the windows of the agent's rate limits that have not been reset since the
	// agent described them. They apply to the whole account.
	Limits []LimitRow `json:"limits"`
	Slots  []SlotsRow `json:"slots"`
}

// ScheduleHealth is the rhythm of the passes that a schedule started.
type ScheduleHealth struct {
	Active  bool       `json:"active"`
	Trigger *string    `json:"trigger"` // cron, timer or loop; null before the first such pass
	LastAt  *time.Time `json:"last_at"`
	Usual   *float64   `json:"usual_gap_seconds"` // null where the passes show no rhythm yet
	// Grace is how long after the last pass the schedule counts as dead, in seconds. A loop
	// that runs is never dead.
	Grace float64 `json:"grace_seconds"`
}

// LimitRow is a window of a rate limit.
type LimitRow struct {
	Window string  `json:"window"` // primary or secondary
	Used   float64 `json:"used_percent"`
	// the length of the window; null where it is not known
	Seconds *float64   `json:"window_seconds"`
	Resets  *time.Time `json:"resets_at"` // null where it is not known
	At      time.Time  `json:"at"`        // when the agent said so
}

// SlotsRow is how many runs a limit allows at once, and how many there are.
type SlotsRow struct {
	Scope string `json:"scope"` // project, state or account
	Name  string `json:"name"`  // of the state; empty for the others
	Used  int    `json:"used"`
	Most  int    `json:"most"`
}

// shownPasses is the number of passes in a Health.
const shownPasses = 20

// health reads the health of the project. For an account that can't be read, limits and slots
// are left out: the passes report it.
func (f *Facts) health(ctx context.Context) (*Health, error) {
	passes, err := wiring.LastPasses(ctx, f.DB, shownPasses)
	if err != nil {
		return nil, err
	}
	h := &Health{
		Schedule: ScheduleHealth{
			Active:  f.Schedule,
			Trigger: text.OrNull(f.rhythm.Last.Trigger),
			LastAt:  text.OrNull(f.rhythm.Last.StartedAt),
			Usual:   text.OrNull(f.rhythm.Gap.Seconds()),
			Grace:   f.rhythm.Grace.Seconds(),
		},
		Passes: passes,
		Limits: []LimitRow{},
		Slots:  []SlotsRow{},
	}
	if f.Config == nil {
		return h, nil
	}
	account := wiring.OpenAccount(f.Project, f.Config.Chosen.Home)
	limits, _ := account.Windows(f.Now)
	for _, l := range limits {
		h.Limits = append(h.Limits, LimitRow{
			Window:  l.Name,
			Used:    l.UsedPercent,
			Seconds: text.OrNull(l.Length.Seconds()),
			Resets:  text.OrNull(l.ResetsAt),
			At:      l.At,
		})
	}
	h.Slots = f.slots(ctx, account)
	return h, nil
}

// slots counts the runs of agents by the limits that apply to them.
func (f *Facts) slots(ctx context.Context, account *state.Account) []SlotsRow {
	policy := wiring.Policy(f.Config)
	all := 0
	byState := map[string]int{}
	for _, c := range f.Recorded.Claims {
		if c.Status == reconcile.Running && c.Kind != reconcile.Delivering {
			all++
			byState[reconcile.NormalizeState(c.Issue.State)]++
		}
	}
	rows := []SlotsRow{{"project", "", all, policy.MaxConcurrent}}
	for _, name := range slices.Sorted(maps.Keys(policy.MaxByState)) {
		rows = append(rows, SlotsRow{"state", name, byState[name], policy.MaxByState[name]})
	}
	most, err := wiring.MaxAgents(f.Project)
	if err != nil || most == 0 {
		return rows
	}
	count, err := account.CountSlots(ctx, most, 0)
	if err != nil {
		return rows
	}
	return append(rows, SlotsRow{"account", "", count.Taken, most})
}
