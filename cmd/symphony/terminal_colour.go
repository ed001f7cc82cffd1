package main

// How things stand, in colours: what runs is green, what waits yellow, what is stuck red, what is over dim.
const (
	colourRuns  = "32"
	colourWaits = "33"
	colourStuck = "31"
	colourOver  = "2"
)

// plainText ends a colour.
const plainText = "\x1b[0m"

func (w *world) green(s string) string { return w.paint(colourRuns, s) }
