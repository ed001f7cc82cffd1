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

	"github.com/symphony-cron/symphony/internal/test"
)

// jsonTracker is a program over a JSON file as the tracker of a script. trackerMain is that
// program.
type jsonTracker struct{ file string }

type jsonIssues struct {
	Issues   []*jsonIssue
	Fault    string        // down, garbage, limit or ""
	Limit    time.Duration // from each refused request to the end of the limit
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
	return jsonTracker{filepath.Join(env.WorkDir, "issues.json")}, nil
}

// change changes the file under a lock. A process that dies leaves it as it was. Errors are
// faults of the test.
func (t jsonTracker) change(f func(all *jsonIssues)) {
	lock := test.Must(os.OpenFile(t.file+".lock", os.O_CREATE|os.O_RDWR, 0o600))
	defer lock.Close()
	test.OK(mainT{}, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
	var all jsonIssues
	if data, err := os.ReadFile(t.file); err == nil {
		test.OK(mainT{}, json.Unmarshal(data, &all))
	}
	f(&all)
	test.OK(mainT{}, os.WriteFile(t.file+".new", test.Must(json.Marshal(all)), 0o600))
	test.OK(mainT{}, os.Rename(t.file+".new", t.file))
}

// on changes an issue.
func (t jsonTracker) on(id string, f func(i *jsonIssue)) (err error) {
	t.change(func(all *jsonIssues) {
		if i := all.find(id); i != nil {
			f(i)
		} else {
			err = fmt.Errorf("there is no issue %q", id)
		}
	})
	return err
}

func (all *jsonIssues) find(id string) *jsonIssue {
	if n := slices.IndexFunc(all.Issues, func(i *jsonIssue) bool { return i.ID == id }); n >= 0 {
		return all.Issues[n]
	}
	return nil
}

func (t jsonTracker) Add(i scriptIssue) error {
	made := jsonIssue{
		ID:          i.Identifier,
		Title:       i.Title,
		Description: i.Description,
		State:       i.State,
		Priority:    i.Priority,
		Labels:      i.Labels,
		CreatedAt:   time.Now().Add(-i.Age).UTC(),
	}
	for _, id := range i.BlockedBy {
		made.BlockedBy = append(made.BlockedBy, jsonBlocker{ID: id})
	}
	t.change(func(all *jsonIssues) { all.Issues = append(all.Issues, &made) })
	return nil
}

func (t jsonTracker) Move(issue, state string) error {
	return t.on(issue, func(i *jsonIssue) { i.State = state })
}

func (t jsonTracker) Comment(issue, text string) error {
	return t.on(issue, func(i *jsonIssue) { i.comment("kim", text, false) })
}

func (i *jsonIssue) comment(author, text string, own bool) jsonComment {
	c := jsonComment{
		ID:        fmt.Sprint(i.ID, "/", len(i.Comments)),
		Author:    author,
		Body:      text,
		CreatedAt: time.Now().UTC(),
		Own:       own,
	}
	i.Comments = append(i.Comments, c)
	i.LastComment = &c.CreatedAt
	return c
}

func (t jsonTracker) Remove(issue string) error {
	t.change(func(all *jsonIssues) {
		all.Issues = slices.DeleteFunc(all.Issues, func(i *jsonIssue) bool { return i.ID == issue })
	})
	return nil
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

func (t jsonTracker) Down()          { t.change(func(all *jsonIssues) { all.Fault = "down" }) }
func (t jsonTracker) Garbage()       { t.change(func(all *jsonIssues) { all.Fault = "garbage" }) }
func (t jsonTracker) Up()            { t.change(func(all *jsonIssues) { all.Fault = "" }) }
func (t jsonTracker) ClearRequests() { t.change(func(all *jsonIssues) { all.Requests = 0 }) }

func (t jsonTracker) Limit(d time.Duration) {
	t.change(func(all *jsonIssues) {
		all.Fault = "limit"
		all.Limit = d
	})
}

func (t jsonTracker) Requests() (n int) {
	t.change(func(all *jsonIssues) { n = all.Requests })
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
		Body, State string
	}
	test.OK(mainT{}, json.NewDecoder(os.Stdin).Decode(&request))
	answer := map[string]any{}
	verb := os.Args[2]
	fault := ""
	code := 0
	jsonTracker{os.Args[1]}.change(func(all *jsonIssues) {
		all.Requests++
		fault = all.Fault
		i := all.find(request.Issue.ID + request.IssueID)
		switch {
		case fault == "limit":
			answer["reset_at"] = time.Now().Add(all.Limit)
			code = 75
		case fault != "":
		case verb == "candidates":
			answer["issues"] = all.answer(func(i *jsonIssue) bool {
				return slices.ContainsFunc(
					request.States,
					func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), i.State) },
				)
			})
		case verb == "by-ids":
			answer["issues"] = all.answer(
				func(i *jsonIssue) bool { return slices.Contains(request.IDs, i.ID) },
			)
		case i == nil:
			fmt.Fprintln(os.Stderr, "no such issue")
			os.Exit(66)
		case verb == "tool":
			i.State = request.Arguments.State
		case verb == "move":
			i.State = request.State
		case request.Action == "post":
			answer["comment"] = i.comment("symphony", request.Body, true)
		case request.Action == "list":
			answer["comments"] = append([]jsonComment{}, i.Comments...)
		}
	})
	switch fault {
	case "down":
		fmt.Fprintln(os.Stderr, "the tracker does not answer")
		os.Exit(1)
	case "garbage":
		fmt.Println("<html>this is no JSON")
	default:
		test.OK(mainT{}, json.NewEncoder(os.Stdout).Encode(answer))
		os.Exit(code)
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
