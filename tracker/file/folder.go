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
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"

	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"
)

// maxFile bounds a file, and maxFront its front matter, in bytes. An error in YAML is found by
// parsing it several times.
const maxFile, maxFront = 1 << 20, 64 << 10

// writingFor is how long a file that is empty, or ends too early, may be one that a program is
// writing.
const writingFor = 10 * time.Minute

// folder is what a read has found.
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

func key(id string) string { return strings.ToLower(identity(id).ID) }

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
		*other = *unusable(other.name, fmt.Sprintf("%s has the same id, %s", r.name, other.issue.ID))
		other.issue = identity(r.issue.ID)
	}
	var finished map[string]*record
	f.finished = func() map[string]*record {
		if finished == nil {
			finished = t.readFinished(f)
		}
		return finished
	}
	return f, nil
}

func folderError(path string, err error) error {
	what := "does not exist"
	if info, e := os.Stat(path); e == nil && !info.IsDir() {
		what = "is not a folder"
	} else if !errors.Is(err, fs.ErrNotExist) {
		return unreadable(path, err)
	}
	return reconcile.NewError("tracker_project_not_found", path+" "+what,
		"create it, or correct tracker.provider.path; until then no run is stopped and no issue is released")
}

// finishedFolders are beside a folder called tasks.
var finishedFolders = []string{"completed", "archive/tasks"}

// readFinished reads the issues that Backlog.md has moved away.
func (t *tracker) readFinished(f *folder) map[string]*record {
	found := map[string]*record{}
	if filepath.Base(t.Path) != "tasks" {
		return found
	}
	for _, name := range finishedFolders {
		records, err := t.readDir(filepath.Join(filepath.Dir(t.Path), name), f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.unreadable = unreadable(filepath.Join(filepath.Dir(t.Path), name), err)
		}
		for _, r := range records {
			if r.fault != nil || found[key(r.issue.ID)] != nil {
				continue
			}
			r.issue.Archived = true
			if len(t.Terminal) > 0 &&
				!slices.ContainsFunc(
					t.Terminal,
					func(s string) bool { return reconcile.SameState(s, r.issue.State) },
				) {
				r.issue.State = t.Terminal[0]
			}
			found[key(r.issue.ID)] = r
		}
	}
	return found
}

// readDir reads the issues in a directory. Files that vanish are left out. f gets the error of
// a file that cannot be read.
func (t *tracker) readDir(dir string, f *folder) (records []*record, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || filepath.Ext(name) != ".md" {
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
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			f.unreadable = unreadable(filepath.Join(dir, name), err)
			records = append(records, unusable(name, "cannot be read"))
		case info.Mode().IsRegular():
			r := t.parse(name, content)
			if r == nil {
				f.plain = append(f.plain, name)
			} else {
				r.nameless = r.nameless && t.Now().Sub(info.ModTime()) < writingFor
				r.issue.NativeRef = map[string]any{"file": filepath.Join(dir, name)}
				r.modified(info.ModTime())
				records = append(records, r)
			}
		}
	}
	return records, nil
}

func unusable(name, why string) *record {
	return &record{
		name:  name,
		issue: identity(strings.TrimSuffix(name, ".md")),
		fault: func() string { return name + ": " + why },
	}
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

// settings are the values of Backlog.md's configuration that matter here.
type settings struct {
	Statuses      []string `yaml:"statuses"`
	DefaultStatus string   `yaml:"default_status"`
	Prefix        string   `yaml:"task_prefix"`
	Digits        int      `yaml:"zero_padded_ids"`
}

// settingsFiles are the places of Backlog.md's configuration, of which the first that exists
// counts: beside the folder tasks, or in a directory above. Another folder has none.
func settingsFiles(path string) (list []string) {
	if filepath.Base(path) != "tasks" {
		return nil
	}
	list = []string{filepath.Join(filepath.Dir(path), "config.yml")}
	for dir := path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		list = append(list, filepath.Join(dir, "backlog.config.yml"))
	}
	return list
}

// Beside returns the files and directories outside a folder of issues that are read with it.
// Some need not exist.
func Beside(path string) (list []string) {
	list = settingsFiles(path)
	if list == nil {
		return nil
	}
	if first := slices.IndexFunc(list, func(file string) bool { _, err := os.Lstat(file); return err == nil }); first >= 0 {
		list = list[:first+1]
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	return append(list, text.Map(finishedFolders, beside)...)
}

// readSettings reads Backlog.md's configuration. What cannot be read has no value.
func readSettings(path string) (s settings) {
	for _, file := range settingsFiles(path) {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			continue
		}
		content, info, err := readFile(root, filepath.Base(file))
		_ = root.Close()
		switch {
		case err != nil || !info.Mode().IsRegular():
			continue
		case yaml.Unmarshal(content, &s) != nil:
			return settings{}
		}
		return s
	}
	return s
}

// States returns the states that Backlog.md's configuration defines for a folder, in their
// order; none if there is no configuration.
func States(path string) (list []reconcile.TrackerState) {
	s := readSettings(path)
	waiting := max(0, slices.Index(s.Statuses, s.DefaultStatus))
	for i, name := range s.Statuses {
		state := reconcile.TrackerState{Name: name}
		switch ended := []string{"done", "closed", "canceled", "cancelled", "duplicate"}; {
		case i == len(s.Statuses)-1, slices.Contains(ended, strings.ToLower(name)):
			state.Kind = reconcile.StateEnded
		case i == waiting:
			state.Kind = reconcile.StateWaiting
		case i > waiting:
			state.Kind = reconcile.StateStarted
		}
		list = append(list, state)
	}
	return list
}

const (
	claimDir = ".symphony" // in the folder; git ignores it
	claimed  = 24 * time.Hour
	renewed  = time.Hour
)

// Claim records in a folder of issues the account whose passes start runs for them, by the
// directory of its projects' states. Projects of one account know of each other's runs;
// another account is refused for a day after the last pass of this one. dryRun only checks. A
// folder that the account cannot write gets no record.
func Claim(folder, account string, now time.Time, dryRun bool) error {
	t := &tracker{Options: Options{Path: folder}}
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return unreadable(folder, err)
	}
	defer root.Close()
	name := filepath.Join(claimDir, "account")
	owner, info, err := readFile(root, name)
	age := claimed
	ours := string(owner) == account
	if err == nil {
		age = now.Sub(info.ModTime())
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return unreadable(filepath.Join(folder, name), err)
	case !ours && age < claimed:
		return reconcile.NewError(
			"project_conflict",
			fmt.Sprintf("another account works on the issues in %s: its projects are in %s", folder, owner),
			"let one account run the passes; a day after the last pass of one another may start, or at once without "+filepath.Join(
				folder,
				name,
			),
		)
	case dryRun || ours && age < renewed || unix.Access(folder, unix.W_OK) != nil:
		return nil
	}
	err = root.MkdirAll(claimDir, 0o755)
	if err == nil {
		err = root.WriteFile(filepath.Join(claimDir, ".gitignore"), []byte("*\n"), 0o644)
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(folder, name), []byte(account), 0o644)
	}
	if err != nil {
		return t.unwritable(name, err.Error())
	}
	return nil
}

// Unclaim removes the record of an account.
func Unclaim(folder, account string) error {
	if owner, err := os.ReadFile(filepath.Join(folder, claimDir, "account")); err != nil ||
		string(owner) != account {
		return nil //nolint:nilerr // there is nothing of this account
	}
	return os.RemoveAll(filepath.Join(folder, claimDir))
}
