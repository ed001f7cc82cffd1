package page

import (
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// diffBlock is a part of a diff: lines of one kind, or lines that others replace, which a wide
// window shows side by side.
type diffBlock struct {
	Kind  string // pair, hunk, note, or empty for lines that are the same
	Lines []diffLine
}

// blocksOf divides the diff of a file, gives it the colours of its language, and marks the
// words in which a line differs from the one that it replaces.
func blocksOf(file string, lines []diffLine) (blocks []diffBlock) {
	colourLines(file, lines)
	before := ""
	for _, l := range lines {
		kind := l.Kind
		if kind == "add" || kind == "del" {
			kind = "pair"
		}
		last := len(blocks) - 1
		if last < 0 || blocks[last].Kind != kind || l.Kind == "del" && before == "add" {
			blocks = append(blocks, diffBlock{Kind: kind})
			last = last + 1
		}
		blocks[last].Lines = append(blocks[last].Lines, l)
		before = l.Kind
	}
	for _, b := range blocks {
		added := len(text.Filter(b.Lines, func(l diffLine) bool { return l.Kind == "add" }))
		removed := len(b.Lines) - added
		for n := range min(added, removed) {
			if b.Kind == "pair" {
				markWords(&b.Lines[n], &b.Lines[removed+n])
			}
		}
	}
	return blocks
}

// changeBlocks divides the patch of a request. It shows each line of it, whatever the heads of
// the hunks claim.
func changeBlocks(c reconcile.RequestChange) []diffBlock {
	return blocksOf(c.Path, diffLines(eventlog.AsDiff(c)))
}

// diffLines divides a diff into lines.
func diffLines(diff string) (list []diffLine) {
	isDiff := strings.HasPrefix(diff, "@@") || strings.Contains(diff, "\n@@")
	for line := range strings.Lines(diff) {
		l := diffLine{Text: strings.TrimSuffix(line, "\n")}
		switch {
		case strings.HasPrefix(line, "@@"):
			l.Kind = "hunk"
		case strings.HasPrefix(line, "+"):
			l.Kind = "add"
			l.Text = l.Text[1:]
		case strings.HasPrefix(line, "-"):
			l.Kind = "del"
			l.Text = l.Text[1:]
		case isDiff:
			l.Text = strings.TrimPrefix(l.Text, " ")
		}
		l.Text = text.VisibleLines(l.Text)
		list = append(list, l)
	}
	return list
}

var diffWord = text.Pattern(`[\pL\pN_]+|\s+|.`)

// markWords marks what two lines do not have in common between their first and last words,
// unless they differ in most of them.
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
