//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// trackerCommand is the argument with which this program runs as the tracker: in a process of its own, so that its work is
// not measured.
const trackerCommand = "tracker"

// tracker answers the two reads of a pass from prepared issues and leaves every other request to the fake Linear. The
// fake compares every issue with the filter of every request, which takes it a minute for ten thousand issues.
//
//	POST /load      load: replaces the issues
//	POST /requests  the request bodies since the last call
type tracker struct {
	linear *lineartest.Server

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
	case "/load":
		err = t.load(body)
		answer = object{}
	case "/requests":
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
		resp, err := t.linear.Answer(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
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

// serveTracker prints the tracker's address and serves until the end of in.
func serveTracker(in io.Reader, out io.Writer) error {
	server := httptest.NewServer(&tracker{linear: lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})})
	defer server.Close()
	fmt.Fprintln(out, server.URL)
	_, err := io.Copy(io.Discard, in)
	server.CloseClientConnections()
	return err
}

// startTracker starts this program again as the tracker. It ends with stop.
func (s *suite) startTracker() (stop func()) {
	cmd := exec.Command(get(os.Executable()), trackerCommand)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends the measurements first, which then clean up
	in, out := get(cmd.StdinPipe()), get(cmd.StdoutPipe())
	must(cmd.Start())
	get(fmt.Fscanln(out, &s.tracker))
	return func() { must(errors.Join(in.Close(), cmd.Wait())) }
}

func (s *suite) endpoint() string { return s.tracker + "/graphql" }

// setIssues replaces the issues of the tracker.
func (s *suite) setIssues(l load) { s.control("load", l) }

// takeRequests returns the request bodies since the last call.
func (s *suite) takeRequests() (bodies []json.RawMessage) {
	must(json.Unmarshal(s.control("requests", nil), &bodies))
	return bodies
}

func (s *suite) control(path string, in any) []byte {
	req := get(http.NewRequestWithContext(s.ctx, http.MethodPost, s.tracker+"/"+path, bytes.NewReader(get(json.Marshal(in)))))
	resp := get(http.DefaultClient.Do(req)) //nolint:bodyclose // it is closed below
	defer resp.Body.Close()
	text := get(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		must(fmt.Errorf("tracker: %s: %s: %s", path, resp.Status, text))
	}
	return text
}
