package workflow

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/reconcile"
)

// Parse gives the configuration its meaning (specification 6.1, 6.3 and 6.4). Its error is Errors, with all
// faults at once; the Config that comes with it then holds only Warnings, and Prompt where that could be parsed.
func Parse(src Source, env Environment) (*Config, error) {
	r := &reader{src: src, env: env, keys: Keys(), fields: map[string]field{}, lines: map[string]int{}}
	r.parents = sections(r.keys)
	cfg := &Config{redacted: src.Data, name: src.Name, lines: r.lines}
	var literals []field
	if r.load() {
		literals = r.tracker(cfg)
		r.place(cfg)
		r.agent(cfg)
		r.codex(cfg)
	}
	r.prompt(cfg)
	if len(literals) > 0 {
		r.redact(cfg, literals)
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
	if err == nil {
		cfg.Prompt = prompt
	}
}

// tracker reads its section and returns the fields that hold the key itself.
func (r *reader) tracker(cfg *Config) (literals []field) {
	t := &cfg.Tracker
	t.Kind = strings.ToLower(strings.TrimSpace(r.text("tracker.kind")))
	const hint = "write `kind: linear` under `tracker:` in the front matter"
	switch f, _, ok := r.get("tracker.kind"); {
	case !ok && r.src.FrontMatter == nil && fencedLater(r.src.Body):
		r.fail(CodeTrackerKind, 1, "tracker.kind", "missing, for the file has no front matter", "the line of --- must be the very first one")
	case !ok:
		r.fail(CodeTrackerKind, r.sectionLine("tracker"), "tracker.kind", "missing", hint)
	case t.Kind != "linear":
		r.fail(CodeTrackerKind, f.line, f.key, fmt.Sprintf("%s is not supported, only linear is", strconv.Quote(f.node.Value)), hint)
	}
	r.endpoint(t)
	literals = r.apiKey(cfg)
	if t.Kind == "linear" || t.Kind == "" { // what another kind needs is another matter
		r.project(t)
	}
	active, namedActive := r.list("tracker.active_states")
	terminal, namedTerminal := r.list("tracker.terminal_states")
	t.ActiveStates, t.TerminalStates = trimmed(active), trimmed(terminal)
	if namedActive {
		t.NamedStates = append(t.NamedStates, t.ActiveStates...)
	}
	if namedTerminal {
		t.NamedStates = append(t.NamedStates, t.TerminalStates...)
	}
	r.checkStates(t)
	labels, _ := r.list("tracker.required_labels")
	t.RequiredLabels = []string{}
	for _, l := range trimmed(labels) {
		t.RequiredLabels = append(t.RequiredLabels, strings.ToLower(l))
	}
	r.assignee(t)
	t.ToolReadOnly = r.choice("tracker.tool_scope", "any", "any", "read") == "read"
	return literals
}

func trimmed(items []string) []string {
	out := make([]string, len(items))
	for i, s := range items {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

// fencedLater tells a file whose front matter is preceded by something, which makes it part of the prompt.
func fencedLater(body string) bool {
	first, _, _ := strings.Cut(body, "\n")
	return strings.TrimSpace(first) == "---"
}

// sectionLine is where something that is missing in a section is reported.
func (r *reader) sectionLine(section string) int {
	if line, ok := r.lines[section]; ok {
		return line
	}
	return 1
}

func (r *reader) endpoint(t *Tracker) {
	t.Endpoint = strings.TrimSpace(r.text("tracker.endpoint"))
	f, _, ok := r.get("tracker.endpoint")
	if !ok || f.node.Kind != yaml.ScalarNode {
		return
	}
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		r.fail(CodeInvalid, f.line, f.key, "must be an http or https URL", "leave it out for Linear's own")
	case u.User != nil:
		r.fail(CodeInvalid, f.line, f.key, "must not hold a user or password", "the key belongs into tracker.api_key")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		r.warn(f.line, f.key, "the tracker's key travels unencrypted over http")
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// apiKey resolves the key (specification 5.3.1) and returns the fields that hold it literally.
func (r *reader) apiKey(cfg *Config) (literals []field) {
	name := APIKeyVar
	vars := []string{APIKeyVar, LiteralKeyVar}
	cfg.keyVars = vars
	f, _, given := r.get("tracker.api_key")
	var key string
	switch {
	case !given:
		key, _ = r.env.lookup(APIKeyVar)
	case f.node.Kind != yaml.ScalarNode:
		r.wrong(f, typeString, kindName(f.node))
		return nil
	default:
		text := strings.TrimSpace(f.node.Value)
		var isVar bool
		if name, isVar = reference(text); isVar {
			vars = append(vars, name)
			key = r.keyFrom(name)
		} else if strings.HasPrefix(text, "$") {
			r.fail(CodeInvalid, f.line, f.key, "$ is not followed by the name of a variable", "write $"+APIKeyVar+", or the key itself")
			return nil
		} else if key = text; key != "" {
			cfg.KeyIsLiteral = true
			literals = r.literalFields()
		}
	}
	key = strings.TrimSpace(key)
	cfg.Tracker.APIKey = Secret(key)
	slices.Sort(vars)
	cfg.keyVars = slices.Compact(vars)
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		r.fail(CodeInvalid, r.keyLine(), "tracker.api_key", "the key holds blanks or control characters", "copy it again from the tracker's settings")
	}
	if key == "" && !r.env.KeyOptional && (cfg.Tracker.Kind == "linear" || cfg.Tracker.Kind == "") {
		r.missingKey(given, name)
	}
	return literals
}

// keyFrom looks a key's variable up. One that is not set leaves the canonical one, one that is set to nothing
// means that there is no key; the placeholder stands for one key and no other.
func (r *reader) keyFrom(name string) string {
	value, set := r.env.lookup(name)
	if !set && name != LiteralKeyVar {
		value, _ = r.env.lookup(APIKeyVar)
	}
	return value
}

func (r *reader) keyLine() int {
	if f, _, ok := r.get("tracker.api_key"); ok {
		return f.line
	}
	return r.sectionLine("tracker")
}

func (r *reader) missingKey(given bool, name string) {
	switch {
	case given && name == LiteralKeyVar:
		r.fail(CodeMissingAPIKey, r.keyLine(), "tracker.api_key", "the key stood in WORKFLOW.md itself and was not kept",
			"write api_key: $"+APIKeyVar+" and set that variable, or put it into the environment file")
	case given && name != "":
		r.fail(CodeMissingAPIKey, r.keyLine(), "tracker.api_key", "the environment variable "+name+" is not set, or empty",
			r.setHint(name, "it"))
	default:
		r.fail(CodeMissingAPIKey, r.keyLine(), "tracker.api_key", "missing, and "+APIKeyVar+" is not set",
			r.setHint(APIKeyVar, APIKeyVar))
	}
}

func (r *reader) setHint(name, short string) string {
	if r.env.EnvFile == "" {
		return "set " + short + ", or put it into the environment file"
	}
	return fmt.Sprintf("put %s=… into %s (mode 0600), or set the variable; cron and systemd see only the file", name, r.env.EnvFile)
}

// literalFields are all places of the file that hold the key: tracker.provider.api_key may repeat tracker.api_key.
func (r *reader) literalFields() []field {
	f := r.fields["tracker.api_key"]
	other, both := r.fields["tracker.provider.api_key"]
	if both && other.node != f.node {
		return []field{f, other}
	}
	return []field{f}
}

// project reads the slug, which may be given as the URL of the project's page.
func (r *reader) project(t *Tracker) {
	t.ProjectSlug = strings.TrimSpace(r.text("tracker.project_slug"))
	f, _, ok := r.get("tracker.project_slug")
	if strings.Contains(t.ProjectSlug, "://") {
		u, err := url.Parse(t.ProjectSlug)
		slug := ""
		if err == nil {
			_, after, _ := strings.Cut(u.Path, "/project/")
			slug, _, _ = strings.Cut(after, "/")
		}
		if t.ProjectSlug = slug; slug == "" {
			r.fail(CodeInvalid, f.line, f.key, "not the URL of a project", "open the project in Linear and copy the address: …/project/<slug>/…")
			return
		}
	}
	switch {
	case t.ProjectSlug == "" && ok:
		r.fail(CodeMissingProject, f.line, f.key, "empty", projectHint)
	case t.ProjectSlug == "":
		r.fail(CodeMissingProject, r.sectionLine("tracker"), "tracker.project_slug", "missing", projectHint)
	case strings.ContainsFunc(t.ProjectSlug, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		r.fail(CodeInvalid, f.line, f.key, "a slug holds no blanks or control characters", projectHint)
	}
}

const projectHint = "the slug is the part after /project/ in the project's URL; the whole URL will do"

func (r *reader) checkStates(t *Tracker) {
	if f, _, ok := r.get("tracker.active_states"); ok && len(t.ActiveStates) == 0 && len(f.node.Content) == 0 {
		r.warn(f.line, f.key, "no state is active, so that nothing will be started")
	}
	for _, a := range t.ActiveStates {
		for _, b := range t.TerminalStates {
			if reconcile.NormalizeState(a) == reconcile.NormalizeState(b) {
				line := r.sectionLine("tracker.active_states")
				r.warn(max(line, r.lines["tracker.terminal_states"]), "tracker.terminal_states", strconv.Quote(a)+" is among the active states too, and counts as terminal")
			}
		}
	}
}

func (r *reader) assignee(t *Tracker) {
	f, _, given := r.get("tracker.assignee")
	if !given {
		t.Assignee, _ = r.env.lookup(AssigneeVar)
		t.Assignee = strings.TrimSpace(t.Assignee)
		return
	}
	t.Assignee = strings.TrimSpace(r.text("tracker.assignee"))
	name, isVar := reference(t.Assignee)
	if !isVar {
		return
	}
	value, set := r.env.lookup(name)
	if !set {
		value, _ = r.env.lookup(AssigneeVar)
	}
	if t.Assignee = strings.TrimSpace(value); t.Assignee == "" {
		r.warn(f.line, f.key, "the environment variable "+name+" is not set, or empty: issues of everybody are taken")
	}
}

// place reads what is about time and place: polling, workspace and hooks.
func (r *reader) place(cfg *Config) {
	cfg.Polling.Interval = r.milliseconds("polling.interval_ms")
	cfg.Workspace = Workspace{
		Root:         r.root(),
		KeepRemoved:  r.milliseconds("workspace.keep_removed_ms"),
		MinFreeBytes: r.integer("workspace.min_free_bytes"),
	}
	if f, k, ok := r.get("hooks.timeout_ms"); ok {
		if n, err := digits(f.node); err == nil && n <= 0 {
			r.warn(f.line, f.key, fmt.Sprintf("%d is no limit, %s ms are used", n, k.Default))
			delete(r.fields, k.Name)
		}
	}
	cfg.Hooks = Hooks{
		AfterCreate:  r.text("hooks.after_create"),
		BeforeRun:    r.text("hooks.before_run"),
		AfterRun:     r.text("hooks.after_run"),
		BeforeRemove: r.text("hooks.before_remove"),
		OnAttention:  r.text("hooks.on_attention"),
		Timeout:      r.milliseconds("hooks.timeout_ms"),
	}
}

// root is the workspace root; where the variable that it consists of is not set, the default.
func (r *reader) root() string {
	standard := DefaultRoot(r.env.Temp)
	f, _, ok := r.get("workspace.root")
	if !ok {
		return standard
	}
	if f.node.Kind != yaml.ScalarNode {
		r.wrong(f, typePath, kindName(f.node))
		return standard
	}
	if name, isVar := reference(strings.TrimSpace(f.node.Value)); isVar {
		if value, _ := r.env.lookup(name); value == "" {
			r.warn(f.line, f.key, "the environment variable "+name+" is not set, or empty: "+standard+" is used")
			return standard
		}
	}
	return r.path(f, f.node)
}

// path expands one path of a field; empty with a fault where that can't be done.
func (r *reader) path(f field, node *yaml.Node) string {
	path, err := r.env.expandPath(strings.TrimSpace(node.Value), filepath.Dir(r.src.Path))
	if err != nil {
		r.fail(CodeInvalid, r.line(node), f.key, err.Error(), "")
	}
	return path
}
