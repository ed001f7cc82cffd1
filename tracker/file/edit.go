package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// tries is how often a change is repeated if the file changes meanwhile.
const tries = 20

// change edits the file of an issue. edit gets the file's record and content, and returns the
// new content. If another program changes the file meanwhile, edit is called again.
func (t *tracker) change(ctx context.Context, id string, edit func(*record, []byte) ([]byte, error)) error {
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for range tries {
		var done bool
		if done, err = t.edit(ctx, id, edit); done {
			return err
		}
		if !sleep(ctx) {
			return ctx.Err()
		}
	}
	return err
}

// sleep waits for a pause; false if ctx ends.
func sleep(ctx context.Context) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// edit makes one attempt to change the file of an issue. If done is false, another program may
// be changing that file: err is the reason to give if that goes on.
func (t *tracker) edit(
	ctx context.Context,
	id string,
	edit func(*record, []byte) ([]byte, error),
) (done bool, err error) {
	_, found, err := t.find(id)
	if err != nil {
		return false, err
	}
	name := found.name
	if found.issue.Archived {
		return true, gone(
			id+" is finished: its file was moved out of "+t.Path,
			"move the file back if the issue is to be changed",
		)
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return true, unreadable(t.Path, err)
	}
	defer root.Close()
	changing := t.unwritable(name, "another program changes it again and again")
	content, info, err := readFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, changing
	}
	if err != nil {
		return true, unreadable(filepath.Join(t.Path, name), err)
	}
	r := t.parse(name, content)
	if r == nil || r.fault != nil || key(r.issue.ID) != key(id) {
		return false, changing
	}
	next, err := edit(r, content)
	switch {
	case err != nil || bytes.Equal(next, content):
		return true, err
	case len(next) > maxFile:
		return true, t.unwritable(name, "it would become larger than 1 MiB")
	}
	switch done, err = replace(ctx, filepath.Join(t.Path, name), content, next, info); {
	case err != nil:
		return true, t.unwritable(name, err.Error())
	case !done:
		return false, changing
	}
	return true, nil
}

func (t *tracker) unwritable(name, why string) error {
	return reconcile.NewError("file_write", filepath.Join(t.Path, name)+" was not changed: "+why,
		"make the folder and the file writable for the account that symphony runs as")
}

// lock keeps other processes of symphony from changing files in the folder.
func (t *tracker) lock() (unlock func(), err error) {
	dir, err := os.Open(t.Path)
	if err != nil {
		return nil, folderError(t.Path, err)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		dir.Close()
		return nil, t.unwritable("", "it cannot be locked: "+err.Error())
	}
	return func() { dir.Close() }, nil
}

// tempName is the file with the new content, until it is exchanged. A process that is killed
// leaves it behind; the next change overwrites it.
const tempName = ".symphony" + durable.TempSuffix

