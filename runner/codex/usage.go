package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// usage collects codex's reports about its models: tokens, names, and the rate limits of the
// account.
type usage struct {
	mu sync.Mutex
	// highest totals, by thread: of the session and of its sub-agents
	used   map[string]agent.Usage
	models []string                  // of the thread, in order of use
	limits map[string]map[string]any // decoded JSON, by limit id
	latest string                    // id of the limit that RateLimits returns
}

// mostNamed is how many threads, models and limits are remembered. In symphony's sandbox, commands of
// the agent can invent any number of them.
const mostNamed = 1000

func (u *usage) Usage() agent.Usage {
	var sum agent.Usage
	for _, of := range u.UsageByThread() {
		sum.Input += of.Input
		sum.CachedInput += of.CachedInput
		sum.Output += of.Output
		sum.Reasoning += of.Reasoning
		sum.Total += of.Total
	}
	return sum
}

func (u *usage) UsageByThread() map[string]agent.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.used)
}

// count records the totals of a thread and returns the highest so far; nil if the report has
// none. The error is that of a report that can't be true. It ignores the tokens of the last call:
// a report that is repeated would count twice.
func (u *usage) count(thread string, raw json.RawMessage) (*agent.Usage, error) {
	var report struct {
		Total struct {
			Input       int64 `json:"inputTokens"`
			CachedInput int64 `json:"cachedInputTokens"`
			Output      int64 `json:"outputTokens"`
			Reasoning   int64 `json:"reasoningOutputTokens"`
			Total       int64 `json:"totalTokens"`
			Paid        int64 `json:"-"`
		}
		Window int64 `json:"modelContextWindow"`
	}
	wire.Unmarshal(raw, &report)
	now := agent.Usage(report.Total)
	now.Total = cmp.Or(now.Total, now.Input+now.Output)
	// If a conversation does not fit into the window, codex reports the window as its total, which
	// nobody used.
	full := now == agent.Usage{Total: report.Window}
	if full || now == (agent.Usage{}) {
		return nil, nil //nolint:nilnil // see above
	}
	if !now.Plausible() {
		return nil, fmt.Errorf("ignored, for it can't be true: %d tokens in, %d out", now.Input, now.Output)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	old, known := u.used[thread]
	if !known && len(u.used) == mostNamed {
		return nil, nil //nolint:nilnil // see above
	}
	now = agent.Usage{
		Input:       max(old.Input, now.Input),
		CachedInput: max(old.CachedInput, now.CachedInput),
		Output:      max(old.Output, now.Output),
		Reasoning:   max(old.Reasoning, now.Reasoning),
		Total:       max(old.Total, now.Total),
	}
	u.used[thread] = now
	return &now, nil
}

func (u *usage) Model() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.models, "+")
}

// usesModel records the model of the thread, or the model that it was rerouted to.
func (u *usage) usesModel(model string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if model != "" && !slices.Contains(u.models, model) && len(u.models) < mostNamed {
		u.models = append(u.models, model)
	}
}

func (u *usage) RateLimits() json.RawMessage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.limits[u.latest] == nil {
		return nil
	}
	return text.JSON(u.limits[u.latest])
}

// mainLimit is the id of the account's limit; others belong to single models.
const mainLimit = "codex"

// updateLimits merges an update into the limits. Updates are sparse: a member that is null or
// missing keeps its value.
func (u *usage) updateLimits(raw json.RawMessage) {
	var update map[string]any
	if json.Unmarshal(raw, &update) != nil || update == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	id, _ := update["limitId"].(string)
	if u.limits[id] == nil && len(u.limits) == mostNamed {
		return
	}
	u.latest = id
	for name, value := range u.limits[u.latest] {
		if update[name] == nil {
			update[name] = value
		}
	}
	u.limits[u.latest] = update
	if u.limits[mainLimit] != nil {
		u.latest = mainLimit
	}
}
