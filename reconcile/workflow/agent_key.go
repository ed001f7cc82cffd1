package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// agentKey reads the key of the model, which the file does not contain itself.
func (r *reader) agentKey(f field) {
	own := &r.cfg.Agent
	written := own.Key.Reveal()
	own.Key = ""
	name, isVar := reference(written)
	switch {
	case written == "":
		return
	case !isVar && own.Kind == DefaultAgent && len(own.ByLabel) == 0 && len(own.Fallback) == 0:
		return // checkOnlyDefault refuses any key
	case !isVar:
		usual := own.usualKeyVar()
		r.invalid(
			f,
			"must be $NAME, a variable that contains the key",
			"write $"+usual+", and "+r.setHint(usual),
		)
		return
	}
	r.cfg.withhold(name)
	own.keyVar = name
	value, _ := r.env.lookup(name)
	own.Key = Secret(strings.TrimSpace(value))
	switch {
	case strings.ContainsFunc(own.Key.Reveal(), blank):
		r.invalid(f, "the variable "+name+" contains a blank or a control character", "copy the key again")
	case own.Key == "" && !r.env.KeyOptional:
		r.invalid(f, "the environment variable "+name+" is not set, or empty", r.setHint(name))
	}
}

// usualKeyVar returns the variable that usually contains the key of the agent's models.
func (a Agent) usualKeyVar() string {
	provider, _, _ := strings.Cut(a.Model, "/")
	switch {
	case provider == "openai":
		return "OPENAI_API_KEY"
	case provider == "google", a.Kind == agentGemini:
		return "GEMINI_API_KEY"
	}
	return "ANTHROPIC_API_KEY"
}

// providers returns the providers of the models with which OpenCode may work, sorted: those of
// anthropic/claude-opus-5 and openai/gpt-9 are anthropic and openai.
func (c *Config) providers() []string {
	var models []string
	for _, a := range c.AllAgents() {
		if a.Kind == agentOpenCode {
			models = append(models, a.Model)
		}
	}
	for _, row := range c.Agent.ByLabel {
		// a row without a kind is about the first of the usual agents
		if row.Kind == "" && c.Agent.Kind == agentOpenCode {
			models = append(models, row.Model)
		}
	}
	var all []string
	for _, model := range models {
		provider, _, _ := strings.Cut(model, "/")
		if provider != "" {
			all = append(all, provider)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// secretName matches the names of variables that contain a secret, such as ANTHROPIC_API_KEY.
var secretName = text.Pattern(`(?i)(?:^|_)(?:KEY|TOKEN|PAT|SECRET|PASSWORD)$`)

// checkEnv refuses entries of agent.env that no agent gets: a variable that is withheld by its
// name, such as GITHUB_TOKEN with tracker.kind github, or that contains a secret of symphony.
// It warns about other secrets that the file itself contains.
func (r *reader) checkEnv() {
	f := r.field("agent.env")
	if f.node == nil || f.node.Kind != yaml.MappingNode {
		return
	}
	secrets := []Secret{r.cfg.Tracker.APIKey, r.cfg.Repository.Token, r.cfg.Agent.Key}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		value := r.cfg.Agent.Env[name.Value]
		isIn := func(secret Secret) bool {
			return len(secret) >= shortestKey && strings.Contains(value, secret.Reveal())
		}
		entry := field{key: f.key + "." + name.Value, line: r.line(name)}
		_, isVar := reference(deref(f.node.Content[i+1]).Value)
		switch {
		case slices.Contains(r.cfg.SecretVars, name.Value):
			r.invalid(
				entry,
				"no agent gets a variable of this name, because it contains a secret of symphony",
				"name another variable",
			)
		case slices.ContainsFunc(secrets, isIn):
			r.invalid(entry, "contains a secret of symphony, which no agent gets", "give agents a key of their own")
		case !isVar && len(value) >= shortestKey && secretName().MatchString(name.Value):
			const visible = "everyone who can read the file sees the key: write %s: $%[1]s, and put %[1]s=… into %s"
			r.warn(entry, fmt.Sprintf(visible, name.Value, cmp.Or(r.env.EnvFile, "the environment file")))
		}
	}
}

// environment reads a map of variables. Only a value that is $NAME as a whole is taken from
// symphony's own environment.
func (r *values) environment(k Key, f field) (map[string]string, bool) {
	vars := map[string]string{}
	if f.node == nil {
		return vars, true
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, "write for instance {ANTHROPIC_BASE_URL: https://gateway.example}")
		return vars, false
	}
	first := map[string]int{} // the line of each name
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		value := deref(f.node.Content[i+1])
		entry := field{key: f.key + "." + name.Value, line: r.line(name)}
		line, twice := first[name.Value]
		switch {
		case !variableName(name.Value):
			r.invalid(entry, "not the name of a variable", "")
			continue
		case twice:
			r.fail(CodeParse, entry, fmt.Sprintf("given twice, before on line %d", line), "keep one of them")
			continue
		case value.Kind != yaml.ScalarNode:
			r.invalid(entry, "must be a single value, is "+kindName(value), "")
			continue
		case null(value):
			r.invalid(entry, "has no value", `write "" for a variable that is empty, or remove the entry`)
			continue
		}
		first[name.Value] = entry.line
		vars[name.Value] = value.Value
		from, isReference := reference(value.Value)
		if !isReference {
			continue
		}
		own, set := r.env.lookup(from)
		if !set {
			r.invalid(entry, "the environment variable "+from+" is not set", "")
		}
		vars[name.Value] = own
	}
	return vars, true
}
