package jiratest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// route answers requests with a method to a path.
type route struct {
	method, path string
	answer       func(*call) answer
}

const (
	root     = "/rest/api/3"
	oneIssue = root + "/issue/{issueIdOrKey}"
	inIssue  = root + "/project/{projectIdOrKey}"
)

var routes = []route{
	{"GET", root + "/myself", (*call).myself},
	{"POST", root + "/search/jql", (*call).search},
	{"POST", root + "/jql/parse", (*call).parse},
	{"POST", root + "/issue/bulkfetch", (*call).bulkfetch},
	{"POST", root + "/issue", (*call).create},
	{"GET", oneIssue, (*call).one},
	{"GET", oneIssue + "/comment", (*call).listComments},
	{"POST", oneIssue + "/comment", (*call).addComment},
	{"GET", oneIssue + "/comment/{id}", (*call).readComment},
	{"PUT", oneIssue + "/comment/{id}", (*call).editComment},
	{"POST", root + "/comment/list", (*call).commentsByID},
	{"GET", oneIssue + "/transitions", (*call).transitions},
	{"POST", oneIssue + "/transitions", (*call).transit},
	{"GET", root + "/issue/createmeta/{projectIdOrKey}/issuetypes", (*call).issueTypes},
	{"GET", root + "/project/search", (*call).projects},
	{"GET", inIssue, (*call).project},
	{"GET", inIssue + "/statuses", (*call).projectStatuses},
	{"GET", root + "/mypermissions", (*call).permissions},
	{"GET", root + "/user/assignable/search", (*call).assignable},
}

func timeText(at time.Time) string { return at.Format("2006-01-02T15:04:05.000-0700") }

// user is an account in Jira's words.
func (s *Server) user(id string) map[string]any {
	name, _, _ := strings.Cut(strings.TrimPrefix(id, "712020:"), "@")
	account := map[string]any{
		"accountId":   id,
		"accountType": "atlassian",
		"active":      true,
		"displayName": strings.ToUpper(name[:1]) + name[1:],
	}
	if id == Person && s.ShowEmails {
		account["emailAddress"] = PersonEmail
	}
	return account
}

func (s Status) wire() map[string]any {
	return map[string]any{
		"id":   s.ID,
		"name": s.Name,
		"statusCategory": map[string]any{
			"key":  s.Category,
			"name": map[string]string{"new": "Zu erledigen", "indeterminate": "In Arbeit", "done": "Fertig"}[s.Category],
		},
	}
}

var blocksType = map[string]any{"id": "10000", "name": "Blocks", "inward": "is blocked by", "outward": "blocks"}

// fields are the fields of an issue that were asked for.
func (s *Server) fields(i *issue, asked []string) map[string]any {
	links := []any{}
	for _, l := range i.blockers {
		links = append(links, map[string]any{
			"id":   l.id,
			"type": blocksType,
			"inwardIssue": map[string]any{
				"id":     l.blocker.id,
				"key":    l.blocker.key,
				"fields": map[string]any{"summary": l.blocker.summary, "status": l.blocker.status.wire()},
			},
		})
	}
	for _, other := range s.issues {
		for _, l := range other.blockers {
			if l.blocker == i {
				links = append(links, map[string]any{
					"id":   l.id,
					"type": blocksType,
					"outwardIssue": map[string]any{
						"id":     other.id,
						"key":    other.key,
						"fields": map[string]any{"summary": other.summary, "status": other.status.wire()},
					},
				})
			}
		}
	}
	labels := i.labels
	if labels == nil {
		labels = []string{}
	}
	all := map[string]any{
		"summary":     i.summary,
		"description": i.description,
		"status":      i.status.wire(),
		"priority":    nil,
		"labels":      labels,
		"assignee":    nil,
		"created":     timeText(i.created),
		"updated":     timeText(i.updated),
		"project":     map[string]any{"id": projectID(i.project), "key": i.project, "name": "Shop"},
		"issuelinks":  links,
		"issuetype":   map[string]any{"id": i.kind, "name": "Task", "subtask": false},
	}
	if n := slices.Index(Priorities, i.priority); n >= 0 {
		all["priority"] = map[string]any{"id": strconv.Itoa(n + 1), "name": i.priority}
	}
	if i.assignee != "" {
		all["assignee"] = s.user(i.assignee)
	}
	if s.spoil != nil {
		s.spoil(i, all)
	}
	if !slices.Contains(asked, "*all") {
		maps.DeleteFunc(all, func(name string, _ any) bool { return !slices.Contains(asked, name) })
	}
	return all
}