// replace puts next in the place of a file, if the file still has its old content. Otherwise
// it returns false, and the file is what the other program has made of it.
func replace(ctx context.Context, path string, old, next []byte, info fs.FileInfo) (bool, error) {
	if err := unix.Access(path, unix.W_OK); err != nil {
		return false, err // renaming would change a read-only file, too
	}
	temp := filepath.Join(filepath.Dir(path), tempName)
	defer func() { _ = os.Remove(temp) }() // after the exchange it has the old content
	if err := writeTemp(temp, next, info); err != nil {
		return false, err
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, old) {
		return false, nil // it is read again
	}
	switch err = exchange(temp, path); {
	case errors.Is(err, errors.ErrUnsupported):
		return true, errors.Join(os.Rename(temp, path), durable.SyncDir(filepath.Dir(path)))
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	taken, err := os.ReadFile(temp)
	if err == nil && bytes.Equal(taken, old) {
		awaitWriters(ctx, temp) // programs that had the old file open
		taken, err = os.ReadFile(temp)
	}
	if err == nil && bytes.Equal(taken, old) {
		return true, durable.SyncDir(filepath.Dir(path))
	}
	// The file changed in between. That content returns to its place; what is there by now, if
	// it is not ours, is newer still.
	for ours := next; err == nil; ours, taken = taken, now {
		if err = exchange(temp, path); err != nil {
			break
		}
		if now, err = os.ReadFile(temp); bytes.Equal(now, ours) {
			break
		}
	}
	return false, err
}

// writeTemp writes a file with the mode of another one and, as far as the system allows it,
// with its owner and group.
func writeTemp(temp string, content []byte, info fs.FileInfo) error {
	_ = os.Remove(temp)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if s, ok := info.Sys().(*syscall.Stat_t); ok && f.Chown(int(s.Uid), int(s.Gid)) != nil {
		_ = f.Chown(-1, int(s.Gid))
	}
	return errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
}

// setState returns the file with another state.
func (t *tracker) setState(r *record, content []byte, state string) ([]byte, error) {
	at := locate(content, r.state)
	if at.end == 0 {
		return nil, t.unwritable(r.name, "its status is not plain text on one line")
	}
	next := append(bytes.Clone(content[:at.start]), scalar(state, r.state.Style)...)
	next = append(next, content[at.end:]...)
	if made := t.parse(r.name, next); made == nil || made.issue.State != state {
		return nil, t.unwritable(r.name, "its status cannot be read after the change")
	}
	return next, nil
}

// scalar writes a value in YAML, in a style if that fits.
func scalar(value string, style yaml.Style) string {
	single := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	switch style {
	case yaml.DoubleQuotedStyle:
		return string(text.JSON(value))
	case yaml.SingleQuotedStyle:
		return single
	default:
	}
	if plain, err := yaml.Marshal(value); err == nil && strings.TrimSpace(string(plain)) == value {
		return value
	}
	return single
}

// Create writes the file of a new issue. Its text cannot contain the marks of Backlog.md, and
// so no comment of a person.
func (t *tracker) Create(_ context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	title := text.OneLine(plain(n.Title))
	refused := func(message, hint string) (*reconcile.Issue, error) {
		return nil, reconcile.NewError("usage", message, hint)
	}
	switch {
	case title == "":
		return refused("the title is empty", "give the new issue a title")
	case !utf8.ValidString(n.Title + n.Body + n.State + strings.Join(n.Labels, "")):
		return refused("the new issue is not UTF-8", "convert it, for instance with iconv")
	}
	unlock, err := t.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := t.read()
	if err != nil {
		return nil, err
	}
	state := cmp.Or(append([]string{n.State}, t.Active...)...)
	labels := text.JSON(append([]string{}, n.Labels...)) // a list of YAML, too
	id, err := t.newID(all, n.Taken)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s - %s.md", strings.ToLower(id), slug(title))
	content := fmt.Sprintf(
		"---\nid: %s\ntitle: %s\nstatus: %s\nassignee: []\ncreated_date: '%s'\nlabels: %s\ndependencies: []\n---\n\n%s",
		id,
		scalar(title, 0),
		scalar(state, 0),
		t.Now().UTC().Format("2006-01-02 15:04"),
		labels,
		strings.TrimLeft(plain(n.Body)+"\n", "\n"),
	)
	if made := t.parse(name, []byte(content)); made.fault != nil {
		return refused("the new issue could not be read: "+made.fault(), "shorten it, or correct that value")
	}
	path := filepath.Join(t.Path, name)
	if _, err = os.Lstat(path); err == nil {
		err = fs.ErrExist
	} else {
		err = durable.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		return nil, t.unwritable(name, err.Error())
	}
	return t.Find(context.TODO(), id)
}

// newID returns the next id of the folder that no issue has had.
func (t *tracker) newID(all *folder, taken func(string) (bool, error)) (id string, err error) {
	prefix, number := t.nextID(all)
	for ; ; number++ {
		id = strings.ToUpper(fmt.Sprintf("%s-%0*d", prefix, t.settings.Digits, number))
		if taken == nil {
			return id, nil
		}
		if used, err := taken(id); err != nil || !used {
			return id, err
		}
	}
}

var numbered = text.Pattern(`^([A-Za-z]+)-(\d+)`)

// nextID returns the prefix of the folder's ids and the next number.
func (t *tracker) nextID(all *folder) (prefix string, next int) {
	prefix = t.settings.Prefix
	for _, r := range slices.AppendSeq(all.records, maps.Values(all.finished())) {
		m := numbered().FindStringSubmatch(r.issue.ID)
		if m == nil || prefix != "" && !strings.EqualFold(prefix, m[1]) {
			continue
		}
		prefix = m[1]
		if n, err := strconv.Atoi(m[2]); err == nil {
			next = max(next, n)
		}
	}
	return cmp.Or(prefix, "task"), next + 1
}

// slug returns the part of a file's name that Backlog.md makes of a title: letters and digits,
// with - between words.
func slug(title string) string {
	title = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c), strings.ContainsRune("-_. ", c):
			return c
		case strings.ContainsRune(`/\:|`, c):
			return ' '
		}
		return -1
	}, title)
	return text.Within(strings.Trim(strings.Join(strings.Fields(title), "-"), ".-"), 120)
}
