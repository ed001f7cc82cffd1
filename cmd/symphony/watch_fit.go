package main

import "fmt"

// fit puts the parts below each other in so many rows. Where they do not fit, the longest sections are shortened to the
// same length, and each says how many rows it has more; where not even that fits, so does the page.
func fitRows(w *world, top []string, sections []section, bottom []string, rows int) []string {
	most := mostRows(sections)
	for most > 0 && len(top)+heightOf(sections, most)+len(bottom) > rows {
		most--
	}
	lines := top
	for _, s := range sections {
		n := min(len(s.table.rows), most)
		lines = append(lines, w.bold(s.title))
		lines = append(lines, s.table.lines(w, n)...)
		if left := len(s.table.rows) - n; left > 0 {
			lines = append(lines, w.dim(fmt.Sprintf("  … %d more", left)))
		}
	}
	if room := max(rows-len(bottom), 0); len(lines) > room {
		keep := max(room-1, 0)
		left := len(lines) - keep
		lines = append(lines[:keep], w.dim(fmt.Sprintf("… %s more", plural(left, "line"))))
	}
	lines = append(lines, bottom...)
	return lines[:min(len(lines), max(rows, 0))]
}

func mostRows(sections []section) int {
	n := 0
	for _, s := range sections {
		n = max(n, len(s.table.rows))
	}
	return n
}

// heightOf is what the sections take with at most so many rows each.
func heightOf(sections []section, most int) int {
	n := 0
	for _, s := range sections {
		n += 2 + min(len(s.table.rows), most)
		if len(s.table.rows) > most {
			n++
		}
	}
	return n
}
