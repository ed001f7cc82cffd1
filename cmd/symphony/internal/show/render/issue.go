package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Issue prints an issue, with --json as JSON: its subject, its status and how to go on, then
// its results, and at the end where everything is.
func Issue(w *term.Env, v detail.Issue) {
	if w.JSON {
		w.PrintJSON(v)
		return
	}
	printHead(w, v)
	printNext(w, v)
	printRequests(w, v.GeneratedAt, v.Requests)
	if !w.Piped() && len(v.Requests) > 0 {
		fmt.Fprintln(w.Stdout)
	}
	printResults(w, v)
	printLog(w, v)
	printRuns(w, v)
	printPlaces(w, v)
	if v.Review != nil {
		PrintReview(w, *v.Review)
	}
}

// PrintReview prints how to look at a result, to take it, and to send it back.
func PrintReview(w *term.Env, r detail.Review) {
	if !w.Piped() {
		fmt.Fprintln(w.Stdout, w.Bold("REVIEW"))
	}
	printField(w, "result", r.Result)
	for i, command := range r.Look {
		name := "look"
		if i > 0 {
			name = more(w, name)
		}
		printField(w, name, command)
	}
	if len(r.Take) > 0 {
		printField(w, "take", r.Steps())
	}
	if r.SendBack != "" {
		printField(w, "send back", r.SendBack)
	}
}

// titleLines is how many lines of a terminal a title may take.
const titleLines = 2

const columnGap = "  "

// printHead prints the issue's name, address and status.
func printHead(w *term.Env, v detail.Issue) {
	i := v.Issue
	identifier := text.Visible(i.Identifier)
	title := text.Visible(text.OrEmpty(i.Title))
	if w.Piped() {
		fmt.Fprintf(w.Stdout, "issue\t%s\t%s\n", identifier, title)
		if i.URL != nil {
			printField(w, "url", *i.URL)
		}
		if i.File != nil {
			printField(w, "issue file", *i.File)
		}
		printField(w, "status", strings.TrimSuffix(string(v.Status)+" "+sinceText(w, v), " "))
		printField(w, "claim", claimLine(w, v))
		printField(w, "why", v.Why.Message)
		return
	}
	room := w.Width - term.Cells(identifier) - len(columnGap)
	// It is wrapped before it is bold, because a coloured word is not broken.
	lines := term.Wrap(term.CutCells(title, titleLines*room), room)
	for n := range lines {
		lines[n] = w.Bold(lines[n])
	}
	margin := strings.Repeat(" ", w.Width-room)
	fmt.Fprintln(w.Stdout, w.Bold(identifier)+columnGap+strings.Join(lines, "\n"+margin))
	if i.URL != nil {
		fmt.Fprintln(w.Stdout, w.Link(*i.URL, w.Dim(text.Visible(*i.URL))))
	}
	if i.File != nil {
		fmt.Fprintln(w.Stdout, w.Dim(text.Visible(*i.File)))
	}
	fmt.Fprintln(w.Stdout)
	fmt.Fprintln(w.Stdout, statusLine(w, v, ""))
}

// statusLine is the status of an issue and the reason for it, behind a name, in lines of the
// terminal's width.
func statusLine(w *term.Env, v detail.Issue, name string) string {
	status := strings.TrimSuffix(v.Status.Label()+" "+sinceText(w, v), " ")
	lines := term.Wrap(name+status+": "+text.Visible(v.Why.Message), w.Width-len(columnGap))
	rest, whole := strings.CutPrefix(lines[0], name+status)
	if whole { // a status that is broken stays plain
		lines[0] = name + w.Bold(w.Paint(statusColours[v.Status], status)) + rest
	}
	return strings.Join(lines, "\n"+columnGap)
}

// WaitStatus prints on stderr the status of an issue for which an operator waits.
func WaitStatus(w *term.Env, v detail.Issue) {
	if !w.Piped() && !w.JSON {
		fmt.Fprintln(w.Stderr, statusLine(w, v, text.Visible(v.Issue.Identifier)+" "))
	}
}

// WaitEnd prints how the issue ended, with --json as JSON.
func WaitEnd(w *term.Env, v detail.Issue) {
	switch {
	case w.JSON:
		w.PrintJSON(v)
	case w.Piped():
		fmt.Fprintf(w.Stdout, "%s\t%s\t%s\n",
			v.Status, text.Visible(v.Issue.Identifier), text.Visible(v.Why.Message))
	default:
		fmt.Fprintln(w.Stdout, statusLine(w, v, text.Visible(v.Issue.Identifier)+" "))
		printField(w, "next", nextLine(w, v))
	}
}

