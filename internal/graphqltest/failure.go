package graphqltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Failure makes requests fail. Each server has its own kinds of failures.
type Failure struct {
	Kind string `json:"kind"`
	// Times is how many requests fail: one if 0, all until ClearFailures if negative.
	Times int `json:"times"`
	// Skip is how many matching requests succeed first.
	Skip int `json:"skip"`
	// Operation confines the failure to requests with this operation name or root field; any if empty. Only Linear has it.
	Operation string `json:"operation"`

	// Of Linear's answers.
	Status  int    `json:"status"`
	Body    string `json:"body"`
	Message string `json:"message"`
	DelayMS int64  `json:"delay_ms"`

	// Of rate limits: the milliseconds until Linear's ends; the end of GitHub's as Unix time, in 2033 if 0; and Retry-After in seconds.
	ResetMS    int64 `json:"reset_ms"`
	Reset      int64 `json:"reset"`
	RetryAfter int   `json:"retry_after"`

	// Of a malformed issue: the field, the issue or else the first one in the answer, and the value instead, null by default.
	Field string          `json:"field"`
	Issue any             `json:"issue"`
	Value json.RawMessage `json:"value"`
}

// Failures are those that a test has ordered. They apply in the order in which they were added. Their methods are safe for concurrent use.
type Failures struct {
	Kinds []string // that the server knows
	mu    sync.Mutex
	list  []*Failure
}

// Fail adds a failure. An unknown kind is an error.
func (l *Failures) Fail(f Failure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.Kinds, f.Kind) {
		return fmt.Errorf("unknown kind of failure %q", f.Kind)
	}
	f.Times = cmp.Or(f.Times, 1)
	l.list = append(l.list, &f)
	return nil
}

// ClearFailures ends all failures.
func (l *Failures) ClearFailures() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// Next returns the failure that applies to a request, and counts it; nil for none.
func (l *Failures) Next(applies func(*Failure) bool) *Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, f := range l.list {
		if !applies(f) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			l.list = slices.Delete(l.list, i, i+1)
		}
		return f
	}
	return nil
}

// Spoil replaces the field of the failure in an answer: in the first object that has it, or that of the issue.
func (f *Failure) Spoil(answer any, isIssue func(object map[string]any) bool) bool {
	switch v := answer.(type) {
	case map[string]any:
		if _, has := v[f.Field]; has && (f.Issue == nil || isIssue(v)) {
			v[f.Field] = f.Value
			return true
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if f.Spoil(v[key], isIssue) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return f.Spoil(one, isIssue) })
	}
	return false
}
