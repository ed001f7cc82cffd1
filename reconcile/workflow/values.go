package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// value stores the value of a key, or its default, in the configuration. It returns false if
// the value is invalid, which is reported.
func (r *values) value(k Key, f field) bool {
	ok := true
	switch to := k.to.(type) {
	case *string:
		*to, ok = r.text(k, f)
	case *Secret:
		ok = r.value(Key{Type: k.Type, Default: k.Default, to: (*string)(to)}, f)
	case *bool:
		*to, ok = r.boolean(k, f)
	case *Claims:
		*to, ok = r.claims(k, f)
	case network:
		*to.open, *to.allow, ok = r.network(k, f)
	case *int:
		n, read := r.integer(k, f, 1_000_000)
		*to = int(n)
		ok = read
	case *int64:
		*to, ok = r.integer(k, f, 1<<63-1)
	case *time.Duration:
		n, read := r.integer(k, f, maxMS)
		*to = time.Duration(n) * time.Millisecond
		ok = read
	case *[]string:
		*to, ok = r.list(k, f)
	case *map[string]int:
		*to, ok = r.stateLimits(k, f)
	case *map[string]string:
		*to, ok = r.environment(k, f)
	case *json.RawMessage:
		*to, ok = r.passThrough(f)
	}
	return ok
}

// refuseMark reports a value of which YAML takes the beginning for a mark of its own, such as
// &issues or !issues. It returns false for other values.
func (r *values) refuseMark(f field) bool {
	written := ""
	switch {
	case f.node.Anchor != "" && null(f.node):
		written = "&" + f.node.Anchor
	case strings.HasPrefix(f.node.Tag, "!") && !strings.HasPrefix(f.node.Tag, "!!"):
		written = strings.TrimSpace(f.node.Tag + " " + f.node.Value)
	default:
		return false
	}
	r.invalid(f, "YAML does not take "+written+" for a text", "put it in quotes: '"+written+"'")
	return true
}

// text reads a single value of any kind. A script stays as written, other values are trimmed,
// and paths become absolute.
func (r *values) text(k Key, f field) (string, bool) {
	switch {
	case f.node == nil && k.Words != nil && !slices.Contains(k.Words, k.Default):
		return "", true // the default depends on other keys
	case f.node == nil:
		return k.Default, true
	case r.refuseMark(f):
		return "", false
	case f.node.Kind != yaml.ScalarNode, k.Words != nil && !slices.Contains(k.Words, f.node.Value):
		r.wrong(k, f, textHint(k, f))
		return "", false
	case k.Type == typePath:
		path := r.path(f, f.node.Value)
		return path, path != ""
	case strings.HasPrefix(k.Type, "shell"):
		return f.node.Value, true
	}
	return strings.TrimSpace(f.node.Value), true
}

// integer reads a whole number within the bounds of its key. It may be quoted (specification
// 5.3.2).
func (r *values) integer(k Key, f field, most int64) (int64, bool) {
	if f.node == nil {
		n, err := strconv.ParseInt(k.Default, 10, 64)
		return n, err == nil || k.Default == ""
	}
	n, ok := digits(f.node)
	if k.Type == typeTokens && !ok {
		n, ok = tokens(f.node)
	}
	switch {
	case !ok:
		r.wrong(k, f, numberHint(k, f))
	case n < k.min:
		r.invalid(f, fmt.Sprintf("%d is too small: at least %d", n, k.min), "")
	case n > most:
		r.invalid(f, fmt.Sprintf("%d is too large: at most %d", n, most), "")
	default:
		return n, true
	}
	return 0, false
}

// textHint says how to write a value that was written as a list.
func textHint(k Key, f field) string {
	isList := f.node.Kind == yaml.SequenceNode
	switch {
	case isList && k.Name == "agent.kind":
		return "for several agents write agent.fallback"
	case isList && k.Name == "tracker.provider.repo":
		return "for several repositories write repos"
	case isList && strings.HasPrefix(k.Type, "shell"):
		return "write it as a text"
	}
	return ""
}

