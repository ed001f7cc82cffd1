package term

// How things stand, in colours: what runs is green, what waits yellow, what is stuck red, what is over dim.
const (
	ColourRuns  = "32"
	ColourWaits = "33"
	ColourStuck = "31"
	ColourOver  = "2"
)

// plainText ends a colour.
const PlainText = "\x1b[0m"
