package workflow

var giteaTracker = tracker{
	name:  "gitea",
	title: "Gitea",
	// a closed issue blocks no other, whatever the labels
	active:   []string{"open"},
	terminal: []string{"closed"},
	always:   "closed",
	keyVars:  GiteaForge.TokenVars,
	needsKey: true,
	forge:    GiteaForge.Name,
	site:     "https://gitea.example.com",
	orders:   true,
	check:    trackerReader.giteaSettings,
	keys:     func(*Config) []Key { return nil },
}

// giteaSettings checks the address of the API, which every server has at another host.
func (r trackerReader) giteaSettings() {
	r.labelStates()
	if r.cfg.Tracker.Endpoint == "" {
		r.invalid(
			r.field("tracker.endpoint"),
			"missing",
			"write the address of the API: https://HOST"+GiteaForge.apiPath,
		)
		return
	}
	r.trackerAPI(GiteaForge)
}
