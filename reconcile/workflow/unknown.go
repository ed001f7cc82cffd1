package workflow

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// reportUnknown reports the keys that are none of symphony's: those that choose issues in other
// programs as errors.
func (r *reader) reportUnknown() {
	for _, f := range r.unknown {
		if !r.refuseFilter(f) {
			r.warn(f, "unknown key, ignored"+r.instead(f))
		}
	}
}

// offer returns a key as it is written with the kinds of tracker, engine and agents that the
// file names: codex.model for agent.model, unless another agent than codex works. It is empty
// for a key, or a section, that would have no effect with them.
func (r *reader) offer(name string) string {
	if slices.Contains(r.parents, name) {
		isUseful := func(key string) bool { return strings.HasPrefix(key, name+".") && r.offer(key) == key }
		if name == "observability" || slices.ContainsFunc(r.names, isUseful) {
			return name
		}
		return ""
	}
	isKey := func(k Key) bool { return k.Name == name && r.mayHave(k) }
	if !slices.ContainsFunc(r.keys, isKey) {
		return ""
	}
	_, word, _ := cutLast(name)
	own := &r.cfg.Agent
	twin := name
	known := r.names
	switch {
	case !slices.Contains(AgentKinds(), own.Kind):
	case slices.Contains(ofOthers, name) && len(own.others()) == 0:
		twin = DefaultAgent + "." + word
		known = ofDefault
	case slices.Contains(ofDefault, name) && !slices.Contains(own.kinds(), DefaultAgent):
		twin = "agent." + word
		known = ofOthers
	}
	if !slices.Contains(known, twin) {
		return ""
	}
	return twin
}

// mayHave reports whether the tracker and the engine have a key, as far as the file names their kinds.
func (r *reader) mayHave(k Key) bool {
	if r.tracker.name == "" {
		k.Kinds = nil
	}
	if r.fields["worker.engine.kind"].node == nil {
		k.engines = nil
	}
	return k.applies(r.tracker.name, r.cfg.Worker.Engine)
}

// unindented returns the key that a key at the left margin would be below the section above it:
// handoff.state for a state that follows handoff. It is empty if the section has no such key.
func (r *reader) unindented(f field) string {
	if f.above == "" {
		return ""
	}
	return r.offer(f.above + "." + f.key)
}

// instead is the end of a message about an unknown key: what to write instead, if that is
// known.
func (r *reader) instead(f field) string {
	if meant := r.unindented(f); meant != "" {
		return "; did you mean " + meant + "? indent it below " + f.above
	}
	if advice, known := settings()[f.key]; known {
		return "; " + advice
	}
	if section := r.misplacedSection(f); section != "" {
		return "; did you mean " + section + ", at the left margin?"
	}
	near := r.suggest(f.key)
	if near == "" {
		return r.siblings(f.key)
	}
	return "; did you mean " + near + "?"
}

// siblings lists the keys of the section of an unknown key, as the end of a message. For a section
// that is off without its first key, such as merge, it says so. It is empty for a large section.
func (r *reader) siblings(key string) string {
	section, _, _ := cutLast(key)
	here := r.keysOf(section)
	here = text.Filter(here, func(name string) bool { return r.offer(name) == name })
	if len(here) < 2 {
		return ""
	}
	list := "; there are " + listed(here)
	if slices.Contains(switches, here[0]) && r.field(here[0]).node == nil {
		list += "; without " + here[0] + " the others have no effect"
	}
	return list
}

// mostListed is how many keys of a section are worth listing.
const mostListed = 8

// keysOf returns the keys of a section, none for a large one.
func (r *frontMatter) keysOf(section string) []string {
	list := text.Filter(text.Unique(r.names), func(name string) bool {
		of, _, inSection := cutLast(name)
		return inSection && of == section
	})
	if len(list) > mostListed {
		return nil
	}
	return list
}

