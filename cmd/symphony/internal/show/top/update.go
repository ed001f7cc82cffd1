package top

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// step is the time between two reads.
const step = time.Second

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return m.effects.read("") }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width = msg.Width
		m.height = msg.Height
	case tea.KeyPressMsg:
		m, cmd = m.press(msg)
	case tea.PasteMsg:
		switch m.mode {
		case filtering:
			m = m.filtered(m.filter + strings.TrimSpace(msg.Content))
		case writing:
			m.letter.text += msg.Content
		case listing, asking, helping:
		}
	case readMsg:
		m.err = msg.err
		if msg.err == nil {
			m.overviews = msg.overviews
			m.readAt = m.env.Now()
			m = m.arrange()
		}
		cmd = tea.Tick(step, func(time.Time) tea.Msg { return refreshMsg{} })
	case refreshMsg:
		cmd = m.effects.read(m.filter)
	case endedMsg:
		m = m.ended(msg)
	case logMsg:
		if msg.key == m.log.key {
			m.log = msg
		}
	}
	m = m.scroll()
	r, ok := m.selected()
	if !ok || m.logWidth() == 0 {
		return m, cmd
	}
	isOther := r.key() != m.log.key
	if isOther {
		m.log = logMsg{key: r.key()}
	}
	_, isNew := msg.(readMsg)
	if isNew || isOther {
		cmd = tea.Batch(cmd, m.effects.log(r))
	}
	return m, cmd
}

// ended notes the output of a command.
func (m model) ended(msg endedMsg) model {
	if msg.background {
		m.running--
	}
	m.note = note{
		command: msg.command.String(),
		lines:   msg.lines[max(len(msg.lines)-noteLines, 0):],
		failed:  msg.err != nil,
	}
	if msg.err != nil && len(m.note.lines) == 0 {
		m.note.lines = []string{msg.err.Error()}
	}
	return m
}

// noteLines is how many lines about a command are shown.
const noteLines = 4

// scroll keeps the selected row within the rows, and on the screen.
func (m model) scroll() model {
	m.at = max(min(m.at, len(m.rows)-1), 0)
	space := m.space()
	m.first = max(min(m.first, m.at, len(m.rows)-space), m.at-space+1, 0)
	return m
}
