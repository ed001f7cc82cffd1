package reconcile

import (
	"strings"
	"testing"
	"time"
)

// The first agent whose account can be used takes an issue; an issue in work stays with the
// agent that worked on it last, as long as that can.
func TestChooseAgent(t *testing.T) {
	first := Agent{Kind: "codex", Home: "/h/.codex"}
	second := Agent{Kind: "codex", Home: "/h/.codex-2"}
	claude := Agent{Kind: "claude", Home: "/h/.claude"}
	usedUp := func(a Agent) Account {
		return Account{Agent: a, Limit: &Limit{Window: "primary", Until: noon.Add(time.Hour)}}
	}
	blocked := func(a Agent, next time.Duration) Account { return Account{Agent: a, Block: authBlock(1, next)} }
	by := func(a Agent) func(*Claim) { return func(c *Claim) { c.Agent = a } }
	label := func(name string) func(*Issue) { return func(i *Issue) { i.Labels = []string{name} } }
	for _, row := range []struct {
		rule     string
		accounts []Account
		issue    Issue
		claim    func(*Claim) // nil for a new issue
		want     string
	}{
		{"the first", nil, issueNo(1), nil, "codex of /h/.codex"},
		{
			"the next account of the same kind",
			[]Account{usedUp(first)},
			issueNo(1),
			nil,
			"codex of /h/.codex-2",
		},
		{
			"another kind",
			[]Account{usedUp(first), blocked(second, time.Minute)},
			issueNo(1),
			nil,
			"claude",
		},
		{
			"none, and the first that can again ends the wait",
			[]Account{usedUp(first), blocked(second, time.Minute), blocked(claude, time.Minute)},
			issueNo(1),
			nil,
			"rate_limited until 12:01: the primary limit of /h/.codex is used up until 13:00; " +
				"codex of /h/.codex-2: agent_auth: log in; claude: agent_auth: log in",
		},
		{"a new issue tests a block", []Account{blocked(first, 0)}, issueNo(1), nil, "codex of /h/.codex, a probe"},
		{
			"another project tests it",
			[]Account{{Agent: first, Block: authBlock(1, 0), Probing: true}},
			issueNo(1),
			nil,
			"codex of /h/.codex-2",
		},
		{"an issue stays with its agent", nil, issueNo(1), by(claude), "claude"},
		{
			"it stays, and tests nothing",
			[]Account{blocked(first, 0)},
			issueNo(1),
			by(claude),
			"claude",
		},
		{
			"its agent is at its limit",
			[]Account{usedUp(second)},
			issueNo(1),
			by(second),
			"codex of /h/.codex",
		},
		{
			"its agent is not in the workflow any more",
			nil,
			issueNo(1),
			by(Agent{Kind: "gemini", Home: "/h/.gemini"}),
			"codex of /h/.codex",
		},
		{"a label chooses", nil, issueNo(1, label("hard")), nil, "claude"},
		{
			"a label that came later",
			nil,
			issueNo(1, label("hard")),
			by(first),
			"claude",
		},
		{
			"a chosen agent has no other",
			[]Account{blocked(claude, time.Minute)},
			issueNo(1, label("hard")),
			nil,
			"blocked: claude: agent_auth: log in",
		},
		{"a label that chooses no agent", nil, issueNo(1, label("easy")), nil, "codex of /h/.codex"},
		{
			"what a person wants goes to an agent that can",
			[]Account{blocked(first, time.Minute)},
			issueNo(1),
			func(c *Claim) { c.Wanted = true },
			"codex of /h/.codex-2",
		},
		{
			"and tests a block if none can",
			[]Account{usedUp(first), blocked(second, time.Minute), blocked(claude, time.Minute)},
			issueNo(1),
			func(c *Claim) { c.Wanted = true },
			"codex of /h/.codex-2, a probe",
		},
	} {
		t.Run(row.rule, func(t *testing.T) {
			s := newScene()
			s.Policy.Agents = []Agent{first, second, claude}
			s.Policy.AgentsByLabel = []LabelAgents{{Label: "easy"}, {Label: "hard", Agents: []Agent{claude}}}
			s.Accounts = row.accounts
			if row.claim == nil {
				s.candidates(row.issue)
			} else {
				s.claim(row.issue, row.claim).same()
			}
			equal(t, "agent", agentStory(Compute(s.Snapshot), s.Policy), row.want)
		})
	}
}

// agentStory says which agent works on the only issue of a plan, or why none does.
func agentStory(plan Plan, pol Policy) string {
	for _, a := range plan.Actions {
		if a.Kind != ActDispatch {
			continue
		}
		line := pol.AgentName(a.Change.Insert.Agent)
		if a.Change.Claim.Agent != a.Change.Insert.Agent {
			line += ", not its claim's"
		}
		if a.Probe != nil {
			line += ", a probe"
		}
		return line
	}
	o := plan.Obstacle
	skip := append(plan.Skips, plan.Waits...)[0]
	line := skip.Reason
	if o != nil && o.Message == skip.Message {
		line += " until " + o.Until.Format("15:04")
	}
	return line + ": " + skip.Message
}

// Of two new issues one tests a block of the first agent, the other goes to the next agent.
func TestOneIssueTestsAnAccount(t *testing.T) {
	codex := Agent{Kind: "codex"}
	claude := Agent{Kind: "claude"}
	s := newScene().candidates(issueNo(1), issueNo(2))
	s.Policy.Agents = []Agent{codex, claude}
	s.Accounts = []Account{{Agent: codex, Block: authBlock(1, 0)}, {Agent: claude}}
	var got []string
	for _, a := range Compute(s.Snapshot).Actions {
		if a.Kind == ActDispatch {
			got = append(got, strings.TrimSpace(a.Identifier+" "+a.Change.Insert.Agent.Kind+" "+a.Reason))
		}
	}
	equal(t, "runs", strings.Join(got, "; "), "A-1 codex probe; A-2 claude")
	equal(t, "the snapshot", s.Accounts[0].Block.Tries, 1)
}

// A fault of an account that the workflow does not use any more blocks nothing.
func TestFaultOfOldAccount(t *testing.T) {
	codex := Agent{Kind: "codex"}
	claude := Agent{Kind: "claude"}
	for _, row := range []struct {
		agents []Agent
		blocks bool
	}{
		{[]Agent{codex, claude}, true},
		{[]Agent{claude}, false},
	} {
		s := newScene().running(issueNo(1), func(_ *Claim, r *Run) {
			r.Agent = codex
			r.Outcome = Failed
			r.ErrorCode = CodeAgentQuota
		})
		s.Policy.Agents = row.agents
		p := compute(s.Snapshot)
		equal(t, "blocked", p.s.AgentBlock != nil, row.blocks)
		equal(t, "agent", p.claims[issueNo(1).ID].Agent, codex)
	}
}
