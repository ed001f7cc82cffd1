package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// key explains a key.
type key struct {
	names string // as they are printed
	short string // for the last line of the screen; empty to leave it out
	long  string
	row   bool // it is about the selected row
}

// keys are all keys, in the order of the help.
func keys() []key {
	return []key{
		{"enter", "show", "everything about the issue: symphony show", true},
		{"l", "logs", "the log of its agent: symphony logs; follows a run until Ctrl-C", true},
		{"d", "diff", "what its agent has changed: symphony diff", true},
		{"a", "answer", "what its agent asks, in full: approve it, deny it, or answer it", true},
		{"s", "stop", "end its run and hold it: symphony stop", true},
		{"r", "retry", "start it again: symphony retry", true},
		{"o", "open", "its page in the browser: symphony open", true},
		{"/", "filter", "show only the rows with these words; escape ends the filter", false},
		{"?", "help", "this help", false},
		{"q", "quit", "quit; so does Ctrl-C", false},
		{"up, down", "", "move; so do k, j, PgUp, PgDn, Home and End", false},
	}
}

// Keys explains the keys, one in a line.
func Keys() string {
	var b strings.Builder
	for _, k := range keys() {
		fmt.Fprintf(&b, "    %-8s  %s\n", k.names, k.long)
	}
	return b.String()
}

// press reacts to a key.
func (m model) press(msg tea.KeyPressMsg) (model, tea.Cmd) {
	name := msg.String()
	switch name {
	case "ctrl+c":
		return m, tea.Quit
	case "ctrl+z":
		return m, tea.Suspend
	case "ctrl+l":
		return m, tea.ClearScreen
	}
	switch m.mode {
	case filtering:
		return m.pressInFilter(name, msg.Text), nil
	case asking:
		m.mode = listing
		if name != "y" && name != "Y" {
			m.note = note{lines: []string{"nothing was changed"}}
			return m, nil
		}
		return m.start(m.question.command)
	case helping:
		m.mode = listing
		return m, nil
	case listing:
	}
	m.note = note{}
	return m.pressInList(name)
}

func (m model) pressInFilter(name, text string) model {
	switch {
	case name == "esc":
		m.mode = listing
		return m.filtered("")
	case name == "enter":
		m.mode = listing
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		return m.filtered(m.filter[:len(m.filter)-size])
	case name == "ctrl+u":
		return m.filtered("")
	case name == "up", name == "down":
		m, _ = m.pressInList(name)
	case text != "":
		return m.filtered(m.filter + text)
	}
	return m
}

func (m model) pressInList(name string) (model, tea.Cmd) {
	page := max(m.space()-1, 1)
	switch name {
	case "q":
		return m, tea.Quit
	case "up", "k":
		m.at--
	case "down", "j":
		m.at++
	case "pgup", "ctrl+b":
		m.at -= page
	case "pgdown", "ctrl+f", "space":
		m.at += page
	case "home", "g":
		m.at = 0
	case "end", "G":
		m.at = len(m.rows) - 1
	case "/":
		m.mode = filtering
	case "esc":
		return m.filtered(""), nil
	case "?":
		m.mode = helping
	default:
		if r, ok := m.selected(); ok {
			return m.act(name, r)
		}
	}
	return m, nil
}

// act reacts to a key about the selected issue.
func (m model) act(name string, r row) (model, tea.Cmd) {
	switch name {
	case "enter":
		return m, m.effects.show(m.command(r, "show"))
	case "l":
		var flags []string
		if hasRun(r) {
			flags = []string{"--follow"}
		}
		return m, m.effects.show(m.command(r, "logs", flags...))
	case "d":
		return m, m.effects.show(m.command(r, "diff"))
	case "a":
		return m.answer(r)
	case "s":
		effect := "It"
		if hasRun(r) {
			effect = "Its run ends, and it"
		}
		m.mode = asking
		m.question = question{
			fmt.Sprintf("Stop %s? %s is held until you retry it. [y]es, [N]o: ", r.Identifier, effect), m.command(r, "stop"),
		}
	case "r":
		return m.start(m.command(r, "retry"))
	case "o":
		return m.start(m.command(r, "open"))
	}
	return m, nil
}

func hasRun(r row) bool {
	return r.Status == reconcile.StatusRunning || r.Status == reconcile.StatusNeedsAnswer
}

// answer starts the command that shows the first request of the issue in full and asks for the decision.
func (m model) answer(r row) (model, tea.Cmd) {
	requests := r.overview.Requests
	i := slices.IndexFunc(requests, func(q view.RequestRow) bool { return q.Request.IssueID == r.IssueID })
	if i < 0 {
		m.note = note{lines: []string{r.Identifier + " asks nothing"}}
		return m, nil
	}
	verb := "approve"
	if requests[i].Kind == reconcile.QuestionRequest {
		verb = "answer"
	}
	return m, m.effects.show(m.command(r, verb))
}

// start starts a command in the background.
func (m model) start(c command) (model, tea.Cmd) {
	m.running++
	m.note = note{command: c.String(), lines: []string{"running …"}}
	return m, m.effects.run(c)
}
