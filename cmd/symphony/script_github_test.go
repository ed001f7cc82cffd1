package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// githubCmd controls the script's GitHub. Its first repository is team/app, reached by $GITHUB_API with $GITHUB_TEST_TOKEN:
//
//	github start DIRECTORY    serves the repository with this directory's last two names instead, its branches included, and sets
//	                          $GITHUB_URL and $GITHUB_TOKEN
//	github add 1 [state=LABEL|closed] [title=...] [labels=a,b] [blocked=2,3] [assignee=LOGIN] [age=2h] [FILE]
//	github move 1 STATE | github comment 1 TEXT | github delete 1 | github edit 1 FILE | github label 1 [a,b]
//	github assign 1 [LOGIN] | github block 1 BLOCKER | github rename OWNER/NAME
//	github is 1 STATE         waits until the issue is in the state: open, closed or a label of Todo, In Progress, Human Review …
//	github comments 1 N       waits until the issue has N comments
//	github read 1             prints the comments of an issue
//	github fail KIND|JSON     makes all requests fail, or adds the failure of githubtest
//	github ok                 ends all failures
//	github remaining N        sets the rest of the allowance
//	github requests [REQUEST...]   fails unless these requests were made since the last clear: a number, or METHOD STATUS PATH
//	github clear              clears the log of requests
//	github end NUMBER         closes a pull request
//	github judge NUMBER CHECKS REVIEW   sets the checks and the review of a pull request, in GitHub's words
//	github pulls              prints all pull requests
//	github pull-requests [METHOD...]  fails unless the repository's pull requests were asked so since the last clear, and clears
//
// FILE contains the issue's text, as that of linear add.
func githubCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts).github
	verb, rest := args[0], args[1:]
	text := strings.Join(rest[min(1, len(rest)):], " ")
	switch verb {
	case "start":
		githubStart(ts, rest[0])
	case "add":
		ts.Check(githubAdd(ts, s, rest))
	case "move":
		ts.Check(s.Move(rest[0], text))
	case "comment":
		_, err := s.Comment(rest[0], "kim", text)
		ts.Check(err)
	case "delete":
		ts.Check(s.Delete(rest[0]))
	case "edit":
		body := githubText(ts, rest[1])
		ts.Check(s.Edit(rest[0], func(i *githubtest.Issue) { i.Body = body }))
	case "label":
		ts.Check(s.Edit(rest[0], func(i *githubtest.Issue) { i.Labels = words(text) }))
	case "assign":
		ts.Check(s.Edit(rest[0], func(i *githubtest.Issue) { i.Assignees = words(text) }))
	case "block":
		ts.Check(s.Block(rest[0], rest[1:]...))
	case "rename":
		ts.Check(s.Rename(s.Repository, rest[0]))
	case "is":
		waitFor(ts, fmt.Sprintf("#%s in %s", rest[0], text), func() (bool, string) {
			state, err := s.State(rest[0])
			ts.Check(err)
			return state == text, state
		})
	case "comments", "read":
		githubComments(ts, s, verb, rest)
	default:
		githubServe(ts, s, verb, rest)
	}
}

// githubServe is the part of githubCmd that is not about issues.
func githubServe(ts *testscript.TestScript, s *githubtest.Server, verb string, rest []string) {
	switch verb {
	case "fail":
		f := githubtest.Failure{Kind: rest[0], Times: -1}
		if text := strings.Join(rest, " "); strings.HasPrefix(text, "{") {
			f = githubtest.Failure{}
			ts.Check(json.Unmarshal([]byte(text), &f))
		}
		ts.Check(s.Fail(f))
	case "ok":
		s.ClearFailures()
	case "remaining":
		number, err := strconv.Atoi(rest[0])
		ts.Check(err)
		s.SetRemaining(number)
	case "clear":
		s.ClearLog()
	case "requests":
		var got []string
		for _, r := range s.Log() {
			got = append(got, r.String())
		}
		if want := strings.Join(rest, " "); want != strconv.Itoa(len(got)) && want != strings.Join(got, " ") {
			ts.Fatalf("%d requests were made:\n%s", len(got), strings.Join(got, "\n"))
		}
	case "end":
		number, err := strconv.Atoi(rest[0])
		ts.Check(err)
		ts.Check(s.End(context.Background(), number))
	case "judge":
		number, err := strconv.Atoi(rest[0])
		ts.Check(err)
		ts.Check(s.EditPull(context.Background(), number, func(p *githubtest.Pull) { p.Checks, p.Review = rest[1], rest[2] }))
	case "pulls":
		for _, p := range s.Pulls(context.Background()) {
			fmt.Fprintf(ts.Stdout(), "%d %s %s into %s by %s: %s\n%s\n", p.Number, p.State, p.Branch, p.Base, p.From, p.Title, p.Body)
		}
	case "pull-requests":
		var got []string
		for _, r := range s.Log() {
			if path, _, _ := strings.Cut(r.Path, "?"); strings.HasSuffix(path, "/pulls") {
				got = append(got, r.Method)
			}
		}
		s.ClearLog()
		if strings.Join(got, " ") != strings.Join(rest, " ") {
			ts.Fatalf("the requests were %q", got)
		}
	default:
		ts.Fatalf("github: unknown verb %q", verb)
	}
}

