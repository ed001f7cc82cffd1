package lineartest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/graphqltest"
	"github.com/symphony-cron/symphony/internal/text"
)

// object is an entity or a payload, by its fields. A value is a string, float64, bool,
// time.Time, nil, object, connection, or a function that returns such a value: other entities
// are looked up only if a query selects them.
type object map[string]any

// connection is a list that a query can filter and page, in the order of creation.
type connection []object

func (o object) field(name string) any {
	value, served := o[name]
	if !served {
		panic(inputError(name + " is not served here"))
	}
	return value
}

// entity adds the fields that all entities share.
func entity(typ, id string, created, updated time.Time, fields object) object {
	maps.Copy(fields, object{
		"__typename": typ,
		"id":         id,
		"createdAt":  created,
		"updatedAt":  updated,
	})
	return fields
}

func (w *workspace) userObject(u SeedUser) object {
	return entity("User", userID(u.Email), w.created, w.created, object{
		"name":  u.Name,
		"email": u.Email,
		"isMe":  u.Email == w.Users[0].Email,
	})
}

func (w *workspace) teamObject(t *SeedTeam) object {
	states := connection{}
	for n := range t.States {
		states = append(states, w.stateObject(t, n))
	}
	return entity("Team", teamID(t.Key), w.created, w.created, object{
		"key":    t.Key,
		"name":   t.Name,
		"states": states,
	})
}

func (w *workspace) stateObject(t *SeedTeam, n int) object {
	s := t.States[n]
	return entity("WorkflowState", stateID(t.Key, s.Name), w.created, w.created, object{
		"name":     s.Name,
		"type":     s.Type,
		"position": float64(n),
	})
}

func (w *workspace) projectObject(p SeedProject) object {
	return entity("Project", projectID(p.SlugID), w.created, w.created, object{
		"name":        p.Name,
		"slugId":      p.SlugID,
		"description": p.Description,
		"url":         baseURL + "project/" + slugify(p.Name) + "-" + p.SlugID,
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
	return text.Map(names, func(name string) object {
		times := w.labelTimes(name)
		return entity("IssueLabel", w.labelID(name), times.created, times.updated, object{"name": name})
	})
}

func (w *workspace) issueObject(i *Issue) object {
	o := entity("Issue", i.ID, i.CreatedAt, i.UpdatedAt, object{
		"identifier":  i.Identifier,
		"title":       i.Title,
		"description": i.Description,
		"priority":    float64(i.Priority),
		"branchName":  i.Branch,
		"url":         i.URL,
		"archivedAt":  nil,
		"project":     nil,
		"assignee":    nil,
		"team":        func() any { return w.teamObject(w.team(i.Team)) },
		"state":       func() any { return w.stateObject(w.team(i.Team), w.team(i.Team).state(i.State)) },
		"labels":      func() any { return w.labelObjects(i.Labels) },
		"comments": func() any {
			return connection(text.Map(i.Comments, w.commentObject))
		},
		"inverseRelations": func() any {
			return connection(text.Map(i.BlockedBy, func(blocker string) object {
				return entity(
					"IssueRelation",
					id("relation", blocker, i.Identifier),
					w.created,
					w.created,
					object{
						"type":  "blocks",
						"issue": func() any { return w.issueObject(w.find(blocker)) },
					},
				)
			}))
		},
	})
	if i.Archived {
		o["archivedAt"] = i.UpdatedAt
	}
	if p := w.project(i.Project); p.SlugID != "" {
		o["project"] = w.projectObject(p)
	}
	if u := w.user(i.Assignee); u.Email != "" {
		o["assignee"] = w.userObject(u)
	}
	return o
}

func (w *workspace) commentObject(c Comment) object {
	o := entity("Comment", c.ID, c.CreatedAt, c.CreatedAt, object{
		"body":     c.Body,
		"editedAt": nil,
		"user":     nil,
		"botActor": nil,
	})
	if !c.EditedAt.IsZero() {
		o["editedAt"] = c.EditedAt
	}
	if u := w.user(c.Author); u.Email != "" {
		o["user"] = w.userObject(u)
	}
	if c.Bot != "" {
		o["botActor"] = object{"__typename": "ActorBot", "name": c.Bot}
	}
	return o
}

// existing returns the issue that an argument names.
func (w *workspace) existing(ref any) *Issue {
	i := w.find(fmt.Sprint(ref))
	if i == nil {
		panic(notFound("Issue"))
	}
	return i
}

// mutate answers a field of Mutation. If it panics with an apiError, nothing was changed.
func (w *workspace) mutate(name string, args map[string]any) any {
	input, _ := args["input"].(map[string]any)
	payload := func(field string, value object) object {
		return object{"__typename": "Payload", "success": true, "lastSyncId": 1.0, field: value}
	}
	switch name {
	case "issueUpdate":
		i := w.existing(args["id"])
		w.updateIssue(i, input)
		return payload("issue", w.issueObject(i))
	case "issueAddLabel":
		i := w.existing(args["id"])
		w.addLabel(i, fmt.Sprint(args["labelId"]))
		return payload("issue", w.issueObject(i))
	case "attachmentLinkURL":
		i := w.existing(args["issueId"])
		url := fmt.Sprint(args["url"])
		i.UpdatedAt = w.time()
		return payload("attachment", object{
			"__typename": "Attachment",
			"id":         id("attachment", i.ID, url),
			"url":        url,
			"title":      url,
		})
	case "commentCreate":
		i := w.existing(input["issueId"])
		body, _ := input["body"].(string)
		if strings.TrimSpace(body) == "" {
			panic(inputError("body must not be empty"))
		}
		c, err := w.comment(i, Comment{Body: body})
		if err != nil {
			panic(inputError(err.Error()))
		}
		return payload("comment", w.commentObject(c))
	case "commentUpdate":
		body, _ := input["body"].(string)
		c := w.editComment(fmt.Sprint(args["id"]), body)
		if c == nil {
			panic(notFound("Comment"))
		}
		return payload("comment", w.commentObject(*c))
	}
	panic(inputError(name + " is not served here"))
}

// addLabel sets a label, named by its id, as the key's user does.
func (w *workspace) addLabel(i *Issue, label string) {
	name := text.First(w.Labels, func(l string) bool { return w.labelID(l) == label })
	if name == "" {
		panic(notFound("IssueLabel"))
	}
	want := i.clone()
	want.Labels = append(want.Labels, name)
	if err := w.edit(i, want); err != nil {
		panic(inputError(err.Error()))
	}
}

// updateIssue makes the changes of an IssueUpdateInput. A null removes a value; a key left out
// keeps it.
func (w *workspace) updateIssue(i *Issue, input map[string]any) {
	want := i.clone()
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
			want.Priority = int(graphqltest.Number(value))
		case "assigneeId":
			want.Assignee = word // edit accepts ids
		case "stateId":
			if w.team(i.Team).state(word) < 0 {
				panic(notFound("WorkflowState"))
			}
			want.State = word
		default:
			panic(inputError(key + " is not served here"))
		}
	}
	if err := w.edit(i, want); err != nil {
		panic(inputError(err.Error()))
	}
}
