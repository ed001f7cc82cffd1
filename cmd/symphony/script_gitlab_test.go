package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
)

// gitlabTracker is a project on the tests' GitLab as the tracker of a script. The states of open
// issues are labels; Done and Canceled are closed issues.
type gitlabTracker struct{ *gitlabtest.Server }

func startGitLab(env *testscript.Env, set *stage) (scriptTracker, error) {
	s := newGitLab(env.Defer, env.Setenv, "")
	set.gitlab = s
	path := filepath.Join(env.WorkDir, "WORKFLOW.md")
	workflow := strings.ReplaceAll(made("WORKFLOW-gitlab.md"), "$GITLAB_API", s.API())
	workflow = strings.ReplaceAll(workflow, "$AGENT", env.Getenv("AGENT"))
	return gitlabTracker{s}, os.WriteFile(path, []byte(workflow), 0o600)
}

// newGitLab starts a GitLab at a path of its host, and sets the name of its project
// $GITLAB_PROJECT, the API $GITLAB_API and the token $GITLAB_TEST_TOKEN.
func newGitLab(atEnd func(func()), setenv func(name, value string), remote string) *gitlabtest.Server {
	s := &gitlabtest.Server{
		Project:     "team/web/shop",
		Path:        "/gitlab",
		Token:       "glpat-secretsecretsecret",
		Remote:      remote,
		StateLabels: []string{"Human Review", "Todo", "In Progress", "Backlog"},
	}
	s.Start()
	atEnd(s.Close)
	setenv("GITLAB_PROJECT", s.Project)
	setenv("GITLAB_API", s.API())
	setenv("GITLAB_TEST_TOKEN", s.Token)
	return s
}

// gitlabState is the state on GitLab for a state of the scripts.
func gitlabState(state string) string {
	if closes(state) {
		return "closed"
	}
	return state
}

func (g gitlabTracker) Add(i scriptIssue) error {
	given := gitlabtest.Issue{
		Title:     i.Title,
		Body:      i.Description,
		Labels:    i.Labels,
		CreatedAt: time.Now().Add(-i.Age),
	}
	if _, err := fmt.Sscanf(i.Identifier, "GL-%d", &given.Number); err != nil {
		return err
	}
	if i.Priority > 0 {
		given.Labels = append(given.Labels, fmt.Sprint("P", i.Priority-1))
	}
	if _, err := g.AddIssue(given); err != nil {
		return err
	}
	if err := g.Block(i.Identifier, i.BlockedBy...); err != nil {
		return err
	}
	return g.Move(i.Identifier, i.State)
}

func (g gitlabTracker) Move(issue, state string) error {
	return g.Server.Move(issue, gitlabState(state))
}

func (g gitlabTracker) Comment(issue, body string) error {
	return g.Server.Comment(issue, gitlabtest.Writer, body, time.Time{})
}

func (g gitlabTracker) Remove(issue string) error { return g.Delete(issue) }

func (g gitlabTracker) State(issue string) (string, error) {
	state, err := g.Server.State(issue)
	if state == "closed" {
		state = "Done"
	}
	return state, err
}

func (g gitlabTracker) Comments(issue string) (int, error) {
	i, err := g.Issue(issue)
	people := text.Filter(i.Notes, func(n *gitlabtest.Note) bool { return !n.System })
	return len(people), err
}

func (g gitlabTracker) Call(_, macro, body string) (tool string, args any, err error) {
	if macro == "comment" {
		return "issue_comment", map[string]string{"text": body}, nil
	}
	return "issue_update", map[string]string{"state": gitlabState(body)}, nil
}

func (g gitlabTracker) Down()    { g.fail(gitlabtest.Failure{Kind: gitlabtest.FailClose}) }
func (g gitlabTracker) Garbage() { g.fail(gitlabtest.Failure{Kind: gitlabtest.FailHTML}) }

func (g gitlabTracker) Limit(d time.Duration) {
	// in whole seconds, which must not end too early
	g.fail(gitlabtest.Failure{
		Kind:  gitlabtest.FailRateLimit,
		Reset: time.Now().Add(d + time.Second).Unix(),
	})
}

// fail makes all requests fail.
func (g gitlabTracker) fail(f gitlabtest.Failure) {
	f.Times = -1
	if err := g.Fail(f); err != nil {
		panic(err)
	}
}

func (g gitlabTracker) Up()            { g.ClearFailures() }
func (g gitlabTracker) Requests() int  { return len(g.Log()) }
func (g gitlabTracker) ClearRequests() { g.ClearLog() }

