package workflow

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

func (r *reader) kind(k Key, cfg *Config) {
	const hint = "write `kind: linear` under `tracker:` in the front matter"
	f, given := r.fields[k.Name]
	cfg.Tracker.Kind = strings.ToLower(strings.TrimSpace(r.text(k)))
	switch {
	case !given && r.src.FrontMatter == nil && fencedLater(r.src.Body):
		r.fail(CodeTrackerKind, 1, k.Name, "missing, for the file has no front matter", "the line of --- must be the very first one")
	case !given:
		r.fail(CodeTrackerKind, r.sectionLine("tracker"), k.Name, "missing", hint)
	case cfg.Tracker.Kind != "linear":
		r.fail(CodeTrackerKind, f.line, f.key, fmt.Sprintf("%s is not supported, only linear is", strconv.Quote(f.node.Value)), hint)
	}
}

// fencedLater reports a file whose front matter is preceded by something, which makes it part of the prompt.
func fencedLater(body string) bool {
	first, _, _ := strings.Cut(body, "\n")
	return strings.TrimSpace(first) == "---"
}

// sectionLine is the line for a message about a key that is missing in a section.
func (r *reader) sectionLine(section string) int {
	if line, ok := r.lines[section]; ok {
		return line
	}
	return 1
}

func (r *reader) endpoint(k Key, cfg *Config) {
	cfg.Tracker.Endpoint = k.Default
	f, text, given := r.scalar(k)
	if !given {
		return
	}
	cfg.Tracker.Endpoint = text
	u, err := url.Parse(text)
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

// apiKey resolves the key (specification 5.3.1).
func (r *reader) apiKey(k Key, cfg *Config) {
	name, vars := APIKeyVar, []string{APIKeyVar, LiteralKeyVar}
	cfg.keyVars = vars
	f, given := r.fields[k.Name]
	var key string
	if !given {
		key, _ = r.env.lookup(APIKeyVar)
	} else {
		_, text, scalar := r.scalar(k)
		if !scalar {
			return
		}
		var isVar bool
		if name, isVar = reference(text); isVar {
			vars = append(vars, name)
			key = r.variable(name, APIKeyVar)
		} else if strings.HasPrefix(text, "$") {
			r.fail(CodeInvalid, f.line, f.key, "$ is not followed by the name of a variable", "write $"+APIKeyVar+", or the key itself")
			return
		} else if key = text; key != "" {
			cfg.KeyIsLiteral = true
		}
	}
	key = strings.TrimSpace(key)
	cfg.Tracker.APIKey = Secret(key)
	slices.Sort(vars)
	cfg.keyVars = slices.Compact(vars)
	if strings.ContainsFunc(key, blank) {
		r.fail(CodeInvalid, r.keyLine(), k.Name, "the key holds blanks or control characters", "copy it again from the tracker's settings")
	}
	if key == "" && !r.env.KeyOptional && (cfg.Tracker.Kind == "linear" || cfg.Tracker.Kind == "") {
		r.missingKey(given, name)
	}
}

func blank(c rune) bool { return c <= ' ' || c == 0x7f }

// variable looks up the variable that a value names. One that is not set falls back to the usual one; one that is set to
// nothing gives no value. The placeholder has no fallback, because it stands for one certain key.
func (r *reader) variable(name, usual string) string {
	value, set := r.env.lookup(name)
	if !set && name != LiteralKeyVar {
		value, _ = r.env.lookup(usual)
	}
	return strings.TrimSpace(value)
}

func (r *reader) keyLine() int {
	if f, ok := r.fields["tracker.api_key"]; ok {
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

// literalFields are the places of the file that contain the key: tracker.provider.api_key may repeat tracker.api_key.
func (r *reader) literalFields() []field {
	f := r.fields["tracker.api_key"]
	other, both := r.fields["tracker.provider.api_key"]
	if both && other.node != f.node {
		return []field{f, other}
	}
	return []field{f}
}

// project reads the slug, which may be given by a variable or as the URL of the project's page.
func (r *reader) project(k Key, cfg *Config) {
	f, text, given := r.scalar(k)
	if _, ok := r.fields[k.Name]; ok != given || cfg.Tracker.Kind != "linear" && cfg.Tracker.Kind != "" {
		return // of the wrong type, which is said, or for a tracker with other needs
	}
	if name, isVar := reference(text); isVar {
		if text = r.variable(name, ""); text == "" {
			r.fail(CodeMissingProject, f.line, f.key, "the environment variable "+name+" is not set, or empty", r.setHint(name, "it"))
			return
		}
	}
	if strings.Contains(text, "://") {
		if text = slugOf(text); text == "" {
			r.fail(CodeInvalid, f.line, f.key, "not the URL of a project", "open the project in Linear and copy the address: …/project/<slug>/…")
			return
		}
	}
	cfg.Tracker.ProjectSlug = text
	switch {
	case text == "" && given:
		r.fail(CodeMissingProject, f.line, f.key, "empty", projectHint)
	case text == "":
		r.fail(CodeMissingProject, r.sectionLine("tracker"), k.Name, "missing", projectHint)
	case strings.ContainsFunc(text, blank):
		r.fail(CodeInvalid, f.line, f.key, "a slug holds no blanks or control characters", projectHint)
	}
}

const projectHint = "the slug is the part after /project/ in the project's URL; the whole URL will do"

// slugOf is the slug in the URL of a project's page, empty where there is none.
func slugOf(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(u.Path, "/project/")
	slug, _, _ := strings.Cut(after, "/")
	return slug
}

func (r *reader) activeStates(k Key, cfg *Config) {
	cfg.Tracker.ActiveStates = r.states(k, cfg)
	if f, given := r.fields[k.Name]; given && len(cfg.Tracker.ActiveStates) == 0 && len(f.node.Content) == 0 {
		r.warn(f.line, f.key, "no state is active, so that nothing will be started")
	}
}

func (r *reader) terminalStates(k Key, cfg *Config) {
	cfg.Tracker.TerminalStates = r.states(k, cfg)
	for _, a := range cfg.Tracker.ActiveStates {
		for _, b := range cfg.Tracker.TerminalStates {
			if reconcile.NormalizeState(a) == reconcile.NormalizeState(b) {
				line := max(r.sectionLine("tracker.active_states"), r.lines[k.Name])
				r.warn(line, k.Name, strconv.Quote(a)+" is among the active states too, and counts as terminal")
			}
		}
	}
}

func (r *reader) states(k Key, cfg *Config) []string {
	states, named := r.list(k)
	if named {
		cfg.Tracker.NamedStates = append(cfg.Tracker.NamedStates, states...)
	}
	return states
}

func (r *reader) requiredLabels(k Key, cfg *Config) {
	cfg.Tracker.RequiredLabels = []string{}
	labels, _ := r.list(k)
	for _, l := range labels {
		cfg.Tracker.RequiredLabels = append(cfg.Tracker.RequiredLabels, strings.ToLower(l))
	}
}

func (r *reader) assignee(k Key, cfg *Config) {
	f, text, given := r.scalar(k)
	if !given {
		cfg.Tracker.Assignee = r.variable(AssigneeVar, AssigneeVar)
		return
	}
	if name, isVar := reference(text); isVar {
		if text = r.variable(name, AssigneeVar); text == "" {
			r.warn(f.line, f.key, "the environment variable "+name+" is not set, or empty: issues of any assignee are taken")
		}
	}
	cfg.Tracker.Assignee = text
}

func (r *reader) caFile(k Key, cfg *Config) {
	if f, value, given := r.scalar(k); given {
		cfg.Tracker.CAFile = r.path(f, f.line, value)
	}
}

func (r *reader) toolScope(k Key, cfg *Config) { cfg.Tracker.ToolReadOnly = r.choice(k) == "read" }