// numberHint has the milliseconds of a duration such as 30s.
func numberHint(k Key, f field) string {
	lasts, err := time.ParseDuration(strings.TrimSpace(f.node.Value))
	if k.Type != typeMS || err != nil {
		return ""
	}
	return fmt.Sprintf("write %d", lasts.Milliseconds())
}

// digits reads a node as a decimal integer.
func digits(n *yaml.Node) (int64, bool) {
	text := strings.TrimSpace(n.Value)
	if n.Tag == "!!int" {
		text = strings.ReplaceAll(text, "_", "")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil && n.Kind == yaml.ScalarNode
}

// boolean reads true or false, without quotes.
func (r *values) boolean(k Key, f field) (value, ok bool) {
	switch {
	case f.node == nil:
		return k.Default == "true", true
	case f.node.Kind == yaml.ScalarNode && f.node.Tag == "!!bool":
		return strings.EqualFold(f.node.Value, "true"), true
	}
	r.wrong(k, f, "write the word, without quotes")
	return false, false
}

// list reads a list of strings and trims them. An invalid item, which is reported, becomes
// empty.
func (r *values) list(k Key, f field) ([]string, bool) {
	list := []string{}
	if f.node == nil {
		if standard := strings.Trim(k.Default, "[]"); standard != "" {
			list = strings.Split(standard, ", ")
		}
		return list, true
	}
	if k.Type == typeHomes && f.node.Kind == yaml.ScalarNode {
		return []string{strings.TrimSpace(f.node.Value)}, true
	}
	if f.node.Kind != yaml.SequenceNode {
		r.wrong(k, f, "write it in brackets, with commas between the items")
		return list, false
	}
	for i, item := range f.node.Content {
		item = deref(item)
		text := strings.TrimSpace(item.Value)
		switch {
		case item.Kind != yaml.ScalarNode:
			r.invalid(r.item(f, i), "an item is "+kindName(item)+", not a string", "")
		case text == "" || null(item):
			r.invalid(r.item(f, i), "an item is empty", "remove it")
			text = ""
		}
		list = append(list, text)
	}
	return list, true
}

// stateLimits reads the map of states to limits. An entry that is no positive number is
// ignored with a warning (specification 5.3.5).
func (r *values) stateLimits(k Key, f field) (map[string]int, bool) {
	limits := map[string]int{}
	if f.node == nil {
		return limits, true
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, "")
		return limits, false
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		state := reconcile.NormalizeState(name.Value)
		entry := field{key: f.key + "." + name.Value, line: r.line(name)}
		n, ok := digits(deref(f.node.Content[i+1]))
		before, twice := limits[state]
		switch {
		case name.Kind != yaml.ScalarNode || state == "":
			entry.key = f.key
			r.warn(entry, "an entry without a state is ignored")
			continue
		case !ok || n <= 0:
			r.warn(entry, "not a positive whole number: the entry is ignored")
			continue
		case twice:
			r.warn(entry, "the state is given twice: the smaller limit is used")
			n = min(n, int64(before))
		}
		limits[state] = int(min(n, 1_000_000))
	}
	return limits, true
}

// passThrough returns a value for the agent as JSON, nil if it is not in the file. Nulls in it are
// omitted, like null keys.
func (r *values) passThrough(f field) (json.RawMessage, bool) {
	switch {
	case f.node == nil:
		return nil, true
	case f.node.Kind == yaml.SequenceNode:
		r.invalid(
			f,
			"must be a string or a map, is a list",
			"write it as "+DefaultAgent+" expects it, for instance never",
		)
		return nil, false
	case f.node.Kind == yaml.ScalarNode:
		raw, err := json.Marshal(f.node.Value)
		return raw, err == nil
	}
	raw, err := jsonOf(f.node)
	if err != nil {
		r.notJSON(f, err)
		return nil, false
	}
	return raw, true
}

// jsonOf writes a value of YAML as JSON, without the members that are null.
func jsonOf(node *yaml.Node) (json.RawMessage, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, err
	}
	removeNulls(value)
	return json.Marshal(value)
}