func (s *Server) wire(i *issue, asked []string) map[string]any {
	w := map[string]any{"id": i.id, "key": i.key}
	if len(asked) > 0 && !slices.Equal(asked, []string{"id"}) {
		w["fields"] = s.fields(i, asked)
	}
	return w
}

func (c *call) isStranger() bool { return c.isNobody || c.hidden }

// issue finds the issue of the path, with the answer if there is none.
func (c *call) issue() (*issue, *answer) {
	i, err := c.find(c.named["issueIdOrKey"])
	if err != nil || c.isStranger() {
		a := problem(http.StatusNotFound, "Issue does not exist or you do not have permission to see it.")
		return nil, &a
	}
	return i, nil
}

func (c *call) myself() answer {
	if c.isNobody {
		return answer{http.StatusUnauthorized, map[string]any{"message": "Client must be authenticated."}}
	}
	me := c.user(Me)
	me["emailAddress"] = Email
	return answer{http.StatusOK, me}
}

func (c *call) search() answer {
	var in struct {
		JQL        string   `json:"jql"`
		Fields     []string `json:"fields"`
		MaxResults int      `json:"maxResults"`
		Next       string   `json:"nextPageToken"`
		Reconcile  []int64  `json:"reconcileIssues"`
	}
	if err := c.read(&in); err != nil {
		return problem(http.StatusBadRequest, "Invalid request payload.")
	}
	if c.isStranger() {
		return answer{http.StatusOK, map[string]any{"issues": []any{}, "isLast": true}}
	}
	if len(in.Reconcile) > 50 {
		return problem(http.StatusBadRequest, "reconcileIssues has more than 50 issues.")
	}
	for _, i := range c.issues {
		if id, err := strconv.ParseInt(i.id, 10, 64); err == nil && c.lag && slices.Contains(in.Reconcile, id) {
			c.indexed[i.id] = indexed{status: i.status.ID, project: i.project}
		}
	}
	fits, err := c.query(in.JQL)
	if err != nil {
		return problem(http.StatusBadRequest, "%s", err)
	}
	var found []*issue
	for _, i := range c.issues {
		if fits(i) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b *issue) int { return a.created.Compare(b.created) })
	size := in.MaxResults
	if size == 0 {
		size = 50
	}
	most := 100
	if slices.Equal(in.Fields, []string{"id"}) {
		most = 5000
	}
	if c.Page > 0 {
		most = c.Page
	}
	size = min(size, most)
	start, _ := strconv.Atoi(strings.TrimPrefix(in.Next, "page-"))
	end := min(start+size, len(found))
	list := []any{}
	for _, i := range found[min(start, end):end] {
		list = append(list, c.wire(i, in.Fields))
	}
	body := map[string]any{"issues": list, "isLast": end == len(found)}
	if end < len(found) {
		body["nextPageToken"] = fmt.Sprint("page-", end)
	}
	return answer{http.StatusOK, body}
}

func (c *call) parse() answer {
	var in struct{ Queries []string }
	if err := c.read(&in); err != nil {
		return problem(http.StatusBadRequest, "Invalid request payload.")
	}
	list := []any{}
	for _, q := range in.Queries {
		parsed := map[string]any{"query": q}
		if _, err := c.query(q); err != nil {
			parsed["errors"] = []string{err.Error()}
		}
		list = append(list, parsed)
	}
	return answer{http.StatusOK, map[string]any{"queries": list}}
}