// sinceText says how long the issue is in its status: the time of its beginning in a pipe, the
// age on a terminal; empty where it is not known.
func sinceText(w *term.Env, v detail.Issue) string {
	if v.Since == nil {
		return ""
	}
	switch {
	case v.Status == reconcile.StatusHandedOver, v.Status == detail.StatusReleased:
		return term.AgoText(w, v.GeneratedAt, *v.Since)
	case w.Piped():
		return text.Rfc3339(*v.Since)
	}
	return "for " + text.Age(v.GeneratedAt, *v.Since)
}

// printNext prints the next event, and how an operator can react to a failure.
func printNext(w *term.Env, v detail.Issue) {
	// on a terminal the requests follow, with the commands that answer them
	if w.Piped() || len(v.Requests) == 0 {
		printField(w, "next", nextLine(w, v))
	}
	hint := ""
	if v.Claim != nil {
		hint = words.Hint(v.Claim.ErrorCode, v.Issue.Identifier)
	}
	for _, f := range v.HookFailures {
		printField(w, "hook", f.Hook+" failed; the end of its output:")
		for _, line := range f.Output {
			printField(w, more(w, "output"), line)
		}
		hint = cmp.Or(hint, words.Hint("hook_failed", v.Issue.Identifier))
	}
	if hint != "" {
		printField(w, "hint", hint)
	}
	for i, refused := range v.RefusedHosts {
		name := "network"
		if i > 0 {
			name = more(w, name)
		}
		printField(w, name, refused.String())
	}
	for _, verb := range v.Commands {
		printField(w, "command", "the next pass applies "+verb)
	}
	if e := v.TrackerErr; e != nil {
		printField(w, "tracker", e.Code+": "+e.Message)
	}
	for i, remark := range v.Remarks {
		name := "remark"
		if i > 0 {
			name = more(w, name)
		}
		printField(w, name, remark)
	}
}

// PrintUnfinished prints why an issue goes on although a run of it has succeeded, and what
// happens next.
func PrintUnfinished(w *term.Env, v detail.Issue) {
	printField(w, "not done", v.Why.Message)
	printField(w, "next", nextLine(w, v))
}

// more is the name of another line of a field: in a pipe every line gets a name, on a terminal
// only the first.
func more(w *term.Env, name string) string {
	if w.Piped() {
		return name
	}
	return ""
}

// printResults prints the results of the issue: its state in the tracker, the pull request,
// the delivered commits, and the cost.
func printResults(w *term.Env, v detail.Issue) {
	now := v.GeneratedAt
	if i := v.Issue; i.State != nil {
		source := map[string]string{
			detail.SourceClaim:   " (at the last pass)",
			detail.SourceRun:     " (when its last run began)",
			detail.SourceRelease: " (when it was released)",
		}
		printField(w, "state", *i.State+source[text.OrEmpty(i.Source)])
	}
	printPullRequest(w, v)
	if v.WaitsFor != nil {
		printField(w, "waits for", waitsText(w, now, *v.WaitsFor))
	}
	for _, e := range v.LookErrors {
		printField(w, "last look", lookErrorText(w, now, e))
	}
	d := v.Delivered
	if d != nil {
		printField(w, "delivered", fmt.Sprintf("%.12s on %s, %s", d.Commit, d.Branch, term.AgoText(w, now, d.At)))
		if d.Origin != "" {
			printField(w, "branch", "begun by "+d.Origin+"; this machine went on from there")
		}
	}
	if v.Verification != nil {
		printVerification(w, now, v.Verification)
	}
	for _, note := range handoverNotes(v.Runs) {
		printField(w, "note", note)
	}
	for _, l := range v.Links {
		isPull := v.PullRequest != nil && l.URL == v.PullRequest.URL || d != nil && l.URL == d.PullRequest
		if !isPull {
			printField(w, "link", l.URL)
		}
	}
	if p := v.Workspace; p != nil && p.Kept != nil {
		next := "push or copy it, or discard it with symphony prune --force " + p.Kept.Identifier
		printField(w, "kept", p.Kept.Unsaved+"; "+next)
	}
	if e := v.KeptErr; e != nil {
		printField(w, "kept here", "not known: "+e.Message)
	}
	for _, k := range v.KeptHere {
		commits := text.Plural(len(k.Commits), "commit")
		printField(w, "kept here", fmt.Sprintf("%s that no remote has: git --git-dir %s log %.12s",
			commits, text.ShellQuote(k.Mirror), k.Commit))
	}
	printUsed(w, v)
}

