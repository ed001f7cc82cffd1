package wiring

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// docs/trackers.md has a table of what each kind of tracker can do. It is what the adapters say.
func TestTableOfAbilities(t *testing.T) {
	doc := string(test.Must(os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "trackers.md"))))
	for _, kind := range workflow.TrackerKinds() {
		row := abilities(t, kind)
		if !strings.Contains(doc, "\n"+row+"\n") {
			t.Errorf("docs/trackers.md lacks the row\n%s", row)
		}
	}
}

// abilities is the row of a kind.
func abilities(t *testing.T, kind string) string {
	t.Helper()
	cfg := &workflow.Config{Lines: map[string]int{"handoff.state": 1}} // with keys of the specification alone Linear can less
	cfg.Policy.ActiveStates = []string{"Todo"}
	cfg.Policy.TerminalStates = []string{"Done"}
	cfg.Tracker = workflow.Tracker{
		Kind:         kind,
		Endpoint:     "https://tracker.example.com",
		APIKey:       "a-key-of-the-tests",
		ProjectSlug:  "demo",
		Folder:       t.TempDir(),
		Command:      []string{"tracker"},
		Verbs:        []string{"tool", "comment", "move"},
		Repositories: workflow.Repositories{Names: []string{"acme/shop"}},
		Jira:         workflow.Jira{Email: "ann@example.com", Project: "SHOP"},
	}
	dir := t.TempDir()
	p := &Project{Env: &environ.Env{Now: time.Now}, Path: filepath.Join(dir, "WORKFLOW.md"), StateDir: dir}
	a := test.Must(NewTracker(p, cfg, TrackerOptions{Memory: noMemory{}}))
	_, noSetup := TrackerSetup(kind, "ann@example.com")
	yes := func(can bool) string {
		if can {
			return "yes"
		}
		return "no"
	}
	tools := text.Map(a.Tools, func(tool reconcile.AgentTool) string { return "`" + tool.Name + "`" })
	slices.Sort(tools)
	return "| `" + kind + "` | " + strings.Join([]string{
		yes(noSetup == nil || kind == "file"),
		yes(a.Move != nil && a.Post != nil),
		yes(a.Comments != nil && a.Post != nil && a.Edit != nil),
		yes(a.Verify != nil),
		yes(a.Budget != nil),
		strings.Join(tools, ", "),
	}, " | ") + " |"
}

// noMemory remembers nothing.
type noMemory struct{}

func (noMemory) Meta(context.Context, string) (string, bool, error) { return "", false, nil }
func (noMemory) SetMeta(context.Context, string, string) error      { return nil }
