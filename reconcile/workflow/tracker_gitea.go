package workflow

import (
	"net/url"
	"strings"
)

var giteaTracker = tracker{
	name:  "gitea",
	title: "Gitea",
	// a closed issue blocks no other, whatever the labels
	active:      []string{"open"},
	terminal:    []string{"closed"},
	always:      "closed",
	keyVars:     GiteaForge.TokenVars,
	needsKey:    true,
	forge:       GiteaForge.Name,
	site:        "https://gitea.example.com",
	orders:      true,
	tellsLabels: true,
	check:       trackerReader.giteaSettings,
	keys:        func(*Config) []Key { return nil },
}

// giteaSettings checks the address of the API, which every server has at another host.
func (r trackerReader) giteaSettings() {
	r.labelStates()
	f := r.field("tracker.endpoint")
	const path = "/api/v1"
	u, err := url.Parse(r.cfg.Tracker.Endpoint)
	switch {
	case r.cfg.Tracker.Endpoint == "":
		r.invalid(f, "missing", "write the address of the API: https://HOST"+path)
	case err == nil && u.Host != "" && !strings.HasSuffix(strings.TrimRight(u.Path, "/"), path):
		r.invalid(
			f,
			"not the address of an API of Gitea",
			"write "+u.Scheme+"://"+u.Host+strings.TrimRight(u.Path, "/")+path,
		)
	}
}
