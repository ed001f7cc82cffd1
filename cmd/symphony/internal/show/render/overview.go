package render

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// OverviewOptions describe how ps prints overviews.
type OverviewOptions struct {
	Selection view.Selection
	Projects  bool // of all projects
	Quiet     bool // the identifiers alone
	Pager     bool // a page that is longer than the screen goes through the pager
}

// Overviews prints overviews: on a terminal as a page, in a pipe as rows and with everything
// else on stderr, with --json as JSON.
func Overviews(ctx context.Context, w *term.Env, all []view.Overview, o OverviewOptions) error {
	s := selected{all: all, projects: o.Projects}
	s.confined, s.rows, s.more = o.Selection.Select(all)
	switch {
	case w.JSON && o.Projects:
		w.PrintJSON(s.confined)
		return nil
	case w.JSON:
		w.PrintJSON(s.confined[0])
		return nil
	case o.Quiet:
		printIdentifiers(w, s.rows)
		return nil
	case w.Piped():
		printRecords(w, s)
		return nil
	}
	_, height := w.Size()
	p := newPage(w, s)
	lines := slices.Concat(p.head, p.body, p.advice, p.foot)
	paged := o.Pager && screenLines(lines, w.Width) >= height && w.HasPager(ctx)
	if paged { // the pager shows the beginning first, and old ones print links as text
		plain := *w
		plain.Links = false
		p = newPage(&plain, s)
		lines = slices.Concat(p.head, p.foot, p.body, p.advice)
	}
	return w.Paged(ctx, paged, func() error {
		_, err := fmt.Fprintln(w.Stdout, strings.Join(lines, "\n"))
		if w.Unread() {
			return nil
		}
		return err
	})
}

// selected are overviews and the rows that a selection left of them.
type selected struct {
	all      []view.Overview
	confined []view.Overview // to the rows
	rows     []view.Row
	more     int  // rows that the limit of the selection cut
	projects bool // the rows name their projects
}

// printRecords prints overviews for programs: a record a line, and everything that is none on
// stderr. It writes all records at once, because 500 of them are a small page for a pipe.
func printRecords(w *term.Env, s selected) {
	var records bytes.Buffer
	buffered := *w
	buffered.Stdout = &records
	printRequests(&buffered, w.Now(), allRequests(s)) // a pipe has no ages
	for _, r := range s.rows {
		printRow(&buffered, r, s.projects)
	}
	fmt.Fprint(w.Stdout, records.String())
	s.rows = nil
	rest := newPage(stderrOf(w), s)
	fmt.Fprintln(w.Stderr, strings.Join(slices.Concat(rest.head, rest.foot), "\n"))
}

// screenLines is how many lines of the screen a page takes. A line that is longer than the
// terminal is wide takes several.
func screenLines(lines []string, width int) (n int) {
	for _, line := range lines {
		n += max((term.Cells(line)+width-1)/width, 1)
	}
	return n
}

// stderrOf returns an environment that prints plain text on stderr.
func stderrOf(w *term.Env) *term.Env {
	out := *w
	out.Stdout = w.Stderr
	out.Colour = false
	out.Links = false
	return &out
}

// printIdentifiers prints the identifier of each issue once.
func printIdentifiers(w *term.Env, rows []view.Row) {
	var seen []string
	for _, r := range rows {
		if !slices.Contains(seen, r.Identifier) {
			seen = append(seen, r.Identifier)
			fmt.Fprintln(w.Stdout, text.Visible(r.Identifier))
		}
	}
}

// page is a screen: the facts that an operator must see, the table of the issues, advice about
// its rows, and the summary.
type page struct{ head, body, advice, foot []string }

