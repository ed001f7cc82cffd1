package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// TraceID returns the id of the trace that shows a run. It follows from the run's id, so that a run has the same one in each export and in
// the agent's own spans.
func TraceID(runID string) string { return hashed(16, "trace", runID) }

// SpanID returns the id of a span within the trace of a run. The parts tell it from the run's other spans.
func SpanID(runID string, parts ...string) string {
	return hashed(8, append([]string{"span", runID}, parts...)...)
}

// TurnSpanID returns the id of the span of a turn, from 1.
func TurnSpanID(runID string, turn int) string { return SpanID(runID, "turn", strconv.Itoa(turn)) }

// Traceparent returns the context of the spans that the agent itself makes in a turn, as the W3C writes it.
func Traceparent(runID string, turn int) string {
	return "00-" + TraceID(runID) + "-" + TurnSpanID(runID, turn) + "-01"
}

func hashed(size int, parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:size])
}
