package lineartest

import (
	"strconv"
	"strings"
	"time"
)

type organization struct {
	entity
	name, urlKey string
}

func (o *organization) typeName() string { return "Organization" }

func (o *organization) get(f string) any {
	switch f {
	case "name":
		return o.name
	case "urlKey":
		return o.urlKey
	}
	return o.common(f)
}

type user struct {
	entity
	name, email     string
	inactive, admin bool
}

func (u *user) typeName() string { return "User" }

func (u *user) get(f string) any {
	switch f {
	case "name":
		return u.name
	case "displayName":
		return strings.ToLower(strings.Join(strings.Fields(u.name), "."))
	case "email":
		return u.email
	case "active":
		return !u.inactive
	case "admin":
		return u.admin
	case "app":
		return false
	case "isMe":
		return u == u.w.viewer
	case "organization":
		return u.w.org
	case "url":
		return u.w.url("profiles/" + u.get("displayName").(string))
	case "assignedIssues":
		return u.w.where(func(i *issue) bool { return i.assignee == u })
	case "createdIssues":
		return u.w.where(func(i *issue) bool { return i.creator == u })
	case "teams":
		return nodes(u.w.teams)
	}
	return u.common(f)
}

func (w *workspace) url(path string) string {
	return "https://linear.invalid/" + w.org.urlKey + "/" + path
}

type team struct {
	entity
	key, name string
	states    []*state
	number    int // of the newest issue
}

func (t *team) typeName() string { return "Team" }

func (t *team) get(f string) any {
	switch f {
	case "key":
		return t.key
	case "name", "displayName":
		return t.name
	case "description":
		return nil
	case "organization":
		return t.w.org
	case "states":
		return nodes(t.states)
	case "defaultIssueState":
		return t.initial()
	case "issues":
		return t.w.where(func(i *issue) bool { return i.team == t })
	case "members":
		return nodes(t.w.users)
	case "labels":
		var own []node
		for _, l := range t.w.labels {
			if l.team == nil || l.team == t {
				own = append(own, l)
			}
		}
		return own
	case "projects":
		var own []node
		for _, p := range t.w.projects {
			for _, of := range p.teams {
				if of == t {
					own = append(own, p)
				}
			}
		}
		return own
	}
	return t.common(f)
}

// initial is where new issues start: the first unstarted state, as work that waits to be done.
func (t *team) initial() *state {
	for _, s := range t.states {
		if s.kind == "unstarted" {
			return s
		}
	}
	return t.states[0]
}

type state struct {
	entity
	name, kind string // kind: triage, backlog, unstarted, started, completed, canceled, duplicate
	team       *team
	position   int
}

func (s *state) typeName() string { return "WorkflowState" }

func (s *state) get(f string) any {
	switch f {
	case "name":
		return s.name
	case "type":
		return s.kind
	case "team":
		return s.team
	case "position":
		return float64(s.position)
	case "color":
		return "#bec2c8"
	case "description":
		return nil
	case "issues":
		return s.w.where(func(i *issue) bool { return i.state == s })
	}
	return s.common(f)
}

type project struct {
	entity
	name, slug, description string
	teams                   []*team
}

func (p *project) typeName() string { return "Project" }

func (p *project) get(f string) any {
	switch f {
	case "name":
		return p.name
	case "slugId":
		return p.slug
	case "description":
		return p.description
	case "content", "lead":
		return nil
	case "priority":
		return float64(0)
	case "state":
		return "started"
	case "url":
		return p.w.url("project/" + slugify(p.name) + "-" + p.slug)
	case "teams":
		return nodes(p.teams)
	case "members":
		return nodes(p.w.users)
	case "issues":
		return p.w.where(func(i *issue) bool { return i.project == p })
	}
	return p.common(f)
}

type label struct {
	entity
	name string
	team *team
}

func (l *label) typeName() string { return "IssueLabel" }

func (l *label) get(f string) any {
	switch f {
	case "name":
		return l.name
	case "color":
		return "#5e6ad2"
	case "description", "parent":
		return nil
	case "isGroup":
		return false
	case "team":
		return ref(l.team)
	case "issues":
		return l.w.where(func(i *issue) bool { return i.labelled(l) })
	}
	return l.common(f)
}

type relation struct {
	entity
	kind     string // blocks, duplicate, related, similar
	from, to *issue
}

func (r *relation) typeName() string { return "IssueRelation" }

func (r *relation) get(f string) any {
	switch f {
	case "type":
		return r.kind
	case "issue":
		return r.from
	case "relatedIssue":
		return r.to
	}
	return r.common(f)
}

type comment struct {
	entity
	body   string
	bot    string // the integration that wrote it, where no user did
	issue  *issue
	user   *user
	parent *comment
	edited time.Time
}

func (c *comment) typeName() string { return "Comment" }

func (c *comment) get(f string) any {
	switch f {
	case "body":
		return c.body
	case "issue":
		return c.issue
	case "issueId":
		return c.issue.id
	case "user":
		return ref(c.user)
	case "parent":
		return ref(c.parent)
	case "parentId":
		if c.parent == nil {
			return nil
		}
		return c.parent.id
	case "botActor":
		if c.bot == "" {
			return nil
		}
		return record{"ActorBot", map[string]any{"name": c.bot, "type": "integration"}}
	case "editedAt":
		return maybe(c.edited)
	case "url":
		return c.issue.get("url").(string) + "#comment-" + c.id[:8]
	case "children":
		var own []node
		for _, x := range c.w.comments {
			if x.parent == c {
				own = append(own, x)
			}
		}
		return own
	}
	return c.common(f)
}

type attachment struct {
	entity
	title, subtitle, url string
	metadata             any
	issue                *issue
	creator              *user
}

func (a *attachment) typeName() string { return "Attachment" }

func (a *attachment) get(f string) any {
	switch f {
	case "title":
		return a.title
	case "subtitle":
		return optional(a.subtitle)
	case "url":
		return a.url
	case "metadata":
		if a.metadata == nil {
			return map[string]any{}
		}
		return a.metadata
	case "sourceType":
		return "api"
	case "issue":
		return a.issue
	case "creator":
		return ref(a.creator)
	}
	return a.common(f)
}

// ref keeps a nil pointer from becoming a node that is not nil.
func ref[T interface {
	comparable
	node
}](n T) any {
	var none T
	if n == none {
		return nil
	}
	return n
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func slugify(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}

func identifier(key string, number int) string { return key + "-" + strconv.Itoa(number) }
