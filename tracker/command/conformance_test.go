package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

// stateVar makes the test binary the program of a tracker: it names the file with the
// tracker's state.
const stateVar = "TEST_TRACKER_STATE"

func TestMain(m *testing.M) {
	if file := os.Getenv(stateVar); file != "" {
		os.Exit(program(file, os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

// state is what the program's tracker contains.
type state struct {
	Issues []*stored
	Fault  string    // how the program misbehaves
	Reset  time.Time // of the fault limit
}

type stored struct {
	Issue    map[string]any
	Blockers []string
	Comments []map[string]any
}

func (s *state) find(id string) *stored {
	if i := slices.IndexFunc(s.Issues, func(i *stored) bool { return i.Issue["id"] == id }); i >= 0 {
		return s.Issues[i]
	}
	return nil
}

// shown returns the record of an issue, with the states of its blockers and the time of its
// newest comment.
func (s *state) shown(i *stored) map[string]any {
	blockers := []any{}
	for _, id := range i.Blockers {
		blockers = append(blockers, map[string]any{
			"id":         id,
			"identifier": "T-" + id,
			"state":      s.find(id).Issue["state"],
		})
	}
	i.Issue["blocked_by"] = blockers
	for _, c := range i.Comments {
		i.Issue["last_comment_at"] = c["created_at"]
	}
	return i.Issue
}

func readState(file string) *state {
	s := &state{}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		panic(err)
	}
	return s
}

func (s *state) write(file string) {
	data, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(file+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		panic(err)
	}
}

// program is a correct program, unless the state demands another. It returns the exit code.
func program(file, verb string) int {
	s := readState(file)
	if code, ends := s.misbehave(); ends {
		return code
	}
	var r struct {
		States, IDs  []string
		Issue        struct{ ID string }
		Tool         string
		Arguments    struct{ State string }
		Action, Body string
		State        string
		IssueID      string `json:"issue_id"`
		CommentID    string `json:"comment_id"`
		Since        *time.Time
	}
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return 1
	}
	answer := map[string]any{}
	code := 0
	switch verb {
	case "candidates", "by-ids":
		list := []any{}
		for _, i := range s.Issues {
			inState := func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), i.Issue["state"].(string)) }
			if slices.ContainsFunc(r.States, inState) || slices.Contains(r.IDs, i.Issue["id"].(string)) {
				list = append(list, s.shown(i))
			}
		}
		if s.Fault == "another id" && verb == "by-ids" {
			list[0].(map[string]any)["id"] = "another"
		}
		answer["issues"] = list
	case "tool":
		if i := s.find(r.Issue.ID); i != nil && r.Tool == "issue_update" {
			i.Issue["state"] = r.Arguments.State
		}
	case "move":
		code = s.move(s.find(r.IssueID), r.State)
	case "comment":
		code = s.comment(s.find(r.IssueID), r.Action, r.CommentID, r.Body, answer)
	}
	if code != 0 {
		return code
	}
	if verb == "tool" || verb == "move" || verb == "comment" && r.Action != "list" {
		s.write(file)
	}
	return print(answer)
}

// states are those of the program's tracker, as it spells them.
var states = []string{"Todo", "In Progress", "Done"}

func (s *state) move(i *stored, to string) int {
	at := slices.IndexFunc(states, func(name string) bool { return strings.EqualFold(name, to) })
	switch {
	case i == nil:
		return exitNotFound
	case at < 0:
		fmt.Fprintf(os.Stderr, "there is no state %s, but %s\n", to, strings.Join(states, ", "))
		return 1
	}
	i.Issue["state"] = states[at]
	return 0
}

func (s *state) comment(i *stored, action, id, body string, answer map[string]any) int {
	if i == nil {
		return exitNotFound
	}
	switch action {
	case "list":
		answer["comments"] = i.Comments
		if i.Comments == nil {
			answer["comments"] = []any{}
		}
	case "post":
		made := map[string]any{
			"id":         fmt.Sprint("c", len(i.Comments)+1),
			"author":     "symphony",
			"body":       body,
			"created_at": time.Now().UTC().Format(time.RFC3339Nano),
		}
		i.Comments = append(i.Comments, made)
		answer["comment"] = made
	case "edit":
		at := slices.IndexFunc(i.Comments, func(c map[string]any) bool { return c["id"] == id })
		if at < 0 {
			return exitNotFound
		}
		i.Comments[at]["body"] = body
	}
	return 0
}

