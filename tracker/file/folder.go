package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxFile bounds a file, and maxFront its front matter, in bytes. An error in YAML is found by
// parsing it several times.
const (
	maxFile  = 1 << 20
	maxFront = 64 << 10
)

// writingFor is how long a file that is empty, or ends too early, may count as a file that a
// program is writing.
const writingFor = 10 * time.Minute

// folder is the result of reading a folder.
type folder struct {
	records []*record // sorted by name, with numbers in their order
	ids     map[string]*record
	// finished reads the issues in Backlog.md's other folders, once.
	finished   func() map[string]*record
	plain      []string // the names of files without front matter
	unreadable error    // of the first file that could not be read; nil if there is none
}

// byID returns the record with an id in any case, as it is in the file or as symphony writes
// it; nil if there is none.
func (f *folder) byID(id string) *record {
	id = key(id)
	if r := f.ids[id]; r != nil {
		return r
	}
	return f.finished()[id]
}

// read reads the folder.
func (t *tracker) read() (*folder, error) {
	f := &folder{ids: map[string]*record{}}
	records, err := t.readDir(t.Path, f)
	if err != nil {
		return nil, folderError(t.Path, err)
	}
	slices.SortFunc(records, func(a, b *record) int { return text.CompareNatural(a.name, b.name) })
	for _, r := range records {
		id := key(r.issue.ID)
		other := f.ids[id]
		if other == nil {
			f.ids[id] = r
			f.records = append(f.records, r)
			continue
		}
		why := fmt.Sprintf("%s has the same id, %s: give one of them another", r.name, other.issue.ID)
		*other = *unusable(other.name, why)
		other.issue = identity(r.issue.ID)
	}
	f.finished = sync.OnceValue(func() map[string]*record { return t.readFinished(f) })
	return f, nil
}

// finishedFolders are beside a folder called tasks.
var finishedFolders = []string{"completed", "archive/tasks"}

// readFinished reads the issues that Backlog.md moved away.
func (t *tracker) readFinished(f *folder) map[string]*record {
	found := map[string]*record{}
	if filepath.Base(t.Path) != "tasks" {
		return found
	}
	for _, name := range finishedFolders {
		dir := filepath.Join(filepath.Dir(t.Path), name)
		moved := &folder{} // its other files are not meant as issues
		records, err := t.readDir(dir, moved)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			moved.unreadable = unreadable(dir, err)
		}
		if moved.unreadable != nil {
			f.unreadable = moved.unreadable
		}
		for _, r := range records {
			if r.fault != nil || found[key(r.issue.ID)] != nil {
				continue
			}
			r.issue.Archived = true
			isState := func(s string) bool { return reconcile.SameState(s, r.issue.State) }
			if len(t.Terminal) > 0 && !slices.ContainsFunc(t.Terminal, isState) {
				r.issue.State = t.Terminal[0]
			}
			found[key(r.issue.ID)] = r
		}
	}
	return found
}

// readDir reads the issues in a directory. Files that vanish are left out. f gets the error of
// a file that cannot be read.
func (t *tracker) readDir(dir string, f *folder) ([]*record, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var records []*record
	for _, e := range entries {
		name := e.Name()
		isOther := strings.HasPrefix(name, ".") || filepath.Ext(name) != ".md"
		if isOther || name == "WORKFLOW.md" { // the issues may be beside it
			continue
		}
		switch e.Type() {
		case 0:
		case fs.ModeSymlink:
			records = append(records, unusable(name, "a symbolic link, which is not followed"))
			continue
		default:
			continue
		}
		content, info, err := readFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			f.unreadable = unreadable(filepath.Join(dir, name), err)
			records = append(records, unusable(name, "cannot be read: "+reason(err)))
			continue
		}
		if !info.Mode().IsRegular() {
			continue
		}
		r := t.parse(name, content)
		if r == nil {
			f.plain = append(f.plain, name)
			continue
		}
		r.nameless = r.nameless && t.Now().Sub(info.ModTime()) < writingFor
		r.issue.NativeRef = map[string]any{"file": filepath.Join(dir, name)}
		r.setDates(info.ModTime())
		records = append(records, r)
	}
	return records, nil
}

// readFile reads a file, and a byte more than maxFile at most. It does not wait for the writer
// of a pipe.
func readFile(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, info, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	return content, info, err
}

// byFile returns the record of a file, given its name with or without the extension .md, in
// any case; nil if there is none.
func (f *folder) byFile(ref string) *record {
	base := filepath.Base(ref)
	return text.First(f.records, func(r *record) bool { return namesFile(base, r.name) })
}

// namesFile reports whether a reference names a file: Footer, footer.md and FOOTER.MD all name
// footer.md.
func namesFile(ref, name string) bool {
	return strings.EqualFold(ref, name) || strings.EqualFold(ref, strings.TrimSuffix(name, ".md"))
}

// The reason for which a file without front matter is no issue, and what to do.
const (
	noFrontMatter = ", because it has no front matter"
	mendFront     = "begin it with the lines ---, title: …, status: … and ---"
)

// nameless returns a record without an id: its file may belong to any missing issue. Nil if
// there is none.
func (f *folder) nameless() *record {
	return text.First(f.records, func(r *record) bool { return r.nameless })
}

// find returns the record with an id or file name, in any case, and the folder.
func (t *tracker) find(ref string) (*folder, *record, error) {
	all, err := t.read()
	if err != nil {
		return nil, nil, err
	}
	r := all.byID(ref)
	if r == nil {
		r = all.byFile(ref)
	}
	if r == nil {
		return nil, nil, t.notFound(all, ref)
	}
	if r.fault != nil {
		return nil, nil, t.malformed(r)
	}
	return all, r, nil
}

// notFound returns the error of a name that no issue of the folder has.
func (t *tracker) notFound(all *folder, ref string) error {
	message := fmt.Sprintf("%s contains no issue %q", t.Path, ref)
	plain := text.First(all.plain, func(name string) bool { return namesFile(ref, name) })
	if plain != "" {
		return gone(message+": "+plain+" is none"+noFrontMatter, mendFront)
	}
	ids := text.Map(all.records, func(r *record) string { return r.issue.Identifier })
	return gone(message+suggest.DidYouMeanIssue(ref, ids), "check the id; "+contents(ids, ref))
}

// hasNumber reports whether the id of an issue ends with a number, as TASK-4 and TASK-004 do with 4.
func (r *record) hasNumber(number string) bool {
	at := strings.LastIndexByte(r.issue.Identifier, '-')
	digits := r.issue.Identifier[at+1:]
	return at >= 0 && text.IsNumber(number) && text.IsNumber(digits) && text.CompareNatural(digits, number) == 0
}

// contents names the issues of a folder, whatever their state. Of many it names those with a
// name like ref, or else the last ones.
func contents(ids []string, ref string) string {
	const most = 5
	if len(ids) == 0 {
		return "the folder contains no issue: symphony issues new TITLE adds one"
	}
	if len(ids) <= most {
		return "the folder contains " + strings.Join(ids, ", ")
	}
	slices.SortFunc(ids, text.CompareNatural)
	named := suggest.Near(ref, ids)
	if len(named) == 0 {
		named = ids[len(ids)-most:]
	}
	return fmt.Sprintf("the folder contains %d issues, such as %s", len(ids), strings.Join(named, ", "))
}
