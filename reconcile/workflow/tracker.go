package workflow

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Tracker is the source of the issues (specification 5.3.1).
type Tracker struct {
	Kind        string // a name in TrackerKinds
	Place       string // where the issues are, for people: the slug of a project
	PlaceKey    string // the key that names it
	Endpoint    string
	APIKey      Secret // empty only if Environment.KeyOptional allows it
	ProjectSlug string // as written; the slug of a URL
	// the key of a team of Linear, in upper case: only its issues; empty for every team
	Team        string
	NamedStates []string // the states that the file names, without the defaults
	CAFile      string
	ToolScope   string
	Folder      string // with the files of the issues, for kind file
	// neither active nor terminal states to which agents may move issues, for kind file
	OtherStates  []string
	Operators    []string // the users whose comments answer requests
	Repositories Repositories
	Jira         Jira
	// the program that is the tracker, with its arguments; only of the kind command
	Command []string
	Verbs   []string // its optional verbs
}

// Within says in words where the issues are: "project shop-1a2b3c4d5e6f", "team WEB", or both.
func (t Tracker) Within() string {
	switch {
	case t.Team == "":
		return "project " + t.Place
	case t.ProjectSlug == "":
		return "team " + t.Team
	}
	return "project " + t.Place + " and team " + t.Team
}

// tracker defines the keys below tracker for a kind of tracker.
type tracker struct {
	name, title      string   // the value of tracker.kind, and the usual name
	endpoint         string   // the default of tracker.endpoint
	endpointVar      string   // contains the endpoint if the file names none; empty for none
	active, terminal []string // the defaults of tracker.active_states and tracker.terminal_states
	// a state that is terminal unless it is active, whatever the file lists; empty for none
	always   string
	keyVars  []string // the variables that contain the key if the file names none
	needsKey bool
	// issues belong to projects with descriptions: prompts have issue.project_description
	describes bool
	// the kind of forge whose key the key is: it opens pull requests there, too
	forge       string
	assigneeVar string // contains the assignee if the file names none; empty for none
	site        string // the address of repositories, for hints
	repoVar     string // contains the repository if the file names none; empty for none
	groups      bool   // owners of repositories may have several parts: group/sub/project
	// orders: blocked issues in the first active state wait, too. The specification names only
	// Todo.
	orders bool
	keys   func(*Config) []Key // below tracker.provider
	check  func(trackerReader) // checks the rules between several keys; may be nil
}

// trackers are the kinds of trackers, each in its own file.
var trackers = []tracker{
	linearTracker, fileTracker, gitHubTracker, giteaTracker, gitLabTracker, jiraTracker, commandTracker,
}

// KeyVars returns the variables that may contain the key of a kind of tracker, the preferred
// variable first; nil for a tracker without a key. With gh, the program gh may know the key.
func KeyVars(kind string) (names []string, gh bool) {
	found := text.First(trackers, func(t tracker) bool { return t.name == kind })
	return found.keyVars, found.gh()
}

// gh reports whether the program gh may know the key.
func (t tracker) gh() bool {
	return text.First(forges, func(k ForgeKind) bool { return k.Name == t.forge }).Gh
}

// UsualStates returns the states in a project of a kind of tracker, if nobody changed them:
// the defaults of tracker.active_states and tracker.terminal_states for Linear, and none for
// other kinds, which know only states in use.
func UsualStates(kind string) []string {
	if kind != linearTracker.name {
		return nil
	}
	return slices.Concat(linearTracker.active, linearTracker.terminal)
}

