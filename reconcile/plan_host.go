package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Runs on other machines. Each belongs to a host, where its processes and its workspace are;
// its worker, which decides, is here. A run whose worker died may still be at work there: only
// its host, or an operator, can confirm its end.

const (
	// silenceBound is how long workers may hear nothing from a host before it gets no further
	// runs. It ends its runs after LostAfter.
	silenceBound = 30 * time.Second
	// endPause is the time between two workers that try to end a run on its host.
	endPause = 10 * time.Second
)

// endOnHost plans that a run whose worker is dead is ended on its host. Until that is
// confirmed the run is not settled, and nothing else starts for its issue. If its host is
// silent for too long, the claim is held, or the host is given up, as the workflow says.
func (p *planner) endOnHost(r Run, live Liveness) {
	isGone := func(cmd Command) bool { return cmd.Verb == VerbHostGone && cmd.IssueID == r.IssueID }
	// A worker that is alive is killed first. With a block of this machine none can be
	// started. A command about the host comes later.
	if live.Alive || p.s.MachineBlock != nil || slices.ContainsFunc(p.s.Commands, isGone) {
		return
	}
	c := p.claims[r.IssueID]
	silent := p.s.Now.Sub(r.lastHeard()) > 2*p.s.Policy.LostAfter
	message := fmt.Sprintf(
		"%s has not confirmed the end of the run since %s",
		r.Host,
		clockOf(r.lastHeard(), p.s.Now),
	)
	if silent && c != nil && c.Status == Running && c.RunID == r.ID {
		next := p.s.hold(*c, HoldHostLost, message)
		next.HoldNext = c.HoldNext
		p.act(ActHold, next, HoldHostLost, message, p.put(next))
	}
	if since := p.s.Now.Sub(r.HeartbeatAt); since >= 0 && since < endPause && r.Phase == EndingThere {
		return
	}
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind:       ActEnd,
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		RunID:      r.ID,
		Reason:     string(r.Remote),
		Message:    "on " + r.Host,
	})
}

// lastHeard is when the run's host was last heard of, as far as it is known.
func (r Run) lastHeard() time.Time { return cmp.Or(r.HeardAt, r.StartedAt) }

// Lost returns for how long a worker heard nothing from its host; 0 if that is not long, or
// not known.
func (r Run) Lost(now time.Time) time.Duration {
	silence := now.Sub(r.lastHeard())
	if r.Remote != RemoteBegun || r.Outcome != "" || silence < silenceBound {
		return 0
	}
	return silence
}

// LostHosts returns the hosts from which none of their workers hears anything, each with the
// shortest silence among its workers.
func LostHosts(runs []Run, now time.Time) map[string]time.Duration {
	lost := map[string]time.Duration{}
	for _, r := range runs {
		if r.Remote == RemoteBegun && r.Outcome == "" {
			silence := r.Lost(now)
			if known, found := lost[r.Host]; !found || silence < known {
				lost[r.Host] = silence
			}
		}
	}
	maps.DeleteFunc(lost, func(_ string, silence time.Duration) bool { return silence == 0 })
	return lost
}

// unverifiedHost returns the host on which an earlier run of the issue may still be at work;
// empty if there is none.
func (p *planner) unverifiedHost(issueID string) string {
	for _, r := range p.runsOf[issueID] {
		if p.runs[r.ID] != nil && r.Remote == RemoteBegun {
			return r.Host
		}
	}
	return ""
}

// DeliveryWait is why a delivery waits for the host with the commits, and how the wait ends.
type DeliveryWait struct {
	// Reason is SkipUnverified or SkipBlocked; empty if the delivery does not wait for a host
	Host, Reason string
	Message      string // such as "its commits wait for near: host_unreachable: no route to host"
	Ends         string
	Until        time.Time // when the host is tried again; zero if that is not a matter of time
}

