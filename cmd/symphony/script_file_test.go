package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/durable"
)

// fileTracker is a folder of files as the tracker of a script. A person changes them with an
// editor.
type fileTracker struct{ dir string }

func startFiles(env *testscript.Env, _ *stage) (scriptTracker, error) {
	dir := filepath.Join(env.WorkDir, "issues")
	return fileTracker{dir}, os.MkdirAll(dir, 0o700)
}

func (f fileTracker) path(issue string) string { return filepath.Join(f.dir, issue+".md") }

func (f fileTracker) Add(i scriptIssue) error {
	priority := ""
	if i.Priority > 0 {
		priority = fmt.Sprintf("priority: %d\n", i.Priority)
	}
	text := fmt.Sprintf(
		"---\nid: %s\ntitle: %s\nstatus: %s\nlabels: [%s]\ndependencies: [%s]\ncreated_date: '%s'\n%s---\n\n%s\n",
		i.Identifier,
		strconv.Quote(i.Title),
		i.State,
		strings.Join(i.Labels, ", "),
		strings.Join(i.BlockedBy, ", "),
		time.Now().Add(-i.Age).UTC().Format("2006-01-02 15:04"),
		priority,
		i.Description,
	)
	return f.write(i.Identifier, text)
}

func (f fileTracker) write(issue, text string) error {
	return durable.WriteFile(f.path(issue), []byte(text), 0o600)
}

func (f fileTracker) edit(issue string, change func(text string) string) error {
	text, err := os.ReadFile(f.path(issue))
	if err != nil {
		return err
	}
	return f.write(issue, change(string(text)))
}

var statusLine = regexp.MustCompile(`(?m)^status: (.*)$`)

func (f fileTracker) Move(issue, state string) error {
	return f.edit(
		issue,
		func(text string) string { return statusLine.ReplaceAllString(text, "status: "+state) },
	)
}

func (f fileTracker) Comment(issue, comment string) error {
	const end = "<!-- COMMENTS:END -->"
	one := fmt.Sprintf(
		"author: kim\ncreated: %s\n---\n%s\n---\n",
		time.Now().UTC().Format("2006-01-02 15:04"),
		comment,
	)
	return f.edit(issue, func(text string) string {
		if strings.Contains(text, end) {
			return strings.Replace(text, end, one+end, 1)
		}
		return text + "\n## Comments\n\n<!-- COMMENTS:BEGIN -->\n" + one + end + "\n"
	})
}

func (f fileTracker) Remove(issue string) error { return os.Remove(f.path(issue)) }

func (f fileTracker) State(issue string) (string, error) {
	text, err := os.ReadFile(f.path(issue))
	if m := statusLine.FindSubmatch(text); m != nil {
		return strings.Trim(string(m[1]), `"'`), err
	}
	return "", err
}

func (f fileTracker) Comments(issue string) (int, error) {
	text, err := os.ReadFile(f.path(issue))
	return strings.Count(string(text), "\nauthor: "), err
}

func (f fileTracker) Call(_, macro, text string) (tool string, args any, err error) {
	if macro == "move" {
		return "issue_update", map[string]string{"state": text}, nil
	}
	return "issue_comment", map[string]string{"text": text}, nil
}

func (f fileTracker) Down() { f.rename(f.dir, f.dir+".away") }

// Garbage leaves a file where the folder was.
func (f fileTracker) Garbage() {
	f.Down()
	if err := os.WriteFile(f.dir, []byte("garbage"), 0o600); err != nil {
		panic(err)
	}
}

func (f fileTracker) Up() {
	_ = os.Remove(f.dir) // the garbage, if there is some
	f.rename(f.dir+".away", f.dir)
}

func (f fileTracker) rename(from, to string) {
	if err := os.Rename(from, to); err != nil {
		panic(err)
	}
}

func (f fileTracker) Limit(time.Duration) {}
func (f fileTracker) Requests() int       { return 0 }
func (f fileTracker) ClearRequests()      {}
