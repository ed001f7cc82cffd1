package wiring

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
	"github.com/symphony-cron/symphony/tracker/gitlab/gitlabtest"
	"github.com/symphony-cron/symphony/tracker/jira/jiratest"
)

// counted is a tracker with 100 issues, of which the number of requests is known.
type counted struct {
	workflow.Tracker
	states   []string
	requests func() int
}

// issuesThere is how many issues each of the trackers has. They have not changed for an hour.
const issuesThere = 100

// countedTrackers start a service of each kind. Their names are those of the kinds.
var countedTrackers = map[string]func(t *testing.T) counted{
	"command": func(t *testing.T) counted {
		calls := filepath.Join(t.TempDir(), "calls")
		const program = `
import json, sys
open(sys.argv[1], "a").write("call\n")
ids = json.load(sys.stdin).get("ids") or [str(n + 1) for n in range(100)]
print(json.dumps({"issues": [{"id": i, "title": "Work", "state": "Todo"} for i in ids]}))
`
		return counted{
			Tracker: workflow.Tracker{Command: []string{"python3", "-c", program, calls}},
			states:  []string{"Todo"},
			requests: func() int {
				data, _ := os.ReadFile(calls) // without a call there is none
				return strings.Count(string(data), "call")
			},
		}
	},
	"file": func(t *testing.T) counted {
		dir := t.TempDir()
		for n := range issuesThere {
			issue := fmt.Sprintf("---\nid: \"%d\"\ntitle: Work\nstatus: Todo\n---\n", n+1)
			test.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n, ".md")), []byte(issue), 0o600))
		}
		return counted{
			Tracker:  workflow.Tracker{Folder: dir},
			states:   []string{"Todo"},
			requests: func() int { return 0 },
		}
	},
	"github": func(t *testing.T) counted {
		s := &githubtest.Server{Repository: "acme/shop", Tokens: []string{serviceToken}, Errorf: t.Errorf}
		s.Start()
		t.Cleanup(s.Close)
		for range issuesThere {
			test.Must(s.AddIssue(githubtest.Issue{Title: "Work"}))
		}
		return counted{
			Tracker:  workflow.Tracker{Endpoint: s.URL()},
			states:   []string{"open"},
			requests: func() int { return len(s.Log()) },
		}
	},
	"gitea": func(t *testing.T) counted {
		requests := 0
		s := httptest.NewServer(bigService("gitea", issuesThere, &requests))
		t.Cleanup(s.Close)
		return counted{
			Tracker:  workflow.Tracker{Endpoint: s.URL + "/api/v1"},
			states:   []string{"open"},
			requests: func() int { return requests },
		}
	},
	"gitlab": func(t *testing.T) counted {
		s := &gitlabtest.Server{Project: "acme/shop", Token: serviceToken, Errorf: t.Errorf}
		s.Start()
		t.Cleanup(s.Close)
		for range issuesThere {
			test.Must(s.AddIssue(gitlabtest.Issue{Title: "Work", CreatedAt: time.Now().Add(-time.Hour)}))
		}
		return counted{
			Tracker:  workflow.Tracker{Endpoint: s.API()},
			states:   []string{"opened"},
			requests: func() int { return len(s.Log()) },
		}
	},
	"jira": func(t *testing.T) counted {
		s := &jiratest.Server{Project: "SHOP", Errorf: t.Errorf}
		s.Start()
		t.Cleanup(s.Close)
		for range issuesThere {
			_, _, err := s.Add(jiratest.Issue{Summary: "Work", Status: "Todo"})
			test.OK(t, err)
		}
		return counted{
			Tracker: workflow.Tracker{
				Endpoint: s.URL(),
				APIKey:   jiratest.Token,
				Jira:     workflow.Jira{Email: jiratest.Email, Project: "SHOP"},
			},
			states:   []string{"Todo"},
			requests: func() int { return len(s.Log()) },
		}
	},
	"linear": func(t *testing.T) counted {
		s := lineartest.New(lineartest.Config{})
		s.Start()
		t.Cleanup(s.Close)
		for range issuesThere {
			test.Must(s.AddIssue(lineartest.Issue{Title: "Work", State: "Todo"}))
		}
		return counted{
			Tracker:  workflow.Tracker{Endpoint: s.Endpoint(), APIKey: workflow.Secret(s.Key()), ProjectSlug: "demo"},
			states:   []string{"Todo"},
			requests: func() int { return len(s.Log()) },
		}
	},
}

// docs/costs.md has a table of the requests of a pass in which nothing has changed, of each kind of
// tracker, with 100 issues on which agents may work. They are measured here.
func TestTableOfIdlePasses(t *testing.T) {
	doc := string(test.Must(os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "costs.md"))))
	for _, kind := range workflow.TrackerKinds() {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath("python3"); kind == "command" && err != nil {
				t.Skip("python3, in which the tracker of this kind is written here, is not installed")
			}
			if row := idlePasses(t, kind); !strings.Contains(doc, "\n"+row+"\n") {
				t.Errorf("docs/costs.md lacks the row\n%s", row)
			}
		})
	}
}

// idlePasses is the row of a kind. Each pass is another process.
func idlePasses(t *testing.T, kind string) string {
	t.Helper()
	c := countedTrackers[kind](t)
	cfg := &workflow.Config{Tracker: c.Tracker}
	cfg.Tracker.Kind = kind
	if cfg.Tracker.APIKey == "" {
		cfg.Tracker.APIKey = serviceToken
	}
	cfg.Tracker.Repositories = workflow.Repositories{Names: []string{"acme/shop"}}
	cfg.Policy.ActiveStates = c.states
	cfg.Policy.TerminalStates = []string{"Done"}
	dir := t.TempDir()
	p := &Project{Env: &environ.Env{Now: time.Now}, Path: filepath.Join(dir, "WORKFLOW.md"), StateDir: dir}
	memory := keptMemory{}
	var ids []string
	pass := func(claims int) string {
		before := c.requests()
		a := test.Must(NewTracker(p, cfg, TrackerOptions{Memory: memory}))
		found := test.Must(a.Candidates(t.Context(), c.states))
		test.Equal(t, "candidates", len(found), issuesThere)
		ids = text.Map(found, func(i reconcile.Issue) string { return i.ID })
		if claims > 0 {
			test.Equal(t, "claims", len(test.Must(a.ByIDs(t.Context(), ids[:claims]))), claims)
		}
		return strconv.Itoa(c.requests() - before)
	}
	first := pass(0)
	return "| `" + kind + "` | " + strings.Join([]string{first, pass(0), pass(1), pass(issuesThere)}, " | ") + " |"
}

// keptMemory remembers what passes store.
type keptMemory map[string]string

func (m keptMemory) Meta(_ context.Context, key string) (string, bool, error) {
	value, has := m[key]
	return value, has, nil
}

func (m keptMemory) SetMeta(_ context.Context, key, value string) error {
	m[key] = value
	return nil
}
