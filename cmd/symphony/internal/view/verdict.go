package view

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// Verdict answers whether a project needs a person.
type Verdict struct {
	Level Level `json:"level"`
	// Reasons are sentences, the most important first. Where all is well, they say why nothing starts nevertheless.
	Reasons []string `json:"reasons"`
}

// Level is the severity of a verdict.
type Level string

// The levels, from the best to the worst.
const (
	LevelWell        Level = "well"
	LevelNeedsPerson Level = "needs_person"
	LevelNotTicking  Level = "not_ticking" // nothing runs passes, so that no other promise is kept
)

// Verdict judges the overview. A block that ends by itself, such as a used-up limit, needs no person.
func (v Overview) Verdict() Verdict {
	out := Verdict{Level: LevelWell, Reasons: []string{}}
	add := func(level Level, format string, args ...any) {
		if level == LevelNotTicking || out.Level == LevelWell {
			out.Level = level
		}
		out.Reasons = append(out.Reasons, fmt.Sprintf(format, args...))
	}
	if !v.Schedule {
		switch v.LastPass {
		case nil:
			add(LevelNotTicking, "no pass has run yet")
		default:
			add(LevelNotTicking, "no schedule is active; the last pass was %s ago", term.Age(v.GeneratedAt, v.LastPass.StartedAt))
		}
	}
	if n := len(v.Requests); n > 0 {
		add(LevelNeedsPerson, "%s to answer", text.Plural(n, "request"))
	}
	counts := map[Status]int{}
	for _, r := range v.Rows {
		counts[r.Status]++
	}
	for _, s := range []Status{StatusHeld, StatusUndelivered, StatusKept} {
		if counts[s] > 0 {
			add(LevelNeedsPerson, "%d %s", counts[s], s)
		}
	}
	if b := v.Blocked; b != nil && !endsByItself[b.Reason] {
		add(LevelNeedsPerson, "blocked: %s: %s", b.Reason, b.Message)
	}
	if v.Paused {
		add(LevelNeedsPerson, "paused")
	}
	if b := v.Budget; b != nil && b.Reached {
		add(LevelWell, "%s", *b.Message)
	}
	return out
}

// endsByItself are the blocks for which an operator can do nothing.
var endsByItself = map[string]bool{"agent_quota": true, "network": true, "tracker_unavailable": true, "tracker_rate_limited": true}