// removeNulls removes the members that are null from the maps of a value, at any depth:
// {type: readOnly, access: null} becomes {type: readOnly}. The items of lists stay.
func removeNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			removeNulls(member)
		}
	case []any:
		for _, item := range v {
			removeNulls(item)
		}
	}
}

// notJSON reports a value of YAML that can't be written as JSON.
func (r *values) notJSON(f field, err error) {
	r.invalid(f, "can't be written as JSON: "+text.YAMLMessage(err), "use strings as keys, each once, and plain values")
}

// Parse reads the configuration (specification 6.1, 6.3 and 6.4). Its error joins all faults,
// sorted by line. The Config then contains only Warnings, and Prompt if the template is valid.
func Parse(src Source, env Environment) (*Config, error) {
	cfg := &Config{
		Redacted: src.Data,
		FileName: filepath.Base(src.Path),
	}
	front, ok := readFrontMatter(src, keys(cfg))
	r := &reader{values: values{front, env}, cfg: cfg}
	if ok {
		for _, k := range r.keys {
			f := r.field(k.Name)
			if k.applies(r.tracker.name, cfg.Worker.Engine) && r.value(k, f) && k.after != nil {
				k.after(r, f)
			}
		}
		r.together()
		r.reportUnknown()
		cfg.Lines = r.lines
	}
	prompt, err := ParsePrompt(src.Body, src.Name, src.bodyLine)
	for _, f := range Faults(err) {
		r.faults = append(r.faults, located{line: src.bodyLine, err: f})
	}
	if err == nil {
		cfg.Prompt = prompt
		r.warnOfProjectDescription()
	}
	r.redact()
	warnings, err := r.result(cfg.Tracker.APIKey, cfg.Monitor.PingURL)
	if err != nil {
		return &Config{Warnings: warnings, Prompt: cfg.Prompt}, err
	}
	cfg.Warnings = warnings
	return cfg.withAgent(cfg.Agent.agents[0]), nil
}

// applies reports whether a kind of tracker and an engine have the key.
func (k Key) applies(tracker, engine string) bool {
	return (k.Kinds == nil || slices.Contains(k.Kinds, tracker)) &&
		(k.engines == nil || slices.Contains(k.engines, engine))
}

// options reads a map that stands in the place of a single word, such as {allow: [github.com]}: it
// calls read for each entry, by name. It reports names that are not known, and those that are given
// twice.
func (r *values) options(f field, read map[string]func(field) bool) (ok bool) {
	ok = true
	given := map[string]bool{}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		entry := field{key: f.key + "." + name.Value, line: r.line(name), node: deref(f.node.Content[i+1])}
		readEntry := read[name.Value]
		switch {
		case readEntry == nil:
			r.invalid(entry, "unknown", "known: "+strings.Join(slices.Sorted(maps.Keys(read)), ", "))
			ok = false
		case given[name.Value]:
			r.fail(CodeParse, entry, "given twice", "keep one of them")
			ok = false
		default:
			ok = readEntry(entry) && ok
		}
		given[name.Value] = true
	}
	return ok
}

// warnLimitedStates warns about limits for states in which no agent works.
func (r *reader) warnLimitedStates() {
	f := r.field("agent.max_concurrent_agents_by_state")
	policy := r.cfg.Policy
	if f.node == nil || f.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		_, limited := policy.MaxByState[reconcile.NormalizeState(name.Value)]
		isState := func(state string) bool { return reconcile.SameState(state, name.Value) }
		if !limited || slices.ContainsFunc(policy.ActiveStates, isState) {
			continue
		}
		entry := field{key: f.key + "." + strings.TrimSpace(name.Value), line: r.line(name)}
		instead := suggest.Instead(name.Value, policy.ActiveStates)
		r.warn(entry, "no effect: the state is none of tracker.active_states, "+instead)
	}
}

