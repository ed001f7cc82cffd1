package page

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// LogLines is how many of the last lines of a log the page of an issue shows.
const LogLines = 200

// Issue is the page of an issue. It answers in this order: whether the issue needs a person,
// its activity or why there is none, its events, their cost, and where the work is.
type Issue struct {
	Project string // by which addresses call it
	detail.Issue
	MayAct bool
	// Details: the reader may see logs and changes.
	Details bool
}

// issueTemplate is the template of the page.
var issueTemplate = sync.OnceValue(func() *template.Template {
	return parse(template.FuncMap{"turnTone": turnTone}, "issue.html")
})

// Page draws it.
func (i Issue) Page() Page {
	title := i.Name() + " " + text.OrEmpty(i.Issue.Issue.Title)
	return Page{
		Title:    title,
		Requests: len(i.Requests),
		MayAct:   i.MayAct,
		Main:     markup(issueTemplate(), "issue.html", i),
	}
}

// Name is the identifier of the issue.
func (i Issue) Name() string { return i.Issue.Issue.Identifier }

// Path is the address of the page.
func (i Issue) Path() string { return IssueAddress(i.Project, i.Name()) }

// LogPath is the address of the whole log of a run as text.
func (i Issue) LogPath(runID string) string { return i.Path() + "/log?run=" + url.QueryEscape(runID) }

// RunPath is the address of the page of a run.
func (i Issue) RunPath(runID string) string { return i.Path() + "/run?run=" + url.QueryEscape(runID) }

// Forms makes the forms of the issue's page.
func (i Issue) Forms() Forms {
	return Forms{Project: i.Project, Back: i.Path(), MayAct: i.MayAct}
}

// Form returns the commands of an operator about the issue.
func (i Issue) Form() IssueForm {
	return IssueForm{Forms: i.Forms(), Identifier: i.Name(), Row: operate.RowOfIssue(i.Issue)}
}

// headline shows at a glance whether the issue needs a person.
type headline struct{ Tone, Icon, Text string }

// verdicts are the headlines that follow from the status alone.
var verdicts = map[view.Status]headline{
	reconcile.StatusNeedsAnswer: {"warn", "alert", "Needs you: the agent waits for an answer"},
	reconcile.StatusNeedsHelp:   {"warn", "alert", "Needs you: its agent can't go on without you"},
	reconcile.StatusHeld:        {"warn", "alert", "Needs you: it is held"},
	view.StatusStuck:            {"warn", "alert", "Needs you: it can't start before you change something"},
	reconcile.StatusUndelivered: {"bad", "alert", "Needs you: its work could not be delivered"},
	reconcile.StatusHandedOver:  {"good", "check", "Handed over: it waits for your review"},
	detail.StatusReleased:       {"info", "info", "Released: symphony no longer works on it"},
	detail.StatusUnknown:        {"info", "info", "Not claimed: symphony does not work on it"},
	detail.StatusReady:          {"info", "clock", "Ready: a pass starts it"},
}

// Verdict is the headline of the page.
func (i Issue) Verdict() headline {
	if i.Status == reconcile.StatusHandedOver && i.WaitsFor != nil {
		name := reconcile.PullWordsOf(i.PullRequestAddress()).Name
		return headline{"info", "clock", "In review: its " + name + " is watched"}
	}
	if i.Status == reconcile.StatusHandedOver && (i.Released == nil || !i.Released.InReview) {
		return headline{"good", "check", "Handed over: nothing left to do here"}
	}
	if known, ok := verdicts[i.Status]; ok {
		return known
	}
	return i.progress()
}

// progress is the verdict on an issue that runs, waits or is skipped.
func (i Issue) progress() headline {
	names := map[view.Status]string{
		reconcile.StatusRunning: "Running",
		reconcile.StatusQueued:  "Queued",
		reconcile.StatusBlocked: "Blocked",
		reconcile.StatusWaiting: "Waiting",
		reconcile.StatusSkipped: "Not started",
	}
	name := names[i.Status]
	switch {
	case i.LacksPass():
		// the alarm above the page is red, and has the button
		return headline{"info", "clock", name + ": no schedule is active, so nothing starts it"}
	case !i.GoesOn():
		return headline{"warn", "alert", name + ": it does not continue by itself"}
	case i.Status == reconcile.StatusRunning:
		return headline{"info", "working", name + ": it does not need you"}
	default:
		return headline{"info", "clock", name + ": it continues by itself"}
	}
}

// Badge is the word for the status, or for the reason where that is more exact.
func (i Issue) Badge() string {
	plain := []string{"ended", "worker_lost", "stopping", string(reconcile.Delivering)}
	if slices.Contains(plain, i.Why.Code) {
		return inWords(i.Why.Code)
	}
	return i.Status.Label()
}

// NextAt is when the next step is expected; nil if that is not known, or now.
func (i Issue) NextAt() *time.Time {
	if i.Next.At == nil || !i.Next.At.After(i.GeneratedAt) {
		return nil
	}
	return i.Next.At
}

// Hint tells an operator how to mend the error of the claim, or a hook that failed.
func (i Issue) Hint() string {
	if i.Claim != nil {
		if hint := words.Hint(i.Claim.ErrorCode, i.Name()); hint != "" {
			return hint
		}
	}
	if len(i.HookFailures) > 0 {
		return words.Hint("hook_failed", i.Name())
	}
	return ""
}