// newPage makes the page of the selected rows. The reasons why projects start no runs, and the
// summary, are about all overviews, whatever is selected.
func newPage(w *term.Env, s selected) page {
	var head, foot bytes.Buffer
	out := *w
	out.Stdout = &head
	if !w.Piped() && len(s.all) > 0 {
		printRequests(&out, s.all[0].GeneratedAt, allRequests(s))
	}
	for _, v := range s.all {
		printObstacles(&out, v, s.projects)
	}
	out.Stdout = &foot
	for _, v := range s.confined {
		printHints(&out, v)
	}
	for _, v := range s.all {
		printWatched(&out, v, s.projects)
	}
	if reviews := view.ReviewsText(s.all); reviews != "" {
		more := ": symphony ps --filter status=handed_over"
		if s.projects {
			more += " --project all"
		}
		fmt.Fprintln(&foot, hang(w, "", reviews+more))
	}
	fmt.Fprintln(&foot, summary(w, s.all))
	p := page{head: linesOf(head.String()), foot: linesOf(foot.String())}
	if len(s.rows) > 0 && len(p.head) > 0 {
		p.head = append(p.head, "")
	}
	known := slices.ContainsFunc(s.all, func(v view.Overview) bool { return len(v.Rows) > 0 })
	switch {
	case len(s.rows) > 0:
		p.body = Rows(s.confined[0].GeneratedAt, s.rows, s.projects).Lines(w, "")
		p.advice = adviceLines(w, s)
	case known && !w.Piped():
		p.body = []string{"no issue matches the filter"}
	}
	if s.more > 0 {
		p.body = append(p.body, fmt.Sprintf("… %d more", s.more))
	}
	return p
}

// adviceLines has the advice of rows, once for each status: "held: symphony retry ISSUE ends
// the hold". A pipe has it in each row. With several projects a line names the projects, whose
// commands need -w.
func adviceLines(w *term.Env, s selected) (lines []string) {
	if w.Piped() {
		return nil
	}
	add := func(line string) {
		const hanging = "  "
		for i, part := range term.Wrap(text.Visible(line), w.Width-len(hanging)) {
			if i > 0 {
				part = hanging + part
			}
			lines = append(lines, w.Dim(part))
		}
	}
	var said, advised []string
	for _, r := range s.rows {
		if r.Advice == "" {
			continue
		}
		line := r.Label() + ": " + r.Advice
		if s.projects && r.Status == reconcile.StatusQueued {
			line = r.Project + ", " + line
		}
		if !slices.Contains(said, line) {
			said = append(said, line)
			add(line)
		}
		if r.Status != reconcile.StatusQueued {
			advised = append(advised, r.Project)
		}
	}
	if s.projects && len(advised) > 0 {
		add("add the project: " + workflowFlags(s.all, advised))
	}
	return lines
}

// workflowFlags has the flag that chooses each of some projects, such as
// "-w /home/ann/web/WORKFLOW.md (web)".
func workflowFlags(all []view.Overview, names []string) string {
	var flags []string
	for _, v := range all {
		if slices.Contains(names, v.Project.Name) {
			flags = append(flags, fmt.Sprintf("-w %s (%s)", text.ShellQuote(v.Project.WorkflowPath), v.Project.Name))
		}
	}
	return strings.Join(flags, ", ")
}

