package workflow

import (
	"encoding/json"
	"slices"
	"strings"
)

// Parse reads the configuration (specification 6.1, 6.3 and 6.4). Its error is Errors, with all faults at once. The Config
// then has only Warnings, and Prompt where that could be parsed.
func Parse(src Source, env Environment) (*Config, error) {
	r := &reader{src: src, env: env, keys: Keys(), fields: map[string]field{}, lines: map[string]int{}}
	r.parents = sections(r.keys)
	cfg := &Config{redacted: src.Data}
	if r.load() {
		for _, k := range r.keys {
			r.value(k, cfg)
		}
		r.together(cfg)
	}
	r.prompt(cfg)
	if cfg.KeyIsLiteral {
		r.redact(cfg)
	}
	err := r.errors(cfg.Tracker.APIKey)
	slices.SortStableFunc(r.warnings, func(a, b Warning) int { return a.Line - b.Line })
	for i := range r.warnings {
		w := &r.warnings[i]
		w.Key, w.Message = cfg.Tracker.APIKey.scrub(w.Key), shorten(cfg.Tracker.APIKey.scrub(w.Message))
	}
	cfg.Warnings = r.warnings
	if err != nil {
		return &Config{Warnings: cfg.Warnings, Prompt: cfg.Prompt}, err
	}
	return cfg, nil
}

// prompt parses the body; an empty one is the default prompt (specification 5.4).
func (r *reader) prompt(cfg *Config) {
	prompt, err := ParsePrompt(r.src.Body, r.src.Name, r.src.bodyLine)
	for _, f := range Faults(err) {
		r.faults = append(r.faults, located{r.src.bodyLine, f})
	}
	if err != nil {
		return
	}
	cfg.Prompt = prompt
	for _, p := range prompt.check().joined {
		r.warn(p.Line, "", p.Message)
	}
}

// together completes values that depend on others, and warns about settings that have no effect together or that codex
// would refuse.
func (r *reader) together(cfg *Config) {
	asksNothing := string(cfg.Codex.ApprovalPolicy) == `"never"`
	switch {
	case cfg.Agent.OnApproval == "" && asksNothing:
		cfg.Agent.OnApproval = Approve
	case cfg.Agent.OnApproval == "":
		cfg.Agent.OnApproval = Fail
	case cfg.Agent.OnApproval == Ask && asksNothing:
		r.warnKey("agent.on_approval", "no effect: codex asks for no approval under codex.approval_policy never; on-request is what it asks under")
	}
	if cfg.Agent.OnApproval != Ask && cfg.Agent.OnQuestion != Ask {
		r.warnKey("agent.answer_timeout_ms", "no effect: neither agent.on_approval nor agent.on_question is ask")
	}
	_, cfg.Codex.ReadTimeoutSet = r.fields["codex.read_timeout_ms"]
	cfg.Codex.StallTimeout = max(0, cfg.Codex.StallTimeout)
	cfg.Codex.ThreadSandbox = strings.TrimSpace(cfg.Codex.ThreadSandbox)
	if cfg.Codex.ThreadSandbox == "" {
		r.warnKey("agent.trust_repository", "no effect without codex.thread_sandbox")
	}
	if cfg.Codex.TurnSandboxPolicy == nil {
		return
	}
	var policy struct {
		Type          string           `json:"type"`
		WritableRoots *json.RawMessage `json:"writableRoots"`
	}
	if err := json.Unmarshal(cfg.Codex.TurnSandboxPolicy, &policy); err != nil || policy.Type == "" {
		r.warnKey("codex.turn_sandbox_policy", "has no `type` that is a word, which codex wants")
	}
	const replaced = "no effect: codex.turn_sandbox_policy says it"
	r.warnKey("agent.network", replaced)
	// Design 9: the directories are added to a workspaceWrite that names none.
	if policy.Type != "workspaceWrite" || policy.WritableRoots != nil {
		r.warnKey("agent.writable_roots", replaced)
	}
}

// warnKey warns about a key that the file has.
func (r *reader) warnKey(key, message string) {
	if line, set := r.lines[key]; set {
		r.warn(line, key, message)
	}
}
