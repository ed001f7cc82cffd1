package workflow

import (
	"encoding/json"
	"strings"
)

// Parse reads the configuration (specification 6.1, 6.3 and 6.4). Its error joins all faults, in the order of the lines. The Config
// then has only Warnings, and Prompt where that could be parsed.
func Parse(src Source, env Environment) (*Config, error) {
	cfg := &Config{Redacted: src.Data}
	r := newReader(src, env, cfg)
	if r.load() {
		for _, k := range r.keys {
			f := r.field(k.Name)
			if r.value(k, f) && k.after != nil {
				k.after(r, f)
			}
		}
		r.together()
	}
	prompt, err := ParsePrompt(src.Body, src.Name, src.bodyLine)
	for _, f := range Faults(err) {
		r.faults = append(r.faults, located{src.bodyLine, f})
	}
	if err == nil {
		cfg.Prompt = prompt
		r.warnings = append(r.warnings, prompt.check().joined...)
	}
	if cfg.KeyIsLiteral {
		r.redact()
	}
	warnings, err := r.result(cfg.Tracker.APIKey)
	if err != nil {
		return &Config{Warnings: warnings, Prompt: cfg.Prompt}, err
	}
	cfg.Warnings = warnings
	return cfg, nil
}

// together completes values that depend on others, and warns about settings that have no effect together or that codex
// would refuse.
func (r *reader) together() {
	agent, codex := &r.cfg.Agent, &r.cfg.Codex
	asksNothing := string(codex.ApprovalPolicy) == `"never"`
	switch {
	case agent.OnApproval == "" && asksNothing:
		agent.OnApproval = Approve
	case agent.OnApproval == "":
		agent.OnApproval = Fail
	case agent.OnApproval == Ask && asksNothing:
		r.warnKey("agent.on_approval",
			"no effect: codex asks for no approval under codex.approval_policy never; on-request is what it asks under")
	}
	if agent.OnApproval != Ask && agent.OnQuestion != Ask {
		r.warnKey("agent.answer_timeout_ms", "no effect: neither agent.on_approval nor agent.on_question is ask")
	}
	codex.ReadTimeoutSet = r.field("codex.read_timeout_ms").node != nil
	codex.StallTimeout = max(0, codex.StallTimeout)
	if codex.ThreadSandbox == "" {
		r.warnKey("agent.trust_repository", "no effect without codex.thread_sandbox")
	}
	if codex.TurnSandboxPolicy == nil {
		return
	}
	var policy struct {
		Type          string           `json:"type"`
		WritableRoots *json.RawMessage `json:"writableRoots"`
	}
	if err := json.Unmarshal(codex.TurnSandboxPolicy, &policy); err != nil || policy.Type == "" {
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
		r.warn(field{key: key, line: line}, message)
	}
}

// redact makes the copy of the file that is kept with a run: the placeholder stands wherever the literal key does. The copy
// is read again, so that a key which the file has in another form, such as with escapes, is refused and not kept.
func (r *reader) redact() {
	r.cfg.Redacted = nil
	const placeholder, hint = "$" + LiteralKeyVar, "put it into a variable, and write api_key: $" + APIKeyVar
	key := r.cfg.Tracker.APIKey.Reveal()
	literals := []field{r.field("tracker.api_key")}
	if other := r.field("tracker.provider.api_key"); other.node != nil && other.node != literals[0].node {
		literals = append(literals, other)
	}
	if len(key) < shortestKey {
		r.invalid(literals[0], "too short for a key", hint)
		return
	}
	text := strings.ReplaceAll(string(r.src.Data), key, placeholder)
	src, _ := NewSource(r.src.Name, r.src.Path, []byte(text)) // what is wrong with it shows below
	again := newReader(src, r.env, &Config{})
	again.load()
	for _, f := range literals {
		if kept := again.field(f.key).node; kept == nil || strings.TrimSpace(kept.Value) != placeholder {
			r.invalid(f, "a literal key must stand on one line, without escapes", hint)
			return
		}
	}
	r.cfg.Redacted = []byte(text)
}
