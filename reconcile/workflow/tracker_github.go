package workflow

import (
	"net/url"

	"github.com/symphony-cron/symphony/internal/text"
)

var gitHubTracker = tracker{
	name:     "github",
	title:    "GitHub",
	endpoint: "https://api.github.com",
	// a closed issue blocks no other, whatever the labels
	active:   []string{"open"},
	terminal: []string{"closed"},
	always:   "closed",
	keyVars:  GitHubForge.TokenVars,
	needsKey: true,
	forge:    GitHubForge.Name,
	orders:   true,
	site:     "https://github.com",
	repoVar:  gitHubRepoVar,
	check:    trackerReader.gitHubStates,
	keys:     gitHubKeys,
}

// gitHubKeys are the keys that no other tracker of repositories has.
func gitHubKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.project", typeURL, "", &c.Tracker.Repositories.Project,
			"the board whose columns are the states of open issues").choosing().thenTracker(trackerReader.board),
	}
}

var boardPath = text.Pattern(`^/(?:orgs|users)/[\w-]+/projects/\d+(?:/|$)`)

// board checks provider.project.
func (r trackerReader) board(f field) {
	g := r.cfg.Tracker.Repositories
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
	r.trackerAPI(GitHubForge)
	if r.cfg.Tracker.Repositories.Project != "" {
		return
	}
	r.labelStates()
}
