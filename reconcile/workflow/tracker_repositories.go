package workflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Repositories selects the issues of a tracker whose issues belong to repositories, with labels
// as states.
type Repositories struct {
	Names          []string // owner/name, as written; at least 1
	StateLabels    []string // labels that are states
	PriorityLabels []string // the most urgent first
	Project        string   // the address of a board on GitHub; empty for none
	repo           string
}

// repositoryKeys are the keys of each of these kinds.
func repositoryKeys(c *Config) []Key {
	list := []Key{
		key("tracker.provider.repo", typeString, "$"+gitHubRepoVar, &c.Tracker.Repositories.repo,
			"the repository with the issues, as owner/name or $NAME; on GitLab the default is $GITLAB_PROJECT_PATH"),
		key("tracker.provider.repos", typeStrings, "[]", &c.Tracker.Repositories.Names,
			"several repositories, instead of repo").thenTracker(trackerReader.repositories),
		key(
			"tracker.provider.state_labels",
			typeStrings,
			"[]",
			&c.Tracker.Repositories.StateLabels,
			"labels that are states: the first of them that an open issue has, else open (opened on GitLab)",
		).choosing(),
		key(
			"tracker.provider.priority_labels",
			typeStrings,
			"[P0, P1, P2, P3]",
			&c.Tracker.Repositories.PriorityLabels,
			"labels that are priorities, most urgent first",
		),
	}
	return text.Map(list, func(k Key) Key { return k.of(gitHubTracker.name, giteaTracker.name, gitLabTracker.name) })
}

const gitHubRepoVar = "GITHUB_REPO"

var (
	repositoryName = text.Pattern(`^[\w-]+/[\w.-]+$`)
	// such as group/sub/project, or the number of a project
	projectPath = text.Pattern(`^(?:[\w.-]+(?:/[\w.-]+)+|[1-9][0-9]{0,17})$`)
)

// names reports whether a text is the name of a repository.
func (t tracker) names(repo string) bool {
	isDots := func(part string) bool { return part == "." || part == ".." }
	if slices.ContainsFunc(strings.Split(repo, "/"), isDots) {
		return false
	}
	if t.groups {
		return projectPath().MatchString(repo)
	}
	return repositoryName().MatchString(repo)
}

// repositories reads provider.repo and provider.repos.
func (r trackerReader) repositories(f field) {
	form := "owner/name"
	if r.tracker.groups {
		form = "group/project"
	}
	hint := "write " + form + ", as in the address " + r.tracker.site + "/" + form
	g := &r.cfg.Tracker.Repositories
	one := r.field("tracker.provider.repo")
	item := func(i int) field { return r.item(f, i) }
	switch {
	case f.node != nil && one.node != nil:
		r.invalid(f, "conflicts with provider.repo", "keep one of them")
		return
	case f.node != nil && len(g.Names) == 0:
		r.fail(CodeMissingProject, f, "empty", hint)
		return
	case f.node == nil:
		f = one
		item = func(int) field { return one }
		if one.node == nil { // the default is GitHub's
			g.repo = r.variable(r.tracker.repoVar, r.tracker.repoVar)
		}
		if name, isVar := reference(g.repo); isVar {
			g.repo = r.variable(name, r.tracker.repoVar)
			if g.repo == "" && one.node != nil {
				r.fail(
					CodeMissingProject,
					f,
					"the environment variable "+name+" is not set, or empty",
					r.setHint(name),
				)
				return
			}
		}
		if g.repo == "" && one.node != nil && one.node.Kind != yaml.ScalarNode {
			return // reported
		}
		if g.repo == "" {
			r.fail(CodeMissingProject, f, "missing", hint)
			return
		}
		g.Names = []string{g.repo}
	}
	names := map[string]string{}
	for i, repo := range g.Names {
		name := strings.ToLower(repo[strings.LastIndexByte(repo, '/')+1:])
		other := names[name]
		switch {
		case repo == "": // reported
		case !r.tracker.names(repo):
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
	list := text.Map(g.Names, strings.ToLower)
	slices.Sort(list)
	r.place(
		f,
		strings.Join(g.Names, ", "),
		r.cfg.Tracker.Endpoint+" "+strings.Join(list, ","),
	)
}

// trackerAPI checks that tracker.endpoint is the address of an API of this kind.
func (r trackerReader) trackerAPI(kind ForgeKind) {
	r.apiAddress(r.field("tracker.endpoint"), r.cfg.Tracker.Endpoint, kind)
}

// labelStates warns about states that no issue can have.
func (r trackerReader) labelStates() {
	t := r.cfg.Tracker
	r.cfg.Tracker.NamedStates = append(r.cfg.Tracker.NamedStates, t.Repositories.StateLabels...)
	if _, set := r.lines["tracker.active_states"]; !set {
		for _, label := range t.Repositories.StateLabels {
			if slices.Contains([]string{"todo", "to do", "in progress"}, reconcile.NormalizeState(label)) {
				r.warnKey(
					"tracker.provider.state_labels",
					"agents leave issues in the state "+strconv.Quote(label)+
						" alone: add it to tracker.active_states",
				)
			}
		}
	}
	possible := slices.Concat(r.tracker.active, r.tracker.terminal, t.Repositories.StateLabels)
	known := text.Map(possible, reconcile.NormalizeState)
	check := func(f field, state string) {
		if slices.Contains(known, reconcile.NormalizeState(state)) {
			return
		}
		r.warnKey(
			f.key,
			"no issue has the state "+strconv.Quote(state)+": add it to provider.state_labels if it is a label; "+
				suggest.Instead(state, possible),
		)
	}
	r.eachHandoffState(check)
	for _, state := range r.cfg.Policy.ActiveStates {
		check(r.field("tracker.active_states"), state)
	}
	for _, state := range r.cfg.Policy.TerminalStates {
		check(r.field("tracker.terminal_states"), state)
	}
	r.eachHandoffState(r.warnLaterLabel)
}

// warnLaterLabel warns if the label of an active state stands before that of a state of handoff in
// state_labels: an issue with both would be worked on, although it waits for a person.
func (r trackerReader) warnLaterLabel(f field, state string) {
	labels := r.cfg.Tracker.Repositories.StateLabels
	isLabel := slices.ContainsFunc(labels, func(label string) bool { return reconcile.SameState(label, state) })
	if !isLabel {
		return
	}
	for _, label := range labels {
		if reconcile.SameState(label, state) {
			return
		}
		isOfGroup := strings.Contains(label, "::") // an issue on GitLab has only one of a group
		if r.cfg.Policy.Active(label) && !isOfGroup {
			r.warnKey("tracker.provider.state_labels", fmt.Sprintf(
				"%q (%s) stands after %q, so that agents would work on an issue with both labels: write %q first",
				state, f.key, label, state,
			))
			return
		}
	}
}
