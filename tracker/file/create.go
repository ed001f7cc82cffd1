package file

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Create writes the file of a new issue. Its text cannot contain the marks of Backlog.md, and
// so no comment of a person.
func (t *tracker) Create(_ context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	title := text.OneLine(plain(n.Title))
	refused := func(message, hint string) (*reconcile.Issue, error) {
		return nil, reconcile.NewError("usage", message, hint)
	}
	if title == "" {
		return refused("the title is empty", "give the new issue a title")
	}
	if !utf8.ValidString(n.Title + n.Body + n.State + strings.Join(n.Labels, "")) {
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
		"---\nid: %s\ntitle: %s\nstatus: %s\nassignee: []\ncreated_date: '%s'\nlabels: %s\n"+
			"dependencies: []\n---\n\n%s",
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
	if _, err := os.Lstat(path); err == nil {
		return nil, t.unwritable(name, fs.ErrExist.Error())
	}
	if err := durable.WriteFile(path, []byte(content), 0o644); err != nil {
		return nil, t.unwritable(name, err.Error())
	}
	return t.Find(context.TODO(), id)
}

// newID returns the next id of the folder that no issue ever used.
func (t *tracker) newID(all *folder, taken func(string) (bool, error)) (string, error) {
	prefix, number := t.nextID(all)
	for ; ; number++ {
		id := strings.ToUpper(fmt.Sprintf("%s-%0*d", prefix, t.settings.Digits, number))
		if taken == nil {
			return id, nil
		}
		used, err := taken(id)
		if err != nil {
			return "", err
		}
		if !used {
			return id, nil
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
		n, err := strconv.Atoi(m[2])
		if err != nil {
			continue // more digits than a number of ours can have
		}
		next = max(next, n)
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
