package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
)

// threads holds the tokens of the session's thread and of its sub-agents, and the models of the thread.
type threads struct {
	usedMu sync.Mutex
	used   map[string]agent.Usage // highest totals, by thread
	models []string               // in the order of their use
}

func newThreads() threads { return threads{used: make(map[string]agent.Usage)} }

// Usage implements agent.Session.
func (t *threads) Usage() agent.Usage {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	var sum agent.Usage
	for _, u := range t.used {
		sum.Input += u.Input
		sum.CachedInput += u.CachedInput
		sum.Output += u.Output
		sum.Reasoning += u.Reasoning
		sum.Total += u.Total
	}
	return sum
}

// UsageByThread implements agent.Session.
func (t *threads) UsageByThread() map[string]agent.Usage {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	return maps.Clone(t.used)
}

// Model implements agent.Session.
func (t *threads) Model() string {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	return strings.Join(t.models, "+")
}

// count takes the totals of a thread. The size of the last call is not read: added up, it would count twice whatever is
// reported twice.
func (t *threads) count(thread string, raw json.RawMessage) (agent.Usage, bool) {
	var wire struct {
		Total struct {
			Input       int64 `json:"inputTokens"`
			CachedInput int64 `json:"cachedInputTokens"`
			Output      int64 `json:"outputTokens"`
			Reasoning   int64 `json:"reasoningOutputTokens"`
			Total       int64 `json:"totalTokens"`
		} `json:"total"`
	}
	unmarshal(raw, &wire)
	u := agent.Usage(wire.Total)
	if u.Total == 0 {
		u.Total = u.Input + u.Output
	}
	if u == (agent.Usage{}) {
		return u, false
	}
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	old := t.used[thread]
	u = agent.Usage{
		Input: max(old.Input, u.Input), CachedInput: max(old.CachedInput, u.CachedInput), Output: max(old.Output, u.Output),
		Reasoning: max(old.Reasoning, u.Reasoning), Total: max(old.Total, u.Total),
	}
	t.used[thread] = u
	return u, true
}

// openedOn keeps the model that codex gave the thread.
func (t *threads) openedOn(model string) {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	t.models = nil
	if model != "" {
		t.models = []string{model}
	}
}

// rerouted keeps the model that codex goes on with.
func (t *threads) rerouted(model string) {
	t.usedMu.Lock()
	defer t.usedMu.Unlock()
	if model != "" && !slices.Contains(t.models, model) {
		t.models = append(t.models, model)
	}
}

// account holds the rate limits of the account. Updates are sparse: a member that is null does not clear what an earlier
// one said.
type account struct {
	limitsMu sync.Mutex
	limits   map[string]map[string]any // decoded JSON, by limit id
	latest   string                    // the limit that counts
}

func newAccount() account { return account{limits: make(map[string]map[string]any)} }

// RateLimits implements agent.Session.
func (a *account) RateLimits() json.RawMessage {
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	if a.limits[a.latest] == nil {
		return nil
	}
	raw, err := json.Marshal(a.limits[a.latest])
	if err != nil {
		return nil // it was decoded from JSON
	}
	return raw
}

// mainLimit is the limit of the account; others are those of single models.
const mainLimit = "codex"

func (a *account) update(raw json.RawMessage) {
	var update map[string]any
	if json.Unmarshal(raw, &update) != nil || update == nil {
		return
	}
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	id, _ := update["limitId"].(string)
	if a.limits[id] == nil {
		a.limits[id] = map[string]any{}
	}
	merge(a.limits[id], update)
	a.latest = id
	if a.limits[mainLimit] != nil {
		a.latest = mainLimit
	}
}

// merge puts what update says over old, member by member.
func merge(old, update map[string]any) {
	for k, v := range update {
		sub, isObject := v.(map[string]any)
		was, wasObject := old[k].(map[string]any)
		_, known := old[k]
		switch {
		case v == nil && known:
		case isObject && wasObject:
			merge(was, sub)
		default:
			old[k] = v
		}
	}
}

// resetsAt is when the limits that are used up come back: the latest of them, zero if none is known to be used up.
func (a *account) resetsAt() time.Time {
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	var at time.Time
	for _, window := range []string{"primary", "secondary"} {
		w, _ := a.limits[a.latest][window].(map[string]any)
		used, _ := w["usedPercent"].(float64)
		seconds, _ := w["resetsAt"].(float64)
		if used >= 100 && seconds > 0 {
			at = later(at, time.Unix(int64(seconds), 0).UTC())
		}
	}
	return at
}

func tokensText(u agent.Usage) string {
	return fmt.Sprintf("tokens: %d in (%d cached), %d out, %d in all", u.Input, u.CachedInput, u.Output, u.Total)
}
