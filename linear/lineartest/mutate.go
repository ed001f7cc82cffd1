package lineartest

import (
	"slices"
	"strings"
)

// mutate resolves a field of Mutation. Nothing is changed where it fails.
func (q *query) mutate(name string, args map[string]any) (any, error) {
	input, _ := args["input"].(map[string]any)
	word := func(from map[string]any, key string) string { s, _ := from[key].(string); return s }
	var i *issue
	switch name {
	case "issueUpdate":
		i = q.w.find(word(args, "id"))
	case "commentCreate":
		i = q.w.find(word(input, "issueId"))
	case "attachmentLinkURL":
		i = q.w.find(word(args, "issueId"))
	default:
		return nil, inputError(name + " is not served here")
	}
	switch {
	case i == nil:
		return nil, notFound("Issue")
	case name == "issueUpdate":
		return q.w.updateIssue(i, input)
	case name == "attachmentLinkURL":
		url := word(args, "url")
		if !slices.Contains(i.Links, url) {
			i.Links = append(i.Links, url)
			q.w.change(i, "attachment", "", url)
		}
		return payload("attachment", q.w.attachmentObject(i, url)), nil
	case strings.TrimSpace(word(input, "body")) == "":
		return nil, inputError("body must not be empty")
	}
	c, err := q.w.comment(i, Comment{Body: word(input, "body")})
	return payload("comment", q.w.commentObject(c)), err
}

func payload(field string, value object) object {
	return record("Payload", map[string]any{"success": true, "lastSyncId": 1.0, field: value})
}

// updateIssue makes the changes of an IssueUpdateInput. A null removes a value; a key left out keeps it.
func (w *workspace) updateIssue(i *issue, input map[string]any) (any, error) {
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
			state, ok := w.team(i.Team).state(word)
			if !ok {
				return nil, notFound("WorkflowState")
			}
			want.State = state.Name
		default:
			return nil, inputError(key + " is not served here")
		}
	}
	if err := w.edit(i, want); err != nil {
		return nil, inputError(err.Error())
	}
	i.UpdatedAt = w.time()
	return payload("issue", w.issueObject(i)), nil
}
