package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// reportUnknown reports the keys that are none of symphony's: those that choose issues in other
// programs as errors.
func (r *reader) reportUnknown() {
	for _, f := range r.unknown {
		if r.refuseMisplaced(f) || r.refuseFilter(f) {
			continue
		}
		r.warn(f, "unknown key, ignored"+r.instead(f))
	}
}

// refuseMisplaced reports a section with keys of its own that was indented below another one. It
// would be ignored as a whole.
func (r *reader) refuseMisplaced(f field) bool {
	section := r.misplacedSection(f)
	if section == "" || f.node.Kind != yaml.MappingNode {
		return false
	}
	known := slices.Concat(r.names, r.parents)
	for i := 0; i < len(f.node.Content); i += 2 {
		if slices.Contains(known, section+"."+f.node.Content[i].Value) {
			hint := "begin the line " + section + ": at the left margin, and indent its keys below it"
			if line, given := r.lines[section]; given {
				hint = fmt.Sprintf("move its keys below %s: on line %d", section, line)
			}
			r.invalid(f, section+" is a section of its own, and has no effect here", hint)
			return true
		}
	}
	return false
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
	if r.fields["tracker.kind"].node == nil {
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
		section, _, _ := cutLast(meant)
		place := "indent it below " + f.above
		if section != f.above { // codex.model for a model that follows agent
			place = "write it below " + section + ":, indented"
		}
		return "; did you mean " + meant + "? " + place
	}
	near := cmp.Or(r.suggestMap(f), r.suggestBoard(f))
	ways := []func(string) string{r.placeFor, r.ofBlock, r.ofSection, r.sameIn, r.ofOtherSection, r.ofOthers}
	for _, find := range ways {
		if near == "" {
			near = find(f.key)
		}
	}
	if near == "" {
		if section := r.misplacedSection(f); section != "" {
			near = section + ", at the left margin"
		}
	}
	near = cmp.Or(near, r.suggest(f.key))
	switch {
	case near == "":
		return r.siblings(f.key)
	case isSentence(near):
		return "; " + near
	}
	return "; did you mean " + near + r.converted(f, near) + "?"
}

// converted is a value as the suggested key takes it, with a colon, if it has another form there:
// 600000 for 10m.
func (r *reader) converted(f field, near string) string {
	isKey := func(k Key) bool { return k.Name == near }
	i := slices.IndexFunc(r.keys, isKey)
	if i < 0 || f.node == nil || f.node.Kind != yaml.ScalarNode {
		return ""
	}
	if _, isNumber := digits(f.node); isNumber {
		return ""
	}
	value, is := strings.CutPrefix(numberHint(r.keys[i], f), "write ")
	if !is || r.keys[i].Type != typeMS {
		return ""
	}
	return ": " + value
}

// isSentence reports whether a hint is a sentence, and not a key, which may have a place behind it:
// verify.command, at the left margin.
func isSentence(hint string) bool {
	key, _, _ := strings.Cut(hint, ", at the left margin")
	return strings.Contains(key, " ")
}

// suggestMap returns the section whose name a key at the top misspells, if it is a map, as workers
// with a list of hosts is; empty for another key.
func (r *reader) suggestMap(f field) string {
	if strings.Contains(f.key, ".") || f.node == nil || f.node.Kind != yaml.MappingNode {
		return ""
	}
	isSection := func(name string) bool { return !strings.Contains(name, ".") && r.offer(name) != "" }
	sections := text.Filter(r.parents, isSection)
	return text.Misspelt(plainKey(f.key), sections)
}

// suggestBoard returns the key for the address of a board, such as /orgs/acme/projects/4, whatever
// the name of the key that has it; empty for another value.
func (r *reader) suggestBoard(f field) string {
	if f.node == nil {
		return ""
	}
	_, path := splitAddress(f.node.Value)
	if !boardPath().MatchString(path) {
		return ""
	}
	return r.offer("tracker.provider.project")
}

// ofSection returns what the key of another program means in the section in which it stands.
func (r *reader) ofSection(key string) string {
	if !strings.Contains(key, ".") {
		return ""
	}
	key = plainKey(key)
	short := strings.Replace(key, "tracker.provider.", "tracker.", 1)
	return cmp.Or(r.firstOffered(otherKeysFor(key)), r.firstOffered(otherKeysFor(short)))
}

// ofBlock returns the key, or the sentence, for a key at the top that begins with the name of its
// section, as an environment variable does: repository.token for repository_token.
func (r *reader) ofBlock(key string) string {
	if strings.Contains(key, ".") {
		return ""
	}
	word := plainKey(key)
	isSame := func(name string) bool {
		return strings.ReplaceAll(name, ".", "_") == word && strings.Contains(name, ".")
	}
	same := text.First(slices.Concat(r.names, r.parents), isSame)
	if same != "" {
		return r.offer(same)
	}
	for _, section := range r.parents {
		rest, isBelow := strings.CutPrefix(word, section+"_")
		if !isBelow || strings.Contains(section, ".") {
			continue
		}
		below := section + "." + rest
		return cmp.Or(r.ofSection(below), r.sameIn(below), r.suggestIn(section+".", rest))
	}
	return ""
}

// ofOthers returns what the key of another program means in any section.
func (r *reader) ofOthers(key string) string {
	_, word, _ := cutLast(key)
	word = plainKey(word)
	return cmp.Or(r.firstOffered(otherKeysFor(word)), r.ofCore(coreOf(word)))
}

// ofCore is ofOthers for a word without its fillers.
func (r *reader) ofCore(core string) string {
	if core == "" {
		return ""
	}
	return cmp.Or(r.firstOffered(otherKeysFor(core+"s")), r.firstOffered(otherKeysFor(core)))
}

