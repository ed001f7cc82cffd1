package render

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// paintDiff colours one line of a diff.
func PaintDiff(w *term.Env, line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return w.Bold(line)
	case strings.HasPrefix(line, "+"):
		return w.Paint(term.ColourRuns, line)
	case strings.HasPrefix(line, "-"):
		return w.Paint(term.ColourStuck, line)
	case strings.HasPrefix(line, "@@"):
		return w.Paint("36", line)
	}
	return line
}
