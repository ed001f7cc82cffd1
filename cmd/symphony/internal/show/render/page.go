package render

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// OverviewOptions describe how ps prints overviews.
type OverviewOptions struct {
	Selection view.Selection
	Projects  bool // of all projects
	Quiet     bool // the identifiers alone
	Pager     bool // a page that is longer than the screen goes through the pager
	// NoMatch is what stands in place of the rows if a filter keeps none of them.
	NoMatch string
}

// Overviews prints overviews: on a terminal as a page, in a pipe as rows and with everything
// else on stderr, with --json as JSON.
func Overviews(ctx context.Context, w *term.Env, all []view.Overview, o OverviewOptions) error {
	s := selected{all: all, projects: o.Projects, noMatch: o.NoMatch}
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
	lines := p.lines()
	paged := o.Pager && screenLines(lines, w.Width) >= height && w.HasPager(ctx)
	if paged { // the pager shows the beginning first, and old ones print links as text
		plain := *w
		plain.Links = false
		p = newPage(&plain, s)
		lines = slices.Concat(p.head, p.foot, p.summary, p.table(), p.advice)
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
	noMatch  string
}

// screenLines is how many lines of the screen a page takes. A line that is longer than the
// terminal is wide takes several.
func screenLines(lines []string, width int) (n int) {
	for _, line := range lines {
		n += max((term.Cells(line)+width-1)/width, 1)
	}
	return n
}

// page is a screen, in lines.
type page struct {
	head    []string // the facts that an operator must see
	rows    []string // the table of the issues, or why there is none
	more    int      // issues that the limit of the selection keeps out of the table
	advice  []string // about its rows
	foot    []string // what else there is to do
	summary []string
}

// lines returns all lines of the page, the summary last.
func (p page) lines() []string {
	return slices.Concat(p.head, p.table(), p.advice, p.foot, p.summary)
}

// table returns the rows, and how many issues there are more.
func (p page) table() []string {
	if p.more == 0 {
		return p.rows
	}
	return append(slices.Clone(p.rows), fmt.Sprintf("… %d more", p.more))
}

// newPage makes the page of the selected rows. The reasons why projects start no runs, and the
// summary, are about all overviews, whatever is selected.
func newPage(w *term.Env, s selected) page {
	var head, foot bytes.Buffer
	out := *w
	out.Stdout = &head
	if !w.Piped() && len(s.all) > 0 {
		printRequests(&out, s.all[0].GeneratedAt, allRequests(s))
		printNeedsHelp(&out, s)
	}
	for _, v := range s.all {
		printObstacles(&out, v, s.projects)
	}
	out.Stdout = &foot
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
	p := page{
		head:    linesOf(head.String()),
		more:    s.more,
		foot:    linesOf(foot.String()),
		summary: linesOf(summary(w, s.all)),
	}
	if len(s.rows) > 0 && len(p.head) > 0 {
		p.head = append(p.head, "")
	}
	switch {
	case len(s.rows) > 0:
		p.rows = Rows(s.confined[0].GeneratedAt, s.rows, s.projects).Lines(w, "")
		p.advice = adviceLines(w, s)
	case s.noMatch != "" && !w.Piped():
		p.rows = []string{s.noMatch}
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
		if r.Advice == "" || r.Status == reconcile.StatusNeedsHelp { // printNeedsHelp has the command
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
// then the table, from its end. Of a screen that is too small for the rest, the head and the
// foot keep a line each that says how many lines are missing. The summary goes last.
func (p page) fit(height int) []string {
	height = max(height, 0)
	if len(p.lines()) > height {
		p.advice = nil
	}
	p.summary = p.summary[:min(len(p.summary), height)]
	room := height - len(p.summary)
	p.foot = cut(p.foot, room-min(len(p.head), 1)-min(len(p.rows), 1))
	room -= len(p.foot)
	p.head = cut(p.head, room-min(len(p.rows), 1))
	room -= len(p.head)
	return p.cutTable(room).lines()
}

// cut returns the first lines that fit into room, with a line about the others.
func cut(lines []string, room int) []string {
	if len(lines) <= room {
		return lines
	}
	if room <= 0 {
		return nil
	}
	fits := room - 1
	rest := text.Plural(len(lines)-fits, "more line")
	return append(slices.Clone(lines[:fits]), fmt.Sprintf("… %s: symphony ps shows them", rest))
}

// cutTable returns the page with as many rows as fit into room, beside the line with the
// number of the others. The first row is the heads of the columns, and no issue.
func (p page) cutTable(room int) page {
	if len(p.table()) <= room {
		return p
	}
	if room <= 0 {
		p.rows = nil
		p.more = 0
		return p
	}
	fits := room - 1
	p.more += len(p.rows) - max(fits, 1)
	p.rows = p.rows[:fits]
	return p
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

// hang wraps a text on a terminal, behind its label.
func hang(w *term.Env, label, s string) string {
	if w.Piped() {
		return label + s
	}
	return term.Hang(label, s, w.Width)
}