// DeliveryWait returns why the delivery of a claim waits for a host; the zero value if it does
// not.
func (s *State) DeliveryWait(c Claim, now time.Time) DeliveryWait {
	if c.Status != Waiting || !c.Delivery.Due || c.Delivery.WaitsForAgent {
		return DeliveryWait{}
	}
	at := slices.IndexFunc(
		s.Runs,
		func(r Run) bool { return r.IssueID == c.IssueID && r.Remote == RemoteBegun },
	)
	if at < 0 {
		return s.deliveryWait(c, "", now)
	}
	return s.deliveryWait(c, s.Runs[at].Host, now)
}

// deliveryWait is DeliveryWait, given the host on which an earlier run may still be at work.
func (s *State) deliveryWait(c Claim, unverified string, now time.Time) DeliveryWait {
	if unverified != "" {
		return DeliveryWait{
			Host:    unverified,
			Reason:  SkipUnverified,
			Message: "its commits wait for " + unverified + ", where its last run may still be at work",
			Ends: "the host's answer ends the wait; if the host is gone for good: symphony retry --host-is-gone " +
				c.Identifier,
		}
	}
	host := c.Delivery.runsOn()
	b := s.RemoteBlocks[host]
	if !now.Before(b.NextTry) {
		return DeliveryWait{}
	}
	return DeliveryWait{
		Host:   host,
		Reason: SkipBlocked,
		Until:  b.NextTry,
		Message: "its commits wait for " + host + ": " + b.Code + ": " + strings.TrimPrefix(
			b.Message,
			host+": ",
		),
		Ends: "a pass tries the host again; symphony retry " + c.Identifier + " tries now",
	}
}

// remoteWorkspace returns the newest workspace of the issue on a host that may still be used;
// a workspace without a host if there is none.
func (s *Snapshot) remoteWorkspace(issueID string) (newest Workspace) {
	for _, w := range s.RemoteWorkspaces {
		if w.IssueID == issueID && w.Project == s.Policy.Project && !w.Abandoned &&
			slices.Contains(s.Policy.Hosts, w.Host) {
			newest = w // they are in the order of time
		}
	}
	return newest
}

// surveyHosts counts the runs of each host, and finds the hosts that are lost.
func (d *dispatch) surveyHosts() {
	d.onHost = map[string]int{}
	d.lost = LostHosts(
		slices.DeleteFunc(slices.Clone(d.s.Runs), func(r Run) bool { return d.s.Liveness[r.ID].dead() }),
		d.s.Now,
	)
	for _, r := range d.runs {
		if r.Host != "" && r.Kind == AgentRun {
			d.onHost[r.Host]++
		}
	}
}

// chooseHost returns the host for a contender's run, empty for this machine; or the reason why
// none can take it. The issue stays on the host of its workspace. Otherwise the host with the
// fewest runs is chosen, of these the first in the workflow.
func (d *dispatch) chooseHost(c contender) (host, reason, message string) {
	hosts := d.s.Policy.Hosts
	if len(hosts) == 0 {
		return "", "", ""
	}
	home := d.s.remoteWorkspace(c.issue.ID)
	switch {
	case home.Host != "":
		hosts = []string{home.Host}
	case d.noHost != nil && !d.s.isWanted(c): // in this pass no host becomes free
		return "", d.noHost.Reason, d.noHost.Message
	}
	hostsByObstacle := map[string][]string{}
	blocked := "" // the first host that only a block keeps from the run
	reason = SkipBlocked
	for _, h := range hosts {
		obstacle, kind := d.hostObstacle(h)
		switch kind {
		case "":
			if host == "" || d.onHost[h] < d.onHost[host] {
				host = h
			}
			continue
		case SkipNoSlot:
			reason = SkipNoSlot
		case SkipBlocked:
			blocked = cmp.Or(blocked, h)
		}
		hostsByObstacle[obstacle] = append(hostsByObstacle[obstacle], h)
	}
	if host == "" && d.s.isWanted(c) {
		host = blocked
	}
	if host != "" {
		return host, "", ""
	}
	message = hostsText(hostsByObstacle)
	if home.Host == "" {
		d.noHost = &Obstacle{Reason: reason, Message: message}
	}
	return "", reason, message
}