func (c *call) bulkfetch() answer {
	var in struct {
		IDs    []string `json:"issueIdsOrKeys"`
		Fields []string `json:"fields"`
	}
	if err := c.read(&in); err != nil || len(in.IDs) == 0 || len(in.IDs) > 100 {
		return problem(http.StatusBadRequest, "The number of issues must be 1 to 100.")
	}
	list := []any{}
	for _, i := range c.issues { // in the order of their ids, whatever was asked
		if (slices.Contains(in.IDs, i.id) || slices.Contains(in.IDs, i.key)) && !c.isStranger() {
			list = append(list, c.wire(i, in.Fields))
		}
	}
	return answer{http.StatusOK, map[string]any{"issues": list, "issueErrors": []any{}}}
}

func (c *call) one() answer {
	i, missing := c.issue()
	if missing != nil {
		return *missing
	}
	asked := []string{"*all"}
	if written := c.r.URL.Query().Get("fields"); written != "" {
		asked = strings.Split(written, ",")
	}
	return answer{http.StatusOK, c.wire(i, asked)}
}

// document decodes a document. Jira refuses a text, and an empty text in a document.
func document(raw json.RawMessage) (any, bool) {
	var doc struct {
		Type    string
		Version int
		Content []any
	}
	var whole any
	isDoc := json.Unmarshal(raw, &doc) == nil && doc.Type == "doc" && doc.Version == 1
	if !isDoc || json.Unmarshal(raw, &whole) != nil {
		return nil, false
	}
	return whole, !strings.Contains(string(raw), `"text":""`)
}

func (c *call) create() answer {
	var in struct {
		Fields struct {
			Project     struct{ Key string }
			IssueType   struct{ ID string }
			Summary     string
			Description json.RawMessage
			Labels      []string
		}
	}
	if err := c.read(&in); err != nil || c.isStranger() {
		return problem(http.StatusBadRequest, "Invalid request payload.")
	}
	n := Issue{Summary: in.Fields.Summary, Labels: in.Fields.Labels, Status: "Backlog"}
	if n.Summary == "" {
		return field("summary", "You must specify a summary of the issue.")
	}
	for _, l := range n.Labels {
		if strings.Contains(l, " ") {
			return field("labels", "The label '"+l+"' contains spaces which is invalid.")
		}
	}
	var description any
	if in.Fields.Description != nil {
		doc, is := document(in.Fields.Description)
		if !is {
			return field("description", "Operation value must be an Atlassian Document")
		}
		description = doc
	}
	if in.Fields.Project.Key != c.Project {
		return field("project", "valid project is required")
	}
	made, err := c.add(c.Project, n)
	if err != nil {
		return problem(http.StatusBadRequest, "%s", err)
	}
	made.description = description
	return answer{http.StatusCreated, map[string]any{"id": made.id, "key": made.key}}
}

func (s *Server) wireComment(m *comment, withProperties bool) map[string]any {
	w := map[string]any{
		"id":      fmt.Sprint(m.id),
		"author":  s.user(m.author),
		"body":    m.body,
		"created": timeText(m.created),
		"updated": timeText(m.updated),
	}
	if m.visibility != nil {
		w["visibility"] = m.visibility
	}
	if m.isInternal {
		w["jsdPublic"] = false
	}
	if withProperties {
		w["properties"] = append([]any{}, m.properties...)
	}
	return w
}

func (c *call) listComments() answer {
	i, missing := c.issue()
	if missing != nil {
		return *missing
	}
	q := c.r.URL.Query()
	list := slices.Clone(i.comments)
	slices.SortStableFunc(list, func(a, b *comment) int { return a.created.Compare(b.created) })
	if q.Get("orderBy") == "-created" {
		slices.Reverse(list)
	}
	size, err := strconv.Atoi(q.Get("maxResults"))
	if err != nil {
		size = 100
	}
	start, _ := strconv.Atoi(q.Get("startAt"))
	start = min(start, len(list))
	wires := []any{}
	for _, m := range list[start:min(start+size, len(list))] {
		wires = append(wires, c.wireComment(m, false))
	}
	return answer{http.StatusOK, map[string]any{
		"comments": wires, "startAt": start, "maxResults": size, "total": len(list),
	}}
}

