package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// started is what a model has started: commands, reads of logs, and the last filter that it
// has searched for.
type started struct {
	run, shown, logs []string
	searched         string
}

func newModel(env ...string) (model, *started) {
	s := &started{}
	w := &term.Env{Env: environ.Env{
		Environ: env,
		Home:    "/home/u",
		Dir:     "/home/u",
		Now:     func() time.Time { return now },
	}}
	m := model{env: w, effects: effects{
		read: func(filter string) tea.Cmd { s.searched = filter; return nil },
		log:  func(r row) tea.Cmd { s.logs = append(s.logs, r.Identifier); return nil },
		run:  func(c command) tea.Cmd { s.run = append(s.run, c.String()); return nil },
		show: func(c command) tea.Cmd { s.shown = append(s.shown, c.String()); return nil },
	}}
	return send(m, tea.WindowSizeMsg{Width: 80, Height: 24}), s
}

func send(m model, msgs ...tea.Msg) model {
	for _, msg := range msgs {
		next, _ := m.Update(msg)
		m = next.(model)
	}
	return m
}

// press presses keys by their names; a name of one letter is a text.
func press(m model, names ...string) model {
	special := map[string]tea.KeyPressMsg{
		"enter":     {Code: tea.KeyEnter},
		"esc":       {Code: tea.KeyEscape},
		"up":        {Code: tea.KeyUp},
		"down":      {Code: tea.KeyDown},
		"pgup":      {Code: tea.KeyPgUp},
		"pgdown":    {Code: tea.KeyPgDown},
		"home":      {Code: tea.KeyHome},
		"end":       {Code: tea.KeyEnd},
		"backspace": {Code: tea.KeyBackspace},
		"space":     {Code: tea.KeySpace, Text: " "},
	}
	for _, name := range names {
		msg, ok := special[name]
		if !ok {
			msg = tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
		}
		m = send(m, msg)
	}
	return m
}

func read(m model, all ...view.Overview) model { return send(m, readMsg{all, nil}) }

func issue(status view.Status, identifier string) view.Row {
	return view.Row{
		Project:    "shop",
		Status:     status,
		IssueID:    "id " + identifier,
		Identifier: identifier,
		Title:      "Title of " + identifier,
		At:         &now,
	}
}

func overview(name string, rows ...view.Row) view.Overview {
	return view.Overview{GeneratedAt: now, Schedule: true, Rows: rows, Project: view.ProjectRow{
		Name: name, WorkflowPath: "/home/u/" + name + "/WORKFLOW.md", StateDir: "/states/" + name,
	}}
}

func order(m model) string {
	var names []string
	for i, r := range m.rows {
		if i == m.at {
			names = append(names, ">")
		}
		names = append(names, r.Identifier)
	}
	return strings.Join(names, " ")
}

// Rows of all projects are in the order of the statuses, one for each issue. The selection
// stays on its issue.
func TestRows(t *testing.T) {
	m, _ := newModel()
	m = send(m, readMsg{[]view.Overview{
		overview(
			"api",
			issue("running", "API-1"),
			issue("ended", "API-1"),
			issue("ended", "API-7"),
			issue("ended", "API-7"),
		),
		overview("shop", issue("running", "WEB-9"), issue("running", "WEB-10")),
	}, nil})
	test.Equal(t, "the rows", order(m), "> API-1 WEB-9 WEB-10 API-7")
	m = press(m, "j", "down")
	m = send(m, readMsg{[]view.Overview{
		overview(
			"api",
			issue("asks", "API-1"),
		), overview("shop", issue("ended", "WEB-10"), issue("ended", "WEB-9")),
	}, nil})
	test.Equal(t, "the rows", order(m), "API-1 > WEB-10 WEB-9")
	// An issue that is gone leaves the selection where it was.
	m = send(
		m,
		readMsg{[]view.Overview{overview("api", issue("asks", "API-1"), issue("ended", "API-7"))}, nil},
	)
	test.Equal(t, "the rows", order(m), "API-1 > API-7")
	// If the state can't be read, the rows stay, and the screen shows since when.
	m = send(m, readMsg{nil, errors.New("no such disk")})
	test.Equal(t, "the rows", order(m), "API-1 > API-7")
	test.Contains(
		t,
		"the screen",
		strings.Join(strings.Fields(m.View().Content), " "),
		"ERROR this is the state of ",
		"no such disk",
	)
}