// handoverNotes is what people should know about the work that was handed over, if no agent has gone on
// with it since.
func handoverNotes(newest []view.RunRow) []string {
	for _, r := range newest {
		if r.Delivery != nil && r.Delivery.Handover.Asked() {
			return r.Delivery.Handover.Notes
		}
		if r.Kind == reconcile.AgentRun && r.Turns > 0 {
			return nil
		}
	}
	return nil
}

// printPullRequest prints the pull request as the tracker described it last, or else its
// address as it was delivered.
func printPullRequest(w *term.Env, v detail.Issue) {
	name := reconcile.PullRequests.Name
	if !w.Piped() {
		name = reconcile.PullWordsOf(v.PullRequestAddress()).Name
	}
	p := v.PullRequest
	switch {
	case p != nil && w.Piped():
		printField(w, name, pullRequestText(w, v.GeneratedAt, p.PullRequest, p.SeenAt))
	case p != nil:
		seen := term.AgoText(w, v.GeneratedAt, p.SeenAt)
		printField(w, name, fmt.Sprintf("%s (seen %s)", pullRequestState(p.PullRequest), seen))
		printField(w, "", p.URL)
	case v.Delivered != nil && v.Delivered.PullRequest != "":
		printField(w, name, v.Delivered.PullRequest)
	}
}

// printVerification prints how verify ended, and the end of its output if it failed.
func printVerification(w *term.Env, now time.Time, p *reconcile.Verification) {
	printField(w, "verify", p.String()+", "+term.AgoText(w, now, p.At))
	for _, sentence := range p.Caveats() {
		printField(w, "", sentence)
	}
	if p.Offline != "" {
		printField(w, "", "The sandbox had no network; "+p.Offline+" opens it.")
	}
	if !p.Passed() {
		printOutput(w, p.Output)
	}
}

// verifyLines is how many lines of the output of verify are printed. The JSON contains all.
const verifyLines = 20

// printOutput prints the last lines of the output of verify.
func printOutput(w *term.Env, output string) {
	output = strings.TrimSpace(output)
	if output == "" {
		return
	}
	lines := strings.Split(output, "\n")
	for _, line := range lines[max(0, len(lines)-verifyLines):] {
		printField(w, more(w, "output"), line)
	}
}

// printUsed prints the cost and the usage of the runs.
func printUsed(w *term.Env, v detail.Issue) {
	t := v.Totals
	work := text.Duration(time.Duration(t.Seconds*float64(time.Second))) + " of work"
	if t.Total == 0 && t.Seconds == 0 {
		return
	}
	if c := v.Cost; c != nil && (t.Total > 0 || c.Amount > 0) {
		estimate := ""
		if c.Estimate {
			estimate = ", an estimate"
		}
		printField(w, "cost", costText(c)+" "+c.Currency+estimate+unpriced(w, c))
	}
	if t.Total == 0 {
		printField(w, "tokens", "unknown, "+work)
		return
	}
	printField(w, "tokens", fmt.Sprintf("%s (%s in, %s of them cached; %s out), %s",
		countText(w, t.Total), countText(w, t.Input), countText(w, t.Cached), countText(w, t.Output), work))
}

// unpriced is the end of a line about a cost, about the tokens that the cost leaves out for
// lack of a price; empty if there are none.
func unpriced(w *term.Env, c *view.Cost) string {
	if c.Unpriced == 0 {
		return ""
	}
	return fmt.Sprintf("; without %s tokens of %s, which has no price",
		countText(w, c.Unpriced), strings.Join(c.Models, ", "))
}

// messageLines is how many lines of a terminal the last message of a running agent may take.
const messageLines = 10

// printLog prints the agent's last message, unchanged, and the end of the log.
func printLog(w *term.Env, v detail.Issue) {
	if w.Piped() {
		if v.LastMessage != nil {
			for line := range strings.SplitSeq(*v.LastMessage, "\n") {
				printField(w, "message", line)
			}
		}
		for _, l := range v.Log {
			line := strings.ReplaceAll(l.Text, "\n", " ")
			if reason := refusal(l); reason != "" {
				line += ": " + reason
			}
			fmt.Fprintf(w.Stdout, "event\t%s\t%s\t%s\t%s\n", text.Rfc3339(l.At), l.Kind, l.Status, text.Visible(line))
		}
		return
	}
	if v.LastMessage != nil {
		printMessage(w, v)
	}
	if len(v.Log) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("LOG")+w.Dim("  symphony logs "+text.Visible(v.Issue.Identifier)))
		for _, l := range v.Log {
			fmt.Fprintln(w.Stdout, columnGap+LogLine(w, l, w.Width-len(columnGap)))
			if reason := refusal(l); reason != "" {
				indent := columnGap + logMargin
				fmt.Fprintln(w.Stdout, indent+w.Red(term.CutCells(text.Visible(reason), w.Width-len(indent))))
			}
		}
	}
}

