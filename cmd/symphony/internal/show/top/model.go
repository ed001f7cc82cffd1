package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/state"
)

// model contains the values that the screen shows. Update and View touch nothing but their
// values: effects reads the state and starts commands.
type model struct {
	env     *term.Env
	effects effects
	width   int // of the window in cells; 0 until it is known
	height  int

	overviews []view.Overview
	readAt    time.Time // when the last read succeeded; zero before that
	err       error     // of the last read

	rows  []row // the rows that the filter accepts
	at    int   // the index of the selected row
	first int   // the index of the row that is drawn first

	marks map[string]bool // the marked rows, by their keys
	order string          // of view.SortKeys

	mode     mode
	filter   string
	question question // that mode asking asks
	letter   letter   // that mode writing changes
	note     note     // about the last command
	log      logMsg   // of the selected row, if there is room for it
	running  int      // commands without the terminal
}

// effects are the actions of the model outside it.
type effects struct {
	// read reads the state, with the recorded runs that contain a filter's words, and returns
	// a readMsg.
	read func(filter string) tea.Cmd
	// log reads the end of the log of the selected row and returns a logMsg.
	log func(row) tea.Cmd
	// run carries out a command in the background and returns an endedMsg with its output.
	run func(command) tea.Cmd
	// show gives the terminal to a command until it ends.
	show func(command) tea.Cmd
}

// command is a command of symphony about issues of a project, or about the project.
type command struct {
	verb     string
	issues   []string
	text     string   // for an agent; empty for most commands
	becomes  string   // what the operator was told that the text becomes
	words    []string // as an operator types them
	path     string   // of the project's workflow
	stateDir string   // of the project
}

// String is the command as an operator types it.
func (c command) String() string {
	line := "symphony"
	for _, word := range c.words {
		line += " " + text.ShellQuote(word)
	}
	return line
}

type mode int

const (
	listing   mode = iota
	filtering      // the keys change the filter
	asking         // the keys answer a question
	helping        // the keys are explained
	writing        // the keys change the words for an agent
)

// question is asked before a command that ends something.
type question struct {
	text     string
	commands []command
}

// letter is a command about an issue whose text for the agent is being written.
type letter struct {
	to      command
	text    string
	becomes string // what the text becomes
}

// command is the command with the text.
func (l letter) command() command {
	c := l.to
	c.text = l.text
	c.words = slices.Insert(slices.Clone(c.words), 2, l.text) // after the verb and the issue
	return c
}

// note is a message about a command.
type note struct {
	command string
	lines   []string
	failed  bool
}

// row is an issue with the project that it belongs to.
type row struct {
	view.Row
	overview *view.Overview
}

func (r row) key() string { return r.overview.Project.StateDir + "\n" + r.IssueID }

type (
	readMsg struct {
		overviews []view.Overview
		err       error
	}
	refreshMsg struct{}
	logMsg     struct {
		key   string // of the row
		lines []eventlog.Line
	}
	endedMsg struct {
		command    command
		lines      []string
		err        error
		background bool
	}
)

// arrange makes the rows of the overviews, a single row for each issue. If only ended runs of
// an issue are left, its row is about the newest. The selection stays on its issue.
func (m model) arrange() model {
	var selected row
	if m.at < len(m.rows) {
		selected = m.rows[m.at]
	}
	m.rows = nil
	for i := range m.overviews {
		v := &m.overviews[i]
		seen := map[string]bool{}
		for _, r := range v.Rows {
			isOlder := r.Status == view.StatusEnded && seen[r.IssueID]
			if isOlder || !r.Has(strings.Fields(m.filter)...) {
				continue
			}
			seen[r.IssueID] = true
			m.rows = append(m.rows, row{r, v})
		}
	}
	order := cmp.Or(m.order, view.SortKeys[0])
	slices.SortStableFunc(m.rows, func(a, b row) int { return view.CompareRows(order, a.Row, b.Row) })
	if selected.overview == nil {
		return m
	}
	same := slices.IndexFunc(m.rows, func(r row) bool { return r.key() == selected.key() })
	if same >= 0 {
		m.at = same
	}
	return m
}

// filtered returns the model with another filter.
func (m model) filtered(filter string) model {
	m.filter = filter
	return m.arrange()
}

// selected returns the row under the cursor.
func (m model) selected() (row, bool) {
	if m.at >= len(m.rows) {
		return row{}, false
	}
	return m.rows[m.at], true
}

// marked returns the marked rows that the filter accepts, or else the selected row.
func (m model) marked() []row {
	list := text.Filter(m.rows, func(r row) bool { return m.marks[r.key()] })
	if r, ok := m.selected(); ok && len(list) == 0 {
		list = []row{r}
	}
	return list
}

// commands are the commands about the marked issues, a command for each project.
func (m model) commands(verb string) []command {
	var list []command
	marked := m.marked()
	for i := range m.overviews {
		own := text.Filter(marked, func(r row) bool { return r.overview == &m.overviews[i] })
		if len(own) == 0 {
			continue
		}
		names := text.Map(own, func(r row) string { return r.Identifier })
		list = append(list, m.command(own[0], verb, names[1:]...))
	}
	return list
}

// command is a command of symphony about an issue, and more words: flags or other issues. A
// row without an identifier stands for its project. The state directory is named only where
// the command would not find it.
func (m model) command(r row, verb string, more ...string) command {
	p := r.overview.Project
	words := text.Filter(append([]string{r.Identifier}, more...), func(s string) bool { return s != "" })
	issues := text.Filter(words, func(s string) bool { return !strings.HasPrefix(s, "--") })
	c := command{
		verb:     verb,
		issues:   issues,
		words:    append([]string{verb}, words...),
		path:     p.WorkflowPath,
		stateDir: p.StateDir,
	}
	switch verb {
	case "hold":
		c.words[0] = "stop"
		c.words = append(c.words, "--after-run")
	case "open":
		c.words[0] = "show"
		c.words = append(c.words, "--web")
	}
	if len(issues) > 1 && verb != "approve" { // top asked already
		c.words = append(c.words, "--yes")
	}
	if p.WorkflowPath != "" {
		c.words = append(c.words, "-w", p.WorkflowPath)
	}
	usual := m.env.Getenv("SYMPHONY_STATE_DIR")
	if usual == "" {
		usual = state.DefaultDir(m.env.Getenv("XDG_STATE_HOME"), m.env.Home, p.WorkflowPath)
	}
	if m.env.Absolute(usual) != p.StateDir {
		c.words = append(c.words, "--state-dir", p.StateDir)
	}
	return c
}
