package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// lookAtPulls runs a pass that reads the pull requests, however recently they were read.
func lookAtPulls(ts *testscript.TestScript) {
	execute(ts, []string{"sql", "DELETE FROM meta WHERE key = 'feedback_read_at'"})
	output(ts, "symphony", "tick", "--lock-timeout", ts.Getenv("PATIENCE"))
}

// settlePushes makes the last pushes older than checks need to begin.
func settlePushes(ts *testscript.TestScript) {
	const older = `UPDATE watches SET watch = json_set(watch, '$.head_at', strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-3 minutes'))`
	execute(ts, []string{"sql", older})
}

// githubCmd controls the script's GitHub. Its first repository is team/app, reached by
// $GITHUB_API with $GITHUB_TEST_TOKEN. It has the verbs move, comment, is, comments and clear
// of the command tracker, for issues that are named by their numbers, and:
//
//	github start DIRECTORY    serves the repository with this directory's last two names instead,
//	                          its branches included, and sets $GITHUB_URL and $GITHUB_TOKEN
//	github add 1 [labels=a,b] [FILE] | github edit 1 FILE   FILE contains the issue's text, as that of tracker add
//	github rename OWNER/NAME
//	github read 1             prints the comments of an issue
//	github fail KIND|JSON     makes all requests fail, or adds the failure of githubtest
//	github ok                 ends all failures
//	github remaining N        sets the rest of the allowance
//	github requests N         fails unless N requests were made since the last clear
//	github pull AUTHOR ISSUE  adds a pull request of this account that closes an issue
//	github end NUMBER         closes a pull request
//	github judge NUMBER CHECKS REVIEW   sets the checks and the review of a pull request, in GitHub's words
//	github check BRANCH NAME CONCLUSION [LOG]   sets a job of GitHub Actions on the newest commit of
//	                          a branch, with its log
//	github status BRANCH NAME STATE   adds or changes a commit status of another system there
//	github require NUMBER NAME...     makes the base of a pull request require checks
//	github review NUMBER AUTHOR STATE FILE LINE BODY   adds a review by a person who may push, three minutes ago
//	github new-review …       the same in an hour; github age NUMBER makes all of its reviews two hours older
//	github crowd NUMBER N     adds as many reviews by a person who may not push
//	github look               runs a pass that reads the pull requests, however recently they were read
//	github conflict NUMBER    a pull request can't be merged into its base
//	github merge NUMBER
//	github disarm NUMBER      takes back that GitHub merges a pull request
//	github demand NUMBER approvals|behind N   makes its base demand approvals, or not to be behind (1, 0)
//	github allow methods|auto|queue|permission WORD...   sets the allowed ways to merge or the
//	                          account's permission, or turns auto-merge or a merge queue on or off
//	github merges             prints how often and by which method each pull request was merged,
//	                          and whether GitHub is to merge it
//	github settle             makes the last pushes older than checks need to begin
//	github reopen NUMBER
//	github pulls              prints all pull requests
//	github pull-requests [query|METHOD...]  fails unless the repository's pull requests were asked so
//	                          since the last clear, and clears
func githubCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts).github
	verb := args[0]
	rest := args[1:]
	text := strings.Join(rest, " ")
	number := func() int { return test.Must(strconv.Atoi(rest[0])) }
	switch verb {
	case "start":
		githubStart(ts, rest[0])
	case "add":
		i := githubtest.Issue{Title: "Issue " + rest[0], Number: number()}
		for _, arg := range rest[1:] {
			if labels, found := strings.CutPrefix(arg, "labels="); found {
				i.Labels = listed(labels)
			} else {
				i.Body = describe(ts, githubTracker{s}, rest[0], arg)
			}
		}
		_, err := s.AddIssue(i)
		ts.Check(err)
	case "edit":
		body := describe(ts, githubTracker{s}, rest[0], rest[1])
		ts.Check(s.Edit(rest[0], func(i *githubtest.Issue) { i.Body = body }))
	case "rename":
		// from its first name, unless there are two
		ts.Check(s.Rename(append([]string{s.Repository}, rest...)[len(rest)-1], rest[len(rest)-1]))
	case "read":
		i, err := s.Issue(rest[0])
		ts.Check(err)
		for _, c := range i.Comments {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", c.Author, c.Body)
		}
	case "fail":
		f := githubtest.Failure{Kind: rest[0], Times: -1}
		if strings.HasPrefix(text, "{") {
			f = githubtest.Failure{}
			ts.Check(json.Unmarshal([]byte(text), &f))
		}
		ts.Check(s.Fail(f))
	case "ok":
		s.ClearFailures()
	case "remaining":
		s.SetRemaining(number())
	case "pull":
		branch := "by-" + rest[0]
		base := "main"
		if len(rest) > 2 {
			branch = rest[2]
			base = rest[3]
		}
		_, err := s.AddPull(githubtest.Pull{
			Title:  "Closes " + rest[1],
			Branch: branch,
			Base:   base,
			Author: rest[0],
			Closes: []string{s.Repository + "#" + rest[1]},
		})
		ts.Check(err)
	case "end":
		ts.Check(s.End(context.Background(), number()))
	case "judge":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			p.Checks = rest[1]
			p.Review = rest[2]
		}))
	case "check":
		head, err := exec.Command("git", "--git-dir", s.Remote, "rev-parse", rest[0]).Output()
		ts.Check(err)
		s.SetChecks(strings.TrimSpace(string(head)), githubtest.Check{
			Name:     rest[1],
			Workflow: "CI",
			Run:      7,
			Job:      70,
			State:    rest[2],
			Log:      strings.Join(rest[3:], " "),
		})
	case "status":
		out, err := exec.Command("git", "--git-dir", s.Remote, "rev-parse", rest[0]).Output()
		ts.Check(err)
		head := strings.TrimSpace(string(out))
		others := slices.DeleteFunc(
			s.Checks(head),
			func(c githubtest.Check) bool { return c.Name == rest[1] },
		)
		s.SetChecks(head, append(others, githubtest.Check{
			Name:   rest[1],
			State:  rest[2],
			Status: true,
		})...)
	case "require":
		ts.Check(
			s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.Required = rest[1:] }),
		)
	case "look":
		lookAtPulls(ts)
	case "review", "new-review":
		at := time.Now().Add(-3 * time.Minute)
		if verb == "new-review" {
			// so that it stays new, however long the script takes
			at = time.Now().Add(time.Hour)
		}
		review := githubtest.Review{
			Author: rest[1],
			Role:   "MEMBER",
			Writer: true,
			State:  rest[2],
			At:     at,
			Body:   "See below.",
			Lines: []githubtest.LineComment{{
				Path: rest[3],
				Line: test.Must(strconv.Atoi(rest[4])),
				Body: strings.Join(rest[5:], " "),
			}},
		}
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			review.Commit = p.Commit
			p.Reviews = append(p.Reviews, review)
		}))
	case "age":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			for i := range p.Reviews {
				p.Reviews[i].At = p.Reviews[i].At.Add(-2 * time.Hour)
			}
		}))
	case "crowd":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			for range test.Must(strconv.Atoi(rest[1])) {
				p.Reviews = append(p.Reviews, githubtest.Review{
					Author: "stranger",
					State:  "COMMENTED",
					At:     time.Now().Add(-time.Minute),
					Body:   "+1",
					Commit: p.Commit,
				})
			}
		}))
	case "conflict":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.Conflict = true }))
	case "draft":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.Draft = !p.Draft }))
	case "retarget":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.Base = rest[1] }))
	case "merge":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			p.State = "closed"
			p.Merged = true
		}))
	case "disarm":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.AutoMerge = "" }))
	case "demand":
		n := test.Must(strconv.Atoi(rest[2]))
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) {
			if rest[1] == "behind" {
				p.Behind = n > 0
			} else {
				p.Approvals = n
			}
		}))
	case "allow":
		switch rest[0] {
		case "methods":
			s.Methods = rest[1:]
		case "auto":
			s.NoAutoMerge = rest[1] != "on"
		case "queue":
			s.Queue = rest[1] == "on"
		case "permission":
			s.Permission = rest[1]
		}
	case "merges":
		for _, p := range s.Pulls(context.Background()) {
			armed := cmp.Or(p.AutoMerge, "no")
			if p.Queued {
				armed = "queue"
			}
			fmt.Fprintf(ts.Stdout(), "%d: %d by %s, armed %s\n", p.Number, p.Merges, cmp.Or(p.Method, "none"), armed)
		}
	case "settle":
		settlePushes(ts)
	case "reopen":
		ts.Check(s.EditPull(context.Background(), number(), func(p *githubtest.Pull) { p.State = "open" }))
	case "pulls":
		for _, p := range s.Pulls(context.Background()) {
			fmt.Fprintf(
				ts.Stdout(),
				"%d %s %s into %s by %s: %s\n%s\n",
				p.Number,
				p.State,
				p.Branch,
				p.Base,
				p.From,
				p.Title,
				p.Body,
			)
		}
	case "requests", "pull-requests":
		githubRequests(ts, s, verb, text)
	default:
		if !onTracker(ts, githubTracker{s}, args) {
			ts.Fatalf("github: unknown verb %q", verb)
		}
	}
}

