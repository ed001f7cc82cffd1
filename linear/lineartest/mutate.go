package lineartest

import (
	"fmt"
	"slices"
	"strings"
)

// mutate runs one field of Mutation. Nothing is changed where it fails.
func (x *execution) mutate(name string, args map[string]any) (any, error) {
	in, _ := args["input"].(map[string]any)
	switch name {
	case "issueCreate":
		return x.issueCreate(in)
	case "issueUpdate":
		return x.onIssue(args, func(i *issue) error { return x.issueUpdate(i, in) })
	case "issueAddLabel", "issueRemoveLabel":
		return x.onIssue(args, func(i *issue) error { return x.oneLabel(i, args, name == "issueAddLabel") })
	case "issueArchive", "issueUnarchive":
		i, err := x.find("Issue", args["id"])
		if err != nil {
			return nil, err
		}
		i.(*issue).setArchived(name == "issueArchive")
		return x.payload("IssueArchivePayload", "entity", i), nil
	case "issueLabelCreate":
		return x.labelCreate(in)
	case "issueRelationCreate":
		return x.relationCreate(in)
	case "commentCreate":
		return x.commentCreate(in)
	case "commentUpdate":
		return x.commentUpdate(args, in)
	case "commentDelete":
		return x.commentDelete(args)
	case "attachmentCreate":
		return x.attach(in)
	case "attachmentLinkURL":
		return x.attach(args)
	}
	return nil, inputError(name + " is not served here")
}

func (x *execution) payload(typ, field string, value any) record {
	return record{typ, map[string]any{"success": true, "lastSyncId": float64(x.w.sync), field: value}}
}

// find looks a node up by an id that the client gave.
func (x *execution) find(typ string, id any) (node, error) {
	s, _ := id.(string)
	if n := x.w.byID(typ, s); n != nil {
		return n, nil
	}
	return nil, notFound(typ)
}

func (x *execution) onIssue(args map[string]any, change func(*issue) error) (any, error) {
	n, err := x.find("Issue", args["id"])
	if err != nil {
		return nil, err
	}
	if err := change(n.(*issue)); err != nil {
		return nil, err
	}
	return x.payload("IssuePayload", "issue", n), nil
}

// links are the nodes that the input of issueCreate or issueUpdate names; unset where it does not.
type links struct {
	state    *state
	project  *project
	assignee *user
	parent   *issue
	labels   []*label
}

// resolve checks the whole input before anything is changed.
func (x *execution) resolve(i *issue, in map[string]any) (l links, err error) {
	one := func(typ, key string) node {
		id, given := in[key].(string)
		if !given || err != nil {
			return nil
		}
		var n node
		n, err = x.find(typ, id)
		return n
	}
	l.state, _ = one("WorkflowState", "stateId").(*state)
	l.project, _ = one("Project", "projectId").(*project)
	l.assignee, _ = one("User", "assigneeId").(*user)
	l.parent, _ = one("Issue", "parentId").(*issue)
	if err != nil {
		return l, err
	}
	if l.state != nil && l.state.team != i.team {
		return l, inputError(fmt.Sprintf("state %s is one of another team", l.state.name))
	}
	if title, given := in["title"]; given && strings.TrimSpace(fmt.Sprint(title)) == "" {
		return l, inputError("title must not be empty")
	}
	if p, given := integer(in["priority"]); given && (p < 0 || p > 4) {
		return l, inputError("priority must be within 0 and 4")
	}
	l.labels, err = x.labels(i, in)
	return l, err
}

// labels are those that the issue will have.
func (x *execution) labels(i *issue, in map[string]any) ([]*label, error) {
	list := func(key string) ([]*label, error) {
		var found []*label
		ids, _ := in[key].([]any)
		for _, id := range ids {
			n, err := x.find("IssueLabel", id)
			if err != nil {
				return nil, err
			}
			found = append(found, n.(*label))
		}
		return found, nil
	}
	set, err := list("labelIds")
	if err != nil {
		return nil, err
	}
	if in["labelIds"] == nil {
		set = slices.Clone(i.labels)
	}
	added, err := list("addedLabelIds")
	if err != nil {
		return nil, err
	}
	removed, err := list("removedLabelIds")
	if err != nil {
		return nil, err
	}
	set = append(set, added...)
	return slices.DeleteFunc(set, func(l *label) bool { return slices.Contains(removed, l) }), nil
}

func (x *execution) issueUpdate(i *issue, in map[string]any) error {
	l, err := x.resolve(i, in)
	if err != nil {
		return err
	}
	if l.parent == i {
		return inputError("an issue can't be its own parent")
	}
	if t, ok := in["title"].(string); ok {
		i.changed("title", i.title, t)
		i.title = t
	}
	if d, given := in["description"]; given {
		s, ok := d.(string)
		if ok {
			i.setDescription(&s)
		} else {
			i.setDescription(nil)
		}
	}
	if p, given := integer(in["priority"]); given {
		i.setPriority(p)
	}
	if e, given := decimal(in["estimate"]); given {
		i.estimate = &e
	}
	if l.state != nil {
		i.setState(l.state)
	}
	// A null given takes the link away; a key left out leaves it.
	if _, given := in["projectId"]; given {
		i.setProject(l.project)
	}
	if _, given := in["assigneeId"]; given {
		i.setAssignee(l.assignee)
	}
	if _, given := in["parentId"]; given {
		i.parent = l.parent
	}
	i.setLabels(l.labels)
	x.w.touch(i)
	return nil
}

