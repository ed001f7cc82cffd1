package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// giteaTracker is a repository on a real Gitea as the tracker of a script, behind a proxy. The
// states of open issues are labels; Done and Canceled are closed issues.
type giteaTracker struct {
	*giteatest.Repository
	proxy *giteatest.Proxy
}

func startGitea(env *testscript.Env, set *stage) (scriptTracker, error) {
	g, err := newGitea(env.Defer, env.Setenv)
	if err != nil {
		return nil, err
	}
	set.gitea = &g
	path := filepath.Join(env.WorkDir, "WORKFLOW.md")
	workflow := strings.ReplaceAll(made("WORKFLOW-gitea.md"), "$GITEA_API", g.proxy.API())
	workflow = strings.ReplaceAll(workflow, "$AGENT", env.Getenv("AGENT"))
	return g, os.WriteFile(path, []byte(workflow), 0o600)
}

// newGitea makes a repository, and sets $GITEA_REPOSITORY, its address $GITEA_URL, that for git with
// a login, $GITEA_REMOTE, the API $GITEA_API and the token $GITEA_TEST_TOKEN.
func newGitea(atEnd func(func()), setenv func(name, value string)) (giteaTracker, error) {
	server, err := giteatest.Start()
	if err != nil {
		return giteaTracker{}, err
	}
	name, err := server.MakeRepository()
	if err != nil {
		return giteaTracker{}, err
	}
	g := giteaTracker{
		Repository: &giteatest.Repository{
			Server: server,
			Name:   name,
			States: []string{"Human Review", "Todo", "In Progress", "Backlog"},
		},
		proxy: server.NewProxy(),
	}
	atEnd(g.proxy.Close)
	login := giteatest.Operator + ":" + server.Token
	setenv("GITEA_REPOSITORY", name)
	setenv("GITEA_URL", g.proxy.URL+"/"+name)
	setenv("GITEA_REMOTE", strings.Replace(g.proxy.URL, "://", "://"+login+"@", 1)+"/"+name+".git")
	setenv("GITEA_API", g.proxy.API())
	setenv("GITEA_TEST_TOKEN", server.Token)
	return g, nil
}

// numberOf returns the number of an issue, such as 1 for GT-1.
func numberOf(issue string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(issue, "GT-"))
	if err != nil {
		panic(err) // the script is wrong
	}
	return n
}

// giteaState is the state on Gitea for a state of the scripts.
func giteaState(state string) string {
	if closes(state) {
		return "closed"
	}
	return state
}

func (g giteaTracker) Add(i scriptIssue) error {
	labels := i.Labels
	if i.Priority > 0 {
		labels = append(labels, fmt.Sprint("P", i.Priority-1))
	}
	n, err := g.Repository.Add(giteatest.Issue{
		Title:  i.Title,
		Body:   i.Description,
		State:  giteaState(i.State),
		Labels: labels,
		Number: numberOf(i.Identifier),
	})
	if err != nil {
		return err
	}
	for _, blocker := range i.BlockedBy {
		if err := g.Block(n, numberOf(blocker)); err != nil {
			return err
		}
	}
	return g.Age(n, i.Age)
}

func (g giteaTracker) Move(issue, state string) error {
	return g.Repository.Move(numberOf(issue), giteaState(state))
}

func (g giteaTracker) Comment(issue, body string) error {
	return g.Repository.Comment(numberOf(issue), giteatest.Writer, body, time.Time{})
}

func (g giteaTracker) Remove(issue string) error { return g.Delete(numberOf(issue)) }

func (g giteaTracker) State(issue string) (string, error) {
	state, err := g.Repository.State(numberOf(issue))
	if state == "closed" {
		state = "Done"
	}
	return state, err
}

func (g giteaTracker) Comments(issue string) (int, error) {
	return g.Repository.Comments(numberOf(issue))
}

func (g giteaTracker) Call(_, macro, body string) (tool string, args any, err error) {
	if macro == "comment" {
		return "issue_comment", map[string]string{"text": body}, nil
	}
	return "issue_update", map[string]string{"state": giteaState(body)}, nil
}

func (g giteaTracker) Down()    { g.proxy.Fail(faulttest.Down) }
func (g giteaTracker) Garbage() { g.proxy.Fail(faulttest.Garbage()) }

func (g giteaTracker) Limit(d time.Duration) {
	g.proxy.Fail(giteatest.Limit(time.Now().Add(d + time.Second)))
}

func (g giteaTracker) Up()            { g.proxy.Fail(nil) }
func (g giteaTracker) Requests() int  { return len(g.proxy.Log()) }
func (g giteaTracker) ClearRequests() { g.proxy.ClearLog() }

