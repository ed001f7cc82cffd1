package lineartest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check refuses what apply could not do, so that apply changes everything or nothing.
func (w *workspace) check(i *issue, p Issue) error {
	if strings.TrimSpace(p.Title) == "" {
		return fmt.Errorf("an issue needs a title")
	}
	if i.team.state(p.State) == nil {
		return fmt.Errorf("team %s has no state %q", i.team.key, p.State)
	}
	if p.Priority < 0 || p.Priority > 4 {
		return fmt.Errorf("priority %d is not within 0 and 4", p.Priority)
	}
	if p.Project != "" && p.Project != "none" && w.findProject(p.Project) == nil {
		return fmt.Errorf("there is no project %q", p.Project)
	}
	if p.Assignee != "" && p.Assignee != "me" && w.user(p.Assignee) == nil {
		return fmt.Errorf("there is no user %q", p.Assignee)
	}
	for _, b := range p.BlockedBy {
		if x, err := w.issue(b); err != nil || x == i {
			return fmt.Errorf("%q can't block this issue", b)
		}
	}
	return nil
}

// apply makes the issue what p says.
func (w *workspace) apply(i *issue, p Issue) error {
	if err := w.check(i, p); err != nil {
		return err
	}
	i.changed("title", i.title, p.Title)
	i.title = p.Title
	i.setDescription(p.Description)
	i.setPriority(p.Priority)
	if p.Branch != "" && p.Branch != i.branchName() {
		i.branch = p.Branch
		w.touch(i)
	}
	i.setState(i.team.state(p.State))
	i.setProject(w.findProject(p.Project))
	assignee := w.user(p.Assignee)
	if p.Assignee == "me" {
		assignee = w.viewer
	}
	i.setAssignee(assignee)
	var labels []*label
	for _, name := range p.Labels {
		l := w.label(name)
		if l == nil {
			l = &label{entity: w.entity("label", ""), name: name}
			w.labels = append(w.labels, l)
		}
		labels = append(labels, l)
	}
	i.setLabels(labels)
	i.setArchived(p.Archived)
	return w.setBlockers(i, p.BlockedBy)
}

func (i *issue) setDescription(d *string) {
	from, to := text(i.description), text(d)
	i.description = nil
	if d != nil {
		i.description = &to
	}
	i.changed("description", from, to)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (i *issue) setPriority(p int) {
	from := i.priority
	i.priority = p
	i.changed("priority", strconv.Itoa(from), strconv.Itoa(p))
}

func (i *issue) setProject(p *project) {
	name := func(p *project) string {
		if p == nil {
			return ""
		}
		return p.slug
	}
	from := name(i.project)
	i.project = p
	i.changed("project", from, name(p))
}

func (i *issue) setAssignee(u *user) {
	name := func(u *user) string {
		if u == nil {
			return ""
		}
		return u.email
	}
	from := name(i.assignee)
	i.assignee = u
	i.changed("assignee", from, name(u))
}

func (i *issue) setLabels(labels []*label) {
	names := func(list []*label) string {
		var all []string
		for _, l := range list {
			all = append(all, l.name)
		}
		return strings.Join(all, ", ")
	}
	from := names(i.labels)
	var once []*label
	for _, l := range labels {
		if !slices.Contains(once, l) {
			once = append(once, l)
		}
	}
	i.labels = once
	i.changed("labels", from, names(i.labels))
}

func (i *issue) setArchived(archived bool) {
	was := !i.archived.IsZero()
	if was == archived {
		return
	}
	i.changed("archived", strconv.FormatBool(was), strconv.FormatBool(archived))
	i.archived = time.Time{}
	if archived {
		i.archived = i.updated
	}
}

// setBlockers makes the relations of type blocks that point at the issue those that are named.
func (w *workspace) setBlockers(i *issue, identifiers []string) error {
	var want []*issue
	for _, id := range identifiers {
		b, err := w.issue(id)
		if err != nil {
			return err
		}
		want = append(want, b)
	}
	names := func() string {
		var all []string
		for _, r := range w.relations {
			if r.to == i && r.kind == "blocks" {
				all = append(all, r.from.identifier())
			}
		}
		return strings.Join(all, ", ")
	}
	from := names()
	w.relations = slices.DeleteFunc(w.relations, func(r *relation) bool {
		return r.to == i && r.kind == "blocks" && !slices.Contains(want, r.from)
	})
	for _, b := range want {
		if !w.hasRelation(b, i, "blocks") {
			w.relations = append(w.relations, &relation{entity: w.entity("relation", ""), kind: "blocks", from: b, to: i})
		}
	}
	i.changed("blockedBy", from, names())
	return nil
}

func (w *workspace) hasRelation(from, to *issue, kind string) bool {
	return slices.ContainsFunc(w.relations, func(r *relation) bool { return r.from == from && r.to == to && r.kind == kind })
}
