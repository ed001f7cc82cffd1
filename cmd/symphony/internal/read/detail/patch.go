package detail

import (
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
)

// FileStat counts the changes of a file in a diff.
type FileStat struct {
	Path    string `json:"path"` // after the change
	Added   int    `json:"lines_added"`
	Removed int    `json:"lines_removed"`
	// Binary: git counts no lines of it.
	Binary bool `json:"binary"`
	// NotCommitted: the changes are not committed. A file can have both kinds, and then comes
	// twice.
	NotCommitted bool `json:"not_committed"`

	Change Change `json:"-"`
	// From is the path of a renamed file before.
	From string `json:"-"`
}

// Change is what happened to a file.
type Change string

// The changes of files.
const (
	FileChanged Change = "changed"
	FileAdded   Change = "added"
	FileDeleted Change = "deleted"
	FileRenamed Change = "renamed"
)

// LineKind is the kind of a line of a diff.
type LineKind string

// The kinds of lines.
const (
	LineHead    LineKind = "head" // before the first hunk of a file
	LineHunk    LineKind = "hunk" // "@@ -1,3 +1,4 @@ func main() {"
	LineAdded   LineKind = "add"
	LineRemoved LineKind = "del"
	LineKept    LineKind = ""
	LineNote    LineKind = "note" // "\ No newline at end of file"
)

// PatchLine is a line of a diff.
type PatchLine struct {
	Kind     LineKind
	Old, New int    // its numbers; 0 where the line is missing
	Text     string // without the sign
}

// Patch reads a diff line by line, as git writes it. The content is not trusted: the heads of
// hunks tell which lines are content. "@@ -1,3 +1,4 @@" is followed by three old and four new
// ones, even if one of them begins with "diff --git".
type Patch struct {
	Files []FileStat // so far

	oldLeft, newLeft int // lines of the hunk
	old, new         int // the next numbers
	notCommitted     bool
}

// Line reads the next line.
func (p *Patch) Line(line string) PatchLine {
	note, isNote := strings.CutPrefix(line, `\`)
	if isNote && len(p.Files) > 0 {
		return PatchLine{Kind: LineNote, Text: strings.TrimPrefix(note, " ")}
	}
	if p.oldLeft > 0 || p.newLeft > 0 {
		return p.content(line)
	}
	both, begins := strings.CutPrefix(line, "diff --git ")
	switch {
	case begins:
		p.Files = append(p.Files, FileStat{
			Path:         pathInDiff(both),
			Change:       FileChanged,
			NotCommitted: p.notCommitted,
		})
	case line == host.NotCommitted:
		p.notCommitted = true
	case len(p.Files) == 0:
	case strings.HasPrefix(line, "@@ "):
		p.hunk(line)
		return PatchLine{Kind: LineHunk, Text: line}
	default:
		p.head(line)
	}
	return PatchLine{Kind: LineHead, Text: line}
}

func (p *Patch) last() *FileStat { return &p.Files[len(p.Files)-1] }

// head reads a line between the name of a file and its first hunk.
func (p *Patch) head(line string) {
	f := p.last()
	from, renamed := strings.CutPrefix(line, "rename from ")
	to, renamedTo := strings.CutPrefix(line, "rename to ")
	switch {
	case strings.HasPrefix(line, "new file mode "):
		f.Change = FileAdded
	case strings.HasPrefix(line, "deleted file mode "):
		f.Change = FileDeleted
	case renamed:
		f.Change = FileRenamed
		f.From = unquoted(from)
	case renamedTo:
		f.Path = unquoted(to)
	case strings.HasPrefix(line, "Binary files "), line == "GIT binary patch":
		f.Binary = true
	}
}

// hunk reads the head of a hunk.
func (p *Patch) hunk(line string) {
	numbers, _, _ := strings.Cut(strings.TrimPrefix(line, "@@ "), " @@")
	before, after, _ := strings.Cut(numbers, " ")
	p.old, p.oldLeft = rangeOf(strings.TrimPrefix(before, "-"))
	p.new, p.newLeft = rangeOf(strings.TrimPrefix(after, "+"))
}

// rangeOf reads the first line and the number of lines of a side of a hunk, in "12,3" or "12".
func rangeOf(s string) (from, count int) {
	first, rest, several := strings.Cut(s, ",")
	from, _ = strconv.Atoi(first)
	if !several {
		return from, 1
	}
	count, _ = strconv.Atoi(rest)
	return from, count
}

// content reads a line of a hunk.
func (p *Patch) content(line string) PatchLine {
	f := p.last()
	added, isAdded := strings.CutPrefix(line, "+")
	removed, isRemoved := strings.CutPrefix(line, "-")
	switch {
	case isAdded:
		l := PatchLine{Kind: LineAdded, New: p.new, Text: added}
		f.Added++
		p.new++
		p.newLeft--
		return l
	case isRemoved:
		l := PatchLine{Kind: LineRemoved, Old: p.old, Text: removed}
		f.Removed++
		p.old++
		p.oldLeft--
		return l
	}
	l := PatchLine{Kind: LineKept, Old: p.old, New: p.new, Text: strings.TrimPrefix(line, " ")}
	p.old++
	p.oldLeft--
	p.new++
	p.newLeft--
	return l
}

// pathInDiff reads the path in "a/PATH b/PATH", whose halves are equal. For a renamed file they
// are not, and its other lines name both paths.
func pathInDiff(both string) string {
	return strings.TrimPrefix(unquoted(both[:len(both)/2]), "a/")
}

// unquoted returns a path without the quotes of git, which are around a path with special
// characters: a\ttab for "a\ttab". The quotes in `x` and 'x' are part of the path.
func unquoted(path string) string {
	if !strings.HasPrefix(path, `"`) {
		return path
	}
	plain, err := strconv.Unquote(path)
	if err != nil {
		return path // not from git, which writes no such escape
	}
	return plain
}
