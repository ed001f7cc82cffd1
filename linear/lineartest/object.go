package lineartest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// object is an entity or a payload by its fields. A value is a string, float64, bool, time.Time, nil, object, connection, or
// a function that returns one of these: what leads to other entities is looked up only where a query asks for it.
type object map[string]any

// connection is a list that a query can filter and page, in the order of creation.
type connection []object

func (o object) field(name string) (any, error) {
	value, served := o[name]
	if !served {
		return nil, inputError(name + " is not served here")
	}
	if link, ok := value.(func() any); ok {
		return link(), nil
	}
	return value, nil
}

// entity adds what all entities have.
func entity(typ, id string, created, updated time.Time, fields object) object {
	maps.Copy(fields, object{"__typename": typ, "id": id, "createdAt": created, "updatedAt": updated})
	return fields
}

func (w *workspace) userObject(u SeedUser) object {
	return entity("User", userID(u.Email), w.created, w.created, object{"name": u.Name, "email": u.Email, "isMe": u.Email == w.Users[0].Email})
}

func (w *workspace) teamObject(t *SeedTeam) object {
	states := connection{}
	for n := range t.States {
		states = append(states, w.stateObject(t, n))
	}
	return entity("Team", teamID(t.Key), w.created, w.created, object{"key": t.Key, "name": t.Name, "states": states})
}

func (w *workspace) stateObject(t *SeedTeam, n int) object {
	s := t.States[n]
	return entity("WorkflowState", stateID(t.Key, s.Name), w.created, w.created, object{"name": s.Name, "type": s.Type, "position": float64(n)})
}

func (w *workspace) projectObject(p SeedProject) object {
	return entity("Project", projectID(p.SlugID), w.created, w.created, object{
		"name": p.Name, "slugId": p.SlugID, "url": w.url("project/" + slugify(p.Name) + "-" + p.SlugID),
		"teams": func() any {
			list := connection{}
			for n := range w.Teams {
				if t := &w.Teams[n]; len(p.Teams) == 0 || slices.Contains(p.Teams, t.Key) {
					list = append(list, w.teamObject(t))
				}
			}
			return list
		},
	})
}

func (w *workspace) labelObjects(names []string) connection {
	list := connection{}
	for _, name := range names {
		list = append(list, entity("IssueLabel", labelID(name), w.created, w.created, object{"name": name}))
	}
	return list
}

func (w *workspace) issueObject(i *issue) object {
	o := entity("Issue", i.ID, i.CreatedAt, i.UpdatedAt, object{
		"identifier": i.Identifier, "title": i.Title, "description": nil, "priority": float64(i.Priority), "branchName": i.branch(),
		"url": w.issueURL(i), "archivedAt": nil, "project": nil, "assignee": nil,
		"team":   func() any { return w.teamObject(w.team(i.Team)) },
		"state":  func() any { return w.stateObject(w.team(i.Team), w.team(i.Team).state(i.State)) },
		"labels": func() any { return w.labelObjects(i.Labels) },
		"comments": func() any {
			list := connection{}
			for _, c := range i.Comments {
				list = append(list, w.commentObject(c))
			}
			return list
		},
		"inverseRelations": func() any {
			list := connection{}
			for _, blocker := range i.BlockedBy {
				list = append(list, entity("IssueRelation", id("relation", blocker, i.Identifier), w.created, w.created, object{
					"type": "blocks", "issue": func() any { return w.issueObject(w.find(blocker)) },
				}))
			}
			return list
		},
	})
	if i.Description != nil {
		o["description"] = *i.Description
	}
	if i.Archived {
		o["archivedAt"] = i.UpdatedAt
	}
	if p, ok := w.project(i.Project); ok {
		o["project"] = w.projectObject(p)
	}
	if u, ok := w.user(i.Assignee); ok {
		o["assignee"] = w.userObject(u)
	}
	return o
}

func (w *workspace) commentObject(c Comment) object {
	o := entity("Comment", c.ID, c.CreatedAt, c.CreatedAt, object{"body": c.Body, "user": nil, "botActor": nil})
	if u, ok := w.user(c.Author); ok {
		o["user"] = w.userObject(u)
	}
	if c.Bot != "" {
		o["botActor"] = object{"__typename": "ActorBot", "name": c.Bot}
	}
	return o
}

// mutate answers a field of Mutation. Nothing is changed where it fails.
func (w *workspace) mutate(name string, args map[string]any) (any, error) {
	input, _ := args["input"].(map[string]any)
	word := func(from map[string]any, key string) string { s, _ := from[key].(string); return s }
	payload := func(field string, value object) object {
		return object{"__typename": "Payload", "success": true, "lastSyncId": 1.0, field: value}
	}
	var i *issue
	switch name {
	case "issueUpdate":
		i = w.find(word(args, "id"))
	case "commentCreate":
		i = w.find(word(input, "issueId"))
	case "attachmentLinkURL":
		i = w.find(word(args, "issueId"))
	default:
		return nil, inputError(name + " is not served here")
	}
	switch {
	case i == nil:
		return nil, notFound("Issue")
	case name == "issueUpdate":
		err := w.updateIssue(i, input)
		return payload("issue", w.issueObject(i)), err
	case name == "attachmentLinkURL":
		url := word(args, "url")
		if !slices.Contains(i.Links, url) {
			i.Links = append(i.Links, url)
			w.change(i, "attachment", "", url)
		}
		return payload("attachment", object{"__typename": "Attachment", "id": id("attachment", i.ID, url), "url": url, "title": url}), nil
	case strings.TrimSpace(word(input, "body")) == "":
		return nil, inputError("body must not be empty")
	}
	c, err := w.comment(i, Comment{Body: word(input, "body")})
	return payload("comment", w.commentObject(c)), err
}

// updateIssue makes the changes of an IssueUpdateInput. A null removes a value; a key left out keeps it.
func (w *workspace) updateIssue(i *issue, input map[string]any) error {
	want := w.public(i)
	for key, value := range input {
		word, _ := value.(string)
		switch key {
		case "title":
			want.Title = word
		case "description":
			want.Description = nil
			if value != nil {
				want.Description = &word
			}
		case "priority":
			n, _ := number(value)
			want.Priority = int(n)
		case "assigneeId":
			want.Assignee = word // edit accepts ids
		case "stateId":
			t := w.team(i.Team)
			n := t.state(word)
			if n < 0 {
				return notFound("WorkflowState")
			}
			want.State = t.States[n].Name
		default:
			return inputError(key + " is not served here")
		}
	}
	if err := w.edit(i, want); err != nil {
		return inputError(err.Error())
	}
	i.UpdatedAt = w.time()
	return nil
}
