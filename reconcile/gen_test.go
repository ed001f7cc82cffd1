package reconcile

import (
	"fmt"
	"time"

	"pgregory.net/rapid"
)

// draw makes arbitrary snapshots that a database and a tracker can give: a running claim has its unsettled run,
// and what the tracker says by id and in the list of candidates is one truth.
type draw struct {
	*rapid.T
	*scene
	truth []Issue
}

func pick[V any](d *draw, label string, of ...V) V { return rapid.SampledFrom(of).Draw(d.T, label) }

func (d *draw) flag(label string) bool { return rapid.Bool().Draw(d.T, label) }

// rarely is true once in eight times.
func (d *draw) rarely(label string) bool { return rapid.IntRange(0, 7).Draw(d.T, label) == 7 }

func (d *draw) upTo(n int, label string) int { return rapid.IntRange(0, n).Draw(d.T, label) }

func (d *draw) ago(label string) time.Time {
	return noon.Add(-time.Duration(rapid.IntRange(0, 3000).Draw(d.T, label)) * time.Second)
}

// drawSnapshot draws a snapshot of up to eight issues.
func drawSnapshot(t *rapid.T) Snapshot {
	d := &draw{T: t, scene: newScene()}
	d.policy()
	for n := 1; n <= rapid.IntRange(1, 8).Draw(t, "issues"); n++ {
		d.issue(n)
	}
	for n := d.upTo(3, "commands"); n > 0; n-- {
		d.command(pick(d, "verb", VerbStop, VerbHold, VerbRetry, VerbStopAll, VerbPause, VerbResume), pick(d, "of", d.truth...))
	}
	d.Paused, d.DispatchOff = d.rarely("paused"), d.rarely("dispatch off")
	d.FreeBytes = pick[int64](d, "free", -1, -1, 1<<40, 1)
	if d.rarely("blocked") {
		d.AgentBlock = &Block{Code: "network", Since: d.ago("since"), NextTry: noon.Add(time.Duration(d.upTo(20, "next")-10) * time.Minute), Tries: d.upTo(9, "tries")}
	}
	if d.upTo(4, "tracker") > 0 {
		d.tracker()
	}
	if d.rarely("only") {
		d.Only, d.AnySlot = pick(d, "this", d.truth...).ID, d.flag("any slot")
	}
	return d.Snapshot
}

func (d *draw) policy() {
	d.Policy.MaxConcurrent = d.upTo(6, "slots")
	if d.flag("limit a state") {
		d.Policy.MaxByState["todo"] = d.upTo(3, "slots in todo")
	}
	d.Policy.MaxFailures, d.Policy.MaxIdleRuns, d.Policy.MaxRuns = d.upTo(4, "max failures"), d.upTo(4, "max idle"), d.upTo(4, "max runs")
	d.Policy.MaxTokens = int64(d.upTo(3, "max tokens") * 100)
	if d.rarely("labels") {
		d.Policy.RequiredLabels = []string{"agent"}
	}
	if d.rarely("assignee") {
		d.Policy.Assignee = "me"
	}
}

// issue draws an issue, its claim, its run, its workspace.
func (d *draw) issue(n int) {
	is := issueNo(n, inState(pick(d, "state", "Todo", "In Progress")))
	if d.flag("label") {
		is.Labels = []string{"agent"}
	}
	if d.flag("assigned") {
		is.Assignee = &Assignee{ID: "u", IsMe: d.flag("to me")}
	}
	if d.rarely("blocked by") {
		blockedBy(pick(d, "blocker", "Todo", "Done", "?"))(&is)
	}
	before := is
	switch d.upTo(7, "change") {
	case 1:
		is.State = pick(d, "new state", "Todo", "In Progress", "Done", "Human Review")
	case 2:
		commentedAt(d.ago("comment"))(&is)
	}
	d.truth = append(d.truth, is)
	if d.flag("workspace") {
		d.workspace(is)
	}
	switch d.upTo(4, "status") {
	case 0:
		if d.rarely("cleanup") {
			d.cleanup(is)
		}
	case 1:
		d.claim(before, d.anyClaim)
	case 2:
		d.held(before, pick(d, "hold", HoldOperator, HoldMaxFailures, HoldInterrupted))
	default:
		d.running(before, func(c *Claim, r *Run) {
			status, run := c.Status, c.RunID
			d.anyClaim(c)
			c.Status, c.RunID = status, run
			c.HoldNext = d.rarely("hold next")
			d.anyRun(r)
		})
		d.anyLife("run-" + is.Identifier)
	}
}