// hostsText says why hosts get no run. Of many hosts with the same reason it names the first
// ones.
func hostsText(hostsByObstacle map[string][]string) string {
	const few = 3
	var parts []string
	for obstacle, hosts := range hostsByObstacle {
		names := strings.Join(hosts[:min(few, len(hosts))], ", ")
		if more := len(hosts) - few; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, names+": "+obstacle)
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// hostObstacle returns why a host gets no further run now, and whether its slots are taken
// (SkipNoSlot), it is lost (SkipUnverified) or blocked (SkipBlocked). Both are empty if it may
// get a run.
func (d *dispatch) hostObstacle(host string) (obstacle, kind string) {
	if limit := d.s.Policy.MaxPerHost; limit > 0 && d.onHost[host] >= limit {
		return slotsText(limit, ""), SkipNoSlot
	}
	if silence := d.lost[host]; silence > 0 {
		return fmt.Sprintf("lost for %v", silence.Round(time.Second)), SkipUnverified
	}
	b, blocked := d.s.RemoteBlocks[host]
	if !blocked {
		return "", ""
	}
	// a single run tests whether the block is over
	tests := func(r Run) bool { return r.Host == host && d.runs[r.ID] != nil && b.startedUnder(r) }
	if d.s.Now.Before(b.NextTry) || slices.ContainsFunc(d.s.Runs, tests) {
		return b.Code + ": " + strings.TrimPrefix(b.Message, host+": "), SkipBlocked
	}
	return "", ""
}

// setRemoteBlock sets the block of a host in the snapshot and returns the blocks to store. A
// block without a code ends it.
func (s *Snapshot) setRemoteBlock(host string, b Block) map[string]Block {
	blocks := map[string]Block{} // the map of the original snapshot stays unchanged
	maps.Copy(blocks, s.RemoteBlocks)
	blocks[host] = b
	if b.Code == "" {
		delete(blocks, host)
	}
	s.RemoteBlocks = blocks
	return map[string]Block{host: b}
}

// hostIsGone carries out the command retry --host-is-gone: the issue's workspace on its host
// counts as abandoned, and a run whose end the host did not confirm counts as ended. The next
// plan settles that run.
func (p *planner) hostIsGone(cmd Command) {
	change := &Change{}
	message := ""
	c := p.claims[cmd.IssueID]
	host := p.s.remoteWorkspace(cmd.IssueID).Host
	if c != nil && host == "" && c.Delivery.Due {
		host = c.Delivery.Host // perhaps it is not in the workflow any more
	}
	for _, r := range p.runs {
		// If the run has its outcome, a worker that is alive only ends it on its host.
		if r.IssueID == cmd.IssueID && r.Remote == RemoteBegun && (!p.s.Liveness[r.ID].Alive || r.Outcome != "") {
			change.HostGone = r.ID
			message = "its run on " + r.Host + " counts as ended"
		}
	}
	if message == "" && host != "" && c != nil && c.Status != Running {
		change = p.put(p.s.startElsewhere(*c))
		message = "its workspace on " + host + " is given up"
	}
	change.Commands = []int64{cmd.ID}
	if message == "" {
		p.update(change)
		return
	}
	p.giveUpHost(cmd.IssueID, cmd.Identifier, message, change)
}

// startElsewhere is freshStart without the commits on a host that was given up.
func (s *Snapshot) startElsewhere(c Claim) Claim {
	c.Delivery = Delivery{}
	return s.freshStart(c, Requested)
}

// giveUpHost plans a change, after which the issue's workspaces on hosts count as abandoned.
func (p *planner) giveUpHost(issueID, identifier, message string, change *Change) {
	change.Abandon = issueID
	p.plan.Actions = append(p.plan.Actions, Action{
		Kind:       ActRetry,
		IssueID:    issueID,
		Identifier: identifier,
		RunID:      change.HostGone,
		Reason:     HoldHostLost,
		Message:    message,
		Change:     change,
	})
}
