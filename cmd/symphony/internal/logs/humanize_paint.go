package logs

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The colours of what is said about an event, and of the lines of a diff.
const (
	tonePlain = ""
	toneGood  = "32"
	toneBad   = "31"
	toneVoice = "1"
	toneHunk  = "36"
)

// toneOf says how the kind of an event is shown: what failed in red, what succeeded in green, who speaks in bold.
func toneOf(e agent.EventLine) string {
	item := itemOf(e)
	switch {
	case e.Method == "item/started":
		return tonePlain
	case item.ExitCode != nil && *item.ExitCode == 0:
		return toneGood
	case item.ExitCode != nil, item.failed(), item.Status == "declined", e.Method == "error":
		return toneBad
	case item.Type == "agentMessage", e.Event == agent.EventPrompt:
		return toneVoice
	case strings.HasSuffix(e.Event, "_failed"), strings.HasSuffix(e.Event, "_error"), strings.HasSuffix(e.Event, "_required"):
		return toneBad
	case strings.HasSuffix(e.Event, "_completed"):
		return toneGood
	}
	return tonePlain
}

// painter gives the lines of an event their colours, one after the other: the first has its kind coloured, the others
// what they add and take away, where the event is a change of files.
func linePainter(w *term.Env, e agent.EventLine) func(line string) string {
	if !w.Colour {
		return func(line string) string { return line }
	}
	first, diff := true, itemOf(e).Type == "fileChange"
	return func(line string) string {
		switch {
		case first:
			first = false
			return paintKind(w, toneOf(e), line)
		case diff:
			return render.PaintDiff(w, line)
		}
		return line
	}
}

// paintKind colours what stands before the text of an event.
func paintKind(w *term.Env, tone, line string) string {
	if tone == tonePlain {
		return line
	}
	kind, _, _ := strings.Cut(line, ": ")
	return w.Paint(tone, kind) + line[len(kind):]
}