// A filter is searched for in what is recorded, with the next read. It finds an ended run even
// if a row of the same issue lacks the words.
func TestSearch(t *testing.T) {
	m, s := newModel()
	older := issue("ended", "API-1")
	older.Text = "failed: the lamps do not fit"
	m = press(
		read(m, overview("api", issue("running", "API-1"), older)),
		"/",
		"F",
		"I",
		"T",
		"space",
		"l",
		"a",
		"m",
		"p",
	)
	m = send(m, refreshMsg{})
	test.Equal(t, "searched", s.searched, "FIT lamp")
	test.Equal(t, "the rows", order(m), "> API-1")
	test.Equal(t, "status", m.rows[0].Status, view.StatusEnded)
}

// A wide window has the log of the selected issue beside the list, which is read again with
// the state and at once for another issue.
func TestLogBesideTheList(t *testing.T) {
	m, s := newModel()
	m = read(m, overview("shop", issue("running", "WEB-1"), issue("running", "WEB-2")))
	test.Equal(t, "logs in a narrow window", len(s.logs), 0)
	m = send(m, tea.WindowSizeMsg{Width: besideLog, Height: 24})
	m = send(read(press(m, "down", "up", "down"), m.overviews...), logMsg{
		key:   m.rows[0].key(),
		lines: []eventlog.Line{{Text: "late"}},
	})
	test.Equal(t, "logs", s.logs, []string{"WEB-1", "WEB-2", "WEB-1", "WEB-2", "WEB-2"})
	var lines []eventlog.Line
	for i := range 50 {
		lines = append(lines, eventlog.Line{
			At:   now,
			Kind: eventlog.Words,
			Text: fmt.Sprintf("line %d", i),
		})
	}
	screen := strings.Split(send(m, logMsg{
		key:   m.rows[1].key(),
		lines: lines,
	}).View().Content, "\n")
	test.Equal(t, "lines", len(screen), 24)
	test.Contains(t, "its head", screen[1], "ISSUE ", " LOG OF WEB-2")
	test.Contains(t, "beside a row", screen[3], "> WEB-2 ", " line ")
	test.Contains(t, "the end", strings.Join(screen, "\n"), "line 49")
	test.Lacks(t, "the log", strings.Join(screen, "\n"), "late", "line 0 ")
	test.Lacks(t, "the help", press(m, "?").View().Content, "LOG OF")
}

// An account may have no project.
func TestNoProject(t *testing.T) {
	m, _ := newModel()
	m = send(m, readMsg{}, readMsg{nil, errors.New("no such disk")})
	if text := m.View().Content; !strings.HasPrefix(text, "no projects: ") ||
		!strings.Contains(text, "no such disk") {
		t.Error(text)
	}
}

func many(n int) view.Overview {
	var rows []view.Row
	for i := range n {
		rows = append(rows, issue("waiting", fmt.Sprint("WEB-", i+1)))
	}
	return overview("shop", rows...)
}

func TestMove(t *testing.T) {
	m, _ := newModel()
	m = read(m, many(500))
	page := m.space() - 1
	for _, c := range []struct {
		key  string
		want int
	}{
		{"up", 0},
		{"down", 1},
		{"j", 2},
		{"k", 1},
		{"pgdown", 1 + page},
		{"pgup", 1},
		{"end", 499},
		{"down", 499},
		{"home", 0},
		{"G", 499},
		{"pgup", 499 - page},
		{"g", 0},
	} {
		m = press(m, c.key)
		test.Equal(t, "the row after "+c.key, m.at, c.want)
		test.Contains(t, "the screen after "+c.key, m.View().Content, "> WEB-"+fmt.Sprint(m.at+1))
	}
	m = read(m, many(3))
	test.Equal(t, "the row and the first row", [2]int{m.at, m.first}, [2]int{})
}

