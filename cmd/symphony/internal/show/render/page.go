package render

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
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

// screenLines is how many lines of the screen a page takes. A line that is longer than the
// terminal is wide takes several.
func screenLines(lines []string, width int) (n int) {
	for _, line := range lines {
		n += max((term.Cells(line)+width-1)/width, 1)
	}
	return n
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

// hang wraps a text on a terminal, behind its label.
func hang(w *term.Env, label, s string) string {
	if w.Piped() {
		return label + s
	}
	return term.Hang(label, s, w.Width)
}
