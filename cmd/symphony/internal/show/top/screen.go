package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// View implements tea.Model.
func (m model) View() tea.View {
	out := tea.View{AltScreen: true}
	if m.width == 0 {
		return out
	}
	w := m.screen()
	head := m.head(w)
	foot := m.foot(w)
	lines := slices.Concat(head, m.withLog(w, m.body(w)))
	for len(lines) < m.height-len(foot) {
		lines = append(lines, "")
	}
	lines = append(lines, foot...)
	lines = lines[max(len(lines)-m.height, 0):] // of a tiny window the end
	for i := range lines {
		lines[i] = term.CutCells(lines[i], m.width)
	}
	out.Content = strings.Join(lines, "\n")
	return out
}

// screen is the environment for drawing: a terminal as wide as the window.
func (m model) screen() *term.Env {
	w := *m.env
	w.Width = m.width
	return &w
}

// space is how many rows fit on the screen below their head.
func (m model) space() int {
	w := m.screen()
	return max(m.height-len(m.head(w))-len(m.foot(w))-1, 1)
}

// head begins with whether a project needs a person, and why. It takes at most a third of the
// screen.
func (m model) head(w *term.Env) []string {
	switch {
	case m.err != nil && m.readAt.IsZero():
		return m.failure(w, "")
	case m.readAt.IsZero():
		return []string{w.Dim("reading …")}
	}
	lines := render.Head(w, m.overviews)
	if m.err != nil {
		lines = append(
			lines,
			m.failure(w, "this is the state of "+m.readAt.Local().Format(time.TimeOnly)+": ")...)
	}
	if most := max(m.height/3, 1); len(lines) > most {
		lines = append(
			lines[:most-1],
			fmt.Sprintf("… %d more lines: symphony ps --project all", len(lines)-most+1),
		)
	}
	return lines
}

// failure returns why the state could not be read.
func (m model) failure(w *term.Env, before string) []string {
	e := exit.From(m.err)
	said := text.Visible(before + e.Code + ": " + e.Message)
	if e.Hint != "" {
		said += "; " + text.Visible(e.Hint)
	}
	return hang(w.Red("ERROR"), said, m.width)
}

func hang(label, s string, width int) []string {
	return strings.Split(term.Hang(label+"  ", s, width), "\n")
}

// counts returns how many rows have each status.
func (m model) counts() string {
	var n reconcile.Counts
	var parts []string
	for _, r := range m.rows {
		n.Add(r.Status)
	}
	if sum := n.Text(); sum != "" {
		parts = append(parts, sum)
	}
	for _, s := range []view.Status{view.StatusKept, reconcile.StatusHandedOver, view.StatusEnded} {
		if n := len(slices.DeleteFunc(slices.Clone(m.rows), func(r row) bool { return r.Status != s })); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.Label()))
		}
	}
	if len(parts) == 0 {
		return "no issues"
	}
	return strings.Join(parts, ", ")
}

// body is the table, or the help. The selected row is marked, and reversed where colours are
// shown.
func (m model) body(w *term.Env) []string {
	if m.mode == helping {
		return m.help(w)
	}
	if len(m.rows) == 0 {
		if m.filter != "" {
			return []string{"", "  no issue contains " + text.Visible(m.filter)}
		}
		return nil
	}
	narrow := *w
	narrow.Width -= m.logWidth()
	w = &narrow
	plain := *w
	plain.Colour = false
	plain.Links = false
	rows := text.Map(m.rows, func(r row) view.Row { return r.Row })
	t := render.Rows(m.rows[0].overview.GeneratedAt, rows, len(m.overviews) > 1)
	lines := t.Lines(w, "  ")
	bare := t.Lines(&plain, "> ")
	shown := lines[:1:1]
	for i := m.first; i < min(len(m.rows), m.first+m.space()); i++ {
		line := lines[i+1]
		if rest, fits := strings.CutPrefix(line, "  "); fits && m.marks[m.rows[i].key()] {
			line = "* " + rest
		}
		if i == m.at {
			line = bare[i+1]
			if rest, fits := strings.CutPrefix(line, "> "); fits && m.marks[m.rows[i].key()] {
				line = ">*" + rest
			}
			if blanks := w.Width - term.Cells(line); w.Colour && blanks > 0 {
				line += strings.Repeat(" ", blanks)
			}
			line = w.Paint("7", line)
		}
		shown = append(shown, line)
	}
	return shown
}

// besideLog is the width in cells from which a window shows the log of the selected issue
// beside the list.
const besideLog = 140

// logWidth is how many cells the log takes; 0 for no log.
func (m model) logWidth() int {
	if m.width < besideLog || m.mode == helping {
		return 0
	}
	return m.width * 2 / 5
}

