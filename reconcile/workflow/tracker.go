package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// tracker says what the keys below tracker mean for one kind of tracker.
type tracker struct {
	name, title      string   // the value of tracker.kind, and what people call it
	endpoint         string   // the default of tracker.endpoint
	active, terminal []string // the defaults of tracker.active_states and tracker.terminal_states
	keyVars          []string // the variables that contain the key if the file names none
	needsKey         bool
}

// trackers are the kinds of trackers.
var trackers = []tracker{
	{
		name: "linear", title: "Linear", endpoint: "https://api.linear.app/graphql",
		active: []string{"Todo", "In Progress"}, terminal: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
		keyVars: []string{APIKeyVar}, needsKey: true,
	},
	{
		name: "file", title: "the folder",
		active: []string{"To Do", "Todo", "In Progress"}, terminal: []string{"Done", "Closed", "Canceled", "Cancelled", "Duplicate"},
	},
	{
		name: "github", title: "GitHub", endpoint: "https://api.github.com",
		active: []string{"open"}, terminal: []string{"closed"},
		keyVars: []string{GitHubTokenVar, "GH_TOKEN"}, needsKey: true,
	},
	{
		name: "command", title: "the tracker's program",
		active: []string{"Todo", "In Progress"}, terminal: []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
	},
}

// TrackerKinds are the allowed values of tracker.kind.
func TrackerKinds() (names []string) {
	for _, t := range trackers {
		names = append(names, t.name)
	}
	return names
}

func (r *reader) kind(f field) {
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
		r.fail(CodeTrackerKind, f, "missing, because the file does not begin with a line ---", "write the keys between two lines of --- at its beginning")
	case f.node == nil:
		r.fail(CodeTrackerKind, f, "missing; there is "+strings.Join(kinds, ", "), "write `kind: file` or another of them below `tracker:`")
	default:
		hint := "for any other tracker write a small program: kind: command, see docs/trackers.md"
		if near := text.Nearest(*kind, kinds); len(near) > 0 {
			hint = "write `kind: " + near[0] + "`"
		}
		r.fail(CodeTrackerKind, f, strconv.Quote(f.node.Value)+" is not supported; there is "+strings.Join(kinds, ", "), hint)
	}
}

// place records where the issues are. f is the field that says so; identity tells the project from all others.
func (r *reader) place(f field, place, identity string) {
	r.cfg.Tracker.Place, r.cfg.Tracker.PlaceKey, r.cfg.Policy.Project = place, f.key, identity
}

// ofKind warns about the keys that only other kinds of trackers have.
func (r *reader) ofKind() {
	for _, k := range r.keys {
		if k.kinds != nil && r.tracker.name != "" && !slices.Contains(k.kinds, r.tracker.name) {
			r.warnKey(k.Name, "no effect with kind: "+r.tracker.name)
		}
	}
}