// giteaCmd controls the script's Gitea, for which the script's tracker is Gitea:
//
//	gitea start                    makes a repository; sets $GITEA_REPOSITORY, $GITEA_URL, $GITEA_API, $GITEA_TEST_TOKEN
//	                               and $GITEA_REMOTE, the address for git with a login
//	gitea status BRANCH NAME STATE reports a status of the newest commit of a branch
//	gitea review NUMBER EVENT BODY reviews a pull request as kim, three minutes ago: APPROVED, REQUEST_CHANGES or COMMENT
//	gitea look [ISSUE PATTERN]     runs a pass that reads the pull requests, however recently they were
//	                               read; with an issue as many as it takes until symphony show prints
//	                               that
//	gitea settle                   makes the last pushes older than checks need to begin
//	gitea protect JSON             sets the rules of the branch main
//	gitea mergeable NUMBER BOOL    waits until Gitea says so of a pull request
//	gitea behind NUMBER            waits until Gitea knows that a pull request lacks commits of its base
//	gitea title NUMBER TITLE       sets the title of a pull request, which makes it a draft if it begins with WIP:
//	gitea merge NUMBER             merges a pull request as its owner
//	gitea pulls                    prints all pull requests, the oldest first
//	gitea comments NUMBER          prints the comments on an issue or a pull request
func giteaCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	if args[0] == "start" {
		g, err := newGitea(ts.Defer, func(name, value string) { setVar(ts, name, value) })
		ts.Check(err)
		set.gitea = &g
		set.tracker = g
		return
	}
	g := set.gitea
	rest := args[1:]
	switch args[0] {
	case "status":
		var branch struct {
			Commit struct{ ID string }
		}
		path := g.At("/branches/%s", strings.ReplaceAll(rest[0], "/", "%2F"))
		ts.Check(g.As(giteatest.Owner, http.MethodGet, path, nil, &branch))
		body := map[string]string{"context": rest[1], "state": rest[2]}
		ts.Check(g.As(giteatest.Owner, http.MethodPost, g.At("/statuses/%s", branch.Commit.ID), body, nil))
	case "review":
		body := map[string]string{"event": rest[1], "body": strings.Join(rest[2:], " ")}
		var made struct{ ID int64 }
		ts.Check(g.As(giteatest.Writer, http.MethodPost, g.At("/pulls/%s/reviews", rest[0]), body, &made))
		ts.Check(g.Exec("UPDATE review SET created_unix = created_unix - 180, "+
			"updated_unix = updated_unix - 180 WHERE id = ?", made.ID))
	case "look":
		lookAtPulls(ts)
		if len(rest) > 0 {
			pattern := regexp.MustCompile(rest[1])
			waitFor(ts, rest[1], func() (bool, string) {
				lookAtPulls(ts)
				shown := output(ts, "symphony", "show", rest[0])
				return pattern.MatchString(shown), shown
			})
		}
	case "settle":
		settlePushes(ts)
	case "protect":
		var rule map[string]any
		ts.Check(json.Unmarshal([]byte(strings.Join(rest, " ")), &rule))
		rule["rule_name"] = "main"
		if err := g.As(giteatest.Owner, http.MethodDelete, g.At("/branch_protections/main"), nil, nil); err != nil {
			ts.Logf("there was no rule: %v", err)
		}
		ts.Check(g.As(giteatest.Owner, http.MethodPost, g.At("/branch_protections"), rule, nil))
	case "mergeable":
		waitFor(ts, "a pull request that is mergeable: "+rest[1], func() (bool, string) {
			var pull struct{ Mergeable bool }
			ts.Check(g.As(giteatest.Owner, http.MethodGet, g.At("/pulls/%s", rest[0]), nil, &pull))
			is := strconv.FormatBool(pull.Mergeable)
			return is == rest[1], is
		})
	case "behind":
		waitFor(ts, "a pull request that lacks commits of its base", func() (bool, string) {
			n, err := g.Behind(test.Must(strconv.Atoi(rest[0])))
			return n > 0, fmt.Sprint(n, err)
		})
	case "title":
		body := map[string]string{"title": strings.Join(rest[1:], " ")}
		ts.Check(g.As(giteatest.Owner, http.MethodPatch, g.At("/pulls/%s", rest[0]), body, nil))
	case "merge":
		waitFor(ts, "a pull request that can be merged", func() (bool, string) {
			body := map[string]string{"Do": "merge"}
			err := g.As(giteatest.Owner, http.MethodPost, g.At("/pulls/%s/merge", rest[0]), body, nil)
			return err == nil, fmt.Sprint(err)
		})
	case "pulls":
		var pulls []struct {
			Number     int
			State      string
			Title      string
			Body       string
			Head, Base struct{ Label string }
		}
		ts.Check(g.As(giteatest.Owner, http.MethodGet, g.At("/pulls?state=all&sort=oldest"), nil, &pulls))
		for _, p := range pulls {
			fmt.Fprintf(ts.Stdout(), "%d %s %s into %s: %s\n%s\n",
				p.Number, p.State, p.Head.Label, p.Base.Label, p.Title, p.Body)
		}
	case "comments":
		var comments []struct {
			Body string
			User struct{ Login string }
		}
		ts.Check(g.As(giteatest.Owner, http.MethodGet, g.At("/issues/%s/comments", rest[0]), nil, &comments))
		for _, c := range comments {
			fmt.Fprintf(ts.Stdout(), "%s: %s\n", c.User.Login, text.OneLine(c.Body))
		}
	default:
		ts.Fatalf("gitea: unknown verb %q", args[0])
	}
}
