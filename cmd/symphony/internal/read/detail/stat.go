package detail

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
)

// FileStat counts the changes of a file in a diff.
type FileStat struct {
	Path    string `json:"path"`
	Added   int    `json:"lines_added"`
	Removed int    `json:"lines_removed"`
	// Binary: git counts no lines of it.
	Binary bool `json:"binary"`
	// NotCommitted: the changes are not committed. A file can have both kinds, and then comes
	// twice.
	NotCommitted bool `json:"not_committed"`
}

// Stat counts the lines of a diff that is written to it, as git writes diffs. The heads of
// hunks tell which lines are content: "@@ -1,3 +1,4 @@" is followed by three old and four new
// ones.
type Stat struct {
	Files []FileStat

	rest             []byte // a line without an end
	oldLeft, newLeft int    // lines of the hunk
	notCommitted     bool
}

// Write implements io.Writer. It never fails.
func (s *Stat) Write(data []byte) (int, error) {
	s.rest = append(s.rest, data...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		s.line(string(line))
		s.rest = rest
	}
}

func (s *Stat) line(line string) {
	if s.oldLeft > 0 || s.newLeft > 0 {
		s.content(line)
		return
	}
	both, begins := strings.CutPrefix(line, "diff --git ")
	switch {
	case begins:
		s.Files = append(s.Files, FileStat{Path: pathInDiff(both), NotCommitted: s.notCommitted})
	case line == host.NotCommitted:
		s.notCommitted = true
	case len(s.Files) == 0:
	case strings.HasPrefix(line, "@@ "):
		old, added, _ := strings.Cut(strings.TrimPrefix(line, "@@ -"), " +")
		s.oldLeft = linesOfHunk(old)
		s.newLeft = linesOfHunk(added)
	case strings.HasPrefix(line, "Binary files "), line == "GIT binary patch":
		s.last().Binary = true
	}
}

func (s *Stat) last() *FileStat { return &s.Files[len(s.Files)-1] }

// content counts a line of a hunk.
func (s *Stat) content(line string) {
	switch {
	case strings.HasPrefix(line, "+"):
		s.last().Added++
		s.newLeft--
	case strings.HasPrefix(line, "-"):
		s.last().Removed++
		s.oldLeft--
	case strings.HasPrefix(line, `\`): // no newline at the end of the file
	default:
		s.oldLeft--
		s.newLeft--
	}
}

// linesOfHunk reads how many lines a side of a hunk has, in "12,3 @@" or "12 @@".
func linesOfHunk(side string) int {
	numbers, _, _ := strings.Cut(side, " ")
	_, count, several := strings.Cut(numbers, ",")
	if !several {
		return 1
	}
	n, _ := strconv.Atoi(count) // digits
	return n
}

// pathInDiff reads the path in "a/PATH b/PATH", whose halves are equal. Git quotes a path with
// special characters.
func pathInDiff(both string) string {
	half := both[:len(both)/2]
	plain, err := strconv.Unquote(half)
	if err != nil { // it is not quoted
		plain = half
	}
	return strings.TrimPrefix(plain, "a/")
}
