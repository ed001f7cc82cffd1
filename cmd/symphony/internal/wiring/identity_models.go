package wiring

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// modelMaker is a maker of models besides that of the default agent.
type modelMaker struct {
	begins []string // the beginnings of its models' names
	kind   string   // the agent that has them
}

var modelMakers = []modelMaker{
	{[]string{"claude", "opus", "sonnet", "haiku"}, "claude"},
	{[]string{"gemini"}, "gemini"},
	{[]string{"anthropic/", "google/"}, "opencode"},
}

// makerOf returns the maker of a model; the zero value for any other name.
func makerOf(model string) modelMaker {
	return text.First(modelMakers, func(m modelMaker) bool {
		begins := func(beginning string) bool { return strings.HasPrefix(strings.ToLower(model), beginning) }
		return slices.ContainsFunc(m.begins, begins)
	})
}

// modelWarnings is about models of other makers that the default agent is to use, such as claude-opus-5.
// It has such models only from another provider, which its settings name.
func modelWarnings(p *Project, cfg *workflow.Config) (list []string) {
	isDefault := func(a workflow.AgentChoice) bool { return a.Kind == workflow.DefaultAgent }
	agents := text.Filter(cfg.AllAgents(), isDefault)
	if len(agents) == 0 {
		return nil
	}
	kind := DefaultAgent()
	for _, a := range agents {
		chooses := strings.Contains(a.Command, "model_provider") || strings.Contains(a.Command, "--profile") ||
			strings.Contains(a.Command, "--oss")
		if chooses || kind.OtherProvider(OpenAccount(p, a.Home).Home) {
			return nil
		}
	}
	warn := func(key, kind, model string) {
		maker := makerOf(model)
		if kind != workflow.DefaultAgent || maker.kind == "" {
			return
		}
		const message = "%s: %s has no model %s, unless its config.toml sets a model_provider that does: for an agent " +
			"that has it, write agent.kind: %s and agent.model: %s (docs/agents.md)"
		list = append(list, fmt.Sprintf(message, keyAt(p, cfg, key), workflow.DefaultAgent, model, maker.kind, model))
	}
	warn(kind.Key("model"), workflow.DefaultAgent, cfg.Session.Model)
	for _, set := range cfg.Agent.Fallback {
		warn("agent.fallback", set.Kind, set.Model)
	}
	for _, row := range cfg.Agent.ByLabel {
		warn("agent.by_label", cmp.Or(row.Kind, cfg.Agent.Kind), row.Model)
	}
	return list
}