func (d *draw) anyClaim(c *Claim) {
	c.Kind = pick(d, "kind", Continuation, Backoff, Interrupted, Blocked, NoSlot, Requested)
	c.Attempt, c.Failures, c.IdleRuns = d.upTo(5, "attempt"), d.upTo(4, "failures"), d.upTo(3, "idle")
	c.Runs, c.Interruptions = d.upTo(4, "runs"), d.upTo(3, "interruptions")
	c.DueAt = noon.Add(time.Duration(d.upTo(20, "due")-15) * time.Minute)
	d.Tokens[c.IssueID] = int64(d.upTo(4, "tokens") * 100)
	if d.rarely("project") {
		c.Project = otherProject
	}
}

func (d *draw) anyRun(r *Run) {
	r.StartedAt, r.Attempt, r.TurnsDone = d.ago("started"), d.upTo(5, "attempt"), d.upTo(1, "turns")
	r.Tokens.Total = int64(d.upTo(3, "tokens of the run") * 10)
	r.Phase = pick(d, "phase", Starting, StreamingTurn)
	r.Worker.Boot = pick(d, "boot", thisBoot, thisBoot, "boot-1")
	if d.rarely("stopped") {
		r.StopReason = pick(d, "stop reason", StopTerminal, StopMissing, StopOperator, StopAll, StopProject)
	}
	if !d.flag("ended") {
		return
	}
	r.Outcome = pick(d, "outcome", Succeeded, Failed, TimedOut, Stalled, Canceled, InterruptedRun, Lost)
	r.ErrorCode = pick(d, "code", "", "turn_failed", "workspace_busy", "network", "agent_auth", "linear_api_request")
	r.EndedAt = r.StartedAt.Add(time.Second)
}

func (d *draw) anyLife(id string) {
	d.Liveness[id] = pick(d, "life", Liveness{}, Liveness{}, Liveness{Alive: true}, Liveness{Alive: true}, Liveness{Left: []Process{{PID: 7}}})
}

func (d *draw) cleanup(i Issue) {
	r := Run{ID: "clean-" + i.Identifier, Kind: CleanupRun, IssueID: i.ID, Identifier: i.Identifier, Issue: i, StartedAt: d.ago("started")}
	if d.flag("ended") {
		r.Outcome = pick(d, "outcome", Succeeded, Failed)
	}
	d.Runs = append(d.Runs, r)
	d.anyLife(r.ID)
}

// tracker answers with the truth, less the issues that are hidden.
func (d *draw) tracker() {
	d.SweepDue = d.rarely("sweep")
	var seen []Issue
	for n, i := range d.truth {
		if !d.rarely(fmt.Sprintf("A-%d hidden", n+1)) {
			seen = append(seen, i)
		}
	}
	d.answer(seen...)
	t := d.tracked()
	claimed := map[string]bool{}
	for _, c := range d.Claims {
		claimed[c.IssueID] = true
	}
	for id := range t.Asked {
		if !claimed[id] && !d.SweepDue {
			delete(t.Asked, id)
			delete(t.ByID, id)
		}
	}
	t.Low = d.rarely("low")
	if d.upTo(4, "fetched") > 0 && !d.DispatchOff {
		for _, i := range seen {
			if d.Policy.Active(i.State) {
				d.candidates(i)
			}
		}
		t.Fetched = true
	}
}