// githubRequests checks how many requests were made, or the methods of those for the pull
// requests of the repository.
func githubRequests(ts *testscript.TestScript, s *githubtest.Server, verb, want string) {
	var all, methods []string
	for _, r := range s.Log() {
		all = append(all, r.String())
		path, _, _ := strings.Cut(r.Path, "?")
		switch {
		case path == "/graphql":
			methods = append(methods, "query")
		case strings.HasSuffix(path, "/pulls"), strings.HasSuffix(path, "/merge"):
			methods = append(methods, r.Method)
		}
	}
	got := strconv.Itoa(len(all))
	if verb == "pull-requests" {
		got = strings.Join(methods, " ")
		s.ClearLog()
	}
	if want != got {
		ts.Fatalf("github %s %s: the requests were\n%s", verb, want, strings.Join(all, "\n"))
	}
}

// checkGitHub returns the check of requests and answers by GitHub's published description, if
// there is one. A program makes it, which ends with the tests.
var checkGitHub = sync.OnceValue(func() githubtest.CheckFunc {
	if os.Getenv("SYMPHONY_GITHUB_OPENAPI") == "" {
		return nil
	}
	program := filepath.Join(filepath.Dir(test.Must(exec.LookPath("fake-codex"))), "validate-github")
	build := exec.Command("go", "build", "-o", program, "./tracker/github/githubtest/openapi/validate")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	validator := exec.Command(program)
	validator.Stderr = os.Stderr
	in := test.Must(validator.StdinPipe())
	out := test.Must(validator.StdoutPipe())
	test.OK(mainT{}, validator.Start())
	return githubtest.CheckBy(in, out)
})

// newGitHub starts a GitHub until the end of the script, which fails if a request or an answer
// was not GitHub's.
func newGitHub(t testscript.T, end func(func()), repository, remote string) *githubtest.Server {
	var mistakes []string
	s := &githubtest.Server{
		Repository:  repository,
		Remote:      remote,
		Tokens:      []string{"github_pat_secretsecret", "gho_secretsecret"},
		Check:       checkGitHub(),
		StateLabels: []string{"Human Review", "In Review", "Todo", "In Progress", "Rework", "Merging"},
		Errorf:      func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) },
	}
	s.Start()
	end(func() {
		s.Close()
		for _, what := range mistakes {
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
	setVar(ts, "GITHUB_URL", s.URL())
	setVar(ts, "GITHUB_API", s.URL())
	setVar(ts, "GITHUB_TOKEN", s.Tokens[0])
}
