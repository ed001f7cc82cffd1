package render

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
)

// Log describes how to print lines of a run's log.
type Log struct {
	Whole bool // print everything that is known of a line
	// Prompt is the command that prints a whole prompt.
	Prompt string
}

// logMargin is below the time of a line.
const logMargin = "          "

// markColours are the colours of the signs in front of lines.
var markColours = map[string]string{
	"?": term.ColourWaits,
	"…": term.ColourWaits,
	"✓": term.ColourRuns,
	"✗": term.ColourStuck,
}

// Print prints a line: the agent's words as they are, and everything else below them, with a
// mark. A command is cut at the terminal's edge.
func (o Log) Print(w *term.Env, l eventlog.Line) {
	if l.Kind == eventlog.Unknown {
		fmt.Fprintln(w.Stdout, text.Visible(l.Text))
		return
	}
	left := ""
	if !o.Whole {
		l, left = l.Short()
	}
	head := w.Dim(l.At.Local().Format(time.TimeOnly)) + "  "
	margin := logMargin
	if w.Piped() {
		head = text.Rfc3339(l.At) + "  "
	}
	for _, line := range o.text(w, l) {
		fmt.Fprintln(w.Stdout, head+line)
		head = margin
	}
	if !w.Piped() {
		margin += "    "
	}
	detail := func(line string) { fmt.Fprintln(w.Stdout, margin+line) }
	if left != "" && l.Kind != eventlog.Prompt {
		detail(w.Dim("… " + left + "; -v prints all"))
	}
	room := w.Width - len(margin)
	var change patch.Reader
	for _, line := range l.Detail {
		switch {
		case l.Kind == eventlog.Change:
			detail(w.PaintDiff(change.Line(line).Kind, text.Visible(line)))
			continue
		case l.Kind == eventlog.Prompt && !o.Whole && !w.Piped() && term.Cells(text.Visible(line)) > room:
			line = term.CutCells(text.Visible(line), room)
			left = cmp.Or(left, "the whole prompt")
		}
		for _, part := range wrapped(w, "", line, room) {
			if l.Kind == eventlog.Prompt {
				part = w.Dim(part)
			}
			detail(part)
		}
	}
	if left != "" && l.Kind == eventlog.Prompt {
		detail(w.Dim("… " + left + ": " + text.Visible(o.Prompt)))
	}
}

// LogLine is a line of a log in a line of a terminal, of at most width cells.
func LogLine(w *term.Env, l eventlog.Line, width int) string {
	l, _ = l.Short()
	return w.Dim(l.At.Local().Format(time.TimeOnly)) + "  " + cutLogText(w, l, width-len(logMargin))
}

// cutLogText is the text of a line behind its time, cut so that it takes at most width cells
// with its status and its ending.
func cutLogText(w *term.Env, l eventlog.Line, width int) string {
	label, ending := logLabel(w, l)
	said := text.Visible(strings.Join(strings.Fields(l.Text), " "))
	said = term.CutCells(said, width-term.Cells(label+ending))
	if l.Kind == eventlog.Words {
		said = w.Bold(said)
	}
	if ending != "" {
		ending = w.Red(ending)
	}
	return label + said + ending
}

// text is the text of a line behind its time.
func (o Log) text(w *term.Env, l eventlog.Line) (lines []string) {
	all := strings.Split(l.Text, "\n")
	room := w.Width - len(logMargin)
	if l.Kind == eventlog.Words {
		for _, line := range all {
			for _, part := range wrapped(w, "", line, room) {
				lines = append(lines, w.Bold(part))
			}
		}
		return lines
	}
	if l.Status != "" && !o.Whole && !w.Piped() {
		return []string{cutLogText(w, l, room)}
	}
	label, ending := logLabel(w, l)
	all[len(all)-1] += ending
	for _, line := range all {
		lines = append(lines, wrapped(w, label, line, room)...)
		label = strings.Repeat(" ", term.Cells(label))
	}
	return lines
}

// logLabel is the text before a line, a mark and how long a command took, and the text behind
// it, why the command failed.
func logLabel(w *term.Env, l eventlog.Line) (label, ending string) {
	if l.Kind == eventlog.Words {
		return "", ""
	}
	mark := l.Mark()
	label = w.Paint(markColours[mark], mark) + " "
	ending = l.Ending
	if l.DurationMS != nil {
		took := text.Took(*l.DurationMS)
		if !w.Piped() {
			took = fmt.Sprintf("%6s", took)
		}
		label += took + " "
	} else if !w.Piped() && l.Status != "" {
		label += strings.Repeat(" ", 7)
	}
	if !w.Piped() {
		label = "  " + label
	}
	if l.Status == eventlog.Unended {
		ending = "did not end"
	}
	if ending != "" {
		ending = " (" + ending + ")"
	}
	return label, ending
}

// wrapped returns a line behind a label in lines of the terminal's width. Lines keep their
// indentation.
func wrapped(w *term.Env, label, line string, width int) []string {
	line = text.Visible(strings.TrimRight(line, " \r\t"))
	if w.Piped() || term.Cells(label+line) <= width {
		return []string{label + line}
	}
	said := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(said)]
	return strings.Split(term.Hang(label+indent, said, width), "\n")
}