// LogRun is the run whose log the page shows; nil before the first.
func (i Issue) LogRun() *view.RunRow {
	n := slices.IndexFunc(i.Runs, func(r view.RunRow) bool { return r.Kind == reconcile.AgentRun })
	if n < 0 {
		return nil
	}
	return &i.Runs[n]
}

// Working reports whether an agent works on the issue.
func (i Issue) Working() bool {
	r := i.LogRun()
	return r != nil && r.Outcome == nil && i.Claim != nil && i.Claim.Status == reconcile.Running
}

// WorkTime is how long the runs took; while a run goes on, in whole minutes, so that the page
// does not change each second.
func (i Issue) WorkTime() string {
	took := time.Duration(i.Totals.Seconds * float64(time.Second))
	if !i.Working() {
		return text.Duration(took)
	}
	if took < time.Minute {
		return "under 1m"
	}
	return text.Duration(took.Truncate(time.Minute))
}

// TokenParts divide the tokens.
func (i Issue) TokenParts() []part {
	t := i.Totals
	return divide([]part{
		{Name: "input", Class: "fresh", Count: t.Input - t.Cached},
		{Name: "cached input", Class: "cached", Count: t.Cached},
		{Name: "output", Class: "output", Count: t.Output},
	})
}

// PullRequestWords are the states of the pull request, of its checks and its review, each with
// its tone.
func (i Issue) PullRequestWords() []headline {
	p := i.PullRequest
	if p == nil {
		return nil
	}
	tones := map[string]string{
		"merged":            "good",
		"passed":            "good",
		"approved":          "good",
		"failed":            "bad",
		"changes_requested": "warn",
		"pending":           "warn",
		"required":          "warn",
	}
	var list []headline
	add := func(prefix, word string) {
		if word != "" {
			list = append(list, headline{Tone: tones[word], Text: prefix + inWords(word)})
		}
	}
	add("", p.State)
	add("checks ", p.Checks)
	add("review ", p.Review)
	add("", p.Merge)
	return list
}

// TrackerAddress is the address of the issue in the tracker; empty if none is known.
func (i Issue) TrackerAddress() string { return ofWeb(i.Address()) }

// PullRequestAddress is the address of the issue's pull request; empty if none is known.
func (i Issue) PullRequestAddress() string { return ofWeb(i.Issue.PullRequestAddress()) }

// OtherLinks are the pages that agents named, without the pull request.
func (i Issue) OtherLinks() []reconcile.Link {
	return slices.DeleteFunc(slices.Clone(i.Links), func(l reconcile.Link) bool {
		return ofWeb(l.URL) == "" || l.URL == i.PullRequestAddress()
	})
}

// mostDescribed bounds the description, in bytes.
const mostDescribed = 64 << 10

// Description is the text of the issue, drawn as Markdown.
func (i Issue) Description() template.HTML {
	written := strings.ReplaceAll(text.OrEmpty(i.Issue.Issue.Description), "\r\n", "\n")
	return markdown(shorten(written, mostDescribed))
}

// Attempts are the runs of agents, the newest first.
func (i Issue) Attempts() []event {
	isAttempt := func(e event) bool { return e.Run != nil && e.Run.Kind == reconcile.AgentRun }
	return text.Filter(i.Events(), isAttempt)
}

// ChangesOf is the address of the diff of what an attempt changed: what it left, compared with
// what the attempt before it left. It is empty while the attempt runs, and if the one before it
// is not listed here.
func (i Issue) ChangesOf(runID string) string {
	attempts := i.Attempts()
	n := slices.IndexFunc(attempts, func(e event) bool { return e.Run.RunID == runID })
	if n < 0 || attempts[n].Run.EndedAt == nil {
		return ""
	}
	before := "0" // where the work began
	switch {
	case n+1 < len(attempts):
		before = attempts[n+1].Run.RunID
	case i.Earlier() > 0:
		return ""
	}
	return address(i.Path()+"/diff", "attempts", before+".."+runID)
}

// GitWords describe the branch of the workspace.
func (i Issue) GitWords() string { return strings.Join(words.Git(i.Workspace.Git), ", ") }

// Events are the history of the issue, the newest first.
func (i Issue) Events() []event { return eventsOf(i.Issue, i.RunPath) }

// Earlier is how many runs are kept that the page does not list.
func (i Issue) Earlier() int { return i.RunsKept - len(i.Runs) }

// LogItems are the last lines of the log.
func (i Issue) LogItems() []logLine {
	var items []logLine
	ids := lineIDs{}
	for _, l := range i.Log {
		item := newLogLine(ids.of(l), l, longestText)
		item.Detail = detailText(l.Detail)
		items = append(items, item)
	}
	return items
}

// LogZone is the time zone of the lines, as symphony logs uses it in a terminal of the server;
// empty if there are no lines.
func (i Issue) LogZone() string {
	if len(i.Log) == 0 {
		return ""
	}
	return i.Log[len(i.Log)-1].At.Local().Format("MST")
}

// TakeOver is the command by which an operator works on in the place of the agent, in a terminal.
func (i Issue) TakeOver() string {
	line := "symphony takeover " + text.ShellQuote(i.Name())
	if p := i.Issue.Project.WorkflowPath; p != "" {
		line += " -w " + text.ShellQuote(p)
	}
	return line
}
