package acp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// usage collects what the agent reports about its models.
type usage struct {
	used     agent.Usage // of the session, also before this process
	counted  bool        // the agent has reported tokens, or what they cost
	models   []string    // in order of use
	cost     *cost       // of the session so far, nil if the agent has reported none
	costPaid *cost       // the part of it that turns have told, nil if that is not known
}

// costsNothing notes that the session is new. A resumed one has cost something before.
func (s *Session) costsNothing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.costPaid = &cost{}
}

// mostModels is how many models of a session are named.
const mostModels = 10

// uses records a model. Claude calls its choice "default", and names the model in the turn.
func (u *usage) uses(model string) {
	model = wire.Short(model, wire.MessageLength)
	if model != "" && model != "default" && !slices.Contains(u.models, model) && len(u.models) < mostModels {
		u.models = append(u.models, model)
	}
}

// Usage implements agent.Session.
func (s *Session) Usage() agent.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage.used
}

// UsageByThread implements agent.Session. It is empty as long as the agent has reported no
// tokens, which is not the same as none.
func (s *Session) UsageByThread() map[string]agent.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.usage.counted {
		return nil
	}
	return map[string]agent.Usage{s.id: s.usage.used}
}

// Model implements agent.Session.
func (s *Session) Model() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.usage.models, "+")
}

func (s *Session) usesModel(model string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.uses(model)
}

// count adds the tokens of a turn, and returns those of the session; nil if the agent reports
// none. Zeros, as of a turn that was cancelled, are no report. The error is that of a report that
// can't be true.
func (s *Session) count(turn agent.Usage) (*agent.Usage, error) {
	if !turn.Plausible() {
		return nil, fmt.Errorf("ignored, for it can't be true: %d tokens in, %d out", turn.Input, turn.Output)
	}
	if turn.Total == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &s.usage.used
	u.Input += turn.Input
	u.CachedInput += turn.CachedInput
	u.Output += turn.Output
	u.Total += turn.Total
	s.usage.counted = true
	sum := *u
	return &sum, nil
}

// sum adds numbers of an agent. It is negative if one of them is, or is too large.
func sum(numbers ...int64) (total int64) {
	for _, n := range numbers {
		if n < 0 || n > math.MaxInt64-total {
			return -1
		}
		total += n
	}
	return total
}

// sawCost records what the session has cost so far. The agents without prices report 0: that
// is not known, rather than free.
func (s *Session) sawCost(c *cost) {
	if c == nil || c.Amount <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.cost = c
	so := agent.Usage{Paid: int64(math.Round(min(c.Amount, math.MaxInt32) * 1e6))}
	if c.Currency == reconcile.PaidCurrency && so.Plausible() { // also before this process
		s.usage.used.Paid = max(s.usage.used.Paid, so.Paid)
		s.usage.counted = true
	}
}

// paid returns what the session has cost since the last call, nil if that is not known: a
// resumed session has cost something before this process.
func (s *Session) paid() *agent.Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &s.usage
	if u.cost == nil {
		return nil
	}
	before := u.costPaid
	u.costPaid = u.cost
	if before == nil || before.Currency != "" && before.Currency != u.cost.Currency {
		return nil
	}
	amount := u.cost.Amount - before.Amount
	if amount <= 0 {
		return nil
	}
	return &agent.Cost{Amount: amount, Currency: u.cost.Currency}
}
