//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tracker answers the two reads of a pass from prepared issues and leaves every other request to the fake Linear. The
// fake compares every issue with the filter of every request, which takes it a minute for ten thousand issues.
//
//	POST /control/bench/load      load: replaces the issues
//	GET  /control/bench/requests  the request bodies since the last call
type tracker struct {
	linear http.Handler

	mu       sync.Mutex
	nodes    []json.RawMessage
	byID     map[string]json.RawMessage
	requests []json.RawMessage
}

// load describes the issues of a project: how many, and what they contain.
type load struct {
	Issues int
	// Script is what the agents do. Without it the issues have a description of a usual length.
	Script string
	// Version changes the description.
	Version int
}

func issueID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func (l load) node(n int) (json.RawMessage, error) {
	text := fmt.Sprintf("Version %d.\n\n%s", l.Version, strings.Repeat("What is to be done here takes some words to say. ", 20))
	if l.Script != "" {
		text = "```agent\n" + l.Script + "\n```"
	}
	identifier, noMore := fmt.Sprintf("ABC-%d", n), object{"hasNextPage": false, "endCursor": nil}
	return json.Marshal(object{
		"id": issueID(n), "identifier": identifier, "title": fmt.Sprintf("Issue number %d", n), "description": text,
		"priority": n % 5, "branchName": strings.ToLower(identifier), "url": "https://linear.app/example/issue/" + identifier,
		"createdAt": time.Now().Add(-48 * time.Hour).Add(time.Duration(n) * time.Second).UTC(), "updatedAt": time.Now().UTC(),
		"archivedAt": nil, "state": object{"name": "Todo"}, "project": object{"slugId": "demo"}, "assignee": nil,
		"labels":           object{"nodes": []object{{"name": "Bug"}, {"name": "Feature"}}, "pageInfo": noMore},
		"inverseRelations": object{"nodes": []object{}, "pageInfo": noMore},
		"comments":         object{"nodes": []object{}},
	})
}

type object map[string]any

func (t *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var answer any
	switch r.URL.Path {
	case "/control/bench/load":
		err = t.load(body)
		answer = object{}
	case "/control/bench/requests":
		t.mu.Lock()
		answer, t.requests = append([]json.RawMessage{}, t.requests...), nil
		t.mu.Unlock()
	case "/graphql":
		answer = t.page(body)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case answer == nil:
		t.linear.ServeHTTP(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a client that is gone needs no answer
	}
}

func (t *tracker) load(body []byte) error {
	var l load
	if err := json.Unmarshal(body, &l); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes, t.byID = nil, map[string]json.RawMessage{}
	for n := range l.Issues {
		node, err := l.node(n + 1)
		if err != nil {
			return err
		}
		t.nodes, t.byID[issueID(n+1)] = append(t.nodes, node), node
	}
	slices.Reverse(t.nodes) // the newest first
	return nil
}

// page returns nil for a request that is not one of the two reads.
func (t *tracker) page(body []byte) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, body)
	var q struct {
		Query     string
		Variables struct {
			First int
			After string
			IDs   []string
		}
	}
	if err := json.Unmarshal(body, &q); err != nil || q.Variables.First < 1 {
		return nil
	}
	nodes, info := []json.RawMessage{}, object{"hasNextPage": false, "endCursor": nil}
	switch {
	case strings.HasPrefix(q.Query, "query SymphonyCandidates("):
		from, err := strconv.Atoi("0" + q.Variables.After)
		if err != nil || from > len(t.nodes) {
			return nil
		}
		to := min(from+q.Variables.First, len(t.nodes))
		nodes = t.nodes[from:to]
		if to < len(t.nodes) {
			info = object{"hasNextPage": true, "endCursor": strconv.Itoa(to)}
		}
	case strings.HasPrefix(q.Query, "query SymphonyIssuesByIDs("):
		for _, id := range q.Variables.IDs {
			if node, found := t.byID[id]; found {
				nodes = append(nodes, node)
			}
		}
	default:
		return nil
	}
	return object{"data": object{"issues": object{"nodes": append([]json.RawMessage{}, nodes...), "pageInfo": info}}}
}

// setIssues replaces the issues of the tracker.
func (s *suite) setIssues(l load) { must(s.tracker.Control(s.ctx, "bench/load", l, nil)) }

// takeRequests returns the request bodies since the last call.
func (s *suite) takeRequests() (bodies []json.RawMessage) {
	must(s.tracker.Control(s.ctx, "bench/requests", struct{}{}, &bodies))
	return bodies
}
