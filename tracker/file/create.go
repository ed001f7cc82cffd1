package file

import (
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
	"unicode"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Create writes the file of a new issue. Its text cannot contain the marks of Backlog.md, and
// so no comment of a person.
func (t *tracker) Create(ctx context.Context, n reconcile.NewIssue) (*reconcile.Issue, error) {
	refused := func(message, hint string) (*reconcile.Issue, error) {
		return nil, reconcile.NewError("usage", message, hint)
	}
	if !utf8.ValidString(n.Title + n.Body + n.State + strings.Join(n.Labels, "")) {
		return refused("the new issue is not UTF-8", "convert it, for instance with iconv")
	}
	n.Title = text.OneLine(plain(n.Title))
	if n.Title == "" {
		return refused("the title is empty", "give the new issue a title")
	}
	if n.State == "" && len(t.Active) > 0 {
		n.State = t.Active[0]
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	id, name, err := t.newFile(n)
	if err != nil {
		return nil, err
	}
	content := t.newContent(id, n)
	if made := t.parse(name, content); made.fault != nil {
		return refused("the new issue could not be read: "+made.fault(), "shorten it, or correct that value")
	}
	if err := durable.WriteFile(filepath.Join(t.Path, name), content, 0o644); err != nil {
		return nil, t.unwritable(name, err)
	}
	return t.Find(ctx, id)
}

// newFile returns the next id of the folder that no issue ever used, and the name of its file,
// which does not exist.
func (t *tracker) newFile(n reconcile.NewIssue) (id, name string, err error) {
	all, err := t.read()
	if err != nil {
		return "", "", err
	}
	prefix, number := t.nextID(all)
	for ; ; number++ {
		id = strings.ToUpper(fmt.Sprintf("%s-%0*d", prefix, t.settings.Digits, number))
		name = fmt.Sprintf("%s - %s.md", strings.ToLower(id), slug(n.Title))
		used, err := t.isUsed(id, name, n.Taken)
		if err != nil {
			return "", "", err
		}
		if !used {
			return id, name, nil
		}
	}
}

// isUsed reports whether an issue once had an id, or a file has its name: a file without front
// matter, or with another id.
func (t *tracker) isUsed(id, name string, taken func(string) (bool, error)) (bool, error) {
	_, err := os.Lstat(filepath.Join(t.Path, name))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, t.unwritable(name, err)
	}
	if taken == nil {
		return false, nil
	}
	return taken(id)
}

// newContent returns the content of the file of a new issue: front matter with the keys that
// Backlog.md writes, and the body.
func (t *tracker) newContent(id string, n reconcile.NewIssue) []byte {
	labels := n.Labels
	if labels == nil {
		labels = []string{}
	}
	lines := []string{
		fence,
		"id: " + id,
		"title: " + scalar(n.Title, 0),
		"status: " + scalar(n.State, 0),
		"assignee: []",
		"created_date: '" + t.Now().UTC().Format("2006-01-02 15:04") + "'",
		"labels: " + string(text.JSON(labels)), // also a list of YAML
		"dependencies: []",
		fence,
		"",
		strings.TrimLeft(plain(n.Body)+"\n", "\n"),
	}
	return []byte(strings.Join(lines, "\n"))
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