func TestFilter(t *testing.T) {
	m, s := newModel()
	rows := []view.Row{issue("held", "WEB-1"), issue("running", "WEB-2"), issue("ended", "API-2")}
	m = read(m, overview("shop", rows...))
	m = press(m, "/", "W", "e", "B", " ", "2")
	test.Equal(t, "the rows", order(m), "> WEB-2")
	m = press(m, "backspace")
	test.Equal(t, "the rows", order(m), "WEB-1 > WEB-2")
	// Keys are text in the filter, and keys again after enter.
	m = press(m, "s", "q")
	if len(s.run)+len(s.shown) > 0 || order(m) != "" ||
		!strings.Contains(m.View().Content, "no issue contains WeB sq") {
		t.Error(m.filter, order(m), s)
	}
	m = press(m, "backspace", "backspace", "backspace", "enter", "enter")
	test.Equal(t, "the filter", m.filter, "WeB")
	test.Equal(t, "how many commands are shown", len(s.shown), 1)
	m = press(m, "esc")
	test.Equal(t, "the rows without a filter", len(m.rows), 3)
	m = send(press(m, "/"), tea.PasteMsg{Content: "API-2\n"})
	test.Equal(t, "the rows", order(m), "> API-2")
	m = press(m, "esc")
	test.Equal(t, "the filter", m.filter, "")
	test.Equal(t, "the mode", m.mode, listing)
}

// Each key runs one of symphony's commands, which names the project.
func TestCommands(t *testing.T) {
	for key, want := range map[string]string{
		"enter": "symphony show WEB-1",
		"l":     "symphony logs WEB-1",
		"d":     "symphony diff WEB-1",
		"r":     "symphony retry WEB-1",
		"h":     "symphony stop WEB-1 --after-run",
		"p":     "symphony pause",
		"o":     "symphony show WEB-1 --web",
		"y":     "",
	} {
		m, s := newModel()
		m = press(read(m, overview("shop", issue("held", "WEB-1"))), key)
		if want != "" {
			want += " -w /home/u/shop/WORKFLOW.md --state-dir /states/shop"
		}
		test.Equal(t, key, strings.Join(append(s.run, s.shown...), "\n"), want)
		if len(s.run) > 0 &&
			!strings.Contains(strings.Join(strings.Fields(m.View().Content), " "), "$ "+want+" running") {
			t.Errorf("%s: not named:\n%s", key, m.View().Content)
		}
	}
	// The state directory is left out where the command finds it.
	m, s := newModel("SYMPHONY_STATE_DIR=/states/shop")
	press(read(m, overview("shop", issue("running", "WEB-1"))), "l")
	m, s2 := newModel()
	v := overview("shop", issue("running", "WEB-1"))
	v.Project.StateDir = "/home/u/.local/state/symphony/" + "shop"
	press(read(m, v), "l")
	got := append(s.shown, s2.shown...)
	test.Equal(t, "a command", got[0], "symphony logs WEB-1 --follow -w /home/u/shop/WORKFLOW.md")
	test.Contains(t, "another one", got[1], "--state-dir")
	// Without a row no key does anything.
	m, s = newModel()
	press(read(m), "enter", "l", "d", "a", "s", "r", "o", "h", "m", "c", "p", "space")
	if len(s.run)+len(s.shown) > 0 {
		t.Error(s)
	}
}

