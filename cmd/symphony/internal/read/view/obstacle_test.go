package view

import (
	"errors"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The list has each obstacle once, the worst first: an error of the last pass that is a block is
// not another one.
func TestObstacles(t *testing.T) {
	v := Overview{
		Paused:       true,
		ProjectBlock: &wiring.BlockedRow{Reason: "linear_api_status", Status: 503},
		Disk:         &DiskRow{Message: "/ws is full"},
		Budget:       &BudgetRow{Reached: true, Message: new("used up")},
		Hosts:        []HostRow{{Name: "near", State: HostLost}, {Name: "far", State: HostReady}},
		LastPass: &wiring.LastPassRow{
			Errors: []reconcile.Error{{Code: "linear_api_status"}, {Code: "state_io"}},
		},
	}
	codes := func(list []obstacle.Obstacle) string {
		return strings.Join(text.Map(list, func(o obstacle.Obstacle) string { return o.Code }), " ")
	}
	test.Equal(t, "the list", codes(Obstacles(v, errors.New("bad"))),
		"no_schedule workflow_invalid disk_low pass_failed paused blocked host budget")
	v.Error = &reconcile.Error{Code: "state_corrupt"}
	test.Equal(t, "of an unreadable project", codes(Obstacles(v, nil)), "unreadable")
	test.Equal(t, "of a demo", codes(Obstacles(Overview{Demo: true}, nil)), "")
}
