package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// tries is how often a change is repeated if the file changes meanwhile.
const tries = 20

// change edits the file of an issue. edit gets the file's record and content, and returns the new content. If another program
// changes the file meanwhile, edit is called again.
func (t *tracker) change(ctx context.Context, id string, edit func(*record, []byte) ([]byte, error)) error {
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	name := ""
	for range tries {
		_, r, err := t.find(id)
		if err != nil {
			return err
		}
		name = r.name
		if r.issue.Archived {
			return gone(id+" is finished: its file was moved out of "+t.Path, "move the file back if the issue is to be changed")
		}
		done, err := t.edit(r.name, id, edit)
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.unwritable(name, "another program changes it again and again")
}

// edit makes one attempt to change a file; false if the file has changed meanwhile.
func (t *tracker) edit(name, id string, edit func(*record, []byte) ([]byte, error)) (bool, error) {
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return false, unreadable(t.Path, err)
	}
	defer root.Close()
	content, info, err := readFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unreadable(filepath.Join(t.Path, name), err)
	}
	r := t.parse(name, content)
	if r == nil || r.fault != "" || key(r.issue.ID) != key(id) {
		return false, nil
	}
	next, err := edit(r, content)
	switch {
	case err != nil:
		return false, err
	case bytes.Equal(next, content):
		return true, nil
	case len(next) > maxFile:
		return false, t.unwritable(name, "it would become larger than 1 MiB")
	}
	done, err := replace(filepath.Join(t.Path, name), content, next, info.Mode().Perm())
	if err != nil {
		err = t.unwritable(name, err.Error())
	}
	return done, err
}

func (t *tracker) unwritable(name, why string) error {
	return &reconcile.Error{
		Code: "file_write", Class: reconcile.ClassTracker, Message: filepath.Join(t.Path, name) + " was not changed: " + why,
		Hint: "make the folder and the file writable for the account that symphony runs as",
	}
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

// replace puts next in the place of a file, if the file still has its old content. Otherwise it returns false, and the file is what
// the other program has made of it.
func replace(path string, old, next []byte, mode fs.FileMode) (bool, error) {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+durable.TempSuffix)
	if err := durable.WriteFile(temp, next, mode); err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(temp) }() // after the exchange it has the old content
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, old) {
		return false, nil // it is read again
	}
	err = exchange(temp, path)
	if errors.Is(err, errors.ErrUnsupported) {
		return true, errors.Join(os.Rename(temp, path), durable.SyncDir(filepath.Dir(path)))
	}
	if err != nil {
		return false, err
	}
	taken, err := os.ReadFile(temp)
	if err == nil && bytes.Equal(taken, old) {
		return true, durable.SyncDir(filepath.Dir(path))
	}
	// The file changed in between. That content returns to its place; what is there by now, if it is not ours, is newer still.
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
		quoted, err := json.Marshal(value)
		if err == nil {
			return string(quoted)
		}
	case yaml.SingleQuotedStyle:
		return single
	default:
	}
	if plain, err := yaml.Marshal(value); err == nil && strings.TrimSpace(string(plain)) == value {
		return value
	}
	return single
}

// Create writes the file of a new issue, in the first active state if state is empty.
func (t *tracker) Create(_ context.Context, title, state string) (*reconcile.Issue, error) {
	title = strings.Join(strings.Fields(title), " ")
	if title == "" {
		return nil, &reconcile.Error{Code: "usage", Message: "the title is empty", Hint: "give the new issue a title"}
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
	if state == "" {
		state = cmp.Or(append([]string{t.settings.DefaultStatus}, t.Active...)...)
	}
	prefix, number := t.nextID(all)
	id := fmt.Sprintf("%s-%0*d", prefix, t.settings.Digits, number)
	name := fmt.Sprintf("%s - %s.md", strings.ToLower(id), slug(title))
	content := fmt.Sprintf("---\nid: %s\ntitle: %s\nstatus: %s\nassignee: []\ncreated_date: '%s'\nlabels: []\ndependencies: []\n---\n\n",
		strings.ToUpper(id), scalar(title, 0), scalar(state, 0), t.Now().UTC().Format("2006-01-02 15:04"))
	path := filepath.Join(t.Path, name)
	if _, err = os.Lstat(path); err == nil {
		err = fs.ErrExist
	} else {
		err = durable.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		return nil, t.unwritable(name, err.Error())
	}
	return t.Find(context.TODO(), strings.ToUpper(id))
}

var numbered = regexp.MustCompile(`^([A-Za-z]+)-(\d+)`)

// nextID returns the prefix of the folder's ids and the next number.
func (t *tracker) nextID(all *folder) (prefix string, next int) {
	prefix = t.settings.Prefix
	records := all.records
	for _, r := range all.finished() {
		records = append(records, r)
	}
	for _, r := range records {
		m := numbered.FindStringSubmatch(r.issue.ID)
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

// slug returns the part of a file's name that Backlog.md makes of a title: letters and digits, with - between words.
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
