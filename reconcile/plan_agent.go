package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Agent is an agent that may work on issues: its kind, and the account that it uses.
type Agent struct {
	Kind string // such as claude
	Home string // the directory of its login, which stands for the account
}

// LabelAgents are the agents for the issues with a label. Without agents the usual ones work on
// them.
type LabelAgents struct {
	Label  string // in lower case
	Agents []Agent
}

// AgentsFor returns the agents that may work on an issue with these labels, in order. The
// first label of AgentsByLabel that the issue has counts.
func (p Policy) AgentsFor(labels []string) []Agent {
	i := slices.IndexFunc(p.AgentsByLabel, func(l LabelAgents) bool { return slices.Contains(labels, l.Label) })
	switch {
	case i >= 0 && len(p.AgentsByLabel[i].Agents) > 0:
		return p.AgentsByLabel[i].Agents
	case len(p.Agents) > 0:
		return p.Agents
	}
	return []Agent{{}}
}

// AllAgents returns every agent of the policy once.
func (p Policy) AllAgents() []Agent {
	all := p.AgentsFor(nil)
	for _, row := range p.AgentsByLabel {
		for _, a := range row.Agents {
			if !slices.Contains(all, a) {
				all = append(slices.Clip(all), a)
			}
		}
	}
	return all
}

// AgentName is how messages name an agent: by its kind, and by its home if other agents of the
// policy are of the same kind.
func (p Policy) AgentName(a Agent) string {
	isOther := func(other Agent) bool { return other.Kind == a.Kind && other.Home != a.Home }
	if slices.ContainsFunc(p.AllAgents(), isOther) {
		return a.Kind + " of " + a.Home
	}
	return a.Kind
}

// Account is the state of an agent's account, which all projects share, as a pass read it.
type Account struct {
	Agent
	Limit   *Limit // a part of the account's allowance that is used up; nil if none is known
	Block   *Block // a fault of login or allowance that a run of any project met; nil for none
	Probing bool   // a run that tests whether the block is over is alive
	// Over is when a limit or a block last ended, zero if unknown. Faults of runs that began
	// before it are outdated.
	Over time.Time
}

// Limit is a window of the account's allowance that is used up.
type Limit struct {
	Window       string // in the agent's words: primary, secondary
	Since, Until time.Time
}

// Text names the used-up allowance and its end, in the time zone of now.
func (l Limit) Text(home string, now time.Time) string {
	return fmt.Sprintf("the %s limit of %s is used up until %s", l.Window, home, clockOf(l.Until, now))
}

// Slots count the runs that SYMPHONY_MAX_AGENTS allows an account.
type Slots struct {
	Home  string // by which messages name the account
	Free  int    // reserved for this pass
	Taken int    // taken by live runs, and by passes that are about to start runs
	Max   int
}

// MaxAgentsVar is the environment variable that bounds the live runs of an account over all
// projects.
const MaxAgentsVar = "SYMPHONY_MAX_AGENTS"

// account returns the state of an agent's account. If it is not known, the account counts as
// one without faults.
func (s *Snapshot) account(a Agent) Account {
	i := slices.IndexFunc(s.Accounts, func(known Account) bool { return known.Agent == a })
	if i < 0 {
		return Account{Agent: a}
	}
	return s.Accounts[i]
}

// setBlock sets the block of an account in the snapshot. The slice of the original snapshot
// stays unchanged.
func (s *Snapshot) setBlock(a Agent, b *Block) {
	s.Accounts = slices.Clone(s.Accounts)
	for i := range s.Accounts {
		if s.Accounts[i].Agent == a {
			s.Accounts[i].Block = b
		}
	}
}

// hasAccounts reports whether runs use the accounts of this machine: other machines have their
// own.
func (s *Snapshot) hasAccounts() bool { return len(s.Policy.Hosts) == 0 }

// chooseAgent returns the agent for a contender's run: the first of its agents that can take
// it. If none can, the obstacle says why. Only if no other agent can take a run that a person
// wants, the run tests whether the block of the first one is over.
func (d *dispatch) chooseAgent(c contender) (Agent, *Obstacle) {
	order := d.s.agentsFor(c)
	if !d.s.hasAccounts() {
		return order[0], nil
	}
	var obstacles []*Obstacle
	for _, a := range order {
		o := d.agentObstacle(a)
		if o == nil {
			return a, nil
		}
		obstacles = append(obstacles, o)
	}
	isBlocked := func(o *Obstacle) bool { return o.Reason == SkipBlocked }
	if i := slices.IndexFunc(obstacles, isBlocked); i >= 0 && d.s.isWanted(c) {
		return order[i], nil
	}
	return order[0], joinObstacles(obstacles)
}

// agentsFor returns the agents for a contender, in order. The agent that worked on a claimed
// issue last goes on with it, as long as it can.
func (s *Snapshot) agentsFor(c contender) []Agent {
	order := s.Policy.AgentsFor(c.issue.Labels)
	if c.claim == nil {
		return order
	}
	at := slices.Index(order, c.claim.Agent)
	if at <= 0 {
		return order
	}
	return slices.Concat(order[at:at+1], order[:at], order[at+1:])
}

// agentObstacle returns why an agent's account can take no run now, nil if it can. While the
// account is blocked, a single run at a time tests whether that is over.
func (d *dispatch) agentObstacle(a Agent) *Obstacle {
	account := d.s.account(a)
	if account.Limit != nil {
		return &Obstacle{
			Reason:  SkipRateLimited,
			Message: account.Limit.Text(a.Home, d.s.Now),
			Until:   account.Limit.Until,
		}
	}
	b := account.Block
	if b == nil {
		return nil
	}
	tester := d.testers[a]
	if tester == "" && !account.Probing && !d.s.Now.Before(b.NextTry) {
		return nil
	}
	o := b.obstacle(tester)
	if len(d.s.Policy.AllAgents()) > 1 {
		o.Message = d.s.Policy.AgentName(a) + ": " + o.Message
	}
	return o
}

// findTesters finds the live runs that test whether the blocks of accounts are over.
func (d *dispatch) findTesters() {
	d.testers = map[Agent]string{}
	for _, account := range d.s.Accounts {
		if account.Block == nil {
			continue
		}
		isItsRun := func(r Run) bool { return r.Host == "" && r.Agent == account.Agent }
		d.testers[account.Agent] = d.testerOf(*account.Block, isItsRun)
	}
}

// testerOf returns the issue of a live run that tests whether a block is over, "" for none.
func (d *draft) testerOf(b Block, isConcerned func(Run) bool) string {
	for _, r := range d.s.Runs {
		if d.runs[r.ID] != nil && isConcerned(r) && b.startedUnder(r) {
			return r.Identifier
		}
	}
	return ""
}

// joinObstacles returns the obstacle of several agents together, which ends when the first of
// theirs does.
func joinObstacles(list []*Obstacle) *Obstacle {
	if len(list) == 1 {
		return list[0]
	}
	joined := *list[0]
	var messages []string
	for _, o := range list {
		messages = append(messages, o.Message)
		joined.Tester = cmp.Or(joined.Tester, o.Tester)
		if joined.Until.IsZero() || !o.Until.IsZero() && o.Until.Before(joined.Until) {
			joined.Until = o.Until
		}
	}
	joined.Message = strings.Join(messages, "; ")
	return &joined
}
