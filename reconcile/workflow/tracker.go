package workflow

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
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

// verbs are the values of tracker.provider.verbs.
var verbs = []string{"tool", "comment", "move"}

// trackerCommand checks the program that is the tracker. Its arguments are passed as written: every user of the machine can read
// them, so that a secret belongs into a variable, which the program gets anyway.
func (r trackerReader) trackerCommand(f field) {
	const hint = "name the program and its arguments, such as command: [python3, tracker.py]"
	command, key := r.cfg.Tracker.Command, r.cfg.Tracker.APIKey
	if len(command) == 0 {
		r.invalid(f, "missing", hint)
	}
	for i, word := range command {
		_, isVar := reference(word)
		switch {
		case isVar:
			r.invalid(r.item(f, i), strconv.Quote(word)+" is not replaced by the value of a variable",
				"let the program read the variable: it gets the whole environment")
		case len(key) >= shortestKey && strings.Contains(word, key.Reveal()):
			r.invalid(r.item(f, i), "an argument contains the tracker's key, and every user of the machine can read arguments",
				"let the program read the variable SYMPHONY_TRACKER_API_KEY")
		}
	}
	// The program and its arguments may change without becoming another project, whose claims and workspaces would be foreign.
	r.place(f, strings.Join(command, " "), "command "+r.src.Path)
}

func (r trackerReader) trackerVerbs(f field) {
	for i, verb := range r.cfg.Tracker.Verbs {
		if verb != "" && !slices.Contains(verbs, verb) {
			r.invalid(r.item(f, i), strconv.Quote(verb)+" is not a verb"+text.DidYouMean(verb, verbs, "%q"),
				"there are "+strings.Join(verbs, ", "))
		}
	}
}

// protectProgram refuses to let agents write the program or a file that its arguments name: they could run their own outside the
// sandbox, or move and answer issues.
func (r trackerReader) protectProgram() {
	f := r.field("tracker.provider.command")
	roots := append(slices.Clone(r.agentRoots("the tracker's program")), r.cfg.Workspace.Root)
	for i, word := range r.cfg.Tracker.Command {
		_, path, option := strings.Cut(word, "=")
		if !option {
			path = word
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(r.src.Path), path)
		}
		for _, root := range roots {
			if root != "" && paths.Inside(root, path) {
				r.invalid(r.item(f, i), path+" is in "+root+", which agents may write", "keep it where no agent can write")
			}
		}
	}
}

// folder checks provider.path.
func (r trackerReader) folder(f field) {
	switch dir := r.cfg.Tracker.Folder; {
	case dir == "" && f.node != nil: // reported
	case dir == "":
		r.invalid(f, "missing", "write the path of a folder with Markdown files, such as backlog/tasks")
	default:
		r.place(f, dir, "file "+dir)
	}
}

// protectFolder refuses settings that let agents write the folder of the issues: they could answer themselves.
func (r trackerReader) protectFolder() {
	dir := r.cfg.Tracker.Folder
	if dir == "" {
		return
	}
	overlaps := func(path string) bool { return paths.Overlap(path, dir) }
	f := r.field("tracker.provider.path")
	const hint = "keep the issues where agents cannot write"
	if root := r.cfg.Workspace.Root; overlaps(root) {
		r.invalid(f, dir+" overlaps workspace.root "+root+", where agents write", hint)
	}
	for _, root := range r.agentRoots(dir) {
		if filepath.IsAbs(root) && overlaps(root) {
			r.invalid(f, dir+" overlaps "+root+", which agents may write", hint)
		}
	}
}

// agentRoots returns the directories beside the workspaces that agents may write. It warns if they may write anywhere, and thereby
// what keeps the issues.
func (r trackerReader) agentRoots(issues string) []string {
	everywhere := "agents can write " + issues + ", and thereby move and answer every issue"
	roots := r.cfg.Agent.WritableRoots
	var policy struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
	}
	if r.cfg.Codex.TurnSandboxPolicy != nil && json.Unmarshal(r.cfg.Codex.TurnSandboxPolicy, &policy) == nil {
		roots = slices.Concat(roots, policy.WritableRoots)
		if policy.Type != "workspaceWrite" && policy.Type != "readOnly" {
			r.warn(r.field("codex.turn_sandbox_policy"), everywhere)
		}
	}
	if r.cfg.Agent.OnApproval == Approve && string(r.cfg.Codex.ApprovalPolicy) != `"never"` {
		r.warn(r.field("agent.on_approval"), "approved commands run outside the sandbox: "+everywhere)
	}
	return roots
}