// m asks for the words to the agent, and says what becomes of them.
func TestTell(t *testing.T) {
	m, s := newModel("SYMPHONY_STATE_DIR=/states/shop")
	m = press(read(m, overview("shop", issue("handed_over", "WEB-1"))), "m", "N", "o", "t", "enter")
	test.Equal(t, "the command", s.run, []string{"symphony tell WEB-1 Not -w /home/u/shop/WORKFLOW.md"})
	m = press(m, "m", "enter", "q", "backspace", "esc")
	test.Contains(t, "the screen", m.View().Content, "nothing was changed", "m tell")
	m = send(press(m, "m"), tea.PasteMsg{Content: "line 1\nline 2"})
	test.Contains(t, "the screen", m.View().Content, "Tell WEB-1 (becomes a comment on WEB-1, which goes")
	m = press(m, "enter")
	test.Equal(t, "how many commands run", m.running, 2)
	test.Equal(t, "the command", s.run[1:], []string{"symphony tell WEB-1 'line 1\nline 2' -w /home/u/shop/WORKFLOW.md"})
}

func TestStopAsks(t *testing.T) {
	m, s := newModel()
	m = press(read(m, overview("shop", issue("running", "WEB-1"))), "s")
	test.Contains(
		t,
		"the screen",
		m.View().Content,
		"Stop WEB-1? Its run ends, and it is held until you retry it. [y]es, [N]o:",
	)
	m = press(m, "n")
	if !strings.Contains(m.View().Content, "nothing was changed") || len(s.run) > 0 {
		t.Error(s, m.View().Content)
	}
	m = press(m, "s", "y")
	if len(s.run) != 1 || !strings.HasPrefix(s.run[0], "symphony stop WEB-1 -w ") || m.running != 1 {
		t.Error(s)
	}
	m = send(
		m,
		endedMsg{
			command{words: []string{"stop", "WEB-1"}},
			[]string{"lock: another pass", "try later"},
			errors.New("exit status 4"),
			true,
		},
	)
	test.Equal(t, "how many commands run", m.running, 0)
	test.Contains(t, "the screen", m.View().Content, "$ symphony stop WEB-1\nlock: another pass\ntry later")
	test.Lacks(t, "the screen", press(m, "down").View().Content, "$ symphony")
}

// a shows the issue's first request with the command that decides it.
func TestAnswer(t *testing.T) {
	v := overview("shop", issue("asks", "WEB-1"), issue("asks", "WEB-2"), issue("running", "WEB-3"))
	v.Requests = []view.RequestRow{
		{Kind: reconcile.CommandRequest, Request: reconcile.Request{IssueID: "id WEB-1"}},
		{Kind: reconcile.QuestionRequest, Request: reconcile.Request{IssueID: "id WEB-2"}},
	}
	m, s := newModel("SYMPHONY_STATE_DIR=/states/shop")
	m = press(read(m, v), "a", "j", "a", "j", "a")
	test.Equal(t, "the commands", s.shown, []string{
		"symphony approve WEB-1 -w /home/u/shop/WORKFLOW.md", "symphony tell WEB-2 -w /home/u/shop/WORKFLOW.md",
	})
	test.Contains(t, "the screen", m.View().Content, "WEB-3 asks nothing")
}

// Space marks issues. The keys that act are then about all marked ones that are shown: one
// command for each project, after a question.
func TestMarks(t *testing.T) {
	m, s := newModel()
	m = send(m, readMsg{[]view.Overview{
		overview(
			"api",
			issue("held", "API-1"),
			issue("running", "API-2"),
		), overview("shop", issue("held", "WEB-1"), issue("held", "WEB-2")),
	}, nil})
	m = press(m, "space", "space", "j", "space")
	test.Contains(t, "the screen", m.View().Content, "* WEB-1", ">*API-2", "3 marked")
	m = press(m, "r")
	test.Contains(t, "the screen", m.View().Content, "Retry API-1, WEB-1, API-2? [y]es, [N]o:")
	m = press(m, "n")
	test.Equal(t, "the commands", s.run, nil)
	m = press(m, "r", "y")
	test.Equal(t, "the commands", s.run, []string{
		"symphony retry API-1 API-2 --yes -w /home/u/api/WORKFLOW.md --state-dir /states/api",
		"symphony retry WEB-1 -w /home/u/shop/WORKFLOW.md --state-dir /states/shop",
	})
	test.Equal(t, "how many commands run", m.running, 2)
	// An issue that the filter hides is left out. Requests are shown and asked about by the
	// command itself.
	m = press(m, "/", "a", "p", "i", "-", "enter", "a")
	test.Equal(
		t,
		"the commands",
		s.shown,
		[]string{"symphony approve API-1 API-2 -w /home/u/api/WORKFLOW.md --state-dir /states/api"},
	)
	// Escape unmarks.
	m = press(m, "esc", "esc", "G", "h")
	test.Equal(
		t,
		"the last command",
		s.run[2:],
		[]string{"symphony stop API-2 --after-run -w /home/u/api/WORKFLOW.md --state-dir /states/api"},
	)
	test.Lacks(t, "the screen", m.View().Content, "marked")
}