// sent is a comment in a request.
func (c *call) sent() (made comment, wrong *answer) {
	var in struct {
		Body       json.RawMessage
		Properties []any
		Visibility any
	}
	err := c.read(&in)
	doc, is := document(in.Body)
	switch {
	case err != nil:
		a := problem(http.StatusBadRequest, "Invalid request payload.")
		return made, &a
	case !is:
		a := field("comment", "Comment body is not valid!")
		return made, &a
	case len(in.Body) > 4*32767:
		a := field("comment", "The entered text is too long. It exceeds the allowed limit of 32,767 characters.")
		return made, &a
	}
	return comment{body: doc, properties: in.Properties, visibility: in.Visibility}, nil
}

func (c *call) addComment() answer {
	i, missing := c.issue()
	if missing != nil {
		return *missing
	}
	sent, wrong := c.sent()
	if wrong != nil {
		return *wrong
	}
	made := c.comment(i, Me, sent.body, c.Now())
	made.properties = sent.properties
	made.visibility = sent.visibility
	return answer{http.StatusCreated, c.wireComment(made, false)}
}

// ofPath finds the comment of the path, with the answer if there is none. It may be one of another
// issue: that Jira refuses this was not tried.
func (c *call) ofPath() (*issue, *comment, *answer) {
	if _, missing := c.issue(); missing != nil {
		return nil, nil, missing
	}
	for _, i := range c.issues {
		for _, m := range i.comments {
			if fmt.Sprint(m.id) == c.named["id"] {
				return i, m, nil
			}
		}
	}
	a := problem(http.StatusNotFound, "Can not find a comment for the id: %s.", c.named["id"])
	return nil, nil, &a
}

func (c *call) readComment() answer {
	_, m, missing := c.ofPath()
	if missing != nil {
		return *missing
	}
	return answer{http.StatusOK, c.wireComment(m, false)}
}

func (c *call) editComment() answer {
	_, m, missing := c.ofPath()
	if missing != nil {
		return *missing
	}
	sent, wrong := c.sent()
	if wrong != nil {
		return *wrong
	}
	m.body = sent.body
	m.updated = c.Now()
	m.visibility = sent.visibility // without one everybody sees it from now on
	if sent.properties != nil {
		m.properties = sent.properties
	}
	return answer{http.StatusOK, c.wireComment(m, false)}
}

func (c *call) commentsByID() answer {
	var in struct{ IDs []int64 }
	if err := c.read(&in); err != nil || len(in.IDs) == 0 || len(in.IDs) > 1000 {
		return problem(http.StatusBadRequest, "The number of ids must be 1 to 1000.")
	}
	list := []any{}
	withProperties := strings.Contains(c.r.URL.Query().Get("expand"), "properties")
	for _, i := range c.issues {
		for _, m := range i.comments {
			if slices.Contains(in.IDs, m.id) && !c.isStranger() {
				list = append(list, c.wireComment(m, withProperties))
			}
		}
	}
	return answer{http.StatusOK, map[string]any{
		"values": list, "startAt": 0, "maxResults": 1000, "total": len(list), "isLast": true,
	}}
}

func (c *call) transitions() answer {
	i, missing := c.issue()
	if missing != nil {
		return *missing
	}
	list := []any{}
	for _, to := range c.statuses {
		if to.ID == i.status.ID {
			continue
		}
		w := map[string]any{"id": "9" + to.ID, "name": "Move to " + to.Name, "to": to.wire()}
		if strings.Contains(c.r.URL.Query().Get("expand"), "transitions.fields") {
			fields := map[string]any{}
			for _, name := range c.Required[to.Name] {
				fields[strings.ToLower(name)] = map[string]any{
					"key": strings.ToLower(name), "name": name, "required": true, "hasDefaultValue": false,
					"operations": []string{"set"}, "schema": map[string]any{"type": "string"},
				}
			}
			w["fields"] = fields
		}
		list = append(list, w)
	}
	return answer{http.StatusOK, map[string]any{"transitions": list}}
}

