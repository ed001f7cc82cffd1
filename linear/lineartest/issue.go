package lineartest

import (
	"slices"
	"time"
)

type issue struct {
	entity
	team        *team
	number      int
	title       string
	description *string
	priority    int
	estimate    *float64
	branch      string // empty: made from identifier and title
	state       *state
	project     *project
	assignee    *user
	creator     *user
	parent      *issue
	labels      []*label

	started, completed, canceled time.Time

	history []Change
}

func (i *issue) typeName() string { return "Issue" }

func (i *issue) identifier() string { return identifier(i.team.key, i.number) }

func (i *issue) labelled(l *label) bool { return slices.Contains(i.labels, l) }

func (i *issue) get(f string) any {
	switch f {
	case "identifier":
		return i.identifier()
	case "number":
		return float64(i.number)
	case "title":
		return i.title
	case "description":
		if i.description == nil {
			return nil
		}
		return *i.description
	case "priority":
		return float64(i.priority)
	case "priorityLabel":
		return priorityLabels[i.priority]
	case "estimate":
		if i.estimate == nil {
			return nil
		}
		return *i.estimate
	case "sortOrder":
		return float64(-i.seq)
	case "branchName":
		return i.branchName()
	case "url":
		return i.w.url("issue/" + i.identifier() + "/" + slugify(i.title))
	case "previousIdentifiers":
		return []string{}
	case "trashed":
		return nil
	case "startedAt":
		return maybe(i.started)
	case "completedAt":
		return maybe(i.completed)
	case "canceledAt":
		return maybe(i.canceled)
	}
	return i.link(f)
}

var priorityLabels = [...]string{"No priority", "Urgent", "High", "Medium", "Low"}

func (i *issue) branchName() string {
	if i.branch != "" {
		return i.branch
	}
	return slugify(i.identifier() + " " + i.title)
}

// link gives the fields that lead to other nodes.
func (i *issue) link(f string) any {
	switch f {
	case "state":
		return i.state
	case "team":
		return i.team
	case "project":
		return ref(i.project)
	case "assignee":
		return ref(i.assignee)
	case "creator":
		return ref(i.creator)
	case "parent":
		return ref(i.parent)
	case "children":
		return i.w.where(func(x *issue) bool { return x.parent == i })
	case "labels":
		return nodes(i.labels)
	case "labelIds":
		ids := []string{}
		for _, l := range i.labels {
			ids = append(ids, l.id)
		}
		return ids
	case "comments":
		return nodes(i.comments())
	case "attachments":
		var own []node
		for _, a := range i.w.attachments {
			if a.issue == i {
				own = append(own, a)
			}
		}
		return own
	case "relations":
		return i.related(func(r *relation) bool { return r.from == i })
	case "inverseRelations":
		return i.related(func(r *relation) bool { return r.to == i })
	}
	return i.common(f)
}

func (i *issue) comments() []*comment {
	var own []*comment
	for _, c := range i.w.comments {
		if c.issue == i {
			own = append(own, c)
		}
	}
	return own
}

func (i *issue) related(keep func(*relation) bool) []node {
	var own []node
	for _, r := range i.w.relations {
		if keep(r) {
			own = append(own, r)
		}
	}
	return own
}

// changed remembers a change of a field for History and marks the issue as updated.
func (i *issue) changed(field, from, to string) {
	if from == to {
		return
	}
	i.w.touch(i)
	i.history = append(i.history, Change{At: i.updated, Field: field, From: from, To: to})
}

// setState moves the issue and keeps the times that hang on the state's type.
func (i *issue) setState(s *state) {
	if i.state == s {
		return
	}
	from := ""
	if i.state != nil {
		from = i.state.name
	}
	i.state = s
	i.changed("state", from, s.name)
	i.completed, i.canceled = time.Time{}, time.Time{}
	switch s.kind {
	case "started":
		if i.started.IsZero() {
			i.started = i.updated
		}
	case "completed":
		i.completed = i.updated
	case "canceled", "duplicate":
		i.canceled = i.updated
	}
}
