package main

import (
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// fit puts the parts below each other in so many rows. Where they do not fit, the longest sections are shortened to the
// same length, and each says how many rows it has more; where not even that fits, so does the page.
func fitRows(w *term.Env, top []string, sections []section, bottom []string, rows int) []string {
	most := mostRows(sections)
	for most > 0 && len(top)+heightOf(sections, most)+len(bottom) > rows {
		most--
	}
	lines := top
	for _, s := range sections {
		n := min(len(s.table.Rows), most)
		lines = append(lines, w.Bold(s.title))
		lines = append(lines, s.table.Lines(w, n)...)
		if left := len(s.table.Rows) - n; left > 0 {
			lines = append(lines, w.Dim(fmt.Sprintf("  … %d more", left)))
		}
	}
	if room := max(rows-len(bottom), 0); len(lines) > room {
		keep := max(room-1, 0)
		left := len(lines) - keep
		lines = append(lines[:keep], w.Dim(fmt.Sprintf("… %s more", text.Plural(left, "line"))))
	}
	lines = append(lines, bottom...)
	return lines[:min(len(lines), max(rows, 0))]
}

func mostRows(sections []section) int {
	n := 0
	for _, s := range sections {
		n = max(n, len(s.table.Rows))
	}
	return n
}

// heightOf is what the sections take with at most so many rows each.
func heightOf(sections []section, most int) int {
	n := 0
	for _, s := range sections {
		n += 2 + min(len(s.table.Rows), most)
		if len(s.table.Rows) > most {
			n++
		}
	}
	return n
}
