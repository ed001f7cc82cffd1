//go:build linux

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const pageSize = 50

// tracker answers the two reads of a pass from prepared issues and leaves every other request
// to the fake Linear. The fake compares every issue with the filter of every request, which
// takes it a minute for ten thousand issues.
type tracker struct {
	linear *lineartest.Server
	server *httptest.Server

	mu       sync.Mutex
	nodes    []json.RawMessage // newest first
	byID     map[string]json.RawMessage
	requests [][]byte
}

func newTracker(b *testing.B) *tracker {
	t := &tracker{linear: lineartest.New(lineartest.Config{
		RequestsPerHour:   1e9,
		ComplexityPerHour: 1e12,
	})}
	t.server = httptest.NewServer(t)
	b.Cleanup(t.server.Close)
	return t
}

func (t *tracker) endpoint() string { return t.server.URL + "/graphql" }

type object map[string]any

// setIssues replaces the issues. Their descriptions contain the version or, if it is not
// empty, the script for the agents.
func (t *tracker) setIssues(count, version int, script string) {
	description := fmt.Sprintf(
		"Version %d.\n\n%s",
		version,
		strings.Repeat("What is to be done here takes some words to say. ", 20),
	)
	if script != "" {
		description = "```agent\n" + script + "\n```"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes = nil
	t.byID = map[string]json.RawMessage{}
	for n := 1; n <= count; n++ {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		identifier := fmt.Sprintf("ABC-%d", n)
		noMore := object{"hasNextPage": false, "endCursor": nil}
		t.byID[id] = get(json.Marshal(object{
			"id":          id,
			"identifier":  identifier,
			"title":       fmt.Sprintf("Issue number %d", n),
			"description": description,
			"priority":    n % 5,
			"branchName":  strings.ToLower(identifier),
			"url":         "https://linear.app/example/issue/" + identifier,
			"createdAt":   time.Now().Add(-48 * time.Hour).Add(time.Duration(n) * time.Second).UTC(),
			"updatedAt":   time.Now().UTC(),
			"archivedAt":  nil,
			"state":       object{"name": "Todo"},
			"project":     object{"slugId": "demo"},
			"assignee":    nil,
			"labels": object{
				"nodes":    []object{{"name": "Bug"}, {"name": "Feature"}},
				"pageInfo": noMore,
			},
			"inverseRelations": object{"nodes": []object{}, "pageInfo": noMore},
			"comments":         object{"nodes": []object{}},
		}))
		t.nodes = append(t.nodes, t.byID[id])
	}
	slices.Reverse(t.nodes)
}

// takeRequests returns the request bodies since the last call.
func (t *tracker) takeRequests() (bodies [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bodies = t.requests
	t.requests = nil
	return bodies
}

func (t *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	answer, known := t.page(body)
	if !known {
		r.Body = io.NopCloser(bytes.NewReader(body))
		t.linear.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may have disconnected
}

// page answers the two reads; false for every other request.
func (t *tracker) page(body []byte) (object, bool) {
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
		return nil, false
	}
	nodes := []json.RawMessage{}
	info := object{"hasNextPage": false, "endCursor": nil}
	switch {
	case strings.HasPrefix(q.Query, "query SymphonyCandidates("):
		from, err := strconv.Atoi("0" + q.Variables.After)
		if err != nil || from > len(t.nodes) {
			return nil, false
		}
		to := min(from+q.Variables.First, len(t.nodes))
		nodes = append(nodes, t.nodes[from:to]...)
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
		return nil, false
	}
	return object{"data": object{"issues": object{"nodes": nodes, "pageInfo": info}}}, true
}