func linesOf(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// fit returns the lines of the page that fit into height lines. The advice gives way first,
// then the table, from its end.
func (p page) fit(height int) []string {
	if len(p.head)+len(p.body)+len(p.advice)+len(p.foot) > height {
		p.advice = nil
	}
	room := max(height-len(p.foot), 0)
	least := min(len(p.body), 1) // lines that the table keeps
	if len(p.head) > room-least {
		fits := max(room-least-1, 0)
		rest := text.Plural(len(p.head)-fits, "more line")
		p.head = append(slices.Clone(p.head[:fits]), fmt.Sprintf("… %s: symphony ps shows them", rest))
	}
	room = max(room-len(p.head), 0)
	if len(p.body) > room {
		fits := max(room-1, 0)
		p.body = append(slices.Clone(p.body[:fits]), fmt.Sprintf("… %d more", len(p.body)-max(fits, 1)))
	}
	return slices.Concat(p.head, p.body, p.advice, p.foot)
}

// Head is the part of overviews that an operator must see, in lines as long as the terminal is
// wide: the verdict, then the reasons why projects start no runs.
func Head(w *term.Env, all []view.Overview) []string {
	var out bytes.Buffer
	screen := *w
	screen.Stdout = &out
	fmt.Fprintln(&out, summary(w, all))
	for _, v := range all {
		printObstacles(&screen, v, len(all) > 1)
	}
	return linesOf(out.String())
}

// allRequests returns the requests of the selected rows of all projects, the oldest first.
func allRequests(s selected) (list []view.RequestRow) {
	for _, v := range s.confined {
		list = append(list, requestsOf(v, s.projects)...)
	}
	slices.SortStableFunc(list, func(a, b view.RequestRow) int { return a.AskedAt.Compare(b.AskedAt) })
	return list
}

// requestsOf returns the requests of a project, of several with its workflow, so that the
// commands that answer them work anywhere.
func requestsOf(v view.Overview, projects bool) []view.RequestRow {
	rows := slices.Clone(v.Requests)
	for i := range rows {
		if projects {
			rows[i].Workflow = v.Project.WorkflowPath
		}
	}
	return rows
}

// The columns of the table of issues.
const (
	columnIssue = iota
	columnStatus
	columnProject
	columnTitle
	columnPull
	columnTime
	columnTokens
	columnNow
)

// Rows makes a table of issues, with a column for the name of the project if projects is set.
func Rows(now time.Time, rows []view.Row, projects bool) term.Table {
	t := term.Table{
		Head:     []string{"ISSUE", "STATUS", "PROJECT", "TITLE", "PR", "TIME", "TOKENS", "NOW"},
		State:    columnStatus,
		Figures:  []int{columnTime, columnTokens},
		Optional: []int{columnProject, columnTitle, columnPull},
		Shrink: []term.Shrink{
			{Column: columnTitle, Cells: 60},
			{Column: columnNow, Cells: 44},
			{Column: columnTitle, Cells: 40},
			{Column: columnNow, Cells: 26},
			{Column: columnTitle, Cells: 28},
			{Column: columnTokens},
			{Column: columnProject, Cells: 8},
			{Column: columnNow, Cells: 18},
			{Column: columnPull},
			{Column: columnTitle, Cells: 16},
			{Column: columnNow, Cells: 12},
			{Column: columnTitle, Cells: 8},
			{Column: columnTitle},
			{Column: columnNow, Cells: 1},
			{Column: columnProject},
		},
	}
	for _, r := range rows {
		cells := make([]string, len(t.Head))
		links := make([]string, len(t.Head))
		cells[columnIssue] = r.Identifier
		links[columnIssue] = text.OrEmpty(r.URL)
		cells[columnStatus] = r.Label()
		cells[columnTitle] = r.Title
		cells[columnNow] = cmp.Or(r.Brief, r.Text)
		if r.Status == reconcile.StatusRunning && r.LastSign != nil && now.Sub(*r.LastSign) >= time.Minute {
			cells[columnNow] += ", " + text.Age(now, *r.LastSign) + " ago"
		}
		if projects {
			cells[columnProject] = r.Project
		}
		if r.PullRequest != nil {
			cells[columnPull] = pullName(*r.PullRequest, "yes")
			links[columnPull] = *r.PullRequest
		}
		cells[columnTime] = rowTime(now, r)
		if r.Tokens > 0 {
			cells[columnTokens] = text.Count(r.Tokens)
		}
		t.AddIn(statusColours[r.Status], cells...)
		t.Links = append(t.Links, links)
	}
	return t
}

// statusColours maps each status to its colour: red if it needs a person.
var statusColours = map[view.Status]string{
	reconcile.StatusNeedsAnswer: term.ColourStuck,
	reconcile.StatusNeedsHelp:   term.ColourStuck,
	reconcile.StatusHeld:        term.ColourStuck,
	reconcile.StatusUndelivered: term.ColourStuck,
	view.StatusKept:             term.ColourStuck,
	reconcile.StatusRunning:     term.ColourRuns,
	reconcile.StatusQueued:      term.ColourWaits,
	reconcile.StatusBlocked:     term.ColourWaits,
	reconcile.StatusWaiting:     term.ColourWaits,
	reconcile.StatusSkipped:     term.ColourWaits,
	reconcile.StatusHandedOver:  term.ColourWaits,
	view.StatusEnded:            term.ColourOver,
}

// pullName is the short name of a pull request, #7 for …/pull/7, or else the other text.
func pullName(url, other string) string {
	name := path.Base(url)
	if text.IsNumber(name) {
		return "#" + name
	}
	return other
}

// rowTime is the beginning of the row's status; of a claim that waits, when it goes on.
func rowTime(now time.Time, r view.Row) string {
	waits := r.Status == reconcile.StatusWaiting || r.Status == reconcile.StatusQueued
	switch {
	case r.At == nil:
		return ""
	case !r.Claimed || !waits:
		return text.Age(now, *r.At)
	case !r.At.After(now):
		return "due"
	}
	return "in " + text.Duration(r.At.Sub(now))
}

// printRow prints a row for a program: the exact values of the list that it comes from, the
// title, and with projects the project.
func printRow(w *term.Env, r view.Row, projects bool) {
	list, values := valuesOf(w, r)
	cells := slices.Concat([]string{r.Identifier}, values, []string{r.Title})
	if projects {
		cells = append(cells, r.Project)
	}
	var t term.Table
	t.Add(cells...)
	w.PrintTable(list, t)
}

// valuesOf returns the name of the list that a row comes from, and the values of its entry.
func valuesOf(w *term.Env, r view.Row) (list string, values []string) {
	switch e := r.Entry.(type) {
	case view.RunningRow:
		return "running", []string{
			e.State,
			phaseOf(e),
			fmt.Sprint(e.TurnCount),
			text.Rfc3339(e.StartedAt),
			fmt.Sprint(e.Tokens.Total),
			r.Text,
		}
	case view.RetryingRow:
		return "waiting", []string{
			string(e.Kind),
			fmt.Sprint(e.Attempt),
			text.Rfc3339(e.DueAt),
			waitError(e),
		}
	case view.HeldRow:
		return string(r.Status), []string{e.Reason, text.Rfc3339(e.HeldAt), e.Message}
	case view.KeptRow:
		return "kept", []string{text.Rfc3339(e.Since), "kept: " + e.Unsaved, e.Path}
	case view.ReviewRow:
		code := reconcile.WaitsReview
		if e.WaitsFor != nil {
			code = e.WaitsFor.Code
		}
		return "handed_over", []string{code, text.Rfc3339(e.Since), r.Text, text.OrEmpty(r.PullRequest)}
	case view.SkippedRow:
		return "skipped", []string{e.Reason, text.Rfc3339(e.Since), e.Message}
	case view.RunRow:
		outcome := outcomeOf(e)
		if e.Kind != reconcile.AgentRun {
			outcome = string(e.Kind) + " " + outcome
		}
		return "ended", []string{
			e.RunID,
			outcome,
			text.Rfc3339(*e.EndedAt),
			term.LastedText(w, e.EndedAt.Sub(e.StartedAt)),
			fmt.Sprint(e.Turns),
			fmt.Sprint(e.Tokens.Total),
			errorsOfRun(e),
		}
	}
	return "", nil
}

// waitError is the error of a claim that waits. The specification's words for a claim without a
// slot say less than ours.
func waitError(r view.RetryingRow) string {
	if r.Kind == reconcile.NoSlot {
		return words.Waits[r.Kind].Short
	}
	return text.OrEmpty(r.Error)
}

func phaseOf(r view.RunningRow) string {
	switch {
	case !r.Alive && r.Phase != reconcile.Starting:
		return "ended" // the next pass finds out why
	case r.StopReason != nil:
		return "stopping: " + *r.StopReason
	case len(r.WaitsFor) > 0:
		return "asks " + strings.Join(r.WaitsFor, ", ")
	}
	return string(r.Phase)
}

// watchStep is how often Watch reads the state.
const watchStep = time.Second

// Watch prints the result of read every second until ctx ends. A terminal is cleared before
// each print.
func Watch(ctx context.Context, w *term.Env, o OverviewOptions, read func() ([]view.Overview, error)) error {
	_, isFile := w.Stdout.(*os.File)
	screen := isFile && !w.Piped() && !w.JSON && w.Getenv("TERM") != "dumb"
	show := func() error {
		all, err := read()
		if err != nil {
			return err
		}
		if screen {
			printScreen(w, all, o)
			return nil
		}
		return Overviews(ctx, w, all, o)
	}
	for {
		err := show()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a signal ended the watch
		}
		if err != nil {
			return err
		}
		if !wiring.Sleep(ctx, watchStep) {
			return nil
		}
	}
}

