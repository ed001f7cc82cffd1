package term

import "strings"

// The colours of rows: green for what runs, yellow for what waits, red for what needs an operator, dim for what is over.
const (
	ColourRuns  = "32"
	ColourWaits = "33"
	ColourStuck = "31"
	ColourOver  = "2"
)

// PlainText ends a colour.
const PlainText = "\x1b[0m"

// Paint colours a text where colours are shown. An empty code is no colour.
func (w *Env) Paint(code, s string) string {
	if !w.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + PlainText
}

// Bold, Dim, Red, Green and Yellow paint a text so.
func (w *Env) Bold(s string) string   { return w.Paint("1", s) }
func (w *Env) Dim(s string) string    { return w.Paint(ColourOver, s) }
func (w *Env) Red(s string) string    { return w.Paint(ColourStuck, s) }
func (w *Env) Green(s string) string  { return w.Paint(ColourRuns, s) }
func (w *Env) Yellow(s string) string { return w.Paint(ColourWaits, s) }

// PaintDiff colours one line of a diff.
func (w *Env) PaintDiff(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return w.Bold(line)
	case strings.HasPrefix(line, "+"):
		return w.Green(line)
	case strings.HasPrefix(line, "-"):
		return w.Red(line)
	case strings.HasPrefix(line, "@@"):
		return w.Paint("36", line) // cyan
	}
	return line
}