// GitHub selects the issues on GitHub, with tracker.kind github.
type GitHub struct {
	Repos          []string // owner/name, as written; one or more
	StateLabels    []string // labels that are states
	PriorityLabels []string // the most urgent first
	Project        string   // the address of a board of the repositories' owner; empty for none
	StatusField    string   // the field of the board that contains the state
	ToolBudget     int      // how many requests the agent's tool may make in a run
	repo           string
}

const gitHubRepoVar = "GITHUB_REPO"

var (
	repositoryName = text.Pattern(`^[\w-]+/[\w.-]+$`)
	boardPath      = text.Pattern(`^/(?:orgs|users)/[\w-]+/projects/\d+(?:/|$)`)
)

// repositories reads provider.repo and provider.repos.
func (r trackerReader) repositories(f field) {
	const hint = "write owner/name, as in the address https://github.com/owner/name"
	g, one := &r.cfg.Tracker.GitHub, r.field("tracker.provider.repo")
	item := func(i int) field { return r.item(f, i) }
	switch {
	case f.node != nil && one.node != nil:
		r.invalid(f, "conflicts with provider.repo", "keep one of them")
		return
	case f.node != nil && len(g.Repos) == 0:
		r.fail(CodeMissingRepo, f, "empty", hint)
		return
	case f.node == nil:
		f, item = one, func(int) field { return one }
		if name, isVar := reference(g.repo); isVar {
			g.repo = r.variable(name, gitHubRepoVar)
			if g.repo == "" && one.node != nil {
				r.fail(CodeMissingRepo, f, "the environment variable "+name+" is not set, or empty", r.setHint(name, "it"))
				return
			}
		}
		if g.repo == "" {
			r.fail(CodeMissingRepo, f, "missing", hint)
			return
		}
		g.Repos = []string{g.repo}
	}
	names := map[string]string{}
	for i, repo := range g.Repos {
		_, name, _ := strings.Cut(strings.ToLower(repo), "/")
		switch other := names[name]; {
		case repo == "": // reported
		case !repositoryName().MatchString(repo) || name == "." || name == "..":
			r.invalid(item(i), strconv.Quote(repo)+" is not the name of a repository", hint)
		case other != "":
			r.invalid(item(i), other+" and "+repo+" have the same name, which begins the identifiers of their issues", "keep one of them")
		default:
			names[name] = repo
		}
	}
	list := slices.Sorted(slices.Values(g.Repos))
	r.place(f, strings.Join(g.Repos, ", "), r.cfg.Tracker.Endpoint+" "+strings.ToLower(strings.Join(list, ",")))
}

// board checks provider.project.
func (r trackerReader) board(f field) {
	g := r.cfg.Tracker.GitHub
	if f.node == nil {
		return
	}
	u, err := url.Parse(g.Project)
	switch {
	case err != nil || u.Host == "" || !boardPath().MatchString(u.Path):
		r.invalid(f, "not the address of a project", "open the project on GitHub and copy the address: https://github.com/orgs/OWNER/projects/1")
	case len(g.StateLabels) > 0:
		r.invalid(f, "conflicts with provider.state_labels", "keep one of them: both define the states")
	}
}

// gitHubStates warns about states that no issue can have. The columns of a board are known only to GitHub.
func (r trackerReader) gitHubStates() {
	t := r.cfg.Tracker
	if t.GitHub.Project != "" {
		return
	}
	r.warnKey("tracker.provider.status_field", "no effect without provider.project")
	r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, t.GitHub.StateLabels...)
	if _, set := r.lines["tracker.active_states"]; !set {
		for _, label := range t.GitHub.StateLabels {
			if slices.Contains([]string{"todo", "to do", "in progress"}, reconcile.NormalizeState(label)) {
				r.warnKey("tracker.provider.state_labels", "agents leave issues in the state "+strconv.Quote(label)+
					" alone: add it to tracker.active_states")
			}
		}
	}
	possible := append([]string{"open", "closed"}, t.GitHub.StateLabels...)
	known := text.Map(possible, reconcile.NormalizeState)
	warn := func(key string, states []string) {
		for _, state := range states {
			if !slices.Contains(known, reconcile.NormalizeState(state)) {
				r.warnKey(key, "no issue has the state "+strconv.Quote(state)+": the states are "+strings.Join(possible, ", ")+
					"; add it to provider.state_labels if it is a label")
			}
		}
	}
	warn("handoff.state", r.cfg.Handoff.States())
	warn("tracker.active_states", r.cfg.Policy.ActiveStates)
	warn("tracker.terminal_states", r.cfg.Policy.TerminalStates)
}