// listed joins names by commas, and the last one by and.
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// switches are keys without which the other keys of their sections have no effect.
var switches = []string{"merge.when", "verify.command", "feedback.state", "handoff.state"}

// misplacedSection returns the section that was written below another one, such as verify for
// agent.verify; empty for another key. For a single value it returns the first key of the
// section, such as verify.command.
func (r *reader) misplacedSection(f field) string {
	word := f.key[strings.LastIndexByte(f.key, '.')+1:]
	if word == f.key || !slices.Contains(r.parents, word) || r.offer(word) == "" {
		return ""
	}
	if f.node.Kind != yaml.ScalarNode || null(f.node) {
		return word
	}
	isIn := func(name string) bool { return strings.HasPrefix(name, word+".") }
	return text.First(r.names, isIn)
}

// settings tells how to set what other programs set by a key of that name.
func settings() map[string]string {
	const inFile = "variables of hooks and agents belong into the environment file, which symphony doctor names"
	const tells = "hooks.on_attention is a script that runs when you are needed"
	const before = "before a workspace is created there is none to run in: hooks.after_create runs in the new one"
	const opens = "repository.deliver: pull-request opens them, and merge.when says when they are merged"
	return map[string]string{
		"codex.sandbox_mode":           "write codex.thread_sandbox",
		"env":                          inFile,
		"environment":                  inFile,
		"hooks.before_create":          before,
		"merge_request":                opens,
		"merge_requests":               opens,
		"notifications":                tells,
		"notify":                       tells,
		"pr":                           opens,
		"pull_request":                 opens,
		"pull_requests":                opens,
		"slack":                        tells,
		"webhook":                      tells,
		"tracker.provider.project_gid": "examples/trackers/asana.py reads it from ASANA_PROJECT_GID",
	}
}

// suggest returns the key that an unknown key may stand for; empty if there is none.
func (r *reader) suggest(key string) string {
	section, word, inSection := cutLast(key)
	if !inSection {
		return r.suggestTopLevel(word)
	}
	return cmp.Or(r.suggestIn(section+".", word), r.suggestSection(word))
}

// suggestSection returns the section whose name is part of a word, such as merge for auto_merge.
func (r *reader) suggestSection(word string) string {
	for _, section := range r.parents {
		isPart := slices.Contains(strings.Split(word, "_"), section) || strings.HasSuffix(word, section)
		if isPart && r.offer(section) != "" {
			return section + ", at the left margin"
		}
	}
	return ""
}

// suggestTopLevel returns the only key of a section with this last word, or else a similar name
// at the top level. The word interval_ms means
// polling.interval_ms; kind, which several sections have, may mean any of them.
func (r *reader) suggestTopLevel(word string) string {
	var same, topLevel []string
	for _, name := range slices.Concat(r.parents, r.names) {
		offer := r.offer(name)
		if offer == "" {
			continue
		}
		if strings.HasSuffix(name, "."+word) && !slices.Contains(same, offer) {
			same = append(same, offer)
		}
		if !strings.Contains(name, ".") {
			topLevel = append(topLevel, name)
		}
	}
	if len(same) == 1 {
		return same[0]
	}
	return cmp.Or(text.Nearest(word, topLevel)...)
}

// suggestIn returns a similar key of the same section, such as "agent.", or else the first key
// of another section with the same last word.
func (r *reader) suggestIn(section, word string) string {
	elsewhere := ""
	var here []string
	for _, name := range slices.Concat(r.parents, r.names) {
		offer := r.offer(name)
		if offer == "" {
			continue
		}
		rest, inSection := strings.CutPrefix(name, section)
		if inSection {
			here = append(here, rest)
		} else if strings.HasSuffix(name, "."+word) {
			elsewhere = cmp.Or(elsewhere, offer)
		}
	}
	if near := cmp.Or(text.Nearest(word, here)...); near != "" {
		return r.offer(section + near)
	}
	return elsewhere
}
