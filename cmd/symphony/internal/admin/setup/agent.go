package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/proc"
)

// AgentNames are the values of --agent; the first is the default. The kind acp is missing,
// because init does not know its command.
func AgentNames() []string {
	hasCommand := func(kind string) bool { return workflow.AgentCommand(kind) != "" }
	return text.Filter(workflow.AgentKinds(), hasCommand)
}

// findAgent sets the agent: what --agent names, or the default. If that is missing and another agent
// is installed, a terminal asks, and elsewhere agentSummary says so.
func (s *starter) findAgent(ctx context.Context) error {
	proposal := s.proposeAgent()
	given := s.options.Agent
	if given == "" && (proposal == workflow.DefaultAgent || !s.interactive) {
		given = workflow.DefaultAgent
	}
	what := "Agent (" + strings.Join(AgentNames(), ", ") + ")"
	if err := s.setValue(ctx, what, "--agent", given, proposal, s.setAgent); err != nil {
		return err
	}
	return s.findModel(ctx)
}

// proposeAgent returns the first agent of AgentNames that is installed, else the default.
func (s *starter) proposeAgent() string {
	for _, name := range AgentNames() {
		if s.installed(name) {
			return name
		}
	}
	return workflow.DefaultAgent
}

// installed reports whether the program of an agent is in PATH.
func (s *starter) installed(agent string) bool {
	return proc.LookPath(agentProgram(agent), s.w.Environ) != ""
}

// agentProgram is the program that starts an agent, such as opencode.
func agentProgram(agent string) string {
	program, _, _ := strings.Cut(workflow.AgentCommand(agent), " ")
	return program
}

// checkAgentName refuses an agent that init does not know.
func checkAgentName(name string) error {
	names := AgentNames()
	if slices.Contains(names, name) {
		return nil
	}
	more := ""
	if suggest.Nearest(name, names) == "" {
		more = "; docs/agents.md says how WORKFLOW.md names others (agent.kind: acp)"
	}
	return exit.Usage("init: unknown agent %q, %s%s", name, suggest.Instead(name, names), more)
}

func (s *starter) setAgent(_ context.Context, name string) error {
	if err := checkAgentName(name); err != nil {
		return err
	}
	if s.answers.Example == reviewExample && name != workflow.DefaultAgent {
		return exit.Usage(
			"init: --example review works only with --agent %s, whose sandbox lets a reviewer write nothing",
			workflow.DefaultAgent,
		)
	}
	s.answers.Agent = name
	return nil
}

// findModel sets the model, which some agents need.
func (s *starter) findModel(ctx context.Context) error {
	s.answers.Model = strings.TrimSpace(s.options.Model)
	if s.answers.Model != "" || !workflow.NeedsModel(s.answers.Agent) {
		return nil
	}
	const example = "such as anthropic/claude-opus-5"
	if !s.interactive {
		return exit.Usage(
			"init: --agent %s needs --model, %s: it would choose one itself, perhaps of another provider",
			s.answers.Agent,
			example,
		)
	}
	model, err := s.ask(ctx, "Model, "+example, "model", "")
	s.answers.Model = model
	return err
}

// agentSummary tells what the operator should know about the agent.
func (s *starter) agentSummary() (lines []string) {
	kind, err := wiring.AgentOf(s.answers.Agent)
	if err != nil {
		return nil
	}
	program := agentProgram(kind.Name)
	proposal := s.proposeAgent()
	switch {
	case s.installed(kind.Name):
	case kind.Name == workflow.DefaultAgent && proposal != workflow.DefaultAgent:
		const line = "%s is not installed, but %s is: symphony init --agent %s writes a workflow for it"
		lines = append(lines, fmt.Sprintf(line, kind.Title, agentProgram(proposal), proposal))
	case kind.Name != workflow.DefaultAgent:
		lines = append(lines, fmt.Sprintf("%s is not installed: %s", program, kind.Install))
	}
	if !kind.Sandboxes && proc.LookPath("bwrap", s.w.Environ) == "" {
		const line = "bubblewrap is not installed, which makes the sandbox of %s: apt-get install bubblewrap"
		lines = append(lines, fmt.Sprintf(line, kind.Title))
	}
	return lines
}
