package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/durable"
)

// jsonTracker is a program over a JSON file as the tracker of a script. trackerMain is that program.
type jsonTracker struct{ file string }

type jsonIssues struct {
	Issues   []*jsonIssue
	Fault    string    // down, garbage, limit or empty
	Until    time.Time // the end of the limit
	Requests int
}

type jsonIssue struct {
	ID          string        `json:"id"`
	Title       string        `json:"title"`
	Description string        `json:"description"`
	State       string        `json:"state"`
	Priority    int           `json:"priority"`
	Labels      []string      `json:"labels"`
	BlockedBy   []jsonBlocker `json:"blocked_by"`
	CreatedAt   time.Time     `json:"created_at"`
	LastComment *time.Time    `json:"last_comment_at"`

	Comments []jsonComment `json:"comments"`
}

type jsonBlocker struct {
	ID    string `json:"id"`
	State string `json:"state,omitempty"`
}

type jsonComment struct {
	ID        string    `json:"id"`
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
	Own       bool      `json:"own"`
}

func startCommand(env *testscript.Env, _ *stage) (scriptTracker, error) {
	t := jsonTracker{filepath.Join(env.WorkDir, "issues.json")}
	return t, t.change(func(*jsonIssues) error { return nil })
}

// change changes the file under a lock.
func (t jsonTracker) change(f func(all *jsonIssues) error) error {
	lock, err := os.OpenFile(t.file+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	var all jsonIssues
	if data, err := os.ReadFile(t.file); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			return err
		}
	}
	if err := f(&all); err != nil {
		return err
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return durable.WriteFile(t.file, data, 0o600)
}

// must changes the file. Its errors are faults of the test.
func (t jsonTracker) must(f func(all *jsonIssues)) {
	if err := t.change(func(all *jsonIssues) error { f(all); return nil }); err != nil {
		panic(err)
	}
}

// on changes an issue.
func (t jsonTracker) on(id string, f func(i *jsonIssue)) error {
	return t.change(func(all *jsonIssues) error {
		i := all.find(id)
		if i == nil {
			return fmt.Errorf("there is no issue %q", id)
		}
		f(i)
		return nil
	})
}

func (all *jsonIssues) find(id string) *jsonIssue {
	if n := slices.IndexFunc(all.Issues, func(i *jsonIssue) bool { return i.ID == id }); n >= 0 {
		return all.Issues[n]
	}
	return nil
}

func (t jsonTracker) Add(i scriptIssue) error {
	made := jsonIssue{
		ID: i.Identifier, Title: i.Title, Description: i.Description, State: i.State, Priority: i.Priority, Labels: i.Labels,
		CreatedAt: time.Now().Add(-i.Age).UTC(),
	}
	for _, id := range i.BlockedBy {
		made.BlockedBy = append(made.BlockedBy, jsonBlocker{ID: id})
	}
	return t.change(func(all *jsonIssues) error { all.Issues = append(all.Issues, &made); return nil })
}

func (t jsonTracker) Move(issue, state string) error {
	return t.on(issue, func(i *jsonIssue) { i.State = state })
}

func (t jsonTracker) Comment(issue, text string) error {
	return t.on(issue, func(i *jsonIssue) { i.comment("kim", text, false) })
}

func (i *jsonIssue) comment(author, text string, own bool) jsonComment {
	c := jsonComment{ID: fmt.Sprint(i.ID, "/", len(i.Comments)), Author: author, Body: text, CreatedAt: time.Now().UTC(), Own: own}
	i.Comments, i.LastComment = append(i.Comments, c), &c.CreatedAt
	return c
}

func (t jsonTracker) Remove(issue string) error {
	return t.change(func(all *jsonIssues) error {
		all.Issues = slices.DeleteFunc(all.Issues, func(i *jsonIssue) bool { return i.ID == issue })
		return nil
	})
}

func (t jsonTracker) State(issue string) (state string, err error) {
	err = t.on(issue, func(i *jsonIssue) { state = i.State })
	return state, err
}

func (t jsonTracker) Comments(issue string) (n int, err error) {
	err = t.on(issue, func(i *jsonIssue) { n = len(i.Comments) })
	return n, err
}

func (t jsonTracker) Call(issue, macro, text string) (tool string, args any, err error) {
	return fileTracker{}.Call(issue, macro, text) // the tools have the same names
}

func (t jsonTracker) Down()          { t.must(func(all *jsonIssues) { all.Fault = "down" }) }
func (t jsonTracker) Garbage()       { t.must(func(all *jsonIssues) { all.Fault = "garbage" }) }
func (t jsonTracker) Up()            { t.must(func(all *jsonIssues) { all.Fault = "" }) }
func (t jsonTracker) ClearRequests() { t.must(func(all *jsonIssues) { all.Requests = 0 }) }

func (t jsonTracker) Limit(d time.Duration) {
	t.must(func(all *jsonIssues) { all.Fault, all.Until = "limit", time.Now().Add(d) })
}

func (t jsonTracker) Requests() (n int) {
	t.must(func(all *jsonIssues) { n = all.Requests })
	return n
}

// trackerMain is the program: json-tracker FILE VERB.
func trackerMain() {
	var request struct {
		States, IDs []string
		Issue       struct{ ID string }
		Arguments   struct{ State string }
		Action      string
		IssueID     string `json:"issue_id"`
		Body        string
	}
	fail := func(code int, message string) {
		fmt.Fprintln(os.Stderr, message)
		os.Exit(code)
	}
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		fail(1, err.Error())
	}
	answer := map[string]any{}
	verb, fault := os.Args[2], ""
	var until time.Time
	err := jsonTracker{os.Args[1]}.change(func(all *jsonIssues) error {
		all.Requests++
		if all.Fault == "limit" && time.Now().After(all.Until) {
			all.Fault = ""
		}
		if fault, until = all.Fault, all.Until; fault != "" {
			return nil
		}
		i := all.find(request.Issue.ID + request.IssueID)
		switch {
		case verb == "candidates":
			answer["issues"] = all.answer(func(i *jsonIssue) bool {
				return slices.ContainsFunc(request.States, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), i.State) })
			})
		case verb == "by-ids":
			answer["issues"] = all.answer(func(i *jsonIssue) bool { return slices.Contains(request.IDs, i.ID) })
		case i == nil:
			fail(66, "no such issue")
		case verb == "tool":
			i.State = request.Arguments.State
		case request.Action == "post":
			answer["comment"] = i.comment("symphony", request.Body, true)
		case request.Action == "list":
			answer["comments"] = append([]jsonComment{}, i.Comments...)
		}
		return nil
	})
	switch {
	case err != nil:
		fail(1, err.Error())
	case fault == "down":
		fail(1, "the tracker does not answer")
	case fault == "garbage":
		fmt.Println("<html>this is no JSON")
		return
	case fault == "limit":
		answer["reset_at"] = until
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		fail(1, err.Error())
	}
	if fault == "limit" {
		os.Exit(75)
	}
}

// answer returns the issues, with the states of their blockers.
func (all *jsonIssues) answer(with func(*jsonIssue) bool) []*jsonIssue {
	list := []*jsonIssue{}
	for _, i := range all.Issues {
		if !with(i) {
			continue
		}
		for n, b := range i.BlockedBy {
			if blocker := all.find(b.ID); blocker != nil {
				i.BlockedBy[n].State = blocker.State
			}
		}
		list = append(list, i)
	}
	return list
}
