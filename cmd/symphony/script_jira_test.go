package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
	"github.com/symphony-cron/symphony/internal/adapter/faulttest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

// jiraTracker is a site of Jira as the tracker of a script.
type jiraTracker struct{ *jiratest.Server }

func startJira(env *testscript.Env, set *stage) (scriptTracker, error) {
	j := newJira(env.Defer, env.Setenv)
	set.jira = &j
	return j, j.writeWorkflow(filepath.Join(env.WorkDir, "WORKFLOW.md"), env.Getenv("AGENT"))
}

func (j jiraTracker) writeWorkflow(path, agent string) error {
	workflow := strings.ReplaceAll(made("WORKFLOW-jira.md"), "$JIRA_URL", j.URL())
	workflow = strings.ReplaceAll(workflow, "$AGENT", agent)
	return os.WriteFile(path, []byte(workflow), 0o600)
}

// newJira starts a site with the project ABC, and sets its address $JIRA_URL and the token
// $JIRA_TEST_TOKEN.
func newJira(atEnd func(func()), setenv func(name, value string)) jiraTracker {
	s := &jiratest.Server{Project: "ABC", ShowEmails: true}
	s.Start()
	atEnd(s.Close)
	setenv("JIRA_URL", s.URL())
	setenv("JIRA_TEST_TOKEN", jiratest.Token)
	return jiraTracker{s}
}

func (j jiraTracker) Add(i scriptIssue) error {
	priority := ""
	if i.Priority > 0 {
		priority = jiratest.Priorities[i.Priority-1]
	}
	_, _, err := j.Server.Add(jiratest.Issue{
		Key:         i.Identifier,
		Summary:     i.Title,
		Description: i.Description,
		Status:      i.State,
		Priority:    priority,
		Labels:      i.Labels,
		Created:     time.Now().Add(-i.Age),
	})
	if err != nil {
		return err
	}
	for _, blocker := range i.BlockedBy {
		if err := j.Block(i.Identifier, blocker); err != nil {
			return err
		}
	}
	return nil
}

func (j jiraTracker) Comment(issue, body string) error {
	return j.Server.Comment(issue, jiratest.Person, body, time.Time{})
}

func (j jiraTracker) Remove(issue string) error { return j.Delete(issue) }

func (j jiraTracker) Call(_, macro, body string) (tool string, args any, err error) {
	if macro == "comment" {
		return "issue_comment", map[string]string{"text": body}, nil
	}
	return "issue_update", map[string]string{"state": body}, nil
}

func (j jiraTracker) Down()    { j.Fail(faulttest.Down) }
func (j jiraTracker) Garbage() { j.Fail(faulttest.Garbage()) }

func (j jiraTracker) Limit(d time.Duration) {
	j.Fail(jiratest.Limit(time.Now().Add(d + time.Second)))
}

func (j jiraTracker) Up()            { j.Fail(nil) }
func (j jiraTracker) Requests() int  { return len(j.Log()) }
func (j jiraTracker) ClearRequests() { j.ClearLog() }

// jiraCmd controls the script's Jira, for which the script's tracker is Jira:
//
//	jira start               starts a site, sets $JIRA_URL and $JIRA_TEST_TOKEN, and writes a WORKFLOW.md for it
//	jira expire | renew      the token ends: answers are as to a stranger, with a header that says so | ends that
//	jira expire-untold       the same, without the header
//	jira hide on | off       the account may not see the project | ends that
//	jira lag on | off        the index of the search stays as it is, or is brought up to date
//	jira away ABC-1          moves an issue to another project
//	jira rename-status A B   gives a status another name
//	jira rename-project KEY  gives the project another key
//	jira comments ABC-1      prints the comments on an issue
func jiraCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	if args[0] == "start" {
		j := newJira(ts.Defer, func(name, value string) { setVar(ts, name, value) })
		set.jira = &j
		set.tracker = j
		ts.Check(j.writeWorkflow(ts.MkAbs("WORKFLOW.md"), ts.Getenv("AGENT")))
		return
	}
	j := set.jira
	switch args[0] {
	case "expire":
		j.Expire(true, true)
	case "expire-untold":
		j.Expire(true, false)
	case "renew":
		j.Expire(false, true)
	case "hide":
		j.Hide(args[1] == "on")
	case "lag":
		j.Lag(args[1] == "on")
	case "away":
		ts.Check(j.MoveAway(args[1]))
	case "rename-status":
		ts.Check(j.Rename(args[1], args[2]))
	case "rename-project":
		j.RenameProject(args[1])
	case "comments":
		texts, err := j.Texts(args[1])
		ts.Check(err)
		for _, document := range texts {
			fmt.Fprintln(ts.Stdout(), text.OneLine(adf.Markdown(text.JSON(document))))
		}
	default:
		ts.Fatalf("jira: unknown verb %q", args[0])
	}
}