// firstOffered returns the first sentence, or key that has an effect with the file.
func (r *reader) firstOffered(meant []string) string {
	for _, hint := range meant {
		if isSentence(hint) {
			return hint
		}
		if key := r.offer(hint); key != "" {
			return key
		}
	}
	return ""
}

// sameIn returns the key that a key of the same section is in other letters, or with another unit:
// hooks.timeout_ms for hooks.timeoutSeconds.
func (r *reader) sameIn(key string) string {
	section, word, inSection := cutLast(key)
	if !inSection {
		return ""
	}
	return r.withCore(plainKey(word), func(of string) bool { return of == section })
}

// withCore returns the only key whose last word has the same core as a word, and stands in a
// section for which is holds. A key of exactly that word comes first; empty if there are several.
func (r *reader) withCore(word string, is func(section string) bool) string {
	core := coreOf(word)
	var similar []string
	exact := ""
	for _, name := range slices.Concat(r.parents, r.names) {
		section, last, _ := cutLast(name)
		offer := r.offer(name)
		switch {
		case !is(section) || offer == "":
		case last == word:
			exact = cmp.Or(exact, offer)
		case core != "" && coreOf(last) == core:
			similar = append(similar, offer)
		}
	}
	similar = text.Unique(similar)
	if exact == "" && len(similar) == 1 {
		return similar[0]
	}
	return exact
}

// siblings lists the keys of the section of an unknown key, or the sections for a key at the top,
// as the end of a message. For a section that is off without its first key, such as merge, it says
// so.
func (r *reader) siblings(key string) string {
	section, _, inSection := cutLast(key)
	var here []string
	for _, name := range slices.Concat(r.parents, text.Unique(r.names)) {
		of, word, _ := cutLast(name)
		if of == section && name != "observability" && r.offer(name) == name && !slices.Contains(here, word) {
			here = append(here, word)
		}
	}
	switch {
	case len(here) == 0:
		return ""
	case !inSection:
		return "; the sections are " + listed(here)
	case len(here) == 1:
		return "; " + section + " has only " + here[0]
	}
	list := "; " + section + " has " + shortList(here)
	first := section + "." + here[0]
	if slices.Contains(switches, first) && r.field(first).node == nil {
		list += "; without " + first + " the others have no effect"
	}
	return list
}

// longestList is the length of the longest list of keys in a message.
const longestList = 230

// shortList is listed, and names the documentation where there are too many keys for a line.
func shortList(keys []string) string {
	list := listed(keys)
	if len(list) <= longestList {
		return list
	}
	cut := strings.LastIndex(list[:longestList], ",")
	return list[:cut] + " and more: docs/workflow.md has them all"
}

// mostListed is how many keys of a section are worth listing in a hint.
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

// placeWords are names that people give to the place of the issues, whatever the tracker is.
var placeWords = []string{
	"dir", "directory", "folder", "name", "org", "organization", "owner", "path", "project", "project_id", "project_key",
	"project_path", "project_slug", "repo", "repository", "team", "team_key",
}

// placeFor returns the key that says where the tracker's issues are, if a key of the section
// tracker has another name for it: tracker.provider.repo for tracker.provider.repository.
// It is empty for other keys, and if the file has that key.
func (r *reader) placeFor(key string) string {
	section, word, _ := cutLast(key)
	isOfTracker := section == "tracker" || section == "tracker.provider"
	if !isOfTracker || !slices.Contains(placeWords, word) || r.fields[r.tracker.place].node != nil {
		return ""
	}
	return r.tracker.place
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

// suggestTopLevel returns a section, or a key at the top, with a similar name, or else the only key
// of a section with this last word. The word interval_ms means polling.interval_ms; kind, which
// several sections have, may mean any of them.
func (r *reader) suggestTopLevel(word string) string {
	word = plainKey(word)
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
	section, _, _ := strings.Cut(r.suggestSection(word), ",")
	near := cmp.Or(text.Misspelt(word, topLevel), section)
	if near != "" || len(same) > 1 {
		return near
	}
	return r.withCore(word, func(section string) bool { return section != "" })
}

// ofEverySection are last words of keys that mean something else in each section: merge.label and
// agent.by_label have nothing to do with each other.
var ofEverySection = strings.Fields("api base checks command conflicts connect count endpoint file files home host " +
	"id key kind label labels method name path repo repos reviews root rounds start state states status stop token " +
	"tokens url when")

// suggestIn returns the key of the same section, such as "agent.", that a word misspells or of which
// it is a part, or else the first key of another section with the same last word, if that word can
// mean nothing else.
func (r *reader) suggestIn(section, word string) string {
	word = plainKey(word)
	var here []string
	for _, name := range slices.Concat(r.parents, r.names) {
		rest, inSection := strings.CutPrefix(name, section)
		if inSection && r.offer(name) != "" {
			here = append(here, rest)
		}
	}
	near := cmp.Or(text.Misspelt(word, here), partOf(word, here))
	if near != "" {
		return r.offer(section + near)
	}
	if slices.Contains(ofEverySection, word) {
		return ""
	}
	return r.withCore(word, func(of string) bool { return of+"." != section })
}

// partOf returns the shortest key that has all words of a word, such as max_retry_backoff_ms for
// retry_backoff, or else the key with which a word ends, such as token for our_token; empty if there
// is none.
func partOf(word string, keys []string) string {
	found := ""
	for _, key := range keys {
		words := strings.Split(key, "_")
		lacks := func(part string) bool { return !slices.Contains(words, part) }
		if slices.ContainsFunc(strings.Split(word, "_"), lacks) {
			continue
		}
		if found == "" || len(key) < len(found) {
			found = key
		}
	}
	if found == "" {
		return text.First(keys, func(key string) bool { return strings.HasSuffix(word, "_"+key) })
	}
	return found
}
