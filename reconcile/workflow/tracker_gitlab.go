package workflow

var gitLabTracker = tracker{
	name:     "gitlab",
	title:    "GitLab",
	aliases:  GitLabForge.aliases,
	endpoint: "https://gitlab.com/api/v4",
	// a closed issue blocks no other, whatever the labels
	active:   []string{"opened"},
	terminal: []string{"closed"},
	always:   "closed",
	keyVars:  GitLabForge.TokenVars,
	needsKey: true,
	forge:    GitLabForge.Name,
	place:    "tracker.provider.repo",
	site:     "https://gitlab.com",
	repoVar:  "GITLAB_PROJECT_PATH",
	groups:   true,
	orders:   true,
	check:    trackerReader.gitLabSettings,
	keys:     gitLabKeys,
}

// gitLabKeys are the keys that no other tracker of repositories has.
func gitLabKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.project_path", typeString, "", nil, "").sameAs("tracker.provider.repo"),
		key("tracker.provider.weights", typeBool, "false", &c.Tracker.Repositories.Weights,
			"the weight of an issue is its priority, 1 the most urgent, unless it has one of priority_labels"),
	}
}

// gitLabSettings checks the address of the API.
func (r trackerReader) gitLabSettings() {
	r.labelStates()
	r.trackerAPI(GitLabForge)
}