// t sorts, and the selection stays on its issue. p pauses the selected project, or resumes it.
func TestSortAndPause(t *testing.T) {
	m, s := newModel()
	v := overview("shop", issue("held", "WEB-10"), issue("running", "WEB-2"), issue("running", "WEB-1"))
	m = press(read(m, v), "t")
	test.Equal(t, "the rows", order(m), "WEB-1 WEB-2 > WEB-10")
	test.Contains(t, "the screen", m.View().Content, "sorted by issue")
	m = press(m, "t", "t", "t", "t")
	test.Equal(t, "the rows", order(m), "> WEB-10 WEB-2 WEB-1")
	v.Paused = true
	press(read(press(m, "p"), v), "p")
	const where = " -w /home/u/shop/WORKFLOW.md --state-dir /states/shop"
	test.Equal(t, "the commands", s.run, []string{"symphony pause" + where, "symphony resume" + where})
}

func TestHelp(t *testing.T) {
	m, s := newModel()
	m = press(read(m, many(1)), "?")
	for _, k := range keys() {
		test.Contains(t, "the help", m.View().Content, k.names+" ")
	}
	m = press(m, "s")
	if m.mode != listing || len(s.run) > 0 {
		t.Error(m.mode, s)
	}
}

// Whatever the size and the rows, every line fits, the last line is always there, and no escape
// sequence is drawn without colours and links.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringOfN(rapid.RuneFrom([]rune("ab日🚀é\u0301\n\x1b…→ ")), 0, 60, -1)
		m, _ := newModel("LANG=C")
		m = send(m, tea.WindowSizeMsg{
			Width:  rapid.IntRange(1, 200).Draw(t, "width"),
			Height: rapid.IntRange(1, 60).Draw(t, "height"),
		})
		var rows []view.Row
		for range rapid.IntRange(0, 30).Draw(t, "rows") {
			r := issue(rapid.SampledFrom(view.Statuses).Draw(t, "status"), texts.Draw(t, "identifier"))
			r.Title = texts.Draw(t, "title")
			r.Text = texts.Draw(t, "text")
			rows = append(rows, r)
		}
		m = send(m, readMsg{[]view.Overview{overview("a", rows...), overview("b", rows...)}, nil})
		m = send(m, logMsg{
			key:   m.log.key,
			lines: []eventlog.Line{{At: now, Kind: eventlog.Words, Text: texts.Draw(t, "log")}},
		})
		keys := rapid.SampledFrom(
			[]string{"down", "end", "/", "a", "enter", "esc", "?", "s", "y", "space", "h"},
		)
		m = press(m, rapid.SliceOfN(keys, 0, 6).Draw(t, "keys")...)
		text := m.View().Content
		lines := strings.Split(text, "\n")
		if len(lines) != m.height {
			t.Fatalf("%d lines on %d:\n%s", len(lines), m.height, text)
		}
		for _, line := range lines {
			if n := term.Cells(line); n > m.width {
				t.Fatalf("%q takes %d of %d", line, n, m.width)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
				t.Fatalf("%q has control characters", line)
			}
		}
	})
}