func (x *execution) issueCreate(in map[string]any) (any, error) {
	n, err := x.find("Team", in["teamId"])
	if err != nil {
		return nil, err
	}
	t := n.(*team)
	if title, _ := in["title"].(string); strings.TrimSpace(title) == "" {
		return nil, inputError("title must not be empty")
	}
	if _, err := x.resolve(&issue{team: t}, in); err != nil {
		return nil, err
	}
	id, _ := in["id"].(string)
	made, err := x.w.addIssue(Issue{ID: id, Team: t.key, Title: in["title"].(string), Project: "none"})
	if err != nil {
		return nil, inputError(err.Error())
	}
	if err := x.issueUpdate(made, in); err != nil {
		x.w.remove(made)
		return nil, err
	}
	made.history = nil
	return x.payload("IssuePayload", "issue", made), nil
}

func (x *execution) oneLabel(i *issue, args map[string]any, add bool) error {
	n, err := x.find("IssueLabel", args["labelId"])
	if err != nil {
		return err
	}
	set := slices.DeleteFunc(slices.Clone(i.labels), func(l *label) bool { return l == n.(*label) })
	if add {
		set = append(set, n.(*label))
	}
	i.setLabels(set)
	return nil
}

func (x *execution) labelCreate(in map[string]any) (any, error) {
	name, _ := in["name"].(string)
	if strings.TrimSpace(name) == "" || x.w.label(name) != nil {
		return nil, inputError("a label needs a name that is not taken")
	}
	var of *team
	if in["teamId"] != nil {
		t, err := x.find("Team", in["teamId"])
		if err != nil {
			return nil, err
		}
		of = t.(*team)
	}
	id, _ := in["id"].(string)
	l := &label{entity: x.w.entity("label", id), name: name, team: of}
	x.w.labels = append(x.w.labels, l)
	return x.payload("IssueLabelPayload", "issueLabel", l), nil
}

func (x *execution) relationCreate(in map[string]any) (any, error) {
	from, err := x.find("Issue", in["issueId"])
	if err != nil {
		return nil, err
	}
	to, err := x.find("Issue", in["relatedIssueId"])
	if err != nil {
		return nil, err
	}
	a, b, kind := from.(*issue), to.(*issue), fmt.Sprint(in["type"])
	if a == b || x.w.hasRelation(a, b, kind) {
		return nil, inputError("that relation exists or leads to itself")
	}
	id, _ := in["id"].(string)
	r := &relation{entity: x.w.entity("relation", id), kind: kind, from: a, to: b}
	x.w.relations = append(x.w.relations, r)
	if kind == "blocks" {
		b.changed("blockedBy", "", a.identifier())
	}
	return x.payload("IssueRelationPayload", "issueRelation", r), nil
}

func (x *execution) commentCreate(in map[string]any) (any, error) {
	n, err := x.find("Issue", in["issueId"])
	if err != nil {
		return nil, err
	}
	body, _ := in["body"].(string)
	if strings.TrimSpace(body) == "" {
		return nil, inputError("body must not be empty")
	}
	var parent *comment
	if in["parentId"] != nil {
		p, err := x.find("Comment", in["parentId"])
		if err != nil {
			return nil, err
		}
		parent = p.(*comment)
	}
	id, _ := in["id"].(string)
	c, err := x.w.addComment(n.(*issue), Comment{ID: id, Body: body})
	if err != nil {
		return nil, err
	}
	c.parent = parent
	return x.payload("CommentPayload", "comment", c), nil
}

func (x *execution) commentUpdate(args, in map[string]any) (any, error) {
	n, err := x.find("Comment", args["id"])
	if err != nil {
		return nil, err
	}
	c := n.(*comment)
	if body, ok := in["body"].(string); ok {
		c.issue.changed("comment", c.body, body)
		c.body = body
		x.w.touch(c)
		c.edited = c.updated
	}
	return x.payload("CommentPayload", "comment", c), nil
}

func (x *execution) commentDelete(args map[string]any) (any, error) {
	n, err := x.find("Comment", args["id"])
	if err != nil {
		return nil, err
	}
	c := n.(*comment)
	x.w.comments = slices.DeleteFunc(x.w.comments, func(o *comment) bool { return o == c })
	c.issue.changed("comment", c.body, "")
	return x.payload("DeletePayload", "entityId", c.id), nil
}

// attach serves both ways to link a URL. As with Linear, a URL that the issue has already is updated.
func (x *execution) attach(in map[string]any) (any, error) {
	n, err := x.find("Issue", in["issueId"])
	if err != nil {
		return nil, err
	}
	i := n.(*issue)
	url, _ := in["url"].(string)
	title, _ := in["title"].(string)
	if title == "" {
		title = url
	}
	k := slices.IndexFunc(x.w.attachments, func(a *attachment) bool { return a.issue == i && a.url == url })
	if k < 0 {
		id, _ := in["id"].(string)
		k = len(x.w.attachments)
		x.w.attachments = append(x.w.attachments, &attachment{
			entity: x.w.entity("attachment", id), url: url, issue: i, creator: x.w.viewer,
		})
		i.changed("attachment", "", url)
	}
	a := x.w.attachments[k]
	a.title = title
	if s, ok := in["subtitle"].(string); ok {
		a.subtitle = s
	}
	if in["metadata"] != nil {
		a.metadata = in["metadata"]
	}
	x.w.touch(a)
	return x.payload("AttachmentPayload", "attachment", a), nil
}