// gitlabCmd controls the script's GitLab, for which the script's tracker is GitLab:
//
//	gitlab start DIRECTORY           serves the project team/web/shop with the branches of this directory; sets
//	                                 $GITLAB_PROJECT, $GITLAB_API and $GITLAB_TEST_TOKEN
//	gitlab job BRANCH NAME STATE LOG sets a job of the pipeline of the newest commit of a branch, with its log
//	gitlab review NUMBER VERDICT TEXT reviews a merge request as kim, three minutes ago: approved, changes_requested or
//	                                 commented, with a text on line 1 of x.go
//	gitlab approve NUMBER LOGIN      approves it as this person, three minutes ago
//	gitlab resolve NUMBER            resolves all of its discussions
//	gitlab draft NUMBER on|off       makes it a draft | ends that
//	gitlab demand approvals N        the project demands so many approvals,
//	gitlab demand pipeline           or a pipeline that succeeds,
//	gitlab demand maintainer on|off  or that maintainers merge into main; symphony's account is none
//	gitlab method METHOD             the project merges by merge, rebase_merge or ff
//	gitlab look                      runs a pass that reads the merge requests, however recently they were read
//	gitlab merge NUMBER              merges a merge request as a person
//	gitlab merges                    prints all merge requests, the oldest first
//	gitlab notes ISSUE|!NUMBER       prints the comments on an issue or a merge request
//	gitlab settle                    makes the last pushes older than checks need to begin
func gitlabCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	rest := args[1:]
	if args[0] == "start" {
		s := newGitLab(ts.Defer, func(name, value string) { setVar(ts, name, value) }, ts.MkAbs(rest[0]))
		set.gitlab = s
		set.tracker = gitlabTracker{s}
		return
	}
	s := set.gitlab
	switch args[0] {
	case "job":
		head, err := exec.Command("git", "--git-dir", s.Remote, "rev-parse", rest[0]).Output()
		ts.Check(err)
		s.SetJob(strings.TrimSpace(string(head)), gitlabtest.Job{
			Name:  rest[1],
			State: rest[2],
			Log:   strings.Join(rest[3:], " "),
		})
	case "review":
		var notes []gitlabtest.Note
		if len(rest) > 2 {
			notes = []gitlabtest.Note{{Body: strings.Join(rest[2:], " "), File: "x.go", Line: 1}}
		}
		number := test.Must(strconv.Atoi(rest[0]))
		ts.Check(s.Review(number, gitlabtest.Writer, rest[1], 3*time.Minute, notes...))
	case "approve":
		number := test.Must(strconv.Atoi(rest[0]))
		ts.Check(s.Review(number, rest[1], "approved", 3*time.Minute))
	case "resolve":
		ts.Check(s.EditMerge(test.Must(strconv.Atoi(rest[0])), func(m *gitlabtest.MergeRequest) {
			for _, n := range m.Notes {
				n.Resolved = true
			}
		}))
	case "draft":
		ts.Check(s.EditMerge(test.Must(strconv.Atoi(rest[0])), func(m *gitlabtest.MergeRequest) {
			m.Draft = rest[1] == "on"
		}))
	case "demand":
		s.Change(func() {
			switch rest[0] {
			case "approvals":
				s.NeedsApprovals = test.Must(strconv.Atoi(rest[1]))
			case "pipeline":
				s.NeedsGreen = true
			case "maintainer":
				s.MaintainersMerge = rest[1] == "on"
			default:
				ts.Fatalf("gitlab: unknown demand %q", rest[0])
			}
		})
	case "method":
		s.Change(func() { s.MergeMethod = rest[0] })
	case "look":
		lookAtPulls(ts)
	case "merge":
		number := test.Must(strconv.Atoi(rest[0]))
		ts.Check(s.EditMerge(number, func(m *gitlabtest.MergeRequest) { m.State = "merged" }))
	case "merges":
		for _, m := range s.Merges() {
			fmt.Fprintf(ts.Stdout(), "!%d %s %s into %s: %s\n%s\n", m.Number, m.State, m.Source, m.Target, m.Title, m.Body)
		}
	case "notes":
		var notes []*gitlabtest.Note
		if digits, isMerge := strings.CutPrefix(rest[0], "!"); isMerge {
			notes = s.Merges()[test.Must(strconv.Atoi(digits))-1].Notes
		} else {
			i, err := s.Issue(rest[0])
			ts.Check(err)
			notes = i.Notes
		}
		for _, n := range notes {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", n.Author, text.OneLine(n.Body))
		}
	case "settle":
		settlePushes(ts)
	default:
		ts.Fatalf("gitlab: unknown verb %q", args[0])
	}
}
