package codex

import (
	"encoding/json"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Reports that can't be true, and the window of a conversation that does not fit, count nothing.
func TestCountsOnlyTokensThatWereUsed(t *testing.T) {
	u := &usage{used: map[string]agent.Usage{}}
	for _, c := range []struct {
		report string
		total  int64
		isSaid bool
	}{
		{`{"total": {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}}`, 110, false},
		{`{"total": {"totalTokens": 258400}, "modelContextWindow": 258400}`, 110, false},
		{`{"total": {"inputTokens": -5, "outputTokens": 10}}`, 110, true},
		{`{"total": {"inputTokens": 4611686018427387904, "outputTokens": 1}}`, 110, true},
		{`{"total": {}}`, 110, false},
	} {
		_, err := u.count("thread", json.RawMessage(c.report))
		test.Equal(t, "an error for "+c.report, err != nil, c.isSaid)
		test.Equal(t, "total after "+c.report, u.Usage().Total, c.total)
	}
}
