// Package render prints the values of package view: tables and coloured lines on a terminal, and in a pipe one line per row, of
// exact values separated by tabs. The first value of such a line names its kind.
package render

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// fieldWidth is the width of the names of fields on a terminal.
const fieldWidth = 9

// printField prints a name and its value.
func printField(w *term.Env, name, value string) {
	value = term.Visible(strings.ReplaceAll(value, "\n", " "))
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, value)
		return
	}
	fmt.Fprintf(w.Stdout, "  %s  %s\n", w.Dim(fmt.Sprintf("%-*s", fieldWidth, name)), value)
}

// errorsOfRun joins the error of a run, that of its after_run hook and that of its delivery.
func errorsOfRun(r view.RunRow) string {
	line := orEmpty(r.Error)
	if r.AfterRunError != nil {
		line = strings.TrimPrefix(line+"; hook failed: "+*r.AfterRunError, "; ")
	}
	if d := r.Delivery; d != nil && d.Code != "" {
		line = strings.TrimLeft(line+undelivered(*d, outcomeOf(r)), ":; ")
	}
	return line
}

// undelivered is the end of a line that names the outcome, and says why the commits did not arrive.
func undelivered(d reconcile.DeliveryResult, outcome string) string {
	reason := ": " + d.Code + ": " + d.Message
	if outcome == notDelivered {
		return reason
	}
	return "; " + notDelivered + reason
}

// outcomeOf is the outcome of a run, or its phase before it has one. A run whose commits did not arrive is not called a success.
func outcomeOf(r view.RunRow) string {
	switch {
	case r.Outcome == nil:
		return string(r.Phase)
	case r.Delivery == nil:
		return string(*r.Outcome)
	}
	return outcomeWith(*r.Outcome, *r.Delivery)
}

func outcomeWith(outcome reconcile.Outcome, d reconcile.DeliveryResult) string {
	if outcome == reconcile.Succeeded && d.Code != "" {
		return notDelivered
	}
	return string(outcome)
}

const notDelivered = "not delivered"

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// printRequests prints open requests. It cuts nothing at the terminal's edge, because the operator approves exactly what is shown.
func printRequests(w *term.Env, now time.Time, rows []view.RequestRow) {
	if w.Width > 0 && len(rows) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range rows {
		outside, answer := "-", r.HowToAnswer()
		if r.Outside {
			outside = "runs outside the sandbox"
		}
		if w.Width == 0 {
			var t term.Table
			t.Add(r.ID, term.Rfc3339(r.AskedAt), term.Rfc3339(r.ExpiresAt), string(r.Kind), outside, r.Summary, answer)
			w.PrintTable("REQUEST", t)
			continue
		}
		head := fmt.Sprintf("  %s  %s", term.Visible(r.ID), strings.ReplaceAll(string(r.Kind), "_", " "))
		if r.Outside {
			head += ", " + w.Red(outside)
		}
		head += fmt.Sprintf(", asked %s ago, %s left", term.Age(now, r.AskedAt), term.Duration(r.ExpiresAt.Sub(now)))
		fmt.Fprintln(w.Stdout, w.Yellow(head))
		Request(w, r.Request)
		fmt.Fprintln(w.Stdout, w.Dim("  "+term.Visible(answer)))
	}
}

// Request prints everything that is stored of a request.
func Request(w *term.Env, r reconcile.Request) {
	out := func(label, text string) {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			if text != "" {
				fmt.Fprintf(w.Stdout, "  %-12s %s\n", label, term.Visible(line))
			}
			label = ""
		}
	}
	d := r.Detail
	if r.Kind == reconcile.CommandRequest && strings.Join(strings.Fields(r.Summary), " ") != strings.Join(strings.Fields(d.Command), " ") {
		out("asks", r.Summary) // more than the command: the network, permissions, input
	}
	out("command", d.Command)
	out("directory", d.Cwd)
	out("reason", d.Reason)
	out("below", d.GrantRoot)
	out("permissions", string(d.Permissions))
	out("asked by", d.Server)
	for _, c := range d.Changes {
		out(c.Kind, c.Path)
		out("", c.Diff)
	}
	for _, q := range d.Questions {
		out(strings.ToLower(term.Visible(q.Header)), q.Text)
		for i, o := range q.Options {
			out("", strings.TrimSuffix(fmt.Sprintf("%d) %s: %s", i+1, o.Label, o.Description), ": "))
		}
	}
	if d.Cut > 0 {
		fmt.Fprintln(w.Stdout, "  "+w.Red(fmt.Sprintf("%d more bytes were not stored; the run's log may have them", d.Cut)))
	}
}

