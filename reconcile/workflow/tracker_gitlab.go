package workflow

var gitLabTracker = tracker{
	name:     "gitlab",
	title:    "GitLab",
	endpoint: "https://gitlab.com/api/v4",
	// a closed issue blocks no other, whatever the labels
	active:   []string{"opened"},
	terminal: []string{"closed"},
	always:   "closed",
	keyVars:  GitLabForge.TokenVars,
	needsKey: true,
	forge:    GitLabForge.Name,
	site:     "https://gitlab.com",
	repoVar:  "GITLAB_PROJECT_PATH",
	groups:   true,
	orders:   true,
	check:    trackerReader.gitLabSettings,
	keys:     func(*Config) []Key { return nil },
}

// gitLabSettings checks the address of the API.
func (r trackerReader) gitLabSettings() {
	r.labelStates()
	r.trackerAPI(GitLabForge)
}