// refusal is why a call of a tool failed, such as "not_committed: 1 change not committed: ? a.txt";
// empty for all other lines of a log.
func refusal(l eventlog.Line) string {
	if l.Kind != eventlog.Call || l.Status != eventlog.Failed || len(l.Detail) == 0 {
		return ""
	}
	return l.Detail[0]
}

// printMessage prints the last message on a terminal, of a running agent its end.
func printMessage(w *term.Env, v detail.Issue) {
	var lines []string
	for line := range strings.SplitSeq(*v.LastMessage, "\n") {
		lines = append(lines, wrapped(w, columnGap, line, w.Width)...)
	}
	whole := ""
	if v.Status == reconcile.StatusRunning && len(lines) > messageLines {
		lines = lines[len(lines)-messageLines:]
		whole = "  the end; all of it: symphony logs " + text.Visible(v.Issue.Identifier) + " --last message"
	}
	fmt.Fprintln(w.Stdout, w.Bold("LAST MESSAGE")+w.Dim(whole))
	fmt.Fprintln(w.Stdout, strings.Join(lines, "\n"))
}

// printPlaces prints where the work, its thread and its log are.
func printPlaces(w *term.Env, v detail.Issue) {
	if !w.Piped() && (v.Workspace != nil || v.LogDir != nil) {
		fmt.Fprintln(w.Stdout, w.Bold("FILES"))
	}
	printWorkspace(w, v.Workspace)
	if v.ByLabel != nil {
		printField(w, "by_label", v.ByLabel.String())
	}
	if v.Agent != nil {
		printField(w, "agent", *v.Agent)
	}
	if v.ThreadID != nil {
		printField(w, "thread", *v.ThreadID)
	}
	if v.LogDir != nil {
		printField(w, "log", *v.LogDir)
	}
}

// pullRequestText is the address of a pull request with the state of it, of its checks and its
// review, and when the tracker said so.
func pullRequestText(w *term.Env, now time.Time, p reconcile.PullRequest, seen time.Time) string {
	return fmt.Sprintf("%s (%s; seen %s)", p.URL, pullRequestState(p), term.AgoText(w, now, seen))
}

// pullRequestState is the state of a pull request, of its checks and its review.
func pullRequestState(p reconcile.PullRequest) string {
	words := []string{p.State}
	if p.Checks != "" {
		words = append(words, "checks "+p.Checks)
	}
	if p.Review != "" {
		words = append(words, "review "+strings.ReplaceAll(p.Review, "_", " "))
	}
	if p.Merge != "" {
		words = append(words, p.Merge)
	}
	return strings.Join(words, ", ")
}

func claimLine(w *term.Env, v detail.Issue) string {
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
	return line
}

// nextLine is the next step with its time. If it needs a pass and no schedule is active, the
// line says so.
func nextLine(w *term.Env, v detail.Issue) string {
	line := v.Next.Message
	at := v.Next.At
	switch {
	case at == nil:
	case w.Piped():
		line += " (" + text.Rfc3339(*at) + ")"
	case !at.After(v.GeneratedAt):
		line += " (now)"
	case v.Status == reconcile.StatusNeedsAnswer:
		line += ", within " + text.Duration(at.Sub(v.GeneratedAt))
	default:
		line = "in " + text.Duration(at.Sub(v.GeneratedAt)) + ": " + line
	}
	if v.LacksPass() {
		line += "; no schedule is active: run symphony tick"
	}
	return line
}

func printWorkspace(w *term.Env, p *detail.WorkspaceRow) {
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
	case p.Git == nil && p.Error == nil && p.Host == nil: // on a host it was not looked for
		path += " (no git repository)"
	}
	printField(w, "workspace", path)
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
	name := more(w, "file")
	for n, c := range g.Changed {
		if n == listedFiles {
			rest := text.Plural(g.Count-n, "more file")
			printField(w, name, fmt.Sprintf("… %s, symphony diff shows them", rest))
			break
		}
		printField(w, name, c.Status+" "+c.Path)
	}
}

