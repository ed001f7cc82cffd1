package jira

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
)

// rule allows requests with a method to a path below /rest/api/3. In path, ISSUE is an issue,
// PROJECT the project, and * any text.
type rule struct {
	methods  string
	path     string
	reads    bool     // it changes nothing
	comments bool     // it leaves the issue itself as it is
	existing bool     // it changes a comment that exists
	searches bool     // it lists issues
	moves    bool     // it makes a transition
	creates  string   // the kind of object that it creates
	allowed  []string // the names in the body
	// prepare checks the body, and completes it; may be nil.
	prepare func(*client, map[string]json.RawMessage) error
	// linked: the body names the issues inwardIssue and outwardIssue.
	linked bool
}

// rules are the requests that the tool makes. Everything else is refused: other projects, users,
// settings, workflows, attachments, and the properties of comments, by which symphony knows its
// own.
var rules = []rule{
	{methods: "GET", path: "issue/ISSUE", reads: true},
	{methods: "GET", path: "issue/ISSUE/comment", reads: true},
	{methods: "GET", path: "issue/ISSUE/comment/*", reads: true},
	{methods: "GET", path: "issue/ISSUE/transitions", reads: true},
	{methods: "GET", path: "issue/ISSUE/changelog", reads: true},
	{methods: "GET", path: "issue/ISSUE/remotelink", reads: true},
	{methods: "GET", path: "project/PROJECT", reads: true},
	{methods: "GET", path: "project/PROJECT/statuses", reads: true},
	{methods: "GET", path: "project/PROJECT/versions", reads: true},
	{methods: "GET", path: "project/PROJECT/components", reads: true},
	{methods: "GET", path: "issue/createmeta/PROJECT/issuetypes", reads: true},
	{methods: "GET", path: "issue/createmeta/PROJECT/issuetypes/*", reads: true},
	{methods: "GET", path: "issueLinkType", reads: true},
	{
		methods: "POST", path: "search/jql", reads: true, searches: true,
		allowed: []string{"jql", "fields", "maxResults", "nextPageToken"}, prepare: searched,
	},
	{methods: "POST", path: "issue", creates: "issue", allowed: []string{"fields"}, prepare: newIssue},
	{methods: "PUT", path: "issue/ISSUE", allowed: []string{"fields", "update"}, prepare: fieldsOf},
	{methods: "PUT", path: "issue/ISSUE/assignee", allowed: []string{"accountId"}},
	{
		methods: "POST", path: "issue/ISSUE/transitions", moves: true,
		allowed: []string{"transition", "fields", "update"}, prepare: fieldsOf,
	},
	{
		methods: "POST", path: "issue/ISSUE/comment", comments: true, creates: "comment",
		allowed: []string{"body", "visibility"}, prepare: commentOf,
	},
	{
		methods: "PUT", path: "issue/ISSUE/comment/*", comments: true, existing: true,
		allowed: []string{"body", "visibility"}, prepare: commentOf,
	},
	{methods: "DELETE", path: "issue/ISSUE/comment/*", comments: true, existing: true},
	// with a globalId it would change the link of somebody else that has the same one
	{methods: "POST", path: "issue/ISSUE/remotelink", allowed: []string{"object", "relationship"}},
	{
		methods: "POST", path: "issueLink", linked: true,
		allowed: []string{"type", "inwardIssue", "outwardIssue"},
	},
}

// queryNames are what the query of a GET may have. Others change something, such as the history of
// the account, or whose request it is.
var queryNames = []string{"expand", "fields", "fieldsByKeys", "maxResults", "orderBy", "startAt", "status"}

// ruleFor returns the rule that allows a request.
func (c *client) ruleFor(method string, parts []string) (rule, error) {
	for _, r := range rules {
		if r.methods == method && c.matches(strings.Split(r.path, "/"), parts) {
			return r, nil
		}
	}
	return rule{}, agenttool.Refusal(
		"path_refused",
		method+" "+apiPath+"/"+strings.Join(parts, "/")+" is not among the requests that this tool makes: "+
			"issues of the project "+c.key()+" with their comments, transitions, assignees and links, "+
			"the project's statuses and types, and searches in it",
	)
}

// matches reports whether the parts of a path fit the path of a rule.
func (c *client) matches(pattern, parts []string) bool {
	return slices.EqualFunc(pattern, parts, func(p, part string) bool {
		switch p {
		case "ISSUE":
			return c.mayBeIssue(part)
		case "PROJECT":
			return c.isKey(part)
		case "*":
			return text.IsNumber(part)
		}
		return p == part
	})
}

// mayBeIssue reports whether a text is an id, or a key of the project. A number begins with no zero:
// SHOP-012 would be another name of SHOP-12.
func (c *client) mayBeIssue(name string) bool {
	number := name
	key, after, isKey := strings.Cut(name, "-")
	if isKey {
		number = after
	}
	if isKey && !c.isKey(key) {
		return false
	}
	return text.IsNumber(number) && !strings.HasPrefix(number, "0")
}