// warnUnused warns about the keys that only other kinds of trackers and engines have.
func (r *reader) warnUnused() {
	applies := func(k Key) bool { return k.applies(r.tracker.name, r.cfg.Worker.Engine) }
	for _, k := range r.keys {
		same := func(other Key) bool { return other.Name == k.Name && applies(other) }
		switch {
		case applies(k), slices.ContainsFunc(r.keys, same):
		case k.engines != nil:
			r.warnKey(k.Name, "no effect without worker.engine.kind "+strings.Join(k.engines, " or "))
		case k.chooses && r.fields[k.Name].node != nil && r.tracker.name != "":
			r.invalid(r.fields[k.Name], "no effect with kind: "+r.tracker.name+
				": agents would work on every issue in an active state", "remove it")
		case r.tracker.name != "":
			r.warnKey(k.Name, "no effect with kind: "+r.tracker.name)
		}
	}
}

// together completes values that depend on other values, and warns about values that have no
// effect because of others, or that the agent would refuse.
func (r *reader) together() {
	r.checkAgents()
	agent := &r.cfg.Agent
	if agent.OnApproval == Ask && len(agent.others()) == 0 && r.cfg.Session.asksNothing() {
		r.warnKey("agent.on_approval", asksNothingText)
	}
	if agent.OnApproval != Ask && agent.OnQuestion != Ask {
		for _, key := range []string{"tracker.operators", "agent.answer_timeout_ms"} {
			r.warnKey(key, "no effect: neither agent.on_approval nor agent.on_question is ask")
		}
	}
	r.warnLimitedStates()
	r.completeRepository()
	r.checkEnv()
	r.checkMachines()
	r.refuseWiderRows()
	r.checkHandoff()
	r.warnUnused()
	if r.tracker.check != nil {
		r.tracker.check(trackerReader{r})
	}
	r.completeSession()
}

// warnKey adds a warning about a key, if the file contains the key.
func (r *values) warnKey(key, message string) {
	if line, set := r.lines[key]; set {
		r.warn(field{key: key, line: line}, message)
	}
}

// redact makes the copy of the file that is kept with a run: placeholders replace literal
// secrets.
func (r *reader) redact() {
	if r.cfg.KeyIsLiteral {
		key := r.cfg.Tracker.APIKey.Reveal()
		_, name, _ := cutLast(r.cfg.KeyName)
		hint := "set it in a variable, and write " + name + ": $" + r.cfg.KeyVar
		r.cfg.Redacted = nil
		if len(key) < shortestKey {
			r.invalid(r.field("tracker.api_key"), "too short for a key", hint)
			return
		}
		r.cfg.Redacted = r.replace("tracker.api_key", r.src.Data, key, LiteralKeyVar, hint)
	}
	if url := r.cfg.Literals()[literalPingVar]; url != "" && r.cfg.Redacted != nil {
		r.cfg.Redacted = r.replace(
			"monitor.ping_url",
			r.cfg.Redacted,
			url,
			literalPingVar,
			"set it in a variable, and write ping_url: $NAME",
		)
	}
}

// replace puts $variable in place of the literal value of a key, wherever the copy contains
// the value. The copy is read again, to refuse a value that it contains in another form, such
// as with escapes: then there is no copy.
func (r *values) replace(key string, data []byte, value, variable, hint string) []byte {
	literals := []field{r.field(key)}
	for _, k := range r.keys {
		if f := r.field(k.Name); k.same == key && f.node != nil && f.node != literals[0].node {
			literals = append(literals, f)
		}
	}
	text := strings.ReplaceAll(string(data), value, "$"+variable)
	// if the copy is invalid, the value is not found below
	src, _ := NewSource(r.src.Name, r.src.Path, []byte(text))
	again, _ := readFrontMatter(src, r.keys)
	for _, f := range literals {
		if kept := again.field(f.key).node; kept == nil || strings.TrimSpace(kept.Value) != "$"+variable {
			r.invalid(f, "a literal secret must be on one line, without escapes", hint)
			return nil
		}
	}
	return []byte(text)
}