// EndLine is the line that says how a run ended.
func EndLine(run reconcile.Run) string {
	outcome := outcomeWith(run.Outcome, run.Delivery)
	line := run.Identifier + " " + outcome
	if run.Kind == reconcile.DeliveryRun {
		line = "delivery of " + line
	}
	if !run.EndedAt.IsZero() { // when a lost run ended is unknown
		line += " after " + term.Duration(run.EndedAt.Sub(run.StartedAt))
	}
	if run.Kind != reconcile.DeliveryRun {
		line += fmt.Sprintf(", %s, %d tokens", text.Plural(run.Turns, "turn"), run.Tokens.Total)
	}
	if e := view.ErrorText(run.ErrorCode, run.ErrorText); e != nil {
		line += ": " + *e
	}
	if run.AfterRunError != "" {
		line += "; hook failed: " + run.AfterRunError
	}
	switch d := run.Delivery; {
	case d.Code != "":
		line += undelivered(d, outcome)
	case d.Commit != "":
		line += fmt.Sprintf("; delivered %s to %s", text.Plural(d.Commits, "commit"), d.Branch)
	case run.Kind == reconcile.DeliveryRun && run.Outcome == reconcile.Succeeded && d.PullRequest == "":
		line += "; there was nothing to push"
	}
	if pr := run.Delivery.PullRequest; pr != "" {
		line += "; pull request " + pr
	}
	return term.Visible(line)
}

// Issue prints what is known of one issue, with --json as JSON.
func Issue(w *term.Env, v view.Issue) {
	if w.JSON {
		w.PrintJSON(v)
		return
	}
	i := v.Issue
	identifier, title := term.Visible(i.Identifier), term.Visible(orEmpty(i.Title))
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "issue\t%s\t%s\n", identifier, title)
	} else {
		fmt.Fprintln(w.Stdout, term.CutCells(w.Bold(identifier+"  "+title), w.Width))
	}
	if i.State != nil {
		source := map[string]string{view.SourceClaim: " (at the last pass)", view.SourceRun: " (when its last run began)"}
		printField(w, "state", *i.State+source[orEmpty(i.Source)])
	}
	if i.URL != nil {
		printField(w, "url", *i.URL)
	}
	printField(w, "claim", claimLine(w, v))
	printField(w, "why", v.Why.Message)
	printField(w, "next", nextLine(w, v))
	hint := ""
	if v.Claim != nil {
		hint = Hint(v.Claim.ErrorCode, i.Identifier)
	}
	for _, f := range v.HookFailures {
		printField(w, "hook", f.Hook+" failed; the end of its output:")
		name := "" // on a terminal the first column is empty
		if w.Width == 0 {
			name = "output"
		}
		for _, line := range f.Output {
			printField(w, name, line)
		}
		hint = cmp.Or(hint, Hint("hook_failed", i.Identifier))
	}
	if hint != "" {
		printField(w, "hint", hint)
	}
	for _, verb := range v.Commands {
		printField(w, "command", "the next pass applies "+verb)
	}
	printRequests(w, v.GeneratedAt, v.Requests)
	if e := v.TrackerErr; e != nil {
		printField(w, "tracker", "did not answer: "+e.Code+": "+e.Message)
	}
	if line := deliveredLine(w, v); line != "" {
		printField(w, "delivered", line)
	}
	printWorkspace(w, v.Workspace)
	if v.ThreadID != nil {
		printField(w, "thread", *v.ThreadID)
	}
	if t := v.Totals; t.Total > 0 || t.Seconds > 0 {
		printField(w, "tokens", fmt.Sprintf("%d (%d in, %d of them cached; %d out), %s of work",
			t.Total, t.Input, t.Cached, t.Output, term.Duration(time.Duration(t.Seconds*float64(time.Second)))))
	}
	if v.LogDir != nil {
		printField(w, "log", "symphony logs "+i.Identifier+", in "+*v.LogDir)
	}
	printRuns(w, v)
}

// deliveredLine is what was pushed last, and the pull request of the branch.
func deliveredLine(w *term.Env, v view.Issue) (line string) {
	pull := ""
	if d := v.Delivered; d != nil {
		line, pull = fmt.Sprintf("%.12s on %s, %s", d.Commit, d.Branch, term.AgoText(w, v.GeneratedAt, d.At)), d.PullRequest
	}
	if p := v.PullRequest; p != nil {
		pull = pullRequestText(w, v.GeneratedAt, p.PullRequest, p.SeenAt)
	}
	if pull != "" {
		line += ", pull request " + pull
	}
	return strings.TrimPrefix(line, ", ")
}

// pullRequestText is the address of a pull request with the state of it, of its checks and its review, and when the tracker said so.
func pullRequestText(w *term.Env, now time.Time, p reconcile.PullRequest, seen time.Time) string {
	words := []string{p.State}
	if p.Checks != "" {
		words = append(words, "checks "+p.Checks)
	}
	if p.Review != "" {
		words = append(words, "review "+strings.ReplaceAll(p.Review, "_", " "))
	}
	return fmt.Sprintf("%s (%s; seen %s)", p.URL, strings.Join(words, ", "), term.AgoText(w, now, seen))
}

