// Package patch reads diffs: those of git, and those of agents. Codex sends the hunks of a file
// without its name; of other agents there are lines with signs, and nothing else.
package patch

import (
	"bytes"
	"strconv"
	"strings"
)

// NotCommitted is a line of the diff of a clone, between the commits and the changes that are
// not committed.
const NotCommitted = "# Not committed:"

// File is what a diff changes in a file.
type File struct {
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
	LineName    LineKind = "name" // of the file: "diff --git a/x b/x", "--- a/x", "+++ b/x"
	LineHead    LineKind = "head" // another line before the first hunk of a file
	LineHunk    LineKind = "hunk" // "@@ -1,3 +1,4 @@ func main() {"
	LineAdded   LineKind = "add"
	LineRemoved LineKind = "del"
	LineKept    LineKind = ""
	LineNote    LineKind = "note" // "\ No newline at end of file"
)

// Line is a line of a diff.
type Line struct {
	Kind     LineKind
	Old, New int    // its numbers; 0 where the line is missing, or no hunk tells them
	Text     string // without the sign
}

// Reader reads a diff line by line. The content is not trusted, the heads of hunks may count
// wrong, and a diff may break off. So only its sign makes a line content: "+diff --git a/x b/x"
// and, below the head of a hunk, "--- x" are lines that were added and removed.
type Reader struct {
	Files []File // so far; one without a path if the diff does not name it

	place        place
	old, new     int // the next numbers in the hunk
	notCommitted bool
	rest         []byte // a line without an end, of Write
}

// place is where a reader is.
type place int

const (
	outside place = iota // of git's diffs; the diffs of some agents have nothing else
	inHead
	inHunk
)

// Write reads the lines of a part of a diff. It never fails.
func (r *Reader) Write(data []byte) (int, error) {
	r.rest = append(r.rest, data...)
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		r.Line(string(line))
		r.rest = rest
	}
}

// Line reads the next line.
func (r *Reader) Line(line string) Line {
	both, begins := strings.CutPrefix(line, "diff --git ")
	switch {
	case begins:
		r.place = inHead
		r.Files = append(r.Files, File{
			Path:         pathInDiff(both),
			Change:       FileChanged,
			NotCommitted: r.notCommitted,
		})
		return Line{Kind: LineName, Text: line}
	case line == NotCommitted:
		r.notCommitted = true
		return Line{Kind: LineHead, Text: line}
	case strings.HasPrefix(line, "@@"):
		r.hunk(line)
		return Line{Kind: LineHunk, Text: line}
	case r.place == inHead && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")):
		return Line{Kind: LineName, Text: line}
	case strings.HasPrefix(line, "+"):
		r.file().Added++
		return Line{Kind: LineAdded, New: r.number(&r.new), Text: line[1:]}
	case strings.HasPrefix(line, "-"):
		r.file().Removed++
		return Line{Kind: LineRemoved, Old: r.number(&r.old), Text: line[1:]}
	case r.place == inHead:
		r.head(line)
		return Line{Kind: LineHead, Text: line}
	case r.place == outside:
		return Line{Kind: LineKept, Text: line}
	case strings.HasPrefix(line, `\`):
		return Line{Kind: LineNote, Text: strings.TrimPrefix(line[1:], " ")}
	}
	return Line{
		Kind: LineKept,
		Old:  r.number(&r.old),
		New:  r.number(&r.new),
		Text: strings.TrimPrefix(line, " "),
	}
}

// Total counts the lines of all files.
func (r *Reader) Total() (added, removed int) {
	for _, f := range r.Files {
		added += f.Added
		removed += f.Removed
	}
	return added, removed
}

// file is the file that the lines belong to.
func (r *Reader) file() *File {
	if len(r.Files) == 0 {
		r.Files = append(r.Files, File{Change: FileChanged})
	}
	return &r.Files[len(r.Files)-1]
}

// number returns the number of the line on one side of a hunk, and counts it.
func (r *Reader) number(next *int) int {
	if r.place != inHunk {
		return 0
	}
	n := *next
	*next++
	return n
}

// head reads a line between the name of a file and its first hunk.
func (r *Reader) head(line string) {
	f := r.file()
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

// hunk reads the head of a hunk: "@@ -12,3 +12,4 @@".
func (r *Reader) hunk(line string) {
	r.place = inHunk
	numbers, _, _ := strings.Cut(strings.TrimPrefix(line, "@@ "), " @@")
	before, after, _ := strings.Cut(numbers, " ")
	r.old = firstOf(strings.TrimPrefix(before, "-"))
	r.new = firstOf(strings.TrimPrefix(after, "+"))
}

// firstOf reads the number of the first line of a side of a hunk, in "12,3" or "12"; 0 if there
// is none.
func firstOf(s string) int {
	first, _, _ := strings.Cut(s, ",")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
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
