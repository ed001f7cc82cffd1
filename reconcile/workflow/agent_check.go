package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// ofCodex are the keys that only codex has.
var ofCodex = []string{
	"codex.command", "codex.trust_launcher", "codex.home", "codex.model", "codex.effort", "codex.inherit",
	"codex.approval_policy", "codex.thread_sandbox", "codex.turn_sandbox_policy", "agent.trust_repository",
	"agent.on_question",
}

// ofSandboxes are the keys that an agent without a sandbox does not have.
var ofSandboxes = append([]string{"agent.network", "agent.writable_roots", "agent.pass_env"}, ofBoxes...)

// ofBoxes are the keys of symphony's own sandbox.
var ofBoxes = []string{"agent.max_processes", "agent.max_memory_bytes"}

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
	if !slices.Contains(kinds, AgentCodex) {
		for _, key := range ofCodex {
			r.warnKey(key, "no effect with agent.kind: "+own.Kind)
		}
	} else {
		r.checkCodexSandbox()
	}
	others := own.others()
	if len(others) == 0 {
		r.checkOnlyCodex()
		return
	}
	for _, kind := range others {
		if !kindNamed(kind).countsNoTokens {
			continue
		}
		for _, key := range []string{"agent.max_tokens", "agent.budget_per_day"} {
			r.warnKey(key, "no effect with agent.kind: "+kind+", which does not report its tokens")
		}
	}
	r.checkSandbox(others)
	r.refuseUnbuilt(others[0])
}

// checkOnlyCodex checks the keys of other kinds for codex.
func (r *reader) checkOnlyCodex() {
	for _, key := range ofOthers {
		hint := ""
		if same := strings.Replace(key, "agent.", "codex.", 1); slices.Contains(ofCodex, same) {
			hint = ": write " + same
		}
		r.warnKey(key, "no effect with agent.kind: codex"+hint)
	}
	if r.cfg.Agent.Key != "" {
		r.fail(
			CodeUnsupportedKey,
			r.field("agent.key"),
			"not built yet with agent.kind: codex",
			"remove the key: log codex in, or set OPENAI_API_KEY",
		)
	}
	switch r.cfg.Agent.Sandbox {
	case "", sandboxCodex, sandboxBwrap:
	default:
		r.invalid(
			r.field("agent.sandbox"),
			"with agent.kind: codex, codex.turn_sandbox_policy says it",
			"remove the key, or write codex.turn_sandbox_policy: {type: dangerFullAccess}",
		)
	}
}

// refuseUnbuilt refuses the keys that need more than other kinds of agents have so far. kind is
// one of the kinds besides codex that may work on issues.
func (r *reader) refuseUnbuilt(kind string) {
	refuse := func(f field, what, kind string) {
		r.fail(
			CodeUnsupportedKey,
			f,
			what+"not built yet with agent.kind: "+kind,
			"remove the key, or use agent.kind: codex",
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
		other := text.First(kinds, func(kind string) bool { return kind != AgentCodex })
		if other != "" {
			at := r.item(r.field("agent.by_label"), i)
			refuse(at, "the sandbox of "+strconv.Quote(row.Label)+" is ", other)
		}
	}
}
