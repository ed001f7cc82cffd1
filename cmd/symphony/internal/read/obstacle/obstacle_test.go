package obstacle

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

var noon = time.Date(2026, 2, 24, 12, 0, 0, 0, time.UTC)

// Each obstacle has one sentence, for all views.
func TestSentences(t *testing.T) {
	fault := reconcile.Error{Code: "invalid_config", Message: "line 3: agent", Hint: "correct `agent`"}
	block := wiring.BlockedRow{
		Reason:  "agent_auth",
		Message: "not logged in",
		Since:   noon.Add(-3 * time.Minute),
		NextTry: noon.Add(8 * time.Minute),
	}
	limit := wiring.BlockedRow{
		Reason:  "agent_quota",
		Message: "the primary limit is used up until 13:00",
		Since:   noon,
		Until:   new(noon.Add(time.Hour)),
	}
	look := state.LookError{Code: "network", Message: "no route", Since: noon.Add(-time.Hour)}
	for _, c := range []struct {
		o     Obstacle
		level Level
		want  string
	}{
		{NewUnreadable(fault), Error, "the project can't be read: invalid_config: line 3: agent"},
		{NewNoSchedule(time.Time{}, true), Error, "no pass has run yet"},
		{NewNoSchedule(time.Time{}, false), Error, "no schedule is active; no scheduled pass has run yet"},
		{
			NewNoSchedule(noon.Add(-time.Hour), false),
			Error,
			"no schedule is active; its last pass was 1h ago",
		},
		{NewWorkflow(fault), Error, "the workflow is invalid: invalid_config: line 3: agent"},
		{
			NewBlocked(block),
			Error,
			"nothing new starts: agent_auth: not logged in (for 3m, next try in 8m, or now with symphony resume)",
		},
		{
			NewBlocked(limit),
			Note,
			"nothing new starts: agent_quota: the primary limit is used up until 13:00 (ends in 1h)",
		},
		{NewDiskLow("/ws has 1 GiB free"), Error, "nothing new starts: /ws has 1 GiB free"},
		{
			NewPassFailed(fault, noon.Add(-time.Minute), true),
			Error,
			"the last pass failed: invalid_config: line 3: agent (1m ago)",
		},
		{
			NewPullsUnread(look, "merge request"),
			Note,
			"the last look at merge requests failed: network: no route (first 1h ago)",
		},
		{NewHost("near", "network: no route"), Note, "nothing new starts on near: network: no route"},
		{
			NewInstead("codex", "claude", limit),
			Note,
			"claude works in place of codex: agent_quota: the primary limit is used up until 13:00 (ends in 1h)",
		},
		{NewBudget("5 USD used up", noon.Add(time.Hour)), Note, "nothing new starts: 5 USD used up (ends in 1h)"},
		{
			NewRateLimited("the limit of x is used up", noon.Add(time.Hour)),
			Note,
			"nothing new starts: the limit of x is used up (ends in 1h)",
		},
		{NewPaused(), Warning, "the project is paused: nothing new starts until symphony resume"},
	} {
		w := c.o.Words(noon)
		got := w.Full()
		if c.o.Code == NoSchedule {
			got = w.Text
		}
		test.Equal(t, c.o.Code, got, c.want)
		test.Equal(t, c.o.Code+": the level", c.o.Level, c.level)
	}
}

// Why a pass started nothing is the same sentence. An error that the pass prints is not repeated.
func TestOfPass(t *testing.T) {
	later := noon.Add(time.Minute)
	for want, o := range map[string]reconcile.Obstacle{
		"the project is paused: nothing new starts until symphony resume": {Reason: reconcile.SkipPaused},
		"nothing new starts: agent_auth: x (next try in 1m, or now with symphony resume)": {
			Reason:  reconcile.SkipBlocked,
			Message: "agent_auth: x",
			Until:   later,
		},
		"nothing new starts: agent_auth: x (the run of A-1 tests whether it is over)": {
			Reason:  reconcile.SkipBlocked,
			Message: "agent_auth: x",
			Until:   later,
			Tester:  "A-1",
		},
		"nothing new starts: used up (ends in 1m)": {
			Reason:  reconcile.SkipRateLimited,
			Message: "used up",
			Until:   later,
		},
		"nothing new starts: invalid_config": {Reason: "invalid_config", Message: "line 3"},
	} {
		test.Equal(t, o.Reason, OfPass(o, true).Words(noon).Full(), want)
	}
}
