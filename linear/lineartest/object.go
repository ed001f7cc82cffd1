package lineartest

import (
	"errors"
	"slices"
	"time"
)

// object is an entity or payload: it returns the value of a field, which is a string, float64, bool, time.Time, nil,
// object, connection or errNotServed.
type object func(field string) any

// connection is a list that a query can filter and page, in the order of creation.
type connection []object

// errNotServed is the value of a field that this server does not know.
var errNotServed = errors.New("is not served here")

// entity adds what all entities have.
func (w *workspace) entity(typ, id string, created, updated time.Time, get object) object {
	return func(f string) any {
		switch f {
		case "__typename":
			return typ
		case "id":
			return id
		case "createdAt":
			return created
		case "updatedAt":
			return updated
		}
		return get(f)
	}
}

func (w *workspace) userObject(u SeedUser) object {
	return w.entity("User", userID(u.Email), w.created, w.created, func(f string) any {
		switch f {
		case "name":
			return u.Name
		case "email":
			return u.Email
		case "isMe":
			return u.Email == w.Users[0].Email
		}
		return errNotServed
	})
}

func (w *workspace) teamObject(t *SeedTeam) object {
	return w.entity("Team", teamID(t.Key), w.created, w.created, func(f string) any {
		switch f {
		case "key":
			return t.Key
		case "name":
			return t.Name
		case "states":
			var list connection
			for _, s := range t.States {
				list = append(list, w.stateObject(t, s))
			}
			return list
		}
		return errNotServed
	})
}

func (w *workspace) stateObject(t *SeedTeam, s SeedState) object {
	return w.entity("WorkflowState", stateID(t.Key, s.Name), w.created, w.created, func(f string) any {
		switch f {
		case "name":
			return s.Name
		case "type":
			return s.Type
		case "position":
			for n, x := range t.States {
				if x == s {
					return float64(n)
				}
			}
		}
		return errNotServed
	})
}

func (w *workspace) projectObject(p SeedProject) object {
	return w.entity("Project", projectID(p.SlugID), w.created, w.created, func(f string) any {
		switch f {
		case "name":
			return p.Name
		case "slugId":
			return p.SlugID
		case "url":
			return w.url("project/" + slugify(p.Name) + "-" + p.SlugID)
		case "teams":
			var list connection
			for n := range w.Teams {
				if t := &w.Teams[n]; len(p.Teams) == 0 || slices.Contains(p.Teams, t.Key) {
					list = append(list, w.teamObject(t))
				}
			}
			return list
		}
		return errNotServed
	})
}

func (w *workspace) labelObjects(names []string) connection {
	list := connection{}
	for _, name := range names {
		list = append(list, w.entity("IssueLabel", labelID(name), w.created, w.created, func(f string) any {
			if f == "name" {
				return name
			}
			return errNotServed
		}))
	}
	return list
}

func (w *workspace) issueObject(i *issue) object {
	return w.entity("Issue", i.ID, i.CreatedAt, i.UpdatedAt, func(f string) any {
		switch f {
		case "identifier":
			return i.Identifier
		case "title":
			return i.Title
		case "description":
			if i.Description == nil {
				return nil
			}
			return *i.Description
		case "priority":
			return float64(i.Priority)
		case "branchName":
			return i.branch()
		case "url":
			return w.public(i).URL
		case "archivedAt":
			if i.Archived {
				return i.UpdatedAt
			}
			return nil
		}
		return w.issueLink(i, f)
	})
}

// issueLink returns the fields of an issue that lead to other entities.
func (w *workspace) issueLink(i *issue, f string) any {
	switch f {
	case "state":
		t := w.team(i.Team)
		s, _ := t.state(i.State)
		return w.stateObject(t, s)
	case "team":
		return w.teamObject(w.team(i.Team))
	case "project":
		if p, ok := w.project(i.Project); ok {
			return w.projectObject(p)
		}
		return nil
	case "assignee":
		if u, ok := w.user(i.Assignee); ok {
			return w.userObject(u)
		}
		return nil
	case "labels":
		return w.labelObjects(i.Labels)
	case "comments":
		list := connection{}
		for _, c := range i.Comments {
			list = append(list, w.commentObject(c))
		}
		return list
	case "inverseRelations":
		list := connection{}
		for _, b := range i.BlockedBy {
			list = append(list, w.relationObject(b, i))
		}
		return list
	}
	return errNotServed
}

func (w *workspace) relationObject(blocker string, blocked *issue) object {
	return w.entity("IssueRelation", id("relation", blocker, blocked.Identifier), w.created, w.created, func(f string) any {
		switch f {
		case "type":
			return "blocks"
		case "issue":
			return w.issueObject(w.find(blocker))
		}
		return errNotServed
	})
}

func (w *workspace) commentObject(c Comment) object {
	return w.entity("Comment", c.ID, c.CreatedAt, c.CreatedAt, func(f string) any {
		switch f {
		case "body":
			return c.Body
		case "user":
			if u, ok := w.user(c.Author); ok {
				return w.userObject(u)
			}
			return nil
		case "botActor":
			if c.Bot == "" {
				return nil
			}
			return record("ActorBot", map[string]any{"name": c.Bot})
		}
		return errNotServed
	})
}

func (w *workspace) attachmentObject(i *issue, url string) object {
	return record("Attachment", map[string]any{"id": id("attachment", i.ID, url), "url": url, "title": url})
}

// record is an object of given fields.
func record(typ string, fields map[string]any) object {
	return func(f string) any {
		if f == "__typename" {
			return typ
		}
		if value, ok := fields[f]; ok {
			return value
		}
		return errNotServed
	}
}
