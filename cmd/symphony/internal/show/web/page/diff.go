package page

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html/template"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/internal/patch"
)

// Diff is the page of the changes in the workspace of an issue.
type Diff struct {
	Project, Name string
	Text          string // as git writes it
	Cut           bool   // there is more, which the page does not show
	MayAct        bool
	Of            *Issue // nil if nothing but the changes is known
	Attempts      string // two attempts that are compared, such as 1..2; empty for all changes

	Files          []diffFile // of Text, when it is drawn
	Added, Removed int        // lines of all of them
}

// diffTemplate is the template of the page.
var diffTemplate = sync.OnceValue(func() *template.Template { return parse(nil, "diff.html") })

// Page draws it.
func (d Diff) Page() Page {
	d.Files = parseDiff(d.Text)
	for _, f := range d.Files {
		d.Added += f.Added
		d.Removed += f.Removed
	}
	return Page{
		Title:  "Diff of " + d.Name,
		MayAct: d.MayAct,
		Main:   markup(diffTemplate(), "diff.html", d),
		Review: true,
	}
}

// Path is the address of the page with all changes.
func (d Diff) Path() string { return d.Back() + "/diff" }

// Address is the address of the page.
func (d Diff) Address() string { return address(d.Path(), "attempts", d.Attempts) }

// Tabs choose between all changes and those of an attempt.
func (d Diff) Tabs() []tab {
	if d.Of == nil {
		return nil
	}
	tabs := []tab{{Name: "All changes", Address: d.Path(), Current: d.Attempts == ""}}
	for _, a := range slices.Backward(d.Of.Attempts()) {
		changes := d.Of.ChangesOf(a.Run.RunID)
		if changes != "" {
			tabs = append(tabs, tab{Name: a.Title, Address: changes, Current: changes == d.Address()})
		}
	}
	return tabs
}

// Form returns the commands of an operator about the issue.
func (d Diff) Form() IssueForm {
	if d.Of == nil {
		return IssueForm{Row: operate.Row{Status: detail.StatusUnknown}}
	}
	form := d.Of.Form()
	form.Back = d.Path()
	return form
}

// Back is the address of the issue's page.
func (d Diff) Back() string { return IssueAddress(d.Project, d.Name) }

// diffFile contains the changes of a file.
type diffFile struct {
	patch.File
	Lines  []diffLine
	Hidden int // lines that are not shown
}

// Dir is the directory in the path.
func (f diffFile) Dir() string { return path.Dir(f.Path) }

// Base is the last name in the path.
func (f diffFile) Base() string { return path.Base(f.Path) }

// Blocks divide the lines.
func (f diffFile) Blocks() []diffBlock { return blocksOf(f.Path, f.Lines) }

// Split reports whether the two sides of the file can stand side by side.
func (f diffFile) Split() bool { return f.Added > 0 && f.Removed > 0 }

// Open reports whether the file is shown at once.
func (f diffFile) Open() bool { return len(f.Lines) <= longFile }

// The limits of a diff on a page.
const (
	mostLinesOfFile = 2000
	mostLines       = 10_000
	longFile        = 400
)

// parseDiff reads a diff as git writes it.
func parseDiff(data string) []diffFile {
	p := diffParser{}
	for line := range strings.Lines(data) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	for i, f := range p.read.Files {
		p.files[i].File = f
	}
	return p.files
}

type diffParser struct {
	read  patch.Reader
	files []diffFile
	shown int
}

// line reads any line of a diff.
func (p *diffParser) line(line string) {
	l := p.read.Line(line)
	if len(p.read.Files) > len(p.files) {
		p.files = append(p.files, diffFile{})
	}
	if len(p.files) == 0 {
		return
	}
	switch l.Kind {
	case patch.LineName:
	case patch.LineHead:
		if note := noteOf(line); note != "" {
			p.add(diffLine{Kind: patch.LineNote, Text: note})
		}
	default:
		p.add(diffLine{Kind: l.Kind, Old: l.Old, New: l.New, Text: l.Text})
	}
}

// kindsOfFile lists the modes of files that a diff's lines do not show.
var kindsOfFile = map[string]string{
	"100755": "a program: it can be executed",
	"120000": "a link to this path",
	"160000": "a commit of another repository",
}

// noteOf is what a reader needs of a line before the first hunk of a file; empty for most.
func noteOf(line string) string {
	mode, added := strings.CutPrefix(line, "new file mode ")
	switch {
	case added && mode != "100644":
		return cmp.Or(kindsOfFile[mode], line)
	case strings.HasPrefix(line, "old mode "), strings.HasPrefix(line, "new mode "):
		return line
	case strings.HasPrefix(line, "Binary files "):
		return "a binary file"
	}
	return ""
}

// add adds a line to the last file, unless there are too many.
func (p *diffParser) add(l diffLine) {
	f := &p.files[len(p.files)-1]
	if len(f.Lines) >= mostLinesOfFile || p.shown >= mostLines {
		f.Hidden++
		return
	}
	p.shown++
	l.Text = shorten(strings.TrimSuffix(l.Text, "\r"), longestText)
	f.Lines = append(f.Lines, l)
}

// Hash changes with the changes of the file, so that a reader sees what is new since.
func (f diffFile) Hash() string {
	hash := fnv.New64a()
	fmt.Fprintln(hash, f.Change, f.From, f.Hidden)
	for _, l := range f.Lines {
		fmt.Fprintln(hash, l.Kind, l.Text)
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// Anchor is the name of the file's place in the page, the same while other files come and go.
func (f diffFile) Anchor() string {
	hash := fnv.New32a()
	hash.Write([]byte(f.Path))
	if f.NotCommitted { // its committed changes are in another place
		hash.Write([]byte{0})
	}
	return fmt.Sprintf("file-%08x", hash.Sum32())
}
