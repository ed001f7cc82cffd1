package workflow

import (
	"cmp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
)

// filterWords are the words of keys with which programs choose issues, each with the key of
// symphony that does so; "" if there is none. A key with such a word and without effect would
// let agents work on issues that it excludes, so that it is an error and not ignored.
var filterWords = map[string]string{
	"label":     "tracker.required_labels",
	"labels":    "tracker.required_labels",
	"tags":      "tracker.required_labels",
	"state":     "tracker.active_states",
	"states":    "tracker.active_states",
	"status":    "tracker.active_states",
	"statuses":  "tracker.active_states",
	"assignee":  "tracker.assignee",
	"assignees": "tracker.assignee",
	"assigned":  "tracker.assignee",
	"author":    "",
	"authors":   "",
	"creator":   "",
	"reporter":  "",
	"column":    "tracker.active_states",
	"columns":   "tracker.active_states",
	"sprint":    "",
	"iteration": "",
	"board":     "",
	"team":      "tracker.team",
	"teams":     "tracker.team",
	"filter":    "",
	"filters":   "",
	"query":     "",
	"jql":       "tracker.provider.jql",
	"exclude":   "",
	"include":   "",
	"milestone": "",
	"cycle":     "",
	"epic":      "",
}

// choosingWords are the words of sections and keys that are about the choice of issues, such
// as linear in linear.labels and dispatch in worker.dispatch_states. The labels of
// docker.labels or of pull_request.labels choose none.
var choosingWords = []string{
	"tracker", "linear", "github", "gitlab", "jira", "asana", "trello", "plane",
	"issue", "issues", "ticket", "tickets", "task", "tasks", "backlog", "board", "queue", "project", "projects",
	"dispatch", "dispatcher", "pickup", "poll", "polling", "candidate", "candidates", "source", "sources",
	"active", "required", "select", "selection",
}

// choosingSections are the words of sections of the top whose own keys choose issues, such as
// orchestrator.labels. Below them, as in orchestrator.docker.labels, only other words count.
var choosingSections = []string{"orchestrator", "scheduler", "symphony", "agent", "agents"}

// narrowingWords are the words of keys below the key of a filter, such as labels.include.
var narrowingWords = []string{"include", "exclude", "filter", "filters", "required", "ignore"}

// negations are words of keys that leave issues out, such as skip_labels.
var negations = strings.Fields("exclude excluded excludes ignore ignored skip skipped without except blocked not no")

// filterKeys are the keys that choose issues, for the hint of a filter without a counterpart.
var filterKeys = []string{
	"tracker.project_slug", "tracker.team", "tracker.provider.jql", "tracker.active_states", "tracker.required_labels",
	"tracker.assignee",
}

// refuseFilter reports an unknown key that chooses issues in another program, or misspells a
// key of symphony. It reports false for other keys. Below an unknown section it looks at all
// keys.
func (r *reader) refuseFilter(f field) bool {
	section, _, inSection := cutLast(f.key)
	ofTracker := section == "tracker" || section == "tracker.provider"
	if inSection && slices.Contains(r.parents, section) && !ofTracker {
		return false // such as hooks or repository, which choose no issues
	}
	isMap := f.node != nil && f.node.Kind == yaml.MappingNode
	if use, is := choosesIssues(f.key, isMap); is {
		if meant := r.unindented(f); meant != "" {
			r.invalid(f, "is at the left margin, where it has no effect", "for "+meant+", indent it below "+f.above)
			return true
		}
		block := r.ofBlock(f.key)
		ofOtherBlock := block != "" && !strings.HasPrefix(block, "tracker.")
		if (choosesOther(f.key) || ofOtherBlock || r.ofOtherSection(f.key) != "") && !isMap {
			return false
		}
		r.invalid(
			f,
			"is no key of symphony: without this filter agents would work on every issue in an active state",
			r.filterHint(f, use),
		)
		return true
	}
	if !isMap {
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
		refused = r.refuseFilter(below) || refused
	}
	return refused
}

// choosesOther reports whether a key is known from other programs, where it chooses no issues, although
// it contains a word such as state or labels: state_dir, review_state, pr_labels.
func choosesOther(key string) bool {
	meant := otherKeysFor(plainKey(key))
	ofTracker := func(use string) bool { return strings.HasPrefix(use, "tracker.") }
	return len(meant) > 0 && !slices.ContainsFunc(meant, ofTracker)
}

// ofOtherSection returns the key of another section than tracker that an unknown key is by its
// name, and that can mean nothing else: handoff.blocked_state for tracker.blocked_state. It is
// empty for other keys.
func (r *reader) ofOtherSection(key string) string {
	section, word, inSection := cutLast(key)
	word = plainKey(word)
	if !inSection || slices.Contains(ofEverySection, word) {
		return ""
	}
	isOfWord := func(name string) bool {
		of, last, _ := cutLast(name)
		return last == word && of != section && !strings.HasPrefix(of, "tracker")
	}
	same := text.Unique(text.Filter(r.names, isOfWord))
	if len(same) != 1 {
		return ""
	}
	return r.offer(same[0])
}