// newGitHub starts a GitHub until the end of the script, which fails if a request or an answer was not GitHub's.
func newGitHub(t testscript.T, end func(func()), repository, remote string) *githubtest.Server {
	s := &githubtest.Server{
		Repository: repository, Remote: remote, Tokens: []string{"github_pat_secretsecret", "gho_secretsecret"},
		StateLabels: []string{"Todo", "In Progress", "In Review", "Human Review", "Rework", "Merging"},
	}
	s.Start()
	end(func() {
		s.Close()
		for _, what := range s.Mistakes() {
			t.Log(what)
			defer t.FailNow()
		}
	})
	return s
}

func githubStart(ts *testscript.TestScript, dir string) {
	names := strings.Split(strings.TrimSuffix(ts.MkAbs(dir), ".git"), "/")
	s := newGitHub(stageOf(ts).t, ts.Defer, strings.Join(names[len(names)-2:], "/"), ts.MkAbs(dir))
	stageOf(ts).github = s
	ts.Setenv("GITHUB_URL", s.URL())
	ts.Setenv("GITHUB_API", s.URL())
	ts.Setenv("GITHUB_TOKEN", s.Tokens[0])
}

func githubAdd(ts *testscript.TestScript, s *githubtest.Server, args []string) (err error) {
	i := githubtest.Issue{Title: "Issue " + args[0]}
	if i.Number, err = strconv.Atoi(strings.TrimPrefix(args[0], "GH-")); err != nil {
		return err
	}
	for _, arg := range args[1:] {
		key, value, named := strings.Cut(arg, "=")
		switch {
		case !named:
			i.Body = githubText(ts, arg)
		case key == "state" && (value == "open" || value == "closed"):
			i.State = value
		case key == "state":
			i.Labels = append(i.Labels, value)
		case key == "title":
			i.Title = value
		case key == "labels":
			i.Labels = append(i.Labels, words(value)...)
		case key == "blocked":
			i.BlockedBy = words(value)
		case key == "assignee":
			i.Assignees = words(value)
		case key == "age":
			age, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			i.CreatedAt = time.Now().Add(-age)
		default:
			return fmt.Errorf("github add: unknown %q", arg)
		}
	}
	_, err = s.AddIssue(i)
	return err
}

func githubComments(ts *testscript.TestScript, s *githubtest.Server, verb string, rest []string) {
	if verb == "comments" {
		waitFor(ts, fmt.Sprintf("%s comments on #%s", rest[1], rest[0]), func() (bool, string) {
			i, err := s.Issue(rest[0])
			ts.Check(err)
			return strconv.Itoa(len(i.Comments)) == rest[1], fmt.Sprint(i.Comments)
		})
		return
	}
	i, err := s.Issue(rest[0])
	ts.Check(err)
	for _, c := range i.Comments {
		fmt.Fprintf(ts.Stdout(), "%s: %s\n", c.Author, c.Body)
	}
}

// githubText reads an issue's text; one that ends in .agent is a script for the agent.
func githubText(ts *testscript.TestScript, file string) string {
	text := ts.ReadFile(file)
	if strings.HasSuffix(file, ".agent") {
		text = "```agent\n" + strings.TrimSpace(text) + "\n```\n"
	}
	return text
}