func claimLine(w *term.Env, v view.Issue) string {
	c := v.Claim
	switch {
	case c == nil:
		return "none"
	case c.HeldAt != nil:
		return "held since " + term.AgoText(w, v.GeneratedAt, *c.HeldAt)
	case c.Status != reconcile.Waiting:
		return string(c.Status)
	}
	line := "waiting"
	if c.Kind != nil {
		line += ", " + string(*c.Kind)
	}
	if c.Attempt != nil {
		line += fmt.Sprintf(", attempt %d", *c.Attempt)
	}
	return line
}

// nextLine is the next step with its time. If it needs a pass and no schedule is active, the line says so.
func nextLine(w *term.Env, v view.Issue) string {
	line := v.Next.Message
	switch at := v.Next.At; {
	case at == nil:
	case w.Width == 0:
		line += " (" + term.Rfc3339(*at) + ")"
	case !at.After(v.GeneratedAt):
		line += " (now)"
	default:
		line += " (in " + term.Duration(at.Sub(v.GeneratedAt)) + ")"
	}
	if v.Next.NeedsPass && !v.Schedule {
		line += "; no schedule is active: run symphony tick"
	}
	return line
}

func printWorkspace(w *term.Env, p *view.WorkspaceRow) {
	const listedFiles = 10
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
	if k := p.Kept; k != nil {
		printField(w, "kept", k.Unsaved+"; push or copy it, or discard it with symphony prune --force "+k.Identifier)
	}
	if p.Error != nil {
		printField(w, "git", "can't be read: "+p.Error.Message)
	}
	g := p.Git
	if g == nil {
		return
	}
	if p.Error == nil {
		printField(w, "git", gitLine(g))
	}
	name := "" // on a terminal the first column is empty
	if w.Width == 0 {
		name = "file"
	}
	for n, c := range g.Changed {
		if n == listedFiles {
			printField(w, name, fmt.Sprintf("… %s, symphony diff shows them", text.Plural(g.Count-n, "more file")))
			break
		}
		printField(w, name, c.Status+" "+c.Path)
	}
}

func gitLine(g *git.Status) string {
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
	case g.Unpushed == nil, g.Base != nil && *g.Base == *g.Remote: // the number of commits ahead says it already
	case *g.Unpushed == 0:
		line += ", pushed"
	default:
		line += fmt.Sprintf(", %d not pushed", *g.Unpushed)
	}
	if g.Count == 0 {
		return line + ", nothing uncommitted"
	}
	return line + ", " + text.Plural(g.Count, "file") + " changed"
}

func printRuns(w *term.Env, v view.Issue) {
	t := term.Table{Head: []string{"STARTED", "RUN", "KIND", "OUTCOME", "TOOK", "TURNS", "TOKENS", "ERROR"}}
	for _, r := range v.Runs {
		end, kind := v.GeneratedAt, string(r.Kind)
		if r.EndedAt != nil {
			end = *r.EndedAt
		}
		if r.Kind == reconcile.AgentRun {
			kind = "first"
			if r.Attempt != nil {
				kind = fmt.Sprintf("attempt %d", *r.Attempt)
			}
		}
		t.Add(term.AgoText(w, v.GeneratedAt, r.StartedAt), r.RunID, kind, outcomeOf(r), term.LastedText(w, end.Sub(r.StartedAt)),
			fmt.Sprint(r.Turns), fmt.Sprint(r.Tokens.Total), errorsOfRun(r))
	}
	w.PrintTable("RUNS", t)
	if more := v.RunsKept - len(v.Runs); more > 0 {
		printField(w, "before", fmt.Sprintf("%s; symphony logs %s --all shows them", text.Plural(more, "more run"), v.Issue.Identifier))
	}
}

// Diff prints what has changed in the workspace of an issue; with raw as git writes it.
func Diff(ctx context.Context, p *project.Project, ref string, raw bool) error {
	path, identifier, err := view.WorkspacePath(ctx, p, ref)
	if err != nil {
		return err
	}
	lines := &diffPrinter{w: p.Env, raw: raw}
	found, err := git.Diff(ctx, path, lines)
	if len(lines.rest) > 0 {
		err = errors.Join(err, lines.line(string(lines.rest)))
	}
	if err != nil {
		return err
	}
	if !found {
		return &reconcile.Error{
			Code: "workspace_not_found", Message: "there is no git repository at " + path,
			Hint: "symphony show " + identifier + " says what is there",
		}
	}
	return nil
}

// diffPrinter colours a diff and shows its control characters as text.
type diffPrinter struct {
	w    *term.Env
	raw  bool // print what git wrote
	rest []byte
}

// Write implements io.Writer.
func (d *diffPrinter) Write(b []byte) (int, error) {
	if d.raw {
		return d.w.Stdout.Write(b)
	}
	d.rest = append(d.rest, b...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if err := d.line(string(line)); err != nil {
			return 0, err
		}
		d.rest = rest
	}
}

func (d *diffPrinter) line(line string) error {
	shown := strings.TrimSuffix(text.VisibleLines(line+"\n"), "\n")
	_, err := fmt.Fprintln(d.w.Stdout, d.w.PaintDiff(shown))
	return err
}
