package lineartest

import (
	"slices"
	"strings"
)

// mutate resolves a field of Mutation. Nothing is changed where it fails.
func (q *query) mutate(name string, args map[string]any) (any, error) {
	w := q.w
	input, _ := args["input"].(map[string]any)
	if input == nil {
		input = map[string]any{}
	}
	word := func(key string) string { s, _ := input[key].(string); return s }
	switch name {
	case "issueCreate":
		t := w.team(word("teamId"))
		if t == nil {
			return nil, notFound("Team")
		}
		want := Issue{Team: t.Key, Title: word("title"), Project: "none"}
		if err := w.apply(&want, t, input); err != nil {
			return nil, err
		}
		i, err := w.add(want)
		if err != nil {
			return nil, inputError(err.Error())
		}
		return payload("issue", w.issueObject(i)), nil
	case "issueUpdate", "issueArchive":
		return w.updateIssue(args, func(want *Issue, t *SeedTeam) error {
			want.Archived = want.Archived || name == "issueArchive"
			return w.apply(want, t, input)
		})
	case "issueAddLabel", "issueRemoveLabel":
		return w.updateIssue(args, func(want *Issue, t *SeedTeam) error {
			key := map[string]string{"issueAddLabel": "addedLabelIds", "issueRemoveLabel": "removedLabelIds"}[name]
			return w.apply(want, t, map[string]any{key: []any{args["labelId"]}})
		})
	case "issueLabelCreate":
		if _, taken := w.label(word("name")); taken || word("name") == "" {
			return nil, inputError("a label needs a name that is not taken")
		}
		w.Labels = append(w.Labels, word("name"))
		return payload("issueLabel", w.labelObjects(w.Labels[len(w.Labels)-1:])[0]), nil
	case "issueRelationCreate":
		return w.createRelation(word("issueId"), word("relatedIssueId"), word("type"))
	case "commentCreate":
		i := w.find(word("issueId"))
		if i == nil {
			return nil, notFound("Issue")
		}
		if strings.TrimSpace(word("body")) == "" {
			return nil, inputError("body must not be empty")
		}
		c, err := w.comment(i, Comment{ID: word("id"), Body: word("body")})
		return payload("comment", w.commentObject(i, c)), err
	case "commentUpdate":
		return w.updateComment(args["id"], word("body"))
	case "attachmentCreate", "attachmentLinkURL":
		if name == "attachmentLinkURL" {
			input = args
		}
		i := w.find(word("issueId"))
		if i == nil {
			return nil, notFound("Issue")
		}
		if url := word("url"); !slices.Contains(i.Links, url) {
			i.Links = append(i.Links, url)
			w.change(i, "attachment", "", url)
		}
		return payload("attachment", w.attachmentObject(i, word("url"))), nil
	}
	return nil, inputError(name + " is not served here")
}

func payload(field string, value object) object {
	return record("Payload", map[string]any{"success": true, "lastSyncId": 1.0, field: value})
}

// updateIssue changes a copy of the issue that args name, and then the issue itself.
func (w *workspace) updateIssue(args map[string]any, change func(*Issue, *SeedTeam) error) (any, error) {
	ref, _ := args["id"].(string)
	i := w.find(ref)
	if i == nil {
		return nil, notFound("Issue")
	}
	want := w.public(i)
	if err := change(&want, w.team(i.Team)); err != nil {
		return nil, err
	}
	if err := w.edit(i, want); err != nil {
		return nil, inputError(err.Error())
	}
	i.UpdatedAt = w.time()
	return payload("issue", w.issueObject(i)), nil
}

// apply makes the changes of an IssueCreateInput or IssueUpdateInput. A null removes a value; a key left out keeps it.
func (w *workspace) apply(want *Issue, t *SeedTeam, input map[string]any) error {
	for key, value := range input {
		word, _ := value.(string)
		ok := true
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
		case "stateId":
			var s SeedState
			s, ok = t.state(word)
			want.State = s.Name
		case "projectId":
			want.Project = "none"
			if value != nil {
				var p SeedProject
				p, ok = w.project(word)
				want.Project = p.SlugID
			}
		case "assigneeId":
			want.Assignee = ""
			if value != nil {
				var u SeedUser
				u, ok = w.user(word)
				want.Assignee = u.Email
			}
		case "labelIds", "addedLabelIds", "removedLabelIds":
			if err := w.applyLabels(want, key, value); err != nil {
				return err
			}
		case "teamId", "id":
		default:
			return inputError(key + " is not served here")
		}
		if !ok {
			return notFound(strings.TrimSuffix(key, "Id"))
		}
	}
	return nil
}

func (w *workspace) applyLabels(want *Issue, key string, value any) error {
	var names []string
	ids, _ := value.([]any)
	for _, id := range ids {
		ref, _ := id.(string)
		name, ok := w.label(ref)
		if !ok {
			return notFound("IssueLabel")
		}
		names = append(names, name)
	}
	switch key {
	case "labelIds":
		want.Labels = names
	case "addedLabelIds":
		want.Labels = append(want.Labels, names...)
	default:
		want.Labels = slices.DeleteFunc(want.Labels, func(l string) bool { return slices.Contains(names, l) })
	}
	return nil
}

func (w *workspace) createRelation(from, to, kind string) (any, error) {
	blocker, blocked := w.find(from), w.find(to)
	switch {
	case blocker == nil || blocked == nil:
		return nil, notFound("Issue")
	case kind != "blocks":
		return nil, inputError("relations of type " + kind + " are not served here")
	}
	want := w.public(blocked)
	want.BlockedBy = append(want.BlockedBy, blocker.Identifier)
	if err := w.edit(blocked, want); err != nil {
		return nil, inputError(err.Error())
	}
	return payload("issueRelation", w.relationObject(blocker.Identifier, blocked)), nil
}

func (w *workspace) updateComment(id any, body string) (any, error) {
	for _, i := range w.issues {
		for n := range i.Comments {
			if c := &i.Comments[n]; c.ID == id {
				w.change(i, "comment", c.Body, body)
				c.Body = body
				return payload("comment", w.commentObject(i, *c)), nil
			}
		}
	}
	return nil, notFound("Comment")
}