// issues are the issues that a call names.
func (c *client) issuesIn(in restCall) ([]string, error) {
	var names []string
	if in.linked {
		for _, end := range []string{"inwardIssue", "outwardIssue"} {
			var named struct{ ID, Key string }
			if json.Unmarshal(in.body[end], &named) != nil || (named.ID == "") == (named.Key == "") {
				return nil, agenttool.Refusal("invalid_input", end+" must be an object with a key or an id")
			}
			names = append(names, named.ID+named.Key)
		}
	}
	at := slices.Index(strings.Split(in.rule.path, "/"), "ISSUE")
	if at >= 0 {
		names = append(names, in.parts[at])
	}
	for _, name := range names {
		if !c.mayBeIssue(name) {
			return nil, agenttool.Refusal("path_refused", name+" is no issue of the project "+c.key())
		}
	}
	return names, nil
}

// onlyOurs is the answer to a search without issues of other projects: the token of a page may
// contain a query, and an agent can write one.
func (c *client) onlyOurs(body []byte) []byte {
	var answer map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer["issues"], &list) != nil {
		return body // it has no issues
	}
	ours := []json.RawMessage{}
	for _, raw := range list {
		var named wireNamed
		err := json.Unmarshal(raw, &named)
		key, _, _ := strings.Cut(named.Key, "-")
		isBare := named.Key == "" && named.Fields == nil // no more than an id
		if err == nil && (isBare || c.isKey(key)) {
			ours = append(ours, raw)
		}
	}
	answer["issues"] = text.JSON(ours)
	return text.JSON(answer)
}

// forEverybody is an answer without the comments that not everybody sees who sees their issue. Of
// the comments as HTML, which do not say who sees them, it has none.
func forEverybody(body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var answer any
	if decoder.Decode(&answer) != nil {
		return body // it has no comments
	}
	if !dropRestricted(answer) {
		return body
	}
	return text.JSON(answer)
}

// dropRestricted removes restricted comments from lists in a value, and reports whether there were
// any.
func dropRestricted(value any) bool {
	dropped := false
	switch value := value.(type) {
	case map[string]any:
		if rendered, is := value["renderedFields"].(map[string]any); is && rendered["comment"] != nil {
			delete(rendered, "comment")
			dropped = true
		}
		for name, inner := range value {
			list, isList := inner.([]any)
			if isList && slices.ContainsFunc(list, isRestricted) {
				list = slices.DeleteFunc(list, isRestricted)
				value[name] = list
				dropped = true
			}
			dropped = dropRestricted(value[name]) || dropped
		}
	case []any:
		for _, inner := range value {
			dropped = dropRestricted(inner) || dropped
		}
	}
	return dropped
}

// isRestricted reports whether a value is a comment, or an entry of a log of work with one, that not
// everybody sees.
func isRestricted(value any) bool {
	fields, is := value.(map[string]any)
	if !is || fields["body"] == nil && fields["comment"] == nil {
		return false
	}
	return fields["visibility"] != nil || fields["jsdPublic"] == false
}

// wireNamed is an issue of which only the key is read.
type wireNamed struct {
	Key    string          `json:"key"`
	Fields json.RawMessage `json:"fields"`
}

// searched restricts a query to the project.
func searched(c *client, body map[string]json.RawMessage) error {
	var jql string
	if json.Unmarshal(body["jql"], &jql) != nil {
		return agenttool.Refusal("invalid_input", "jql must be a text")
	}
	scoped, err := c.scoped(jql)
	body["jql"] = text.JSON(scoped)
	return err
}

// scoped is a query that finds issues of the project only. It refuses a query whose parentheses
// or quotes Jira might read in another way, because these could lead out of the parentheses
// around it.
func (c *client) scoped(jql string) (string, error) {
	refused := func(why string) (string, error) {
		return "", agenttool.Refusal("invalid_input", "the query "+why)
	}
	project := "project = " + strconv.Quote(c.key())
	quote := rune(0)
	depth := 0
	last := ' '
	order := -1
	for i, r := range jql {
		switch {
		case r == '\\':
			return refused("contains a backslash")
		case r < ' ':
			return refused("contains a line break or another control character")
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			if !strings.ContainsRune(" (,=~<>!", last) {
				return refused(fmt.Sprintf("has a quote after %q: leave a blank before it", last))
			}
			quote = r
		case r == '(':
			depth++
		case r == ')':
			depth--
			if depth < 0 {
				return refused("closes a parenthesis that it has not opened")
			}
		case depth == 0 && order < 0 && last == ' ' && isOrder(jql[i:]):
			order = i
		}
		last = r
	}
	if quote != 0 || depth != 0 {
		return refused("has an open quote or parenthesis")
	}
	condition := strings.TrimSpace(jql)
	sorted := ""
	if order >= 0 {
		condition = strings.TrimSpace(jql[:order])
		sorted = " " + jql[order:]
	}
	if condition == "" {
		return project + sorted, nil
	}
	return project + " AND (" + condition + ")" + sorted, nil
}

// isOrder reports whether a text begins with ORDER BY.
func isOrder(s string) bool {
	words := strings.Fields(s)
	return len(words) > 1 && strings.EqualFold(words[0], "order") && strings.EqualFold(words[1], "by")
}
