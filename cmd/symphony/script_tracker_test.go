package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
)

// scriptTracker is a tracker of a script. Issues are named by their identifiers.
type scriptTracker interface {
	Add(i scriptIssue) error
	Move(issue, state string) error
	Comment(issue, text string) error // by a person
	Remove(issue string) error
	State(issue string) (string, error)
	Comments(issue string) (int, error)
	// Call returns the agent's call of a tool that carries out a macro, move or comment.
	Call(issue, macro, text string) (tool string, args any, err error)
	Down()                 // no request is answered
	Garbage()              // the answers cannot be read
	Limit(d time.Duration) // requests are refused for a time
	Up()                   // ends all that
	Requests() int         // the number of requests since ClearRequests
	ClearRequests()
}

type scriptIssue struct {
	Identifier, Title, Description, State string
	Priority                              int
	Labels, BlockedBy                     []string
	Age                                   time.Duration
	Assignee, Project                     string // of Linear
}

// trackerKind is a kind of tracker in TestTrackers.
type trackerKind struct {
	name     string
	prefix   string // replaces ABC- in the scripts
	workflow string // the file of testdata/made that is WORKFLOW.md
	limits   bool   // the tracker has rate limits
	down     int    // $DOWN: the exit code of a pass if the tracker is down
	done     string // $DONE: the name of the state Done; empty if that is its name
	start    func(env *testscript.Env, set *stage) (scriptTracker, error)
	// needs skips the test on a machine without the tracker's program; may be nil
	needs func(t testing.TB)
}

var trackerKinds = []trackerKind{
	{
		name: "linear", prefix: "ABC-", workflow: "WORKFLOW.md", limits: true, down: 1,
		start: func(_ *testscript.Env, set *stage) (scriptTracker, error) { return linearTracker{set.linear}, nil },
	},
	{
		name:     "github",
		prefix:   "GH-",
		workflow: "WORKFLOW-github.md",
		limits:   true,
		down:     1,
		done:     "closed",
		start:    startGitHub,
	},
	{
		name:     "gitea",
		prefix:   "GT-",
		workflow: "WORKFLOW-gitea.md",
		limits:   true,
		down:     1,
		done:     "closed",
		start:    startGitea,
		needs:    giteatest.Needs,
	},
	{
		name:     "gitlab",
		prefix:   "GL-",
		workflow: "WORKFLOW-gitlab.md",
		limits:   true,
		down:     1,
		done:     "closed",
		start:    startGitLab,
	},
	{
		name:     "jira",
		prefix:   "ABC-",
		workflow: "WORKFLOW-jira.md",
		limits:   true,
		down:     1,
		start:    startJira,
	},
	{
		name:     "command",
		prefix:   "ABC-",
		workflow: "WORKFLOW-command.md",
		limits:   true,
		down:     1,
		start:    startCommand,
	},
	{name: "file", prefix: "ABC-", workflow: "WORKFLOW-file.md", down: 3, start: startFiles},
}

// everyTracker is the script that runs with each kind of tracker also without
// SYMPHONY_TEST=all: what the kinds share is shown by Linear.
const everyTracker = "handoff"

// TestTrackers runs the scripts in testdata/tracker with each kind of tracker.
func TestTrackers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(moduleRoot, "testdata", "tracker", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, k := range trackerKinds {
		t.Run(k.name, func(t *testing.T) {
			if k.needs != nil {
				k.needs(t)
			}
			t.Parallel()
			texts := map[string]string{}
			for _, f := range files {
				name := strings.TrimSuffix(filepath.Base(f), ".txtar")
				if k.name != "linear" && name != everyTracker && !test.All() {
					continue
				}
				texts[name] = strings.ReplaceAll(string(test.Must(os.ReadFile(f))), "ABC-", k.prefix)
			}
			p := params(t, "tracker")
			p.Setup = k.setup
			p.Condition = func(name string) (bool, error) {
				if name == "limits" {
					return k.limits, nil
				}
				return condition(name)
			}
			runScripts(t, p, texts)
		})
	}
}

// TestRealCodexTrackers runs the whole way of an issue, testdata/codex/feedback.txtar, with
// the real codex and each kind of tracker; TestRealCodex does so with Linear.
func TestRealCodexTrackers(t *testing.T) {
	test.Expensive(t)
	requireCodex(t)
	text := string(test.Must(os.ReadFile(filepath.Join(moduleRoot, "testdata", "codex", "feedback.txtar"))))
	for _, k := range trackerKinds {
		if k.name == "linear" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			if k.needs != nil {
				k.needs(t)
			}
			t.Parallel()
			p := params(t, "codex")
			p.Setup = k.setup
			runScripts(
				t,
				withCodex(p),
				map[string]string{"feedback": strings.ReplaceAll(text, "ABC-", k.prefix)},
			)
		})
	}
}

func (k *trackerKind) setup(env *testscript.Env) error {
	if err := os.WriteFile(filepath.Join(env.WorkDir, "WORKFLOW.md"), []byte(made(k.workflow)), 0o600); err != nil {
		return err
	}
	if err := setupScript(env); err != nil {
		return err
	}
	env.Setenv("DOWN", strconv.Itoa(k.down))
	env.Setenv("DONE", cmp.Or(k.done, env.Getenv("DONE")))
	set := env.Values[stageKey{}].(*stage)
	var err error
	set.tracker, err = k.start(env, set)
	return err
}

