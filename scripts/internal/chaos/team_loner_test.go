//go:build linux

package chaos

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/team"
)

// addLoner adds a machine that somebody has set up without repository.claims. Its agents do nothing.
func (s *teamScene) addLoner() {
	s.addMachine(len(s.machines))
	m := s.machines[len(s.machines)-1]
	s.machines = s.machines[:len(s.machines)-1]
	m.ahead = 0
	m.setClocks()
	var lines []string
	for line := range strings.Lines(string(stage.Get(os.ReadFile(m.Workflow)))) {
		if !strings.HasPrefix(line, "  claims:") {
			lines = append(lines, line)
		}
	}
	text := strings.Replace(strings.Join(lines, ""), "{{ issue.description }}\n", "```agent\nsh true\n```\n", 1)
	stage.Must(os.WriteFile(m.Workflow, []byte(text), 0o600))
	s.loner = m
}

// lonerRun is a run there with an agent, from its begin to its end, in milliseconds. It looks for the claim
// before the agent starts.
type lonerRun struct {
	issue    string
	from, to int64
}

// readLoner reads the runs of the machine without claims.
func (s *teamScene) readLoner(ctx context.Context) {
	c := checker{scene: &scene{Project: s.loner.Project}}
	for _, row := range c.query(ctx, `SELECT identifier || ' ' || started_at || ' ' || ended_at FROM runs
		WHERE turns > 0 AND ended_at IS NOT NULL`) {
		w := strings.Fields(row)
		s.lonerRuns = append(s.lonerRuns, lonerRun{
			issue: w[0],
			from:  stage.Get(strconv.ParseInt(w[1], 10, 64)),
			to:    stage.Get(strconv.ParseInt(w[2], 10, 64)),
		})
	}
}

// held says since when the issue of a claim was always claimed, by issue, in milliseconds.
type held map[string]int64

// note notes a change of a claim. It checks the starts that were made while the claim was there.
func (s *teamScene) note(h held, c change) {
	before := s.claimIn(c.old)
	after := s.claimIn(c.new)
	isHeld := func(c *team.Claim) bool { return c != nil && c.Status != team.Free }
	switch {
	case !isHeld(before) && isHeld(after):
		h[after.Identifier] = c.after
	case isHeld(before) && !isHeld(after):
		s.checkStarts(before.Identifier, h[before.Identifier], c.before)
		delete(h, before.Identifier)
	}
}

// checkStarts checks that the machine without claims has started no agent while an issue was claimed.
func (s *teamScene) checkStarts(issue string, since, until int64) {
	for _, run := range s.lonerRuns {
		if run.issue == issue && since > 0 && since < run.from && run.to < until {
			s.fault("starts beside a claim", "%s at %d, claimed from %d to %d", issue, run.from, since, until)
		}
	}
}
