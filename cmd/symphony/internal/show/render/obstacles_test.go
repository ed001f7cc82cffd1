package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
)

// TestBlockIsWrapped checks that the end of a block is on the screen, however narrow it is.
func TestBlockIsWrapped(t *testing.T) {
	until := now.Add(59 * time.Minute)
	page := &bytes.Buffer{}
	w := &term.Env{Env: environ.Env{Now: func() time.Time { return now }}, Stdout: page, Width: 40}
	v := view.Overview{
		GeneratedAt: now,
		ProjectBlock: &wiring.BlockedRow{
			Reason:  "agent_quota",
			Message: "used up until 04:07",
			Since:   now,
			NextTry: until,
			Until:   &until,
		},
	}
	v.Project.Name = "web-shop"
	v.Schedule = true
	v.SetObstacles(nil)
	printObstacles(w, v, true)
	test.Equal(t, "the first lines", strings.SplitAfterN(page.String(), "\n", 4)[:3], []string{
		"BLOCKED  web-shop: agent_quota: used up\n", "         until 04:07 (ends in 59m)\n",
		"         nothing to do: the account's\n",
	})
}
