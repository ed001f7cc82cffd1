package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// TraceID returns the id of the trace of a run. It follows from the run's id: each export and
// the agent's own spans have the same.
func TraceID(runID string) string { return hashed(16, "trace", runID) }

// SpanID returns the id of a span in the trace of a run. The parts, such as "turn" and its
// number, tell it from others.
func SpanID(runID string, parts ...any) string {
	return hashed(8, append([]any{"span", runID}, parts...)...)
}

// Traceparent returns the W3C's context for the spans that the agent itself makes in a turn.
func Traceparent(runID string, turn int) string {
	return "00-" + TraceID(runID) + "-" + SpanID(runID, "turn", turn) + "-01"
}

func hashed(size int, parts ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:size])
}