// withLog puts the end of the log of the selected issue beside the list.
func (m model) withLog(w *term.Env, list []string) []string {
	r, ok := m.selected()
	if !ok || m.logWidth() == 0 {
		return list
	}
	log := []string{w.Dim("LOG OF " + text.Visible(r.Identifier))}
	const gap = "  "
	for _, l := range m.log.lines[max(len(m.log.lines)-m.space(), 0):] {
		log = append(log, render.LogLine(w, l, m.logWidth()-len(gap)))
	}
	list = append(list, make([]string, max(len(log)-len(list), 0))...)
	for i, line := range log {
		list[i] += strings.Repeat(" ", max(m.width-m.logWidth()-term.Cells(list[i]), 0)) + gap + line
	}
	return list
}

func (m model) help(w *term.Env) []string {
	t := term.Table{Head: []string{"", ""}, State: 1}
	for _, k := range keys() {
		t.Add(k.names, k.long)
	}
	return t.Lines(w, "  ")
}

// foot is the output of the last command, else the selected row in full; the question; the
// filter; the keys.
func (m model) foot(w *term.Env) []string {
	lines := m.said(w)
	if len(lines) == 0 && m.mode != helping {
		lines = m.detail(w)
	}
	switch {
	case m.mode == asking:
		return append(lines, term.Wrap(w.Bold(text.Visible(m.question.text)), m.width)...)
	case m.mode == filtering:
		return append(
			lines,
			"/"+text.Visible(m.filter)+w.Paint("7", " ")+w.Dim("  enter keeps the filter, escape ends it"),
		)
	case m.mode == writing:
		said := w.Bold("Tell "+text.Visible(m.letter.to.issues[0])+" ("+m.letter.becomes+"): ") + text.Visible(m.letter.text)
		lines = append(lines, term.Wrap(said+w.Paint("7", " "), m.width)...)
		return append(lines, w.Dim("enter sends it, escape leaves it"))
	case m.mode == helping:
		return append(lines, w.Dim("any key returns"))
	case len(m.marks) > 0 && len(m.marked()) > 1:
		marked := w.Yellow(fmt.Sprintf("%d marked", len(m.marked())))
		lines = append(lines, marked+w.Dim("  a, c, h, r and s are about all of them; escape unmarks"))
	case m.filter != "":
		lines = append(
			lines,
			w.Yellow("/"+text.Visible(m.filter))+w.Dim(fmt.Sprintf("  %s; escape ends the filter", m.counts())),
		)
	}
	return append(lines, m.hints(w))
}

// said is the last command, and its output.
func (m model) said(w *term.Env) (lines []string) {
	if m.note.command != "" {
		lines = term.Wrap(w.Bold("$ ")+text.Visible(m.note.command), m.width)
	}
	for _, line := range m.note.lines {
		line = text.Visible(line)
		if m.note.failed {
			line = w.Red(line)
		}
		lines = append(lines, term.Wrap(line, m.width)...)
	}
	return lines
}

// detailLines is how many lines detail returns, whatever the row, so that the rows keep their
// place.
const detailLines = 4

// detail shows the parts of the selected row that the table may have cut off. A small window
// has no room for it.
func (m model) detail(w *term.Env) []string {
	r, ok := m.selected()
	if !ok || m.height < 5*detailLines {
		return nil
	}
	lines := append([]string{""}, hang(w.Bold(text.Visible(r.Identifier)), text.Visible(r.Title), m.width)[0])
	lines = append(lines, term.Wrap(text.Visible(r.Text), m.width)...)
	if len(lines) > detailLines {
		lines = append(lines[:detailLines-1], lines[detailLines-1]+" …")
	}
	return append(lines, make([]string, detailLines-len(lines))...)
}

// hints are the keys for the selected row. Where they do not fit, the last ones about the row
// are left out.
func (m model) hints(w *term.Env) string {
	r, some := m.selected()
	var about, general []string
	for _, k := range keys() {
		hint := k.names + " " + k.short
		switch {
		case k.short == "" || k.row && (!some || !isAbout(k.names, r.Status)):
		case k.row:
			about = append(about, hint)
		default:
			general = append(general, hint)
		}
	}
	line := func() string { return strings.Join(slices.Concat(about, general), "  ") }
	for len(about) > 0 && term.Cells(line()) > m.width {
		about = about[:len(about)-1]
	}
	return w.Dim(line())
}

// isAbout reports whether a key about a row has an effect on an issue with that status, as far
// as that is known. Most keys have.
func isAbout(key string, status view.Status) bool {
	switch key {
	case "a":
		return status == reconcile.StatusNeedsAnswer
	case "b":
		return status == reconcile.StatusHandedOver || status == reconcile.StatusNeedsHelp
	}
	return true
}
