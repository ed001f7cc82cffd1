package reconcile

import (
	"slices"
	"testing"
	"time"
)

// An allowance that is used up is told of once, though codex's word on when it comes back differs a little, and though
// every report of it is newer than the last; the next time it is another one.
func TestLimitAttention(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	l := Limit{Window: "primary", Since: now, Until: now.Add(4 * time.Hour)}
	first := LimitAttention(l, "/home/ann/.codex", now)
	if want := "nothing is started: agent_quota: codex's primary limit of /home/ann/.codex is used up until 12:00"; first.Text != want {
		t.Errorf("it says %q", first.Text)
	}
	if first.Kind != AttentionBlocked || !first.At.Equal(now) {
		t.Errorf("it is %+v", first)
	}
	l.Since, l.Until = now.Add(time.Hour), l.Until.Add(-3*time.Second)
	if again := LimitAttention(l, "/home/ann/.codex", now.Add(time.Hour)); again.Key != first.Key {
		t.Errorf("%s is told as %s", first.Key, again.Key)
	}
	// Also where the time lies between two hours.
	l.Until = now.Add(4*time.Hour + 30*time.Minute)
	first = LimitAttention(l, "/home/ann/.codex", now)
	l.Until = l.Until.Add(-3 * time.Second)
	again := LimitAttention(l, "/home/ann/.codex", now.Add(time.Hour))
	if again.Key != first.Key && !slices.Contains(again.Alike, first.Key) {
		t.Errorf("%s is told as %s", first.Key, again.Key)
	}
	l.Until = l.Until.Add(5 * time.Hour)
	if next := LimitAttention(l, "/home/ann/.codex", now.Add(5*time.Hour)); next.Key == first.Key || slices.Contains(next.Alike, first.Key) {
		t.Errorf("%s is told once for two", next.Key)
	}
}
