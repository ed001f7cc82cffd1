package workflow

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Jira selects the issues of a project on Jira Cloud.
type Jira struct {
	Email      string   // of the account to which the token belongs
	Project    string   // the key of the project, in upper case
	CloudID    string   // for a token with scopes; empty for others
	JQL        string   // a condition for the issues that agents begin; empty for none
	Priorities []string // the names of the priorities, the most urgent first
}

// The variables of Jira.
const (
	JiraSiteVar  = "JIRA_BASE_URL"
	JiraEmailVar = "JIRA_EMAIL"
	JiraTokenVar = "JIRA_API_TOKEN"
)

var jiraTracker = tracker{
	name:        "jira",
	title:       "Jira",
	endpointVar: JiraSiteVar,
	keyVars:     []string{JiraTokenVar},
	needsKey:    true,
	orders:      true,
	check:       trackerReader.jiraSettings,
	keys:        jiraKeys,
}

// jiraKeys are the keys of this kind.
func jiraKeys(c *Config) []Key {
	j := &c.Tracker.Jira
	return []Key{
		key("tracker.provider.email", typeString, "$"+JiraEmailVar, &j.Email,
			"the email of the account that has the token, or $NAME").thenTracker(trackerReader.jiraEmail),
		key("tracker.provider.project_key", typeString, "", &j.Project,
			"the key of the project, such as SHOP for SHOP-12, or $NAME; required").
			thenTracker(trackerReader.jiraProject),
		key("tracker.provider.cloud_id", typeString, "", &j.CloudID,
			"the id of the site, or $NAME, for a token with scopes: SITE/_edge/tenant_info shows it").
			thenTracker(trackerReader.jiraCloud),
		key("tracker.provider.jql", typeString, "", &j.JQL,
			"one more condition in JQL for the issues that agents begin").
			choosing().thenTracker(trackerReader.jiraCondition),
		key("tracker.provider.priorities", typeStrings, "[Highest, High, Medium, Low, Lowest]", &j.Priorities,
			"the names of the priorities, most urgent first"),
	}
}

// value returns a text, or the value of the variable that it names. f is reported if the variable
// is not set.
func (r trackerReader) value(f field, written, usual string) string {
	name, isVar := reference(written)
	if !isVar {
		return strings.TrimSpace(written)
	}
	value := r.variable(name, usual)
	if value == "" && f.node != nil && !r.env.KeyOptional {
		r.invalid(f, "the environment variable "+name+" is not set, or empty", r.setHint(name))
	}
	return value
}

func (r trackerReader) jiraEmail(f field) {
	j := &r.cfg.Tracker.Jira
	j.Email = r.value(f, j.Email, JiraEmailVar)
	if j.Email == "" && f.node == nil && !r.env.KeyOptional {
		r.invalid(f, "missing", "write the email of the token's account, or "+r.setHint(JiraEmailVar))
	}
}

var jiraKeyPattern = text.Pattern(`^[A-Z][A-Z0-9_]*$`)

func (r trackerReader) jiraProject(f field) {
	const hint = "write what stands before the number of its issues, such as SHOP for SHOP-12"
	j := &r.cfg.Tracker.Jira
	j.Project = strings.ToUpper(r.value(f, j.Project, ""))
	switch {
	case j.Project == "" && f.node == nil:
		r.fail("missing_tracker_project_slug", f, "missing", hint)
	case j.Project != "" && !jiraKeyPattern().MatchString(j.Project):
		r.invalid(f, strconv.Quote(j.Project)+" is not the key of a project", hint)
	}
	r.place(f, j.Project, strings.TrimRight(r.cfg.Tracker.Endpoint, "/")+" "+j.Project)
}

var cloudIDPattern = text.Pattern(`^[A-Za-z0-9-]+$`)

func (r trackerReader) jiraCloud(f field) {
	j := &r.cfg.Tracker.Jira
	j.CloudID = r.value(f, j.CloudID, "")
	if j.CloudID != "" && !cloudIDPattern().MatchString(j.CloudID) {
		r.invalid(f, strconv.Quote(j.CloudID)+" is not the id of a site", "copy cloudId from SITE/_edge/tenant_info")
	}
}

// jiraCondition refuses a condition that could not stand in parentheses: one with an order of its own,
// and one that closes them, such as x) OR (project = OTHER.
func (r trackerReader) jiraCondition(f field) {
	if strings.Contains(strings.ToLower(r.cfg.Tracker.Jira.JQL), "order by") {
		r.invalid(f, "contains ORDER BY", "leave the order out: symphony sorts by priority and age")
	}
	if !isClosed(r.cfg.Tracker.Jira.JQL) {
		r.invalid(f, "a bracket or a quotation mark has no partner", "write a condition that is complete in itself")
	}
}

// isClosed reports whether each bracket and each quotation mark of a condition has its partner in it.
// Brackets in quotes, such as summary ~ "a)", are text.
func isClosed(jql string) bool {
	depth := 0
	quote := byte(0)
	for i := 0; i < len(jql); i++ {
		c := jql[i]
		switch {
		case quote != 0 && c == '\\':
			i++ // what follows is text
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0 && quote == 0
}

// jiraSettings checks the site, and that the file names the states: the statuses of a project are
// its own.
func (r trackerReader) jiraSettings() {
	f := r.field("tracker.endpoint")
	u, err := url.Parse(r.cfg.Tracker.Endpoint)
	switch {
	case r.cfg.Tracker.Endpoint == "" && f.node == nil:
		r.invalid(f, "missing", "write the address of the site: https://NAME.atlassian.net")
	case err == nil && u.Host != "" && strings.Trim(u.Path, "/") != "":
		r.invalid(f, "not the address of a site on Jira Cloud, which has no path",
			"write "+u.Scheme+"://"+u.Host+"; Jira Data Center is not supported")
	}
	for _, states := range []string{"tracker.active_states", "tracker.terminal_states"} {
		if f := r.field(states); f.node == nil {
			r.invalid(f, "missing", "write the names of statuses of the project: Jira has no usual ones")
		}
	}
}
