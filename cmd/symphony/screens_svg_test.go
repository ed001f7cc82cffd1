package main

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// svgCmd runs a command in a terminal and compares what it shows, in colours, with
// docs/screens/NAME.svg: svg NAME COLUMNS ROWS COMMAND
func svgCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := startScreens(ts)
	defer m.end(ts)
	text, _ := screenOf(ts, m, args[3], args[1], args[2], "-e")
	picture := svgOf("symphony "+args[3], plainScreen(ts, text), test.Must(strconv.Atoi(args[1])))
	compareScreens(ts, filepath.Join(moduleRoot, "docs", "screens", args[0]+".svg"), picture)
}

// The measures of a picture in pixels, and its colours.
const (
	cellWidth, lineHeight, fontSize = 8.4, 19, 14
	pictureMargin, titleHeight      = 16, 36
	background, foreground          = "#1c2128", "#d0d7de"
)

// svgColours maps the parameters of the escape sequences of colours to those of the picture.
var svgColours = map[string]string{
	"31": "#ff7b72",
	"32": "#7ee787",
	"33": "#e3b341",
	"34": "#79c0ff",
	"36": "#76e3ea",
	"90": "#8b949e",
}

// wordsOfSVG finds words with single blanks between them: not every program that draws
// pictures keeps more blanks.
var wordsOfSVG = regexp.MustCompile(`[^ ]+(?: [^ ]+)*`)

var svgEscape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// svgOf draws a text with the escape sequences of colours as a terminal of this many columns
// shows it.
func svgOf(title, text string, columns int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	width := float64(columns)*cellWidth + 2*pictureMargin
	height := titleHeight + len(lines)*lineHeight + pictureMargin
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img" aria-label="%s">`+"\n",
		width,
		height,
		width,
		height,
		html.EscapeString(title),
	)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for i, colour := range []string{"#ff5f56", "#ffbd2e", "#27c93f"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="5.5" fill="%s"/>`+"\n", 20+18*i, colour)
	}
	fmt.Fprintf(
		&b,
		`<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="%d" fill="%s">`+"\n",
		fontSize,
		foreground,
	)
	fmt.Fprintf(
		&b,
		`<text x="%.0f" y="23" text-anchor="middle" fill="#8b949e">%s</text>`+"\n",
		width/2,
		html.EscapeString(title),
	)
	var style svgStyle
	for i, line := range lines {
		y := titleHeight + (i+1)*lineHeight - 5
		column := 0
		for line != "" {
			at := svgEscape.FindStringSubmatchIndex(line)
			if at == nil {
				at = []int{len(line), len(line), len(line), len(line)}
			}
			run := line[:at[0]]
			for _, words := range wordsOfSVG.FindAllStringIndex(run, -1) {
				x := column + term.Cells(run[:words[0]])
				shown := run[words[0]:words[1]]
				fmt.Fprintf(
					&b,
					`<text x="%.1f" y="%d" textLength="%.1f"%s>%s</text>`+"\n",
					pictureMargin+float64(x)*cellWidth,
					y,
					float64(term.Cells(shown))*cellWidth,
					style.attributes(),
					html.EscapeString(shown),
				)
			}
			column += term.Cells(run)
			if at[0] < len(line) {
				style = style.after(line[at[2]:at[3]])
			}
			line = line[at[1]:]
		}
	}
	return b.String() + "</g>\n</svg>\n"
}

// svgStyle is how a text is drawn.
type svgStyle struct {
	bold, dim bool
	colour    string
}

// after returns the style after an escape sequence with these parameters.
func (s svgStyle) after(parameters string) svgStyle {
	for p := range strings.SplitSeq(parameters, ";") {
		switch p {
		case "", "0":
			s = svgStyle{}
		case "1":
			s.bold = true
		case "2":
			s.dim = true
		case "22":
			s.bold = false
			s.dim = false
		default:
			s.colour = svgColours[p] // none for 39
		}
	}
	return s
}

// attributes are those of an element of the picture.
func (s svgStyle) attributes() (text string) {
	if s.bold {
		text += ` font-weight="bold"`
	}
	if s.dim {
		text += ` opacity="0.6"`
	}
	if s.colour != "" {
		text += ` fill="` + s.colour + `"`
	}
	return text
}
