package workflow

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
)

// reportUnknown reports the keys that are none of symphony's: as errors those below tracker and
// those that have the name of a key that chooses issues, as warnings all others.
func (r *reader) reportUnknown() {
	for _, f := range r.unknown {
		if r.refuseRemoved(f) || r.refuseMisplaced(f) || r.refuseChoosing(f) {
			continue
		}
		r.warn(f, "unknown key, ignored; "+r.instead(f.key))
	}
}

// refuseMisplaced reports a section with keys of its own that was indented below another one. It
// would be ignored as a whole.
func (r *reader) refuseMisplaced(f field) bool {
	_, section, isBelow := cutLast(f.key)
	if !isBelow || !slices.Contains(r.parents, section) || f.node.Kind != yaml.MappingNode {
		return false
	}
	known := slices.Concat(r.names, r.parents)
	for i := 0; i < len(f.node.Content); i += 2 {
		if slices.Contains(known, section+"."+f.node.Content[i].Value) {
			r.invalid(f, section+" is a section of its own, and has no effect here",
				"write its keys below "+section+": at the left margin")
			return true
		}
	}
	return false
}

// refuseChoosing reports an unknown key that may be meant to choose issues: without effect it would
// let agents work on issues that it leaves out. Such a key is below tracker, or has the name of a key
// that chooses issues, such as required_labels at the left margin. In the map of an unknown key it
// looks at all keys.
func (r *reader) refuseChoosing(f field) bool {
	if strings.HasPrefix(f.key, "tracker.") {
		section, _, _ := cutLast(f.key)
		_, word, _ := cutLast(f.key)
		hint := "remove it: " + r.siblings(section)
		near := cmp.Or(r.choosing(word), r.nearest(f.key))
		if near != "" {
			hint = "write " + near + ", or remove it"
		}
		r.invalid(f, "unknown key: agents would work on issues that it may leave out", hint)
		return true
	}
	_, word, _ := cutLast(f.key)
	if name := r.choosing(word); name != "" {
		r.invalid(
			f,
			"has no effect here: agents would work on issues that it leaves out",
			"write "+name+", or remove it",
		)
		return true
	}
	if f.node.Kind != yaml.MappingNode {
		return false
	}
	refused := false
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name := f.node.Content[i]
		below := field{
			key:  f.key + "." + name.Value,
			line: r.line(name),
			node: deref(f.node.Content[i+1]),
		}
		refused = r.refuseChoosing(below) || refused
	}
	return refused
}

// choosing returns the key of the file's tracker that chooses issues and has this last word, or a long
// one that is spelt almost like it, such as required_label; empty if there is none. A short word, such
// as term for team, may be anything.
func (r *reader) choosing(word string) string {
	word = plainKey(word)
	known := r.known()
	names := map[string]string{} // by their last words
	for _, k := range r.keys {
		_, last, _ := cutLast(k.Name)
		isNear := last == word || len(last) >= longWord
		if k.chooses && isNear && slices.Contains(known, k.Name) {
			names[last] = k.Name
		}
	}
	return names[suggest.Misspelt(word, slices.Sorted(maps.Keys(names)))]
}

const longWord = 8 // letters

// instead says what to write in place of an unknown key, or else lists the keys of its section.
func (r *reader) instead(key string) string {
	if near := r.nearest(key); near != "" {
		return "did you mean " + near + "?"
	}
	section, _, _ := cutLast(key)
	return r.siblings(section)
}

// nearest returns the nearest key of the same section; empty if there is none.
func (r *reader) nearest(key string) string {
	section, word, inSection := cutLast(key)
	near := suggest.Nearest(word, r.wordsIn(section))
	if near != "" && inSection {
		return section + "." + near
	}
	return near
}

// known returns the sections, and the keys that the tracker and the engine have, as far as the file
// names their kinds.
func (r *reader) known() []string {
	isOf := func(k Key) bool {
		if r.fields["tracker.kind"].node == nil {
			k.Kinds = nil
		}
		if r.fields["worker.engine.kind"].node == nil {
			k.engines = nil
		}
		return k.applies(r.tracker.name, r.cfg.Worker.Engine)
	}
	keys := text.Map(text.Filter(r.keys, isOf), func(k Key) string { return k.Name })
	return text.Unique(slices.Concat(r.parents, keys))
}

// wordsIn returns the last words of the known keys of a section; the sections for an empty one.
func (r *reader) wordsIn(section string) (words []string) {
	for _, name := range r.known() {
		if of, word, _ := cutLast(name); of == section && word != "observability" {
			words = append(words, word)
		}
	}
	return words
}

// siblings lists the keys of a section, or the sections for an empty one.
func (r *reader) siblings(section string) string {
	words := r.wordsIn(section)
	switch {
	case len(words) == 0:
		return "docs/workflow.md has all keys"
	case section == "":
		return "the sections are " + strings.Join(words, ", ")
	}
	return section + " has " + strings.Join(words, ", ")
}

// listed joins names by commas, and the last one by and.
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// plainKey is a key as it would be written here: requiredLabels and required-labels are
// required_labels.
func plainKey(key string) string {
	key = camelHump().ReplaceAllString(key, "${1}_$2")
	return strings.ToLower(strings.ReplaceAll(key, "-", "_"))
}

// camelHump matches where a word of a key such as requiredLabels begins.
var camelHump = text.Pattern(`([a-z0-9])([A-Z])`)

// cutLast cuts the last word off a key: tracker.provider and path of tracker.provider.path.
func cutLast(key string) (section, word string, inSection bool) {
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 {
		return "", key, false
	}
	return key[:dot], key[dot+1:], true
}