// clearScreen moves the cursor to the first cell and erases everything after it.
const clearScreen = "\x1b[H\x1b[2J"

// printScreen clears the terminal and prints the lines that fit, in a single write, so that
// the screen does not flicker.
func printScreen(w *term.Env, all []view.Overview, o OverviewOptions) {
	width, height := w.Size()
	screen := *w
	screen.Width = width
	s := selected{all: all, projects: o.Projects}
	s.confined, s.rows, s.more = o.Selection.Select(all)
	lines := newPage(&screen, s).fit(height - 1)
	for i := range lines {
		lines[i] = term.CutCells(lines[i], screen.Width)
	}
	fmt.Fprint(w.Stdout, clearScreen+strings.Join(lines, "\n")+"\n")
}

// printHints prints the next step for each issue of the command line whose last run failed.
func printHints(w *term.Env, v view.Overview) {
	if len(v.Issues) == 0 {
		return
	}
	hint := func(identifier, code string) {
		next := words.Hint(code, identifier)
		if next != "" {
			printField(w, "hint", identifier+": "+next)
		}
	}
	for _, r := range v.Retrying {
		code, _ := r.Claim.Fault()
		hint(r.Identifier, code)
	}
	for _, r := range v.Held {
		hint(r.Identifier, r.ErrorCode)
	}
}