// EveryKeyVar returns the variables that may contain a tracker's key or a forge's token, of any
// kind.
func EveryKeyVar() (names []string) {
	for _, t := range trackers {
		names = append(names, t.keyVars...)
	}
	for _, kind := range forges {
		names = append(names, kind.TokenVars...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TrackerKinds are the allowed values of tracker.kind.
func TrackerKinds() []string { return text.Map(trackers, func(t tracker) string { return t.name }) }

// OtherKind says how the issues of a service that is no kind of tracker, such as Asana, are worked on.
const OtherKind = "for any other tracker write a small program: kind: command, see docs/trackers.md"

// trackerReader reads the keys below tracker: where the issues are, the key to them, and their
// states.
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
	isRefused := slices.ContainsFunc(r.faults, func(l located) bool { return l.key == "tracker" })
	switch {
	case f.node == nil && isRefused: // the section is no map
	case f.node == nil:
		r.fail(
			CodeTrackerKind,
			f,
			"missing; the kinds are "+strings.Join(kinds, ", "),
			"write `kind: file` or another of them below `tracker:`, between two lines of ---",
		)
	default:
		hint := OtherKind
		if near := suggest.Nearest(*kind, kinds); near != "" {
			hint = "write `kind: " + near + "`"
		}
		r.fail(
			CodeTrackerKind,
			f,
			strconv.Quote(f.node.Value)+" is not supported; the kinds are "+strings.Join(kinds, ", "),
			hint,
		)
	}
}

// place records where the issues are. f is the field that names it; identity tells the project
// from all others.
func (r trackerReader) place(f field, place, identity string) {
	r.cfg.Tracker.Place = place
	r.cfg.Tracker.PlaceKey = f.key
	r.cfg.Policy.Project = identity
}

// agentRoots returns the directories beside the workspaces that agents may write. It warns if
// they may write anywhere, and so where the issues are kept, too.
func (r trackerReader) agentRoots(issues string) []string {
	everywhere := "agents can write " + issues + ", and thereby move and answer every issue"
	roots := r.cfg.Agent.WritableRoots
	for _, kind := range r.cfg.Agent.others() {
		if !r.cfg.sandboxed(kind) {
			r.warn(r.field("agent.sandbox"), everywhere)
			return nil
		}
	}
	if r.cfg.Agent.Sandbox == sandboxBwrap { // nothing that the agent is allowed leads out of it
		return roots
	}
	var policy struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
	}
	if r.cfg.Session.TurnSandboxPolicy != nil && json.Unmarshal(r.cfg.Session.TurnSandboxPolicy, &policy) == nil {
		roots = slices.Concat(roots, policy.WritableRoots)
		if policy.Type != "workspaceWrite" && policy.Type != "readOnly" {
			r.warn(r.field(keyTurnPolicy), everywhere)
		}
	}
	if r.cfg.Agent.OnApproval == Approve && string(r.cfg.Session.ApprovalPolicy) != `"never"` {
		r.warn(r.field("agent.on_approval"), "approved commands run outside the sandbox: "+everywhere)
	}
	return roots
}

// decides reports whether someone who can write a directory decides where a path leads,
// whatever the names of the two: the path is in the directory or leads through a link there.
// Empty and relative paths are not compared, such as the paths of a workflow that is no file.
// A path that can't be looked up is an error of the field, unless the machine ran out of
// descriptors.
func (r trackerReader) decides(f field, dir, path string) bool {
	if !filepath.IsAbs(dir) || !filepath.IsAbs(path) {
		return false
	}
	decides, err := paths.Reach(dir, path)
	if paths.LimitReached(err) {
		r.fail(
			reconcile.CodeResourceLimit,
			f,
			fmt.Sprintf("look up whether %s is in %s: %v", path, dir, err),
			"raise the limits of open files (ulimit -n) and processes (ulimit -u)",
		)
		return false
	}
	if err != nil {
		r.invalid(
			f,
			fmt.Sprintf("it is not known whether %s is in %s: %v", path, dir, err),
			"name it by another path",
		)
	}
	return decides
}

// NamesProjectDescription reports whether a template may use issue.project_description, which
// must then be requested from the tracker.
func NamesProjectDescription(template string) bool {
	return strings.Contains(template, "project_description")
}

// warnOfProjectDescription warns about each line of the prompt that names issue.project_description,
// if the tracker knows no such text.
func (r *reader) warnOfProjectDescription() {
	if r.tracker.name == "" || r.tracker.describes {
		return
	}
	for i, line := range strings.Split(r.src.Body, "\n") {
		if NamesProjectDescription(line) {
			r.warn(field{line: r.src.bodyLine + i},
				"issue.project_description is always null with kind: "+r.tracker.name)
		}
	}
}
