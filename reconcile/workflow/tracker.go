package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// tracker defines the keys below tracker for one kind of tracker.
type tracker struct {
	name, title      string   // the value of tracker.kind, and what people call it
	endpoint         string   // the default of tracker.endpoint
	active, terminal []string // the defaults of tracker.active_states and tracker.terminal_states
	always           string   // a terminal state, whatever the file lists, unless it is an active one; empty for none
	keyVars          []string // the variables that contain the key if the file names none
	needsKey         bool
	ofGitHub         bool   // the key is GitHub's: gh may have it, and it opens pull requests
	assigneeVar      string // contains the assignee if the file names none; empty for none
	// orders is set if blockers keep the first active state from starting, beside Todo, which the specification names.
	orders bool
	check  func(trackerReader) // checks what depends on several keys; may be nil
}

// trackers are the kinds of trackers.
var trackers = []tracker{
	{
		name: "linear", title: "Linear", endpoint: "https://api.linear.app/graphql",
		active: []string{"Todo", "In Progress"}, terminal: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
		keyVars: []string{APIKeyVar}, needsKey: true, assigneeVar: AssigneeVar,
	},
	{
		name: "file", title: "the folder",
		active: []string{"To Do", "Todo", "In Progress"}, terminal: []string{"Done", "Closed", "Canceled", "Cancelled", "Duplicate"},
		orders: true, check: trackerReader.protectFolder,
	},
	{
		name: "github", title: "GitHub", endpoint: "https://api.github.com",
		active: []string{"open"}, terminal: []string{"closed"}, always: "closed", // a closed issue blocks no other, whatever the labels
		keyVars: []string{GitHubTokenVar, "GH_TOKEN"}, needsKey: true, ofGitHub: true, orders: true, check: trackerReader.gitHubStates,
	},
	{
		name: "command", title: "the tracker's program",
		active: []string{"Todo", "In Progress"}, terminal: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
		orders: true, check: trackerReader.protectProgram,
	},
}

// TrackerKinds are the allowed values of tracker.kind.
func TrackerKinds() []string { return text.Map(trackers, func(t tracker) string { return t.name }) }

// trackerReader reads the keys below tracker: where the issues are, the key to them, and their states.
type trackerReader struct{ *reader }

func (r trackerReader) kind(f field) {
	kinds := TrackerKinds()
	kind := &r.cfg.Tracker.Kind
	*kind = strings.ToLower(*kind)
	r.tracker = tracker{title: "the tracker"} // the settings of an unknown kind are unknown
	if i := slices.Index(kinds, *kind); i >= 0 {
		r.tracker = trackers[i]
		return
	}
	switch {
	case f.node == nil && r.src.FrontMatter == nil:
		r.fail(CodeTrackerKind, f, "missing, because the file does not begin with a line ---",
			"write the keys between two lines of --- at its beginning")
	case f.node == nil:
		r.fail(CodeTrackerKind, f, "missing; the kinds are "+strings.Join(kinds, ", "), "write `kind: file` or another of them below `tracker:`")
	default:
		hint := "for any other tracker write a small program: kind: command, see docs/trackers.md"
		if near := text.Nearest(*kind, kinds); len(near) > 0 {
			hint = "write `kind: " + near[0] + "`"
		}
		r.fail(CodeTrackerKind, f, strconv.Quote(f.node.Value)+" is not supported; the kinds are "+strings.Join(kinds, ", "), hint)
	}
}

// place records where the issues are. f is the field that names it; identity tells the project from all others.
func (r trackerReader) place(f field, place, identity string) {
	r.cfg.Tracker.Place, r.cfg.Tracker.PlaceKey, r.cfg.Policy.Project = place, f.key, identity
}

// has reports whether the kind of tracker has a key.
func (t tracker) has(k Key) bool { return k.kinds == nil || slices.Contains(k.kinds, t.name) }

// ofKind warns about the keys that only other kinds of trackers have, and checks what depends on several keys of this kind.
func (r trackerReader) ofKind() {
	for _, k := range r.keys {
		if r.tracker.name != "" && !r.tracker.has(k) {
			r.warnKey(k.Name, "no effect with kind: "+r.tracker.name)
		}
	}
	if r.tracker.check != nil {
		r.tracker.check(r)
	}
}
