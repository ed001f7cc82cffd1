package reconcile

import (
	"testing"
	"time"
)

// An allowance that is used up is told of once, though codex's word on when it comes back differs a little, and though
// every report of it is newer than the last; the next time it is another one.
func TestLimitAttention(t *testing.T) {
	l := Limit{Window: "primary", Since: noon, Until: noon.Add(4 * time.Hour)}
	first := LimitAttention(l, "/home/ann/.codex", noon)
	equal(t, "text", first.Text, "nothing is started: agent_quota: codex's primary limit of /home/ann/.codex is used up until 16:00")
	equal(t, "kind", first.Kind, AttentionBlocked)
	equal(t, "time", first.At, noon)
	for more, same := range map[time.Duration]bool{-3 * time.Second: true, 5 * time.Hour: false} {
		again := Limit{Window: "primary", Since: noon.Add(time.Hour), Until: l.Until.Add(more)}
		equal(t, more.String(), LimitAttention(again, "/home/ann/.codex", noon.Add(time.Hour)).Key == first.Key, same)
	}
}
