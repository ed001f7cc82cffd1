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
	list := []key{
		{"enter", "show", "everything about the issue: symphony show", true},
		{"l", "logs", "the log of its agent: symphony logs; follows a run until Ctrl-C", true},
		{"d", "diff", "what its agent has changed: symphony diff", true},
		{"a", "answer", "what its agent asks, in full: approve it, deny it, or answer it", true},
	}
	for _, o := range operate.Orders {
		if o.Key != "" {
			list = append(list, key{o.Key, o.Name, o.Does + ": symphony " + o.Words, true})
		}
	}
	return append(list, []key{
		{"o", "open", "its page in the browser: symphony show --web", true},
		{
			"space",
			"mark",
			"mark it: a, c, h, r and s are then about all marked issues; escape unmarks them",
			true,
		},
		{"/", "filter", "show only issues and recorded runs with these words; escape ends the filter", false},
		{"t", "", "sort by status, issue, title, time or tokens", false},
		{"p", "", "pause or resume the project of the selected issue", false},
		{"?", "help", "this help", false},
		{"q", "quit", "quit; so does Ctrl-C", false},
		{"up, down", "", "move; so do k, j, PgUp, PgDn, Home and End", false},
	}...)
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

// orderOf returns the order of a key.
func orderOf(key string) (operate.Order, bool) {
	o := text.First(operate.Orders, func(o operate.Order) bool { return o.Key == key })
	return o, o.Key != ""
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
	default:
		if o, is := orderOf(name); is {
			return m.give(o, r)
		}
	}
	return m, nil
}

// give gives an order about the selected issue, or about all marked ones. It asks before what ends
// something, and before an order about several.
func (m model) give(o operate.Order, r row) (model, tea.Cmd) {
	asks := slices.ContainsFunc(r.overview.Requests, func(q view.RequestRow) bool {
		return q.Request.IssueID == r.IssueID && q.Kind == reconcile.QuestionRequest
	})
	switch {
	case o.TakesText && asks: // the answer may be secret
		return m.answer(r)
	case o.TakesText:
		m.mode = writing
		of := operate.RowOf(r.Row)
		m.letter = letter{to: m.command(r, o.Name), becomes: of.TellBecomes(r.Identifier)}
		m.letter.to.becomes = of.Becomes()
		return m, nil
	}
	commands := m.commands(o.Name)
	asked := m.marked()
	if !ends(o) && len(asked) < 2 {
		return m.start(commands...)
	}
	m.mode = asking
	m.question = question{text: askText(o.Name, asked), commands: commands}
	return m, nil
}

// ends reports whether an order ends a run, or the work on an issue.
func ends(o operate.Order) bool { return o.Name == "stop" || o.Name == "done" }

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
		verb = "tell"
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
