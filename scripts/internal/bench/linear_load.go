package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// prepared answers the two questions that a pass asks page by page, from a load whose candidates are all claimed. The
// Linear of the tests looks at each issue for each question, which takes it more than a minute for ten thousand.
type prepared struct {
	nodes []json.RawMessage // newest first
	byID  map[string]json.RawMessage
}

type object map[string]any

func prepare(l load, now time.Time) (*prepared, error) {
	p := &prepared{byID: map[string]json.RawMessage{}}
	for _, i := range l.issues(now)[:l.Candidates] {
		node, err := json.Marshal(nodeOf(i, now))
		if err != nil {
			return nil, err
		}
		p.nodes, p.byID[i.ID] = append(p.nodes, node), node
	}
	slices.Reverse(p.nodes)
	return p, nil
}

// nodeOf has the members that the program asks for.
func nodeOf(i lineartest.Issue, now time.Time) object {
	end := object{"hasNextPage": false, "endCursor": nil}
	labels := make([]object, 0, len(i.Labels))
	for _, name := range i.Labels {
		labels = append(labels, object{"name": name})
	}
	return object{
		"id": i.ID, "identifier": i.Identifier, "title": i.Title, "description": i.Description, "priority": i.Priority,
		"branchName": strings.ToLower(i.Identifier), "url": "https://linear.app/example/issue/" + i.Identifier, "createdAt": i.CreatedAt.UTC(),
		"updatedAt": now.UTC(), "archivedAt": nil, "state": object{"name": i.State}, "project": object{"slugId": "demo"}, "assignee": nil,
		"labels": object{"nodes": labels, "pageInfo": end}, "inverseRelations": object{"nodes": []object{}, "pageInfo": end},
		"comments": object{"nodes": []object{}},
	}
}

// answer reports whether the question was one of the two.
func (p *prepared) answer(w http.ResponseWriter, body []byte) bool {
	var q struct {
		Query     string
		Variables struct {
			First int
			After string
			IDs   []string
		}
	}
	if err := json.Unmarshal(body, &q); err != nil || q.Variables.First < 1 {
		return false
	}
	nodes, end := []json.RawMessage{}, object{"hasNextPage": false, "endCursor": nil}
	switch {
	case strings.HasPrefix(q.Query, "query SymphonyCandidates("):
		from, err := strconv.Atoi("0" + q.Variables.After)
		if err != nil || from > len(p.nodes) {
			return false
		}
		to := min(from+q.Variables.First, len(p.nodes))
		nodes = p.nodes[from:to]
		if to < len(p.nodes) {
			end = object{"hasNextPage": true, "endCursor": strconv.Itoa(to)}
		}
	case strings.HasPrefix(q.Query, "query SymphonyIssuesByIDs("):
		for _, id := range q.Variables.IDs {
			if node, found := p.byID[id]; found {
				nodes = append(nodes, node)
			}
		}
	default:
		return false
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(object{"data": object{"issues": object{"nodes": nodes, "pageInfo": end}}}) // a client that is gone says so itself
	return true
}

// serveGraphQL answers from what is prepared, and asks the Linear everything else.
func (m *meter) serveGraphQL(w http.ResponseWriter, r *http.Request) {
	if p := m.prepared.Load(); p != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil || p.answer(w, body) {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	m.linear.ServeHTTP(w, r)
}

// serveLoad puts a load in the place of the issues: prepared where all of them are claimed.
func (m *meter) serveLoad(w http.ResponseWriter, r *http.Request) {
	var l load
	err := json.NewDecoder(r.Body).Decode(&l)
	if err == nil && l.Claims == l.Candidates {
		var p *prepared
		p, err = prepare(l, time.Now())
		m.prepared.Store(p)
	} else if err == nil {
		m.prepared.Store(nil)
		err = m.linear.Load(lineartest.Seed{Issues: l.issues(time.Now())})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, "{}")
}

// serveSeed ends what is prepared: other issues come.
func (m *meter) serveSeed(w http.ResponseWriter, r *http.Request) {
	m.prepared.Store(nil)
	m.linear.ServeHTTP(w, r)
}
