package workflow

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

var gitHubTracker = tracker{
	name:     "github",
	title:    "GitHub",
	endpoint: "https://api.github.com",
	// a closed issue blocks no other, whatever the labels
	active:      []string{"open"},
	terminal:    []string{"closed"},
	always:      "closed",
	keyVars:     GitHubForge.TokenVars,
	needsKey:    true,
	forge:       GitHubForge.Name,
	orders:      true,
	tellsLabels: true,
	check:       trackerReader.gitHubStates,
	keys:        gitHubKeys,
}

// gitHubKeys are the keys of this kind.
func gitHubKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.api_url", typeURL, "", nil, "").sameAs("tracker.endpoint"),
		key("tracker.provider.token", typeString, "", nil, "").sameAs("tracker.api_key"),
		key("tracker.provider.repo", typeString, "$"+gitHubRepoVar, &c.Tracker.GitHub.repo,
			"the repository with the issues, as owner/name, or $NAME; required unless repos is given"),
		key("tracker.provider.repos", typeStrings, "[]", &c.Tracker.GitHub.Repos,
			"several repositories, instead of repo").thenTracker(trackerReader.repositories),
		key(
			"tracker.provider.state_labels",
			typeStrings,
			"[]",
			&c.Tracker.GitHub.StateLabels,
			"labels that are states: the state of an open issue is the first of these labels that it has, else open",
		),
		key("tracker.provider.project", typeURL, "", &c.Tracker.GitHub.Project,
			"the board whose columns are the states of open issues").thenTracker(trackerReader.board),
		key("tracker.provider.status_field", typeString, "Status", &c.Tracker.GitHub.StatusField,
			"the board's field that contains the column"),
		key(
			"tracker.provider.priority_labels",
			typeStrings,
			"[P0, P1, P2, P3]",
			&c.Tracker.GitHub.PriorityLabels,
			"labels that are priorities, most urgent first",
		),
		key("tracker.provider.tool_budget", typeInteger, "200", &c.Tracker.GitHub.ToolBudget,
			"limit of the requests that the agent's tool may make in a run").atLeast(1),
	}
}

// GitHub selects the issues on GitHub, with tracker.kind github.
type GitHub struct {
	Repos          []string // owner/name, as written; at least 1
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
	g := &r.cfg.Tracker.GitHub
	one := r.field("tracker.provider.repo")
	item := func(i int) field { return r.item(f, i) }
	switch {
	case f.node != nil && one.node != nil:
		r.invalid(f, "conflicts with provider.repo", "keep one of them")
		return
	case f.node != nil && len(g.Repos) == 0:
		r.fail(CodeMissingRepo, f, "empty", hint)
		return
	case f.node == nil:
		f = one
		item = func(int) field { return one }
		if name, isVar := reference(g.repo); isVar {
			g.repo = r.variable(name, gitHubRepoVar)
			if g.repo == "" && one.node != nil {
				r.fail(
					CodeMissingRepo,
					f,
					"the environment variable "+name+" is not set, or empty",
					r.setHint(name, "it"),
				)
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
		other := names[name]
		switch {
		case repo == "": // reported
		case !repositoryName().MatchString(repo) || name == "." || name == "..":
			r.invalid(item(i), strconv.Quote(repo)+" is not the name of a repository", hint)
		case other != "":
			r.invalid(
				item(i),
				other+" and "+repo+" have the same name, which begins the identifiers of their issues",
				"keep one of them",
			)
		default:
			names[name] = repo
		}
	}
	// neither the order of the list nor the case of a name makes another project
	list := text.Map(g.Repos, strings.ToLower)
	slices.Sort(list)
	r.place(
		f,
		strings.Join(g.Repos, ", "),
		r.cfg.Tracker.Endpoint+" "+strings.Join(list, ","),
	)
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
		r.invalid(
			f,
			"not the address of a project",
			"open the project on GitHub and copy the address: https://github.com/orgs/OWNER/projects/1",
		)
	case len(g.StateLabels) > 0:
		r.invalid(f, "conflicts with provider.state_labels", "keep one of them: both define the states")
	}
}

// gitHubStates warns about states that no issue can have. The columns of a board are known
// only to GitHub.
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
				r.warnKey(
					"tracker.provider.state_labels",
					"agents leave issues in the state "+strconv.Quote(label)+
						" alone: add it to tracker.active_states",
				)
			}
		}
	}
	possible := append([]string{"open", "closed"}, t.GitHub.StateLabels...)
	known := text.Map(possible, reconcile.NormalizeState)
	check := func(f field, state string) {
		if !slices.Contains(known, reconcile.NormalizeState(state)) {
			r.warnKey(
				f.key,
				"no issue has the state "+strconv.Quote(state)+": the states are "+strings.Join(possible, ", ")+
					"; add it to provider.state_labels if it is a label",
			)
		}
	}
	r.eachHandoffState(check)
	for _, state := range r.cfg.Policy.ActiveStates {
		check(r.field("tracker.active_states"), state)
	}
	for _, state := range r.cfg.Policy.TerminalStates {
		check(r.field("tracker.terminal_states"), state)
	}
}
