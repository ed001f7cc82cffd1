package workflow

import (
	"slices"
	"strconv"

	"github.com/symphony-cron/symphony/internal/text"
)

// ofSandboxes are the keys that an agent without a sandbox does not have.
var ofSandboxes = []string{"agent.network", "agent.writable_roots", "agent.pass_env", ofBoxes}

// ofBoxes is the key of symphony's own sandbox.
const ofBoxes = "agent.max_memory_bytes"

// ofOthers are the keys that only other kinds of agents have.
var ofOthers = []string{"agent.command", "agent.model", "agent.effort", "agent.env", "agent.trust"}

// checkAgents checks the keys of the agents, and finds out which agents may work on an issue.
func (r *reader) checkAgents() {
	own := &r.cfg.Agent
	if !slices.Contains(AgentKinds(), own.Kind) {
		return // it was refused
	}
	r.chooseUsual()
	for i := range own.ByLabel {
		row := &own.ByLabel[i]
		if row.Kind != "" {
			set := AgentChoice{Kind: row.Kind, Command: row.Command, Model: row.Model, Effort: row.Effort}
			row.agents = r.choices(r.item(r.field("agent.by_label"), i), set)
		}
	}
	kinds := own.kinds()
	if !slices.Contains(kinds, DefaultAgent) {
		for _, key := range ofDefault {
			r.warnKey(key, "no effect with agent.kind: "+own.Kind)
		}
	} else {
		r.checkOwnSandbox()
	}
	others := own.others()
	if len(others) == 0 {
		r.checkOnlyDefault()
		return
	}
	for _, kind := range others {
		if !kindNamed(kind).hasTrustSwitch {
			r.warnKey("agent.trust_repository", "no effect with agent.kind: "+kind+
				", which symphony can't keep from obeying the repository's files")
		}
		if !kindNamed(kind).countsNoTokens {
			continue
		}
		const why = ", which does not report its tokens"
		r.warnKey("agent.max_tokens", "no effect with agent.kind: "+kind+why)
		if r.cfg.Policy.DailyBudget.Tokens > 0 {
			r.warnKey("agent.budget_per_day", "no effect with agent.kind: "+kind+why)
		}
	}
	r.checkSandbox(others)
	r.refuseUnbuilt(others[0])
}

// refuseUnbuilt refuses the keys that need more than other kinds of agents have so far. kind is
// one of the kinds besides the default that may work on issues.
func (r *reader) refuseUnbuilt(kind string) {
	refuse := func(f field, what, kind string) {
		r.fail(
			CodeUnsupportedKey,
			f,
			what+"not built yet with agent.kind: "+kind,
			"remove the key, or use agent.kind: "+DefaultAgent,
		)
	}
	if len(r.cfg.Policy.Hosts) > 0 {
		for _, key := range []string{"worker.ssh_hosts", "worker.engine.kind"} {
			if f := r.field(key); f.node != nil {
				refuse(f, "", kind)
			}
		}
	}
	usual := text.Map(r.cfg.Agent.agents, func(a AgentChoice) string { return a.Kind })
	for i, row := range r.cfg.Agent.ByLabel {
		if row.Sandbox == nil {
			continue
		}
		kinds := usual
		if row.Kind != "" {
			kinds = []string{row.Kind}
		}
		other := text.First(kinds, func(kind string) bool { return kind != DefaultAgent })
		if other != "" {
			at := r.item(r.field("agent.by_label"), i)
			refuse(at, "the sandbox of "+strconv.Quote(row.Label)+" is ", other)
		}
	}
}