func print(answer any) int {
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		return 1
	}
	return 0
}

const secret = "tracker-key-0123456789"

// faults are the ways in which a program misbehaves before it answers, with the codes of the
// errors.
var faults = map[string]string{
	"garbage":       "command_answer_invalid",
	"nothing":       "command_answer_invalid",
	"a list":        "command_answer_invalid",
	"no issues":     "command_answer_invalid",
	"null":          "command_answer_invalid",
	"text after it": "command_answer_invalid",
	"twice":         "command_answer_invalid",
	"too much":      "answer_too_large",
	"hang":          "command_timeout",
	"exit 1":        "command_failed",
	"killed":        "command_failed",
	"exit 2":        "command_failed",
	"exit 5":        "command_failed",
	"exit 78":       "tracker_setting_invalid",
	"exit 77":       "command_key_refused",
	"exit 66":       "tracker_project_not_found",
}

func (s *state) misbehave() (code int, ends bool) {
	const twice = `{"issues": [{"id": "1", "title": "a", "state": "Todo"}, {"id": "1", "title": "b", "state": "Todo"}]}`
	printed := map[string]string{
		"garbage":       "<html>" + secret + "</html>",
		"nothing":       "",
		"a list":        "[]",
		"no issues":     "{}",
		"null":          `{"issues": null}`,
		"text after it": `{"issues": []} ` + secret,
		"twice":         twice,
	}
	text, prints := printed[s.Fault]
	switch {
	case s.Fault == "" || s.Fault == "another id":
		return 0, false
	case prints:
		fmt.Print(text)
	case s.Fault == "too much":
		_, _ = io.Copy(os.Stdout, io.LimitReader(zeros{}, maxOutput+100))
	case s.Fault == "hang":
		fmt.Fprintln(os.Stderr, "waits for", secret)
		time.Sleep(time.Hour)
	case s.Fault == "killed":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		time.Sleep(time.Hour)
	case s.Fault == "limit":
		return exitLimited | print(map[string]any{"reset_at": s.Reset.UTC().Format(time.RFC3339)}), true
	default:
		fmt.Fprintln(os.Stderr, "Traceback\n\nrefused:", secret)
		code, _ = strconv.Atoi(strings.TrimPrefix(s.Fault, "exit "))
	}
	return code, true
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return copy(b, strings.Repeat("0", len(b))), nil }

// tracker is a program with its state.
type tracker struct {
	file string
	runs atomic.Int64
}

