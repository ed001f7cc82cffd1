package page

import (
	"html"
	"html/template"
	"strings"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// diffLine is a line of a diff.
type diffLine struct {
	Kind     patch.LineKind // no name and no head
	Old, New int            // its line numbers; 0 where the line is missing
	Text     string         // without the sign
	// From and Till are the beginning and the end of the difference, in a line that another
	// replaces.
	From, Till int
	Colours    []colour // of Text, in order; none if its language is not known
}

// diffBlock is a part of a diff: lines of the same kind, or lines that others replace, which a
// wide window shows side by side.
type diffBlock struct {
	Kind  patch.LineKind // hunk, note, pair, or empty for lines that are the same
	Lines []diffLine
}

// pair is the kind of a block of lines that are removed, added, or replace each other.
const pair patch.LineKind = "pair"

// blocksOf divides the diff of a file, gives it the colours of its language, and marks the
// words in which a line differs from the line that it replaces.
func blocksOf(file string, lines []diffLine) (blocks []diffBlock) {
	colourLines(file, lines)
	before := patch.LineKept
	for _, l := range lines {
		kind := l.Kind
		if kind == patch.LineAdded || kind == patch.LineRemoved {
			kind = pair
		}
		last := len(blocks) - 1
		if last < 0 || blocks[last].Kind != kind || l.Kind == patch.LineRemoved && before == patch.LineAdded {
			blocks = append(blocks, diffBlock{Kind: kind})
			last++
		}
		blocks[last].Lines = append(blocks[last].Lines, l)
		before = l.Kind
	}
	for _, b := range blocks {
		if b.Kind != pair {
			continue
		}
		added := len(text.Filter(b.Lines, func(l diffLine) bool { return l.Kind == patch.LineAdded }))
		removed := len(b.Lines) - added // they come first
		for n := range min(added, removed) {
			markWords(&b.Lines[n], &b.Lines[removed+n])
		}
	}
	return blocks
}

// changeBlocks divides the patch of a request. It shows each line of it, whatever the heads of
// the hunks claim.
func changeBlocks(c reconcile.RequestChange) []diffBlock {
	return blocksOf(c.Path, linesOf(c.Diff))
}

// linesOf divides a diff of an agent into lines. It leaves none out.
func linesOf(diff string) (list []diffLine) {
	var read patch.Reader
	for line := range strings.Lines(diff) {
		l := read.Line(strings.TrimSuffix(line, "\n"))
		if l.Kind == patch.LineName || l.Kind == patch.LineHead {
			l.Kind = patch.LineKept
		}
		list = append(list, diffLine{Kind: l.Kind, Text: text.VisibleLines(l.Text)})
	}
	return list
}

var diffWord = text.Pattern(`[\pL\pN_]+|\s+|.`)

// markWords marks the differences of two lines, between their common first and last words,
// unless they differ in most words.
func markWords(old, now *diffLine) {
	a := diffWord().FindAllString(old.Text, -1)
	b := diffWord().FindAllString(now.Text, -1)
	from := 0
	end := 0
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	for end < min(len(a), len(b))-from && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if 3*(from+end) < max(len(a), len(b)) {
		return
	}
	old.From = len(strings.Join(a[:from], ""))
	now.From = len(strings.Join(b[:from], ""))
	old.Till = len(strings.Join(a[:len(a)-end], ""))
	now.Till = len(strings.Join(b[:len(b)-end], ""))
}

// colourLines gives the lines of a file's diff their colours. It assumes that each hunk begins
// outside of comments and strings.
func colourLines(file string, lines []diffLine) {
	known, ok := languageOf(file)
	if !ok {
		return
	}
	begin := scanner{language: known}
	old := begin
	now := begin
	for i := range lines {
		l := &lines[i]
		switch l.Kind {
		case patch.LineHunk:
			old = begin
			now = begin
		case patch.LineNote:
		case patch.LineRemoved:
			l.Colours = old.line(l.Text)
		case patch.LineAdded:
			l.Colours = now.line(l.Text)
		default:
			l.Colours = now.line(l.Text)
			old.open = now.open
		}
	}
}

// Code draws the text of the line with its colours and its mark.
func (l diffLine) Code() template.HTML {
	var out strings.Builder
	at := 0
	draw := func(class string, end int) {
		if at >= end {
			return
		}
		shown := html.EscapeString(l.Text[at:end])
		if class != "" {
			shown = `<i class="` + class + `">` + shown + "</i>"
		}
		out.WriteString(shown)
		at = end
	}
	for _, c := range append(l.Colours, colour{"", len(l.Text)}) {
		if at <= l.From && l.From < c.end && l.From < l.Till {
			draw(c.class, l.From)
			out.WriteString("<mark>")
		}
		if at < l.Till && l.Till <= c.end && l.From < l.Till {
			draw(c.class, l.Till)
			out.WriteString("</mark>")
		}
		draw(c.class, c.end)
	}
	return template.HTML(out.String()) //nolint:gosec // tags of ours, and escaped text
}

// diffLines is the data of the template "diff-lines".
type diffLines struct {
	Label  string
	Blocks []diffBlock
	Split  bool // old and new lines are side by side where the window is wide
}

func newDiffLines(label string, blocks []diffBlock, split bool) diffLines {
	return diffLines{Label: label, Blocks: blocks, Split: split}
}
