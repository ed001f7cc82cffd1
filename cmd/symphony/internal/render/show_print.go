package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// printIssue is show for a person; in a pipe each line has its name, a tab and its value.
func printIssue(w *term.Env, v view.IssueView) {
	PrintIssueHead(w, v)
	printField(w, "why", v.Why.Message)
	printField(w, "next", nextText(w, v))
	for _, verb := range v.Commands {
		printField(w, "command", verb+" is noted for the next pass")
	}
	printRequests(w, view.View{GeneratedAt: v.GeneratedAt, Requests: v.Requests})
	if v.TrackerError != nil {
		printPainted(w, "tracker", "could not be asked: "+v.TrackerError.Code+": "+v.TrackerError.Message, w.Red)
	}
	printPlace(w, v.Workspace)
	if v.ThreadID != nil {
		printField(w, "thread", *v.ThreadID)
	}
	if t := v.Tokens; t.Total > 0 || t.Seconds > 0 {
		printField(w, "tokens", tokensLine(t))
	}
	if v.LogDir != nil {
		printField(w, "log", "symphony logs "+v.Issue.Identifier+", in "+*v.LogDir)
	}
	printIssueRuns(w, v)
}

// fieldWidth is that of the names of fields on a terminal.
const fieldWidth = 9

// printField prints a name and its value.
func printField(w *term.Env, name, value string) {
	printPainted(w, name, value, func(text string) string { return text })
}

// printPainted colours the value, but first it makes it harmless.
func printPainted(w *term.Env, name, value string, paint func(string) string) {
	value = term.Visible(strings.ReplaceAll(value, "\n", " "))
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, value)
		return
	}
	fmt.Fprintf(w.Stdout, "  %s  %s\n", w.Dim(fmt.Sprintf("%-*s", fieldWidth, name)), paint(value))
}

func PrintIssueHead(w *term.Env, v view.IssueView) {
	i := v.Issue
	title := ""
	if i.Title != nil {
		title = *i.Title
	}
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "issue\t%s\t%s\n", term.Visible(i.Identifier), term.Visible(title))
	} else {
		fmt.Fprintln(w.Stdout, term.CutCells(w.Bold(term.Visible(i.Identifier)+"  "+term.Visible(title)), w.Width))
	}
	if i.State != nil {
		text := *i.State
		switch *i.Source {
		case "claim":
			text += " (at the last pass)"
		case "run":
			text += " (when its last run began)"
		}
		printField(w, "state", text)
	}
	if i.URL != nil {
		printField(w, "url", *i.URL)
	}
	printField(w, "claim", claimText(w, v))
}

func claimText(w *term.Env, v view.IssueView) string {
	c := v.Claim
	switch {
	case c == nil:
		return "none"
	case c.Status == string(reconcile.Held) && c.HeldAt != nil:
		return "held since " + term.AgoText(w, v.GeneratedAt, *c.HeldAt)
	case c.Status == string(reconcile.Waiting):
		text := "waiting"
		if c.Kind != nil {
			text += ", " + *c.Kind
		}
		if c.Attempt != nil {
			text += fmt.Sprintf(", attempt %d", *c.Attempt)
		}
		return text
	}
	return c.Status
}

// nextText adds when it happens, and whether anybody sees to it.
func nextText(w *term.Env, v view.IssueView) string {
	text := v.Next.Message
	switch at := v.Next.At; {
	case at == nil:
	case w.Width == 0:
		text += " (" + term.Rfc3339(*at) + ")"
	case !at.After(v.GeneratedAt):
		text += " (now)"
	default:
		text += " (in " + term.Duration(at.Sub(v.GeneratedAt)) + ")"
	}
	if v.Next.NeedsPass && !v.Schedule {
		text += "; no schedule is active: run symphony tick"
	}
	return text
}

// listedFiles is how many changed files stand on the screen.
const listedFiles = 10

func printPlace(w *term.Env, p *view.PlaceRow) {
	if p == nil {
		return
	}
	path := p.Path
	if p.Host != nil {
		path = *p.Host + ":" + path
	}
	switch {
	case !p.Exists:
		path += " (removed)"
	case p.Git == nil && p.Error == nil:
		path += " (no git repository)"
	}
	printField(w, "workspace", path)
	if p.Error != nil {
		printField(w, "git", "could not be read: "+p.Error.Message)
	}
	g := p.Git
	if g == nil {
		return
	}
	if p.Error == nil {
		printField(w, "git", gitLine(g))
	}
	file := ""
	if w.Width == 0 {
		file = "file" // each line of a pipe says what it is
	}
	for n, c := range g.Changed {
		if n == listedFiles {
			printField(w, file, fmt.Sprintf("… %s, see symphony show --diff", text.Plural(g.ChangedCount-n, "more file")))
			break
		}
		printField(w, file, c.Status+" "+c.Path)
	}
}

// line says where the work stands.
func gitLine(g *view.GitRow) string {
	line := "no branch"
	if g.Branch != nil {
		line = "branch " + *g.Branch
	}
	if g.Commit == nil {
		line += " without a commit"
	} else {
		line += " at " + (*g.Commit)[:min(len(*g.Commit), 10)]
	}
	if g.Base != nil && g.Ahead != nil {
		line += fmt.Sprintf(", %s ahead of %s", text.Plural(*g.Ahead, "commit"), *g.Base)
	}
	switch {
	case g.Unpushed == nil, g.Base != nil && *g.Base == *g.RemoteBranch: // which has been said
	case *g.Unpushed == 0:
		line += ", pushed"
	default:
		line += fmt.Sprintf(", %d not pushed", *g.Unpushed)
	}
	if g.ChangedCount == 0 {
		return line + ", nothing uncommitted"
	}
	return line + ", " + text.Plural(g.ChangedCount, "file") + " changed"
}

func tokensLine(t view.TotalsRow) string {
	return fmt.Sprintf("%d (%d in, %d of them cached; %d out), %s of work", t.Total, t.Input, t.Cached, t.Output, term.Duration(time.Duration(t.Seconds*float64(time.Second))))
}

func printIssueRuns(w *term.Env, v view.IssueView) {
	t := term.Table{Head: []string{"STARTED", "RUN", "KIND", "OUTCOME", "TOOK", "TURNS", "TOKENS", "ERROR"}}
	for _, r := range v.Runs {
		outcome, text, end := r.Phase, "", v.GeneratedAt
		if r.Outcome != nil {
			outcome = *r.Outcome
		}
		if r.Error != nil {
			text = *r.Error
		}
		if r.AfterRunError != nil {
			text = strings.TrimPrefix(text+"; hook failed: "+*r.AfterRunError, "; ")
		}
		if r.EndedAt != nil {
			end = *r.EndedAt
		}
		kind := r.Kind
		if r.Kind == string(reconcile.AgentRun) {
			kind = "first"
			if r.Attempt != nil {
				kind = fmt.Sprintf("attempt %d", *r.Attempt)
			}
		}
		t.Add(term.AgoText(w, v.GeneratedAt, r.StartedAt), r.RunID, kind, outcome, term.LastedText(w, end.Sub(r.StartedAt)), fmt.Sprint(r.Turns), fmt.Sprint(r.Tokens.Total), text)
	}
	w.PrintTable("RUNS", t)
	if more := v.RunsKept - len(v.Runs); more > 0 {
		printField(w, "before", fmt.Sprintf("%s more; symphony logs %s --all has them", text.Plural(more, "run"), v.Issue.Identifier))
	}
}
