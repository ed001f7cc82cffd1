package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
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
		{"b", "back", "send its result back to its agent, with your words: symphony send-back", true},
		{"s", "stop", "end its run and hold it: symphony stop", true},
		{"r", "retry", "start it again: symphony retry", true},
		{"o", "open", "its page in the browser: symphony show --web", true},
		{
			"space",
			"mark",
			"mark it: a, s, r, h and v are then about all marked issues; escape unmarks them",
			true,
		},
		{"h", "hold", "start no further run of it: symphony stop --after-run", true},
		{"v", "deliver", "push its commits: symphony deliver", true},
		{"/", "filter", "show only issues and recorded runs with these words; escape ends the filter", false},
		{"t", "", "sort by status, issue, title, time or tokens", false},
		{"p", "", "pause or resume the project of the selected issue", false},
		{"?", "help", "this help", false},
		{"q", "quit", "quit; so does Ctrl-C", false},
		{"up, down", "", "move; so do k, j, PgUp, PgDn, Home and End", false},
	}
}

// Keys explains the keys, a line for each.
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
		return m.start(m.question.commands...)
	case helping:
		m.mode = listing
		return m, nil
	case writing:
		return m.pressInText(name, msg.Text)
	case listing:
	}
	m.note = note{}
	return m.pressInList(name)
}

// pressInFilter reacts to a key that changes the filter.
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

// pressInText reacts to a key that changes the words for an agent.
func (m model) pressInText(name, typed string) (model, tea.Cmd) {
	said := m.letter.text
	switch {
	case name == "esc":
		m.mode = listing
		m.note = note{lines: []string{"nothing was changed"}}
	case name == "enter" && strings.TrimSpace(said) != "":
		m.mode = listing
		return m.start(m.letter.command())
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(said)
		m.letter.text = said[:len(said)-size]
	case name == "ctrl+u":
		m.letter.text = ""
	default:
		m.letter.text += typed
	}
	return m, nil
}

// pressInList reacts to a key in the list.
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
	case "pgdown", "ctrl+f":
		m.at += page
	case "home", "g":
		m.at = 0
	case "end", "G":
		m.at = len(m.rows) - 1
	case "/":
		m.mode = filtering
	case "esc":
		m.marks = nil
		return m.filtered(""), nil
	case "t":
		at := max(slices.Index(view.SortKeys, m.order), 0)
		m.order = view.SortKeys[(at+1)%len(view.SortKeys)]
		m.note = note{lines: []string{"sorted by " + m.order}}
		return m.arrange(), nil
	case "?":
		m.mode = helping
	default:
		if r, ok := m.selected(); ok {
			return m.act(name, r)
		}
	}
	return m, nil
}

// verbOf returns the command of a key that is about all marked issues.
func verbOf(key string) string {
	switch key {
	case "s":
		return "stop"
	case "r":
		return "retry"
	case "h":
		return "hold"
	}
	return "deliver"
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
	case "b":
		m.mode = writing
		m.letter = letter{to: m.command(r, string(operate.VerbSendBack))}
	case "s", "r", "h", "v":
		verb := verbOf(name)
		commands := m.commands(verb)
		asked := m.marked()
		if name != "s" && len(asked) < 2 {
			return m.start(commands...)
		}
		m.mode = asking
		m.question = question{text: askText(verb, asked), commands: commands}
	case "o":
		return m.start(m.command(r, "open"))
	case "space":
		m.marks = maps.Clone(m.marks)
		if m.marks == nil {
			m.marks = map[string]bool{}
		}
		m.marks[r.key()] = !m.marks[r.key()]
		m.at++
	case "p":
		verb := "pause"
		if r.overview.Paused {
			verb = "resume"
		}
		r.Identifier = ""
		return m.start(m.command(r, verb))
	}
	return m, nil
}

// askText is the question before a command about rows.
func askText(verb string, rows []row) string {
	names := strings.Join(text.Map(rows, func(r row) string { return r.Identifier }), ", ")
	effect := ""
	switch {
	case verb != "stop":
	case len(rows) > 1:
		effect = " Their runs end, and they are held until you retry them."
	case hasRun(rows[0]):
		effect = " Its run ends, and it is held until you retry it."
	default:
		effect = " It is held until you retry it."
	}
	return fmt.Sprintf("%s %s?%s [y]es, [N]o: ", strings.ToUpper(verb[:1])+verb[1:], names, effect)
}

// hasRun reports whether an agent works on the issue of a row.
func hasRun(r row) bool {
	return r.Status == reconcile.StatusRunning || r.Status == reconcile.StatusNeedsAnswer
}

// answer starts the command that shows the first request of the issue in full and asks for the
// decision, or of all marked issues.
func (m model) answer(r row) (model, tea.Cmd) {
	if len(m.marked()) > 1 {
		shown := text.Map(m.commands("approve"), m.effects.show)
		return m, tea.Sequence(shown...)
	}
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

// start starts commands in the background.
func (m model) start(commands ...command) (model, tea.Cmd) {
	var list []tea.Cmd
	for _, c := range commands {
		m.running++
		m.note = note{command: c.String(), lines: []string{"running …"}}
		list = append(list, m.effects.run(c))
	}
	return m, tea.Batch(list...)
}