// choosesIssues reports whether an unknown key chooses issues in another program, and which key
// of symphony does the same, empty for none.
func choosesIssues(key string, isMap bool) (use string, is bool) {
	section, word, inSection := cutLast(key)
	use, is = filterOf(word)
	if !inSection {
		// such as filters, but not the section state
		isSection := isMap && use != "" && !hasWord(key, choosingWords)
		return use, is && !isSection
	}
	ofTop := !strings.Contains(section, ".")
	narrowed, narrows := filterOf(section)
	if ofTop && narrows && hasWord(word, narrowingWords) {
		// such as include in labels.include of the top, but not in docker.labels.include
		if hasWord(word, []string{"exclude", "ignore"}) {
			return use, true
		}
		return narrowed, true
	}
	chooses := hasWord(key, choosingWords) || ofTop && hasWord(section, choosingSections)
	return use, is && chooses
}

// filterHint is what to do about a key that chooses issues in another program. use is the key
// of symphony that does the same, empty for none.
func (r *reader) filterHint(f field, use string) string {
	known := cmp.Or(r.suggestBoard(f), r.firstOffered(otherKeysFor(plainKey(f.key))))
	if strings.HasPrefix(known, "tracker.") {
		use = known
	}
	section, word, _ := cutLast(f.key)
	of := func(name string) bool {
		above, _, _ := cutLast(name)
		return above == section && r.offer(name) == name
	}
	words := text.Map(text.Filter(r.names, of), func(name string) string { return name[len(section)+1:] })
	if near := text.Misspelt(plainKey(word), words); near != "" { // tracker.terminal_state
		use = section + "." + near
	}
	switch {
	case f.key == "tracker.state" && f.node.Kind == yaml.ScalarNode && r.field("handoff.state").node == nil:
		return "write tracker.active_states: [" + f.node.Value + "] if agents work on issues in this state, or " +
			"handoff.state: " + f.node.Value + " if issues wait in it for your review"
	case strings.HasPrefix(known, "handoff."): // tracker.review_state
		return "write " + known + " instead, in its own section"
	case hasWord(f.key, negations):
		return "no key leaves issues out: remove it, give those that agents may work on a label, and name that in " +
			"tracker.required_labels"
	case r.offer(use) != "":
		return "write " + use + r.asFilter(f.node, use) + " instead"
	}
	keys := text.Filter(filterKeys, func(key string) bool { return r.offer(key) != "" })
	last := len(keys) - 1
	return "remove it: symphony chooses issues by " + strings.Join(keys[:last], ", ") + " and " + keys[last]
}

// asFilter is a value as it is written behind a key that chooses issues, with a colon; empty for a map.
func (r *reader) asFilter(value *yaml.Node, key string) string {
	var items []string
	switch {
	case value == nil || value.Kind == yaml.MappingNode:
		return ""
	case value.Kind == yaml.ScalarNode:
		items = []string{value.Value}
	default:
		items = text.Map(value.Content, func(item *yaml.Node) string { return item.Value })
	}
	list := strings.Join(items, ", ")
	isList := func(k Key) bool { return k.Name == key && strings.HasPrefix(k.Type, "list") }
	if slices.ContainsFunc(r.keys, isList) {
		list = "[" + list + "]"
	}
	return ": " + list
}

// filterOf reports whether a key contains a word of a filter, such as labels in pickup_labels,
// and which key of symphony does the same.
func filterOf(key string) (use string, is bool) {
	for _, word := range wordsOf(key) {
		does, known := filterWords[word]
		is = is || known
		use = cmp.Or(use, does)
	}
	return use, is
}

// hasWord reports whether any of the words of a key is in a list.
func hasWord(key string, list []string) bool {
	return slices.ContainsFunc(wordsOf(key), func(word string) bool { return slices.Contains(list, word) })
}

// wordsOf returns the words of a key: docker, extra and labels of docker.extra_labels; also
// pickup and labels of pickupLabels, beside pickuplabels.
func wordsOf(key string) (words []string) {
	parts := strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune("._-", r) })
	for _, part := range parts {
		whole := strings.ToLower(part)
		words = append(words, whole)
		split := strings.Fields(strings.ToLower(camelHump().ReplaceAllString(part, "$1 $2")))
		if len(split) > 1 {
			words = append(words, split...)
		}
	}
	return words
}

// camelHump matches where a word of a key such as pickupLabels begins.
var camelHump = text.Pattern(`([a-z0-9])([A-Z])`)

// cutLast cuts the last word off a key: tracker.provider and path of tracker.provider.path.
func cutLast(key string) (section, word string, inSection bool) {
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 {
		return "", key, false
	}
	return key[:dot], key[dot+1:], true
}