// trackerCmd controls the script's tracker, whatever its kind:
//
//	tracker add ABC-1 [state=Todo] [priority=2] [title=...] [blocked=ABC-2] [labels=a,b] [age=2h]
//	            [assignee=EMAIL] [project=SLUG] [FILE]
//	tracker move ABC-1 STATE | tracker comment ABC-1 TEXT | tracker remove ABC-1
//	tracker is ABC-1 STATE          waits until the issue is in the state
//	tracker comments ABC-1 N        waits until the issue has N comments
//	tracker down | tracker garbage | tracker limit DURATION    no answer, unreadable answers, refused requests
//	tracker up                      ends that
//	tracker requests N              fails unless exactly N requests were made since the last clear
//	tracker clear                   clears the log of requests
//	tracker asked                   waits until there is a request in the log
//
// The verbs add, move and is also take several issues: ABC-1,ABC-2. FILE contains the issue's
// description. If its name ends in .agent it is a script for the agent, in which {move STATE}
// is a tool call that moves the issue, {comment TEXT} one that comments on it, {label NAME}
// one that gives it a label, in Linear, and {gate FILE} a command that ends once the file
// exists.
func trackerCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	s := set.tracker
	if s == nil {
		s = linearTracker{set.linear}
	}
	if !onTracker(ts, s, args) {
		ts.Fatalf("tracker: unknown verb %q", args[0])
	}
}

// onTracker carries out a verb of the command tracker. It returns false if there is none.
func onTracker(ts *testscript.TestScript, s scriptTracker, args []string) bool {
	verb := args[0]
	rest := args[1:]
	text := strings.Join(rest[min(1, len(rest)):], " ")
	switch verb {
	case "add":
		for _, identifier := range listed(rest[0]) {
			i, err := readIssue(ts, s, identifier, rest[1:])
			ts.Check(errors.Join(err, s.Add(i)))
		}
	case "move":
		for _, identifier := range listed(rest[0]) {
			ts.Check(s.Move(identifier, text))
		}
	case "comment":
		ts.Check(s.Comment(rest[0], text))
	case "remove":
		ts.Check(s.Remove(rest[0]))
	case "is":
		for _, identifier := range listed(rest[0]) {
			waitFor(ts, identifier+" in "+text, func() (bool, string) {
				state, err := s.State(identifier)
				ts.Check(err)
				return state == text, state
			})
		}
	case "comments":
		waitFor(ts, fmt.Sprintf("%s comments on %s", rest[1], rest[0]), func() (bool, string) {
			n, err := s.Comments(rest[0])
			ts.Check(err)
			return strconv.Itoa(n) == rest[1], strconv.Itoa(n)
		})
	case "down":
		s.Down()
	case "garbage":
		s.Garbage()
	case "limit":
		d, err := time.ParseDuration(rest[0])
		ts.Check(err)
		s.Limit(d)
	case "up":
		s.Up()
	case "clear":
		s.ClearRequests()
	case "asked":
		waitFor(ts, "a request", func() (bool, string) { return s.Requests() > 0, "" })
	case "requests":
		if got := s.Requests(); strconv.Itoa(got) != rest[0] {
			ts.Fatalf("%d requests were made, not %s", got, rest[0])
		}
	default:
		return false
	}
	return true
}

func listed(list string) []string {
	if list == "" {
		return []string{}
	}
	return strings.Split(list, ",")
}

// readIssue reads the arguments of add.
func readIssue(
	ts *testscript.TestScript,
	s scriptTracker,
	identifier string,
	args []string,
) (i scriptIssue, err error) {
	i = scriptIssue{Identifier: identifier, Title: "Issue " + identifier, State: "Todo"}
	for _, arg := range args {
		key, value, named := strings.Cut(arg, "=")
		switch {
		case !named:
			i.Description = describe(ts, s, identifier, arg)
		case key == "state":
			i.State = value
		case key == "title":
			i.Title = value
		case key == "priority":
			i.Priority, err = strconv.Atoi(value)
		case key == "blocked":
			i.BlockedBy = listed(value)
		case key == "labels":
			i.Labels = listed(value)
		case key == "assignee":
			i.Assignee = value
		case key == "project":
			i.Project = value
		case key == "age":
			i.Age, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown %q", arg)
		}
		if err != nil {
			return i, fmt.Errorf("add: %w", err)
		}
	}
	return i, nil
}

var agentMacro = regexp.MustCompile(`\{(move|comment|gate) ([^}]*)\}`)

// agentScript returns an issue's description that contains a script for the agent.
func agentScript(s scriptTracker, identifier, dir, text string) (string, error) {
	text, err := expandMacros(s, identifier, dir, text)
	return "```agent\n" + strings.TrimSpace(text) + "\n```\n", err
}

// expandMacros replaces macros by commands of the agent. The files of gates are below dir.
func expandMacros(s scriptTracker, identifier, dir, text string) (_ string, err error) {
	text = agentMacro.ReplaceAllStringFunc(text, func(m string) string {
		parts := agentMacro.FindStringSubmatch(m)
		if parts[1] == "gate" {
			return fmt.Sprintf("sh until [ -e '%s' ]; do sleep 0.2; done", filepath.Join(dir, parts[2]))
		}
		tool, args, callErr := s.Call(identifier, parts[1], parts[2])
		call, jsonErr := json.Marshal(args)
		err = errors.Join(err, callErr, jsonErr)
		return "tool " + tool + " " + string(call)
	})
	return text, err
}

// describe reads a description; one that ends in .agent is a script for the agent.
func describe(ts *testscript.TestScript, s scriptTracker, identifier, file string) string {
	expand := expandMacros
	if filepath.Ext(file) == ".agent" {
		expand = agentScript
	}
	text, err := expand(s, identifier, ts.MkAbs("."), ts.ReadFile(file))
	ts.Check(err)
	return text
}