func (c *call) transit() answer {
	i, missing := c.issue()
	if missing != nil {
		return *missing
	}
	var in struct{ Transition struct{ ID string } }
	if err := c.read(&in); err != nil {
		return problem(http.StatusBadRequest, "Invalid request payload.")
	}
	for _, to := range c.statuses {
		if in.Transition.ID != "9"+to.ID || to.ID == i.status.ID {
			continue
		}
		if names := c.Required[to.Name]; len(names) > 0 {
			return field(strings.ToLower(names[0]), names[0]+" is required.")
		}
		i.status = to
		i.updated = c.Now()
		return answer{status: http.StatusNoContent}
	}
	return problem(http.StatusBadRequest,
		"It seems that you have tried to perform an illegal workflow operation. The transition %s is not valid.",
		in.Transition.ID)
}

func (c *call) issueTypes() answer {
	if c.isStranger() || c.renewed(c.named["projectIdOrKey"], c.Project) != c.Project {
		return answer{http.StatusOK, map[string]any{"issueTypes": []any{}, "startAt": 0, "maxResults": 50, "total": 0}}
	}
	return answer{http.StatusOK, map[string]any{
		"issueTypes": []any{
			map[string]any{"id": "10102", "name": "Epic", "subtask": false, "hierarchyLevel": 1},
			map[string]any{"id": "10101", "name": "Subtask", "subtask": true, "hierarchyLevel": -1},
			map[string]any{"id": "10100", "name": "Task", "subtask": false, "hierarchyLevel": 0},
		},
		"startAt": 0, "maxResults": 50, "total": 3,
	}}
}

func projectID(key string) string {
	if key == "OTHER" {
		return "10900"
	}
	return "10800"
}

func (c *call) wireProject(key string) map[string]any {
	name := "Web Shop"
	if key == "OTHER" {
		name = "Other"
	}
	return map[string]any{"id": projectID(key), "key": key, "name": name, "archived": false}
}

func (c *call) projects() answer {
	list := []any{}
	if !c.isStranger() {
		list = append(list, c.wireProject(c.Project), c.wireProject("OTHER"))
	}
	return answer{http.StatusOK, map[string]any{
		"values": list, "startAt": 0, "maxResults": 50, "total": len(list), "isLast": true,
	}}
}

// inProject is the project of the path, with the answer if there is none.
func (c *call) inProject() (string, *answer) {
	key := c.renewed(c.named["projectIdOrKey"], c.Project)
	if key != c.Project && key != "OTHER" || c.isStranger() {
		a := problem(http.StatusNotFound, "No project could be found with key '%s'.", key)
		return "", &a
	}
	return key, nil
}

func (c *call) project() answer {
	key, missing := c.inProject()
	if missing != nil {
		return *missing
	}
	return answer{http.StatusOK, c.wireProject(key)}
}

func (c *call) projectStatuses() answer {
	if _, missing := c.inProject(); missing != nil {
		return *missing
	}
	all := []any{}
	for _, s := range c.statuses {
		all = append(all, s.wire())
	}
	return answer{http.StatusOK, []any{
		map[string]any{"id": "10100", "name": "Task", "self": c.URL(), "subtask": false, "statuses": all},
		map[string]any{"id": "10102", "name": "Epic", "self": c.URL(), "subtask": false, "statuses": all[:3]},
	}}
}

func (c *call) permissions() answer {
	if c.isNobody {
		return problem(http.StatusUnauthorized, "You are not authenticated.")
	}
	all := map[string]any{}
	for name := range strings.SplitSeq(c.r.URL.Query().Get("permissions"), ",") {
		all[name] = map[string]any{"key": name, "havePermission": name != c.Denied}
	}
	return answer{http.StatusOK, map[string]any{"permissions": all}}
}

func (c *call) assignable() answer {
	q := c.r.URL.Query()
	list := []any{}
	if q.Get("accountId") == Person || q.Get("query") == PersonEmail {
		list = append(list, c.user(Person))
	}
	return answer{http.StatusOK, list}
}