func gitLine(g *host.GitStatus) string {
	line := "no branch"
	if g.Branch != nil {
		line = "branch " + *g.Branch
	}
	if g.Commit == nil {
		line += " without a commit"
	} else {
		line += " at " + (*g.Commit)[:min(len(*g.Commit), 10)]
	}
	return strings.Join(append([]string{line}, words.Git(g)...), ", ")
}

// printRuns prints the newest runs. On a terminal the error of each follows in lines of its
// own, unless the status named it.
func printRuns(w *term.Env, v detail.Issue) {
	rows := term.Table{
		Head: []string{"STARTED", "RUN", "KIND", "OUTCOME", "TOOK", "TURNS", "TOKENS", "ERROR"},
	}
	screen := term.Table{
		Head:    []string{"KIND", "OUTCOME", "STARTED", "TOOK", "TURNS", "TOKENS", "RUN"},
		State:   1,
		Figures: []int{4, 5},
		Shrink:  []term.Shrink{{Column: 4}, {Column: 3}, {Column: 6}},
	}
	for _, r := range v.Runs {
		end := v.GeneratedAt
		kind := string(r.Kind)
		outcome := outcomeOf(r)
		if r.EndedAt != nil {
			end = *r.EndedAt
		}
		if r.Kind == reconcile.AgentRun {
			kind = "first"
			if r.Attempt > 0 {
				kind = "again"
			}
		}
		started := term.AgoText(w, v.GeneratedAt, r.StartedAt)
		took := term.LastedText(w, end.Sub(r.StartedAt))
		turns := fmt.Sprint(r.Turns)
		tokens := tokensText(w, r.Turns, r.Tokens.Total)
		rows.Add(started, r.RunID, kind, outcome, took, turns, tokens, strings.Join(r.Errors(), "; "))
		if r.Outcome == nil {
			outcome = string(reconcile.StatusRunning)
		}
		screen.AddIn(outcomeColour(r), kind, outcome, started, took, turns, tokens, r.RunID)
	}
	switch {
	case len(v.Runs) == 0:
		return
	case w.Piped():
		w.PrintTable("RUNS", rows)
	default:
		fmt.Fprintln(w.Stdout, w.Bold("RUNS"))
		for n, line := range screen.Lines(w, columnGap) {
			fmt.Fprintln(w.Stdout, line)
			if n == 0 {
				continue
			}
			message := text.Visible(strings.Join(v.Runs[n-1].Errors(), "; "))
			if !strings.Contains(text.Visible(v.Why.Message), message) {
				fmt.Fprintln(w.Stdout, term.Hang("    ", message, w.Width))
			}
		}
	}
	if older := v.RunsKept - len(v.Runs); older > 0 {
		printField(w, "before", fmt.Sprintf("%s; symphony logs %s --all shows them",
			text.Plural(older, "more run"), v.Issue.Identifier))
	}
}

// Attempts prints the runs of the agent on an issue side by side, with --json as JSON.
func Attempts(w *term.Env, a detail.AttemptList) {
	if w.JSON {
		w.PrintJSON(a)
		return
	}
	t := term.Table{
		Head: []string{
			"#", "OUTCOME", "FILES", "+", "-", "COMMITS", "TOKENS", "COST", "TOOK", "STARTED", "TURNS", "RUN", "ERROR",
		},
		State:    1,
		Figures:  []int{0, 2, 3, 4, 5, 6, 7, 10},
		Optional: []int{12},
		Wrap:     true,
		Shrink:   []term.Shrink{{Column: 12, Cells: 24}, {Column: 11}, {Column: 10}, {Column: 9}},
	}
	for _, r := range a.Attempts {
		end := cmp.Or(text.OrEmpty(r.EndedAt), a.GeneratedAt)
		var files, added, removed, commits string
		if c := r.Changes; c != nil {
			files = fmt.Sprint(c.Files)
			added = fmt.Sprint(c.Added)
			removed = fmt.Sprint(c.Removed)
			commits = fmt.Sprint(c.Commits)
		}
		t.AddIn(
			outcomeColour(r.RunRow),
			fmt.Sprint(r.Number),
			outcomeOf(r.RunRow),
			files,
			added,
			removed,
			commits,
			tokensText(w, r.Turns, r.Tokens.Total),
			costText(r.Cost),
			term.LastedText(w, end.Sub(r.StartedAt)),
			term.AgoText(w, a.GeneratedAt, r.StartedAt),
			fmt.Sprint(r.Turns),
			r.RunID,
			strings.Join(r.Errors(), "; "),
		)
	}
	w.PrintTable("ATTEMPTS", t)
}
