package workflow

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// The variables of Linear.
const (
	APIKeyVar = "LINEAR_API_KEY" // the canonical variable of its key (specification 5.3.1)
	// used if tracker.assignee is absent, or names a variable that is not set
	AssigneeVar = "LINEAR_ASSIGNEE"
)

var linearTracker = tracker{
	name:        "linear",
	title:       "Linear",
	endpoint:    "https://api.linear.app/graphql",
	active:      []string{"Todo", "In Progress"},
	terminal:    []string{"Closed", "Cancelled", "Canceled", "Duplicate", "Done"},
	keyVars:     []string{APIKeyVar},
	needsKey:    true,
	describes:   true,
	assigneeVar: AssigneeVar,
	keys:        linearKeys,
}

// linearKeys are the keys of this kind.
func linearKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.project_slug", typeString, "", nil, "").sameAs("tracker.project_slug"),
	}
}

// project reads the slug. Without it tracker.team says where the issues are.
func (r trackerReader) project(f field) {
	if f.node == nil && r.field("tracker.team").node != nil {
		return
	}
	slug, ok := r.slug(f)
	r.cfg.Tracker.ProjectSlug = slug
	if !ok {
		return
	}
	const hint = "the slug is the part after /project/ in the project's URL; the whole URL works too"
	switch {
	case slug == "" && f.node != nil:
		r.fail(CodeMissingProject, f, "empty", hint)
	case slug == "":
		r.fail(CodeMissingProject, f, "missing", hint+"; for the issues of a team write tracker.team")
	case strings.ContainsFunc(slug, blank):
		r.invalid(f, "a slug contains no blanks or control characters", hint)
	}
	r.place(f, slug, r.cfg.Tracker.Endpoint+" "+slug)
}

// slug returns the slug of the project, which may be in a variable or in the URL of the
// project's page. It returns false after a fault, which is reported.
func (r trackerReader) slug(f field) (string, bool) {
	written := r.cfg.Tracker.ProjectSlug
	if name, isVar := reference(written); isVar {
		written = r.variable(name, "")
		if written == "" {
			r.fail(
				CodeMissingProject,
				f,
				"the environment variable "+name+" is not set, or empty",
				r.setHint(name),
			)
			return "", false
		}
	}
	if !strings.Contains(written, "://") {
		return written, true
	}
	slug := ""
	page, err := url.Parse(written)
	if err == nil {
		_, after, _ := strings.Cut(page.Path, "/project/")
		slug, _, _ = strings.Cut(after, "/")
	}
	if slug == "" {
		r.invalid(
			f,
			"not the URL of a project",
			"open the project in Linear and copy the address: …/project/<slug>/…",
		)
		return "", false
	}
	return slug, true
}

var keyOfTeam = text.Pattern(`^[A-Za-z0-9]+$`)

// team reads the key of a team. It is part of the identity of the project, because the team
// decides which issues are taken.
func (r trackerReader) team(f field) {
	if f.node == nil {
		return
	}
	t := &r.cfg.Tracker
	if !keyOfTeam().MatchString(t.Team) {
		r.invalid(f, strconv.Quote(t.Team)+" is not the key of a team",
			"write what stands before the number in the identifiers of its issues, such as WEB for WEB-12")
		return
	}
	t.Team = strings.ToUpper(t.Team)
	if t.ProjectSlug == "" {
		r.place(f, t.Team, t.Endpoint+" team "+t.Team)
		return
	}
	r.cfg.Policy.Project += " team " + t.Team
}