// printObstacles prints why a project starts no runs, with the project's name if named is set.
func printObstacles(w *term.Env, v view.Overview, named bool) {
	now := v.GeneratedAt
	name := ""
	if named {
		name = v.Project.Name + ": "
	}
	line := func(label, colour, format string, args ...any) {
		said := name + text.Visible(fmt.Sprintf(format, args...))
		for l := range strings.SplitSeq(hang(w, fmt.Sprintf("%-9s", label), said), "\n") {
			fmt.Fprintln(w.Stdout, w.Paint(colour, l))
		}
	}
	if e := v.Error; e != nil {
		line("ERROR", term.ColourStuck, "%s: %s", e.Code, e.Message)
	}
	if b := v.ProjectBlock; b != nil {
		line("BLOCKED", term.ColourStuck, "%s", blockText(w, now, *b))
		if hint := words.Hint(b.Reason, ""); hint != "" {
			fmt.Fprintln(w.Stdout, hang(w, "         ", hint))
		}
	}
	for _, h := range v.Hosts {
		if !h.Usable() {
			line("HOST", term.ColourWaits, "%s is %s: %s", h.Name, h.State, h.Message)
		}
	}
	if b := v.Budget; b != nil && b.Reached {
		line("BUDGET", term.ColourWaits, "%s, in %s", *b.Message, text.Duration(b.Until.Sub(now)))
		next := "raise agent.budget_per_day, or start one issue with symphony run"
		fmt.Fprintln(w.Stdout, hang(w, "         ", next))
	}
	if v.LowUntil != nil {
		line("LOW", term.ColourWaits,
			"less than a tenth of the tracker's allowance is left: no new run starts for another %s",
			text.Duration(v.LowUntil.Sub(now)))
	}
	if v.Paused {
		line("PAUSED", term.ColourWaits, "no new run starts; symphony resume ends the pause")
	}
	for _, e := range v.LookErrors {
		if !v.PassFailedSo(e.Code, e.Message) {
			line("ERROR", term.ColourStuck, "the last look at pull requests %s", lookErrorText(w, now, e.LookError))
		}
	}
	if v.LastPass == nil {
		return
	}
	for _, e := range v.LastPass.Errors {
		if v.ProjectBlock == nil || v.ProjectBlock.Reason != e.Code {
			line("ERROR", term.ColourStuck, "%s: %s (last pass)", e.Code, e.Message)
		}
	}
}

// blockText explains why the project is stopped, and until when.
func blockText(w *term.Env, now time.Time, b wiring.BlockedRow) string {
	if b.Until != nil {
		until := b.Until.In(w.Now().Location())
		layout := "15:04"
		if until.Sub(now) >= 24*time.Hour {
			layout = "2 Jan 15:04"
		}
		return fmt.Sprintf("codex limit used up until %s, in %s (%s)",
			until.Format(layout), text.Duration(until.Sub(now)), b.Reason)
	}
	line := fmt.Sprintf("%s: %s (for %s", b.Reason, b.Message, text.Age(now, b.Since))
	if b.NextTry.After(now) {
		line += ", next try in " + text.Duration(b.NextTry.Sub(now))
	}
	return line + ")"
}

// hang wraps a text on a terminal, behind its label.
func hang(w *term.Env, label, s string) string {
	if w.Piped() {
		return label + s
	}
	return term.Hang(label, s, w.Width)
}