// options are those of the adapter to a new, empty tracker.
func (k *tracker) options(t testing.TB, readOnly bool) Options {
	exe := test.Must(os.Executable())
	return Options{
		Command:  []string{exe, "-test.run=none"},
		Verbs:    []string{verbTool, verbComment, verbMove},
		Key:      secret,
		ReadOnly: readOnly,
		States:   states,
		Redact:   func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") },
		Run: func(ctx context.Context, argv []string, stdin []byte, limit int) (Output, error) {
			k.runs.Add(1)
			if readState(k.file).Fault == "hang" {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			env := append(os.Environ(), stateVar+"="+k.file, KeyVar+"="+secret)
			out, err := tree.Run(ctx, host.StartRequest{
				Argv: argv,
				Dir:  t.TempDir(),
				Env:  env,
			}, stdin, limit)
			return Output{out.Stdout, out.Stderr, out.Exit.Code, out.Exit.Text}, err
		},
	}
}

func (k *tracker) change(change func(s *state)) {
	s := readState(k.file)
	change(s)
	s.write(k.file)
}

func TestConformance(t *testing.T) {
	trackertest.Run(t, func(t *testing.T) *trackertest.Backend {
		k := &tracker{file: filepath.Join(t.TempDir(), "state")}
		(&state{}).write(k.file)
		fault := func(name, code string) trackertest.Fault {
			return trackertest.Fault{
				Name:      name,
				Code:      code,
				Arrange:   func(testing.TB) { k.change(func(s *state) { s.Fault = name }) },
				OnlyByIDs: name == "another id",
				Class:     reconcile.ClassOf(&reconcile.Error{Code: code}),
			}
		}
		b := &trackertest.Backend{
			TrackerAdapter: test.Must(Adapter(k.options(t, false))),
			ReadOnly:       test.Must(Adapter(k.options(t, true))),
			Active:         []string{"Todo", "In Progress"},
			Terminal:       "Done",
			Secret:         secret,
			Person:         "kim",
			Me:             "me",
			Requests:       func() int { return int(k.runs.Load()) },
			Unavailable:    fault("exit 1", "command_failed"),
			Faults:         []trackertest.Fault{fault("another id", "command_answer_invalid")},
			Limit: func(_ testing.TB, until time.Time) {
				k.change(func(s *state) {
					s.Fault = "limit"
					s.Reset = until
				})
			},
			ToMove:    trackertest.ByIssueUpdate,
			ToComment: trackertest.ByIssueComment,
			Refused: func(_, other reconcile.Issue) map[string]trackertest.Call {
				calls := map[string]trackertest.Call{}
				for _, args := range []string{
					`{"state": "Done", "id": "` + other.ID + `"}`,
					`{}`,
					`{"state": 5}`,
					`{"state": " "}`,
					`"Done"`,
					`nothing`,
				} {
					calls["update "+args] = trackertest.Call{
						Tool: "issue_update",
						Args: json.RawMessage(args),
					}
					calls["comment "+args] = trackertest.Call{
						Tool: "issue_comment",
						Args: json.RawMessage(strings.ReplaceAll(args, "state", "text")),
					}
				}
				return calls
			},
		}
		for name, code := range faults {
			b.Faults = append(b.Faults, fault(name, code))
		}
		slices.SortFunc(b.Faults, func(x, y trackertest.Fault) int { return strings.Compare(x.Name, y.Name) })
		k.arrange(b)
		return b
	})
}

// arrange sets the functions that change the tracker's content.
func (k *tracker) arrange(b *trackertest.Backend) {
	b.Add = func(t testing.TB, i trackertest.Issue) (id string) {
		k.change(func(s *state) {
			id = strconv.Itoa(len(s.Issues) + 1)
			for s.find(id) != nil {
				id += "0"
			}
			made := map[string]any{
				"id":         id,
				"identifier": "T-" + id,
				"title":      i.Title,
				"state":      i.State,
				"unknown":    []int{1},
			}
			if i.Description != "" {
				made["description"] = i.Description
			}
			if i.Priority > 0 {
				made["priority"] = i.Priority
			}
			if i.Labels != nil {
				made["labels"] = i.Labels
			}
			if i.Assignee != "" {
				made["assignee"] = map[string]any{"id": i.Assignee, "is_me": i.Assignee == "me"}
			}
			s.Issues = append(s.Issues, &stored{Issue: made})
		})
		return id
	}
	b.Move = func(_ testing.TB, id, to string) { k.change(func(s *state) { s.find(id).Issue["state"] = to }) }
	b.Block = func(_ testing.TB, id string, blockers ...string) {
		k.change(func(s *state) { s.find(id).Blockers = blockers })
	}
	b.Comment = func(_ testing.TB, id, author, text string, at time.Time) {
		k.change(func(s *state) {
			i := s.find(id)
			i.Comments = append(i.Comments, map[string]any{
				"id":         fmt.Sprint("c", len(i.Comments)+1),
				"author":     author,
				"body":       text,
				"created_at": at.Format(time.RFC3339),
			})
		})
	}
	b.Remove = func(_ testing.TB, id string) {
		k.change(func(s *state) {
			s.Issues = slices.DeleteFunc(s.Issues, func(i *stored) bool { return i.Issue["id"] == id })
		})
	}
	b.Malform = func(_ testing.TB, id string) string {
		k.change(func(s *state) { s.find(id).Issue["priority"] = "high" })
		return id
	}
}
