package term

import "strings"

// How things stand, in colours: what runs is green, what waits yellow, what is stuck red, what is over dim.
const (
	ColourRuns  = "32"
	ColourWaits = "33"
	ColourStuck = "31"
	ColourOver  = "2"
)

// plainText ends a colour.
const PlainText = "\x1b[0m"

// PaintDiff colours one line of a diff.
func (w *Env) PaintDiff(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return w.Bold(line)
	case strings.HasPrefix(line, "+"):
		return w.Paint(ColourRuns, line)
	case strings.HasPrefix(line, "-"):
		return w.Paint(ColourStuck, line)
	case strings.HasPrefix(line, "@@"):
		return w.Paint("36", line)
	}
	return line
}
