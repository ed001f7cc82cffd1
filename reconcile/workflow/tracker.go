package workflow

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (r *reader) kind(f field) {
	const hint = "write `kind: linear` under `tracker:` in the front matter"
	kind := &r.cfg.Tracker.Kind
	*kind = strings.ToLower(*kind)
	first, _, _ := strings.Cut(r.src.Body, "\n")
	switch {
	case f.node == nil && r.src.FrontMatter == nil && strings.TrimSpace(first) == "---":
		r.fail(CodeTrackerKind, f, "missing, for the file has no front matter", "the line of --- must be the very first one")
	case f.node == nil:
		r.fail(CodeTrackerKind, f, "missing", hint)
	case *kind != "linear":
		r.fail(CodeTrackerKind, f, strconv.Quote(f.node.Value)+" is not supported, only linear is", hint)
	}
}

// otherKind reports a tracker whose settings are not known.
func (r *reader) otherKind() bool { return r.cfg.Tracker.Kind != "linear" && r.cfg.Tracker.Kind != "" }

func (r *reader) endpoint(f field) {
	u, err := url.Parse(r.cfg.Tracker.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		r.invalid(f, "must be an http or https URL", "leave it out for Linear's own")
	case u.User != nil:
		r.invalid(f, "must not hold a user or password", "the key belongs into tracker.api_key")
	case u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		r.warn(f, "the tracker's key travels unencrypted over http")
	}
}

// apiKey resolves the key (specification 5.3.1).
func (r *reader) apiKey(f field) {
	written := r.cfg.Tracker.APIKey.Reveal()
	name, isVar := reference(written)
	key := written
	switch {
	case isVar:
		key = r.variable(name, APIKeyVar)
	case strings.HasPrefix(written, "$"):
		r.invalid(f, "$ is not followed by the name of a variable", "write $"+APIKeyVar+", or the key itself")
		key = ""
	}
	r.cfg.Tracker.APIKey, r.cfg.KeyIsLiteral = Secret(key), !isVar && key != ""
	vars := []string{APIKeyVar, LiteralKeyVar}
	if isVar {
		vars = append(vars, name)
	}
	slices.Sort(vars)
	r.cfg.SecretVars = slices.Compact(vars)
	f.key = "tracker.api_key"
	missing := func(what, hint string) {
		if !r.env.KeyOptional && !r.otherKind() {
			r.fail(CodeMissingAPIKey, f, what, hint)
		}
	}
	switch {
	case strings.ContainsFunc(key, blank):
		r.invalid(f, "the key holds blanks or control characters", "copy it again from the tracker's settings")
	case key != "" || strings.HasPrefix(written, "$") && !isVar:
	case name == LiteralKeyVar:
		missing("the key stood in WORKFLOW.md itself and was not kept",
			"write api_key: $"+APIKeyVar+" and set that variable, or put it into the environment file")
	case isVar:
		missing("the environment variable "+name+" is not set, or empty", r.setHint(name, "it"))
	default:
		missing("missing", r.setHint(APIKeyVar, APIKeyVar))
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

func (r *reader) setHint(name, short string) string {
	if r.env.EnvFile == "" {
		return "set " + short + ", or put it into the environment file"
	}
	return fmt.Sprintf("put %s=… into %s (mode 0600), or set the variable; cron and systemd see only the file", name, r.env.EnvFile)
}

// project reads the slug, which may be given by a variable or as the URL of the project's page.
func (r *reader) project(f field) {
	const hint = "the slug is the part after /project/ in the project's URL; the whole URL will do"
	if r.otherKind() {
		return
	}
	slug := &r.cfg.Tracker.ProjectSlug
	if name, isVar := reference(*slug); isVar {
		if *slug = r.variable(name, ""); *slug == "" {
			r.fail(CodeMissingProject, f, "the environment variable "+name+" is not set, or empty", r.setHint(name, "it"))
			return
		}
	}
	if strings.Contains(*slug, "://") {
		page, err := url.Parse(*slug)
		*slug = ""
		if err == nil {
			_, after, _ := strings.Cut(page.Path, "/project/")
			*slug, _, _ = strings.Cut(after, "/")
		}
		if *slug == "" {
			r.invalid(f, "not the URL of a project", "open the project in Linear and copy the address: …/project/<slug>/…")
			return
		}
	}
	switch {
	case *slug == "" && f.node != nil:
		r.fail(CodeMissingProject, f, "empty", hint)
	case *slug == "":
		r.fail(CodeMissingProject, f, "missing", hint)
	case strings.ContainsFunc(*slug, blank):
		r.invalid(f, "a slug holds no blanks or control characters", hint)
	}
	r.cfg.Policy.Project = r.cfg.Tracker.Endpoint + " " + *slug
}

func (r *reader) activeStates(f field) {
	if f.node == nil {
		return
	}
	r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, r.cfg.Policy.ActiveStates...)
	if len(r.cfg.Policy.ActiveStates) == 0 {
		r.warn(f, "no state is active, so that nothing will be started")
	}
}

func (r *reader) terminalStates(f field) {
	if f.node != nil {
		r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, r.cfg.Policy.TerminalStates...)
	}
	f.line = max(f.line, r.lines["tracker.active_states"], r.lines[f.key])
	for _, state := range r.cfg.Policy.ActiveStates {
		if r.cfg.Policy.Terminal(state) {
			r.warn(f, strconv.Quote(state)+" is among the active states too, and counts as terminal")
		}
	}
}

func (r *reader) requiredLabels(field) {
	for i, label := range r.cfg.Policy.RequiredLabels {
		r.cfg.Policy.RequiredLabels[i] = strings.ToLower(label)
	}
}

func (r *reader) assignee(f field) {
	if name, isVar := reference(r.cfg.Policy.Assignee); isVar {
		r.cfg.Policy.Assignee = r.variable(name, AssigneeVar)
		if r.cfg.Policy.Assignee == "" && f.node != nil {
			r.warn(f, "the environment variable "+name+" is not set, or empty: issues of any assignee are taken")
		}
	}
}
