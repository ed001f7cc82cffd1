package file_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/file"
	"github.com/symphony-cron/symphony/tracker/trackertest"
)

func TestConformance(t *testing.T) { trackertest.Run(t, newBackend) }

func newBackend(t *testing.T) *trackertest.Backend {
	dir := filepath.Join(t.TempDir(), "tasks")
	test.OK(t, os.Mkdir(dir, 0o755))
	options := file.Options{
		Path:     dir,
		Active:   []string{"To Do", "In Progress"},
		Terminal: []string{"Done"},
		Assignee: "kim",
	}
	readOnly := options
	readOnly.ReadOnly = true
	b := &trackertest.Backend{
		TrackerAdapter: test.Must(file.Adapter(options)),
		ReadOnly:       test.Must(file.Adapter(readOnly)),
		Active:         options.Active,
		Terminal:       "Done",
		Person:         "kim",
		Unavailable: trackertest.Fault{
			Name: "no folder", Code: "tracker_project_not_found", Class: reconcile.ClassWorkflow,
			Arrange: func(t testing.TB) { test.OK(t, os.Rename(dir, dir+".moved")) },
		},
	}
	b.Faults = []trackertest.Fault{b.Unavailable, {
		Name:  "a file instead of the folder",
		Code:  "tracker_project_not_found",
		Class: reconcile.ClassWorkflow,
		Arrange: func(t testing.TB) {
			test.OK(t, os.Rename(dir, dir+".moved"))
			test.OK(t, os.WriteFile(dir, nil, 0o644))
		},
	}}
	arrangeFiles(dir, b)
	b.ToMove = trackertest.ByIssueUpdate
	b.ToComment = trackertest.ByIssueComment
	b.Refused = func(_, other reconcile.Issue) map[string]trackertest.Call {
		return map[string]trackertest.Call{
			"another issue": {
				Tool: "issue_update",
				Args: json.RawMessage(`{"state": "Done", "id": "` + other.ID + `"}`),
			},
			"another state":   call("issue_update", "state", "Shipped"),
			"an empty state":  call("issue_update", "state", " "),
			"an empty text":   call("issue_comment", "text", "\n"),
			"a long text":     call("issue_comment", "text", strings.Repeat("x", 65<<10)),
			"no object":       {Tool: "issue_comment", Args: json.RawMessage(`"text"`)},
			"nothing":         {Tool: "issue_comment"},
			"another command": {Tool: "issue_delete", Args: json.RawMessage(`{}`)},
		}
	}
	return b
}

func call(tool, name, value string) trackertest.Call {
	return trackertest.Call{
		Tool: tool,
		Args: test.Must(json.Marshal(map[string]string{name: value})),
	}
}

// arrangeFiles sets the functions that change the folder.
func arrangeFiles(dir string, b *trackertest.Backend) {
	n := 0
	path := func(id string) string { return filepath.Join(dir, id+".md") }
	edit := func(t testing.TB, id string, f func(string) string) {
		t.Helper()
		content := string(test.Must(os.ReadFile(path(id))))
		test.OK(t, os.WriteFile(path(id), []byte(f(content)), 0o644))
	}
	field := func(key, value string) func(string) string {
		return func(content string) string {
			before, after, _ := strings.Cut(content, key+": ")
			_, after, _ = strings.Cut(after, "\n")
			return before + key + ": " + value + "\n" + after
		}
	}
	b.Add = func(t testing.TB, i trackertest.Issue) string {
		n++
		id := fmt.Sprintf("TASK-%d", n)
		priority := []string{"none", "urgent", "high", "medium", "low"}[i.Priority]
		content := fmt.Sprintf("---\nid: %s\ntitle: %s\nstatus: %s\npriority: %s\nlabels: %s\nassignee: %s\n"+
			"created_date: 2026-01-02 03:04\ndependencies: []\n---\n%s\n", id, quote(i.Title), quote(i.State), priority,
			quote(append([]string{}, i.Labels...)), quote(i.Assignee), i.Description)
		test.OK(t, os.WriteFile(path(id), []byte(content), 0o644))
		return id
	}
	b.Move = func(t testing.TB, id, state string) { edit(t, id, field("status", state)) }
	b.Block = func(t testing.TB, id string, blockers ...string) { edit(t, id, field("dependencies", quote(blockers))) }
	b.Comment = func(t testing.TB, id, author, text string, at time.Time) {
		edit(t, id, func(content string) string {
			block := fmt.Sprintf(
				"author: %s\ncreated: %s\n---\n%s\n---\n",
				author,
				at.UTC().Format("2006-01-02 15:04"),
				text,
			)
			if before, after, found := strings.Cut(content, "<!-- COMMENTS:END -->"); found {
				return before + "\n" + block + "<!-- COMMENTS:END -->" + after
			}
			return content + "\n## Comments\n\n<!-- COMMENTS:BEGIN -->\n" + block + "<!-- COMMENTS:END -->\n"
		})
	}
	b.Remove = func(t testing.TB, id string) { test.OK(t, os.Remove(path(id))) }
	b.Archive = func(t testing.TB, id string) {
		archive := filepath.Join(filepath.Dir(dir), "archive", "tasks")
		test.OK(t, os.MkdirAll(archive, 0o755))
		test.OK(t, os.Rename(path(id), filepath.Join(archive, id+".md")))
	}
	b.Malform = func(t testing.TB, id string) string {
		edit(t, id, field("title", "[no end"))
		return id + ".md:"
	}
}

func quote(value any) string { return string(test.Must(json.Marshal(value))) }
