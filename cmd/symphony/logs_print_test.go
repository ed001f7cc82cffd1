package main

import (
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
)

// A line that is no event is shown as it stands, whatever wrote it: with a time of its own nobody has given it one.
func TestLinesThatAreNoEvents(t *testing.T) {
	for line, want := range map[string]string{
		"":                    "\n",
		"null":                "null\n",
		"{}":                  "{}\n",
		`[1]`:                 "[1]\n",
		`{"at":17,"event":3}`: `{"at":17,"event":3}` + "\n",
		"cut \x1b[2J \x9b":    `cut \x1b[2J \x9b` + "\n",
		`{"at":"2026-01-31T18:00:00.5Z","event":"notification"}`: "2026-01-31T18:00:00.5Z  notification\n",
	} {
		w := testWorld()
		var out strings.Builder
		w.Stdout = &out
		logs.ShowEvent((&project.Project{Env: w}), []byte(line))
		if out.String() != want {
			t.Errorf("%q is shown as %q, not %q", line, out.String(), want)
		}
	}
}

// A terminal has the time of day here, a pipe the whole time.
func TestEventTime(t *testing.T) {
	w, at := testWorld(), time.Date(2026, 1, 31, 18, 0, 0, 500, time.FixedZone("", 7200))
	if got := logs.EventTime(w, at); got != "2026-01-31T16:00:00.0000005Z" {
		t.Errorf("in a pipe it is %s", got)
	}
	w.Width = 80
	if got := logs.EventTime(w, at); got != at.Local().Format(time.TimeOnly) {
		t.Errorf("on a terminal it is %s", got)
	}
}
