package main

import (
	"fmt"
	"math"
	"strings"
)

// The plot's place and size, in pixels.
const (
	plotLeft, plotTop     = 70, 30
	plotWidth, plotHeight = 480, 300
)

// axis maps a logarithmic range of whole decades to pixels.
type axis struct{ from, to, at, length float64 }

func decades(values []float64, at, length float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), at, length}
	for _, v := range values {
		a.from, a.to = min(a.from, math.Floor(math.Log10(v))), max(a.to, math.Ceil(math.Log10(v)))
	}
	return a
}

func (a axis) pixel(v float64) float64 {
	return a.at + a.length*(math.Log10(v)-a.from)/(a.to-a.from)
}

// plot draws the CPU time by the number of claims, and a line that grows as they do.
func plot(points []point) string {
	var ns, all []float64
	last := points[len(points)-1]
	for _, p := range points {
		ns, all = append(ns, p.n), append(all, p.ms)
	}
	x, y := decades(ns, plotLeft, plotWidth), decades(all, plotTop+plotHeight, -plotHeight)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotLeft+plotWidth+40, plotTop+plotHeight+60)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for e := x.from; e <= x.to; e++ {
		v := math.Pow(10, e)
		rule(&out, x.pixel(v), plotTop, x.pixel(v), plotTop+plotHeight, `stroke="#ddd"`)
		label(&out, x.pixel(v), plotTop+plotHeight+18, "middle", fmt.Sprintf("%.0f", v))
	}
	for e := y.from; e <= y.to; e++ {
		v := math.Pow(10, e)
		rule(&out, plotLeft, y.pixel(v), plotLeft+plotWidth, y.pixel(v), `stroke="#ddd"`)
		label(&out, plotLeft-8, y.pixel(v)+4, "end", fmt.Sprintf("%.0f ms", v))
	}
	// In step with the claims, through the last point, as far down as the plot goes.
	low := max(points[0].n, last.n*math.Pow(10, y.from)/last.ms)
	rule(&out, x.pixel(low), y.pixel(last.ms*low/last.n), x.pixel(last.n), y.pixel(last.ms), `stroke="#999" stroke-dasharray="5 4"`)
	var line []string
	for _, p := range points {
		line = append(line, fmt.Sprintf("%.1f,%.1f", x.pixel(p.n), y.pixel(p.ms)))
	}
	fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="#1f6feb" stroke-width="2"/>`+"\n", strings.Join(line, " "))
	for _, p := range points {
		fmt.Fprintf(&out, `<circle cx="%.1f" cy="%.1f" r="4" fill="#1f6feb"/>`+"\n", x.pixel(p.n), y.pixel(p.ms))
		label(&out, x.pixel(p.n)-6, y.pixel(p.ms)-10, "end", shown(p.ms, "ms"))
	}
	label(&out, plotLeft+plotWidth/2, plotTop+plotHeight+42, "middle", "claims, and as many candidates, all changed; dashed: in step with the claims")
	label(&out, plotLeft, plotTop-12, "start", fmt.Sprintf("CPU of a pass; exponent %.2f", exponent(points)))
	out.WriteString("</svg>\n")
	return out.String()
}

func rule(out *strings.Builder, x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

func label(out *strings.Builder, x, y float64, anchor, text string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#333">%s</text>`+"\n", x, y, anchor, text)
}
