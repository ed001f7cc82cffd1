package codex

import (
	"cmp"
	"encoding/json"
	"maps"
)

// Usage counts tokens (13.5).
type Usage struct {
	Input       int64
	CachedInput int64 // part of Input
	Output      int64
	Reasoning   int64 // part of Output
	Total       int64
}

// Usage is the sum over all threads of the session (sub-agents have their own)
// of the highest totals each has reported. codex's totals go on over a resume,
// so they are those of the threads, not of this session alone.
func (s *Session) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum Usage
	for _, u := range s.usage {
		sum.Input += u.Input
		sum.CachedInput += u.CachedInput
		sum.Output += u.Output
		sum.Reasoning += u.Reasoning
		sum.Total += u.Total
	}
	return sum
}

// UsageByThread is Usage by thread id.
func (s *Session) UsageByThread() map[string]Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.usage)
}

// updateUsage takes the totals out of a message about tokens. Never the last
// call's share (last, last_token_usage): adding those up counts twice whatever
// is reported twice.
// text is a line for people, "" where the message had no totals.
func (s *Session) updateUsage(thread string, raw json.RawMessage) (text string) {
	u, ok := totalsOf(raw, wrapperDepth)
	if !ok {
		return ""
	}
	forgets := s.olderThan(carriesTotals)
	s.mu.Lock()
	defer s.mu.Unlock()
	if thread == "" {
		thread = s.thread
	}
	if forgets {
		u = u.plus(s.resumed[thread])
	}
	old := s.usage[thread]
	s.usage[thread] = Usage{
		Input:       max(old.Input, u.Input),
		CachedInput: max(old.CachedInput, u.CachedInput),
		Output:      max(old.Output, u.Output),
		Reasoning:   max(old.Reasoning, u.Reasoning),
		Total:       max(old.Total, u.Total),
	}
	return tokensText(u)
}

// carriesTotals is the first minor release whose totals go on over a resume. Older ones begin at zero again, so that
// what the thread had used before is to be added.
const carriesTotals = 78

func (u Usage) plus(other Usage) Usage {
	return Usage{
		Input: u.Input + other.Input, CachedInput: u.CachedInput + other.CachedInput,
		Output: u.Output + other.Output, Reasoning: u.Reasoning + other.Reasoning, Total: u.Total + other.Total,
	}
}

// wrapperDepth is how deep totals may lie: {msg:{info:{total_token_usage:…}}}.
const wrapperDepth = 4

// totalsOf finds the totals in {tokenUsage:{total:…}} and in the wrappers of
// other versions.
func totalsOf(raw json.RawMessage, depth int) (Usage, bool) {
	var members map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(raw, &members) != nil {
		return Usage{}, false
	}
	for _, key := range []string{"total", "total_token_usage", "totalTokenUsage"} {
		if u, ok := usageOf(members[key]); ok {
			return u, true
		}
	}
	for _, key := range []string{"tokenUsage", "token_usage", "info", "msg", "payload", "params"} {
		if u, ok := totalsOf(members[key], depth-1); ok {
			return u, true
		}
	}
	return Usage{}, false
}

// usageOf reads one object of counts, in either spelling.
func usageOf(raw json.RawMessage) (Usage, bool) {
	var c struct {
		Input           int64 `json:"inputTokens"`
		CachedInput     int64 `json:"cachedInputTokens"`
		Output          int64 `json:"outputTokens"`
		Reasoning       int64 `json:"reasoningOutputTokens"`
		Total           int64 `json:"totalTokens"`
		OldInput        int64 `json:"input_tokens"`
		OldCachedInput  int64 `json:"cached_input_tokens"`
		OldOutput       int64 `json:"output_tokens"`
		OldReasoning    int64 `json:"reasoning_output_tokens"`
		OldTotal        int64 `json:"total_tokens"`
		PromptTokens    int64 `json:"prompt_tokens"`
		CompletedTokens int64 `json:"completion_tokens"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil {
		return Usage{}, false
	}
	u := Usage{
		Input:       cmp.Or(c.Input, c.OldInput, c.PromptTokens),
		CachedInput: cmp.Or(c.CachedInput, c.OldCachedInput),
		Output:      cmp.Or(c.Output, c.OldOutput, c.CompletedTokens),
		Reasoning:   cmp.Or(c.Reasoning, c.OldReasoning),
		Total:       cmp.Or(c.Total, c.OldTotal),
	}
	if u.Total == 0 {
		u.Total = u.Input + u.Output
	}
	return u, u != Usage{}
}
