package page

import (
	"fmt"
	"html"
	"html/template"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// column is a bar of a plot.
type column struct {
	value float64
	label string // the text of the bar under the pointer
	class string
}

// The sizes of plots with columns, in units of the drawing; on a page they are about pixels.
const (
	plotWidth  = 360.0
	plotHeight = 48.0
	passRoom   = 20
)

// columns draws bars side by side, right-aligned where there is room for more of them. The
// label describes them to readers who do not see them.
func columns(label string, bars []column, room int) template.HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value)
	}
	var svg strings.Builder
	fmt.Fprintf(
		&svg,
		`<svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s">`,
		plotWidth,
		plotHeight+1,
		html.EscapeString(label),
	)
	step := plotWidth / float64(room)
	gap := min(step/4, 5)
	for i, b := range bars {
		height := 0.0
		if most > 0 {
			height = b.value / most * plotHeight
		}
		if b.value > 0 {
			height = max(height, 2)
		}
		x := float64(room-len(bars)+i) * step
		// The first rectangle takes the pointer, also above a low bar.
		fmt.Fprintf(
			&svg,
			`<g><title>%s</title><rect class="space" x="%.1f" width="%.1f" height="%g"/>`+
				`<rect class="mark %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="1.5"/></g>`,
			html.EscapeString(b.label),
			x,
			step,
			plotHeight,
			b.class,
			x+gap/2,
			plotHeight-height,
			step-gap,
			height,
		)
	}
	fmt.Fprintf(&svg, `<path class="axis" d="M0 %gH%g"/></svg>`, plotHeight+0.5, plotWidth)
	return template.HTML(svg.String()) // numbers and escaped text
}

// meter draws how much of something is used. Slots are there to be used; nearly all of
// anything else is a warning.
func meter(kind string, used, most float64, label string) template.HTML {
	share := 0.0
	if most > 0 {
		share = min(max(used/most, 0), 1)
	}
	class := "mark"
	switch {
	case kind == "slots":
	case share > 0.9:
		class = "warn"
	}
	const drawing = `<svg class="plot meter" viewBox="0 0 %g 6" preserveAspectRatio="none" ` +
		`role="img" aria-label="%s">` +
		`<rect class="rest" width="%g" height="6" rx="3"/><rect class="%s" width="%.1f" height="6" rx="3"/></svg>`
	// escaped
	return template.HTML(
		fmt.Sprintf(drawing, plotWidth, html.EscapeString(label), plotWidth, class, share*plotWidth),
	)
}

// part is a part of a bar that is 100 wide.
type part struct {
	Name, Class string
	Count       int64
	X, Width    float64
}

// divide gives each part its place in the bar, and leaves out parts without a count.
func divide(parts []part) []part {
	parts = text.Filter(parts, func(p part) bool { return p.Count > 0 })
	all := int64(0)
	x := 0.0
	for _, p := range parts {
		all += p.Count
	}
	for i := range parts {
		parts[i].X = x
		parts[i].Width = 100 * float64(parts[i].Count) / float64(all)
		x += parts[i].Width
	}
	return parts
}
