package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

func sectionOf(title string, rows int) section {
	t := term.Table{Head: []string{"ISSUE"}}
	for i := range rows {
		t.Add(fmt.Sprintf("%s-%d", title[:1], i+1))
	}
	return section{title, t}
}

// What does not fit is left out of the longest part, and counted.
func TestFit(t *testing.T) {
	w := testWorld()
	w.Width = 40
	top, bottom := []string{"top"}, []string{"bottom"}
	for _, c := range []struct {
		rows     int
		sections []section
		want     string
	}{
		{20, []section{sectionOf("RUN", 2), sectionOf("WAIT", 3)}, "top/RUN/  ISSUE/  R-1/  R-2/WAIT/  ISSUE/  W-1/  W-2/  W-3/bottom"},
		{11, []section{sectionOf("RUN", 2), sectionOf("WAIT", 3)}, "top/RUN/  ISSUE/  R-1/  R-2/WAIT/  ISSUE/  W-1/  W-2/  W-3/bottom"},
		{11, []section{sectionOf("RUN", 2), sectionOf("WAIT", 99)}, "top/RUN/  ISSUE/  R-1/  R-2/WAIT/  ISSUE/  W-1/  W-2/  … 97 more/bottom"},
		{9, []section{sectionOf("RUN", 9), sectionOf("WAIT", 9)}, "top/RUN/  ISSUE/  … 9 more/WAIT/  ISSUE/  … 9 more/bottom"},
		{6, []section{sectionOf("RUN", 9), sectionOf("WAIT", 9)}, "top/RUN/  ISSUE/  … 9 more/… 3 lines more/bottom"},
		{2, []section{sectionOf("RUN", 9)}, "… 4 lines more/bottom"},
		{1, []section{sectionOf("RUN", 9)}, "… 4 lines more"},
		{0, nil, ""},
	} {
		got := strings.Join(fitRows(w, slices.Clone(top), c.sections, bottom, c.rows), "/")
		if got != c.want {
			t.Errorf("in %d rows: %s, want %s", c.rows, got, c.want)
		}
	}
}

// A frame never has more lines or cells than the terminal, whatever there is to say.
func TestFrameFits(t *testing.T) {
	w := testWorld()
	w.Colour = true
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	v := view{GeneratedAt: now, Paused: true, Requests: []pendingRow{{ID: "ABC-1.1", Kind: "command", Summary: strings.Repeat("🚀", 80), ExpiresAt: now}}}
	for i := range 60 {
		v.Held = append(v.Held, heldRow{Identifier: fmt.Sprint("ABC-", i), Reason: "operator", Message: strings.Repeat("日本", 50), HeldAt: now})
		v.Retrying = append(v.Retrying, retryingRow{Identifier: fmt.Sprint("XYZ-", i), Kind: "backoff", DueAt: now.Add(time.Hour)})
	}
	for columns := 1; columns < 130; columns += 7 {
		for rows := 1; rows < 200; rows += 9 {
			lines := watchFrame(w, v, nil, columns, rows)
			if len(lines) > rows {
				t.Fatalf("%d lines in %d rows", len(lines), rows)
			}
			for _, line := range lines {
				if n := term.Cells(line); n > columns {
					t.Fatalf("%d cells in %d: %q", n, columns, line)
				}
			}
		}
	}
}

// Who waits for an answer comes first; what could not be read is said above that.
func TestFrame(t *testing.T) {
	w := testWorld()
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	v := view{
		GeneratedAt: now, Counts: viewCounts{Running: 1}, Project: projectRow{WorkflowPath: "/home/ann/web-shop/WORKFLOW.md"},
		Running: []runningRow{{Identifier: "ABC-1", State: "Todo", Phase: "streaming_turn", Alive: true, StartedAt: now.Add(-time.Minute), WaitsFor: []string{"ABC-1.1"}}},
		Requests: []pendingRow{{
			ID: "ABC-1.1", Identifier: "ABC-1", Kind: "command", Summary: "make\x1b[2J", Outside: true, AskedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour),
		}},
	}
	got := watchFrame(w, v, &reconcile.Error{Code: "state_io", Message: "no luck"}, 80, 24)
	want := []string{
		"ERROR    state_io: no luck; what follows is the last that could be read",
		"REQUESTS",
		"  REQUEST  KIND     ASKED      LEFT   SUMMARY",
		`  ABC-1.1  command  1m00s ago  1h00m  outside the sandbox: make\x1b[2J`,
		"RUNNING",
		"  ISSUE  STATE  PHASE         TURN  AGE    TOKENS  LAST EVENT",
		"  ABC-1  Todo   asks ABC-1.1  0     1m00s  0",
		"1 running, 0 waiting, 0 held, 0 skipped; no schedule is active: nothing is star…",
	}
	if diff := cmp.Diff(want, got[1:]); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(got[0], "symphony ps  web-shop  ") {
		t.Errorf("its title is %q", got[0])
	}
}

// A line that fills its row keeps its last character: erasing behind it would take that.
func TestFrameOf(t *testing.T) {
	for _, c := range []struct {
		lines         []string
		columns, rows int
		want          string
	}{
		{[]string{"ab", "cde"}, 3, 2, "\x1b[Hab\x1b[K\r\n\x1b[Kcde"},
		{[]string{"cde", "a"}, 3, 4, "\x1b[H\x1b[Kcde\r\na\x1b[K\r\n\x1b[J"},
		{nil, 3, 2, "\x1b[H\r\n\x1b[J"},
	} {
		if diff := cmp.Diff(c.want, frameOf(c.lines, c.columns, c.rows)); diff != "" {
			t.Error(diff)
		}
	}
}

// What is shown already is not written again.
func TestPaintOnce(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s := newScreen(strings.NewReader(""), out)
	want := ""
	for _, lines := range [][]string{{"a"}, {"a"}, {"b"}, {"b"}} {
		if err := s.paint(lines, 3, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"a", "b"} {
		want += frameOf([]string{line}, 3, 1)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil || string(got) != want {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}
