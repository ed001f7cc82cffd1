package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// The soak: what cron would do, faster. A pass every second, each a process of its own, takes ten issues to
// their ends while a checker compares what ps says with what the machine and the tracker say.
const (
	soakBound   = 90 * time.Second
	soakTick    = time.Second
	soakSample  = 200 * time.Millisecond
	soakAgents  = 3
	soakTimeout = 15 * time.Second // for one command
	// soakMemory bounds what a worker has for itself (kB); the rest of its resident memory is the program's file,
	// which all of them share.
	soakMemory = 8 << 10
)

// soakIssue is one of the ten, and what must have become of it.
type soakIssue struct {
	priority int
	blocked  []string
	script   string // {move STATE}, {comment TEXT} and {commit} stand for what they say
	byHand   string // the state that a person moves it to while its command runs
	state    string
	runs     string // outcomes, oldest first
}

var soakIssues = map[string]soakIssue{
	"ABC-1":  {priority: 1, script: "{move In Progress}\nsh echo one > one.txt\n{commit}\n{move Done}", state: "Done", runs: "succeeded"},
	"ABC-2":  {priority: 1, blocked: []string{"ABC-1"}, script: "sh echo two > two.txt\n{commit}\n{move Done}\nsay done", state: "Done", runs: "succeeded"},
	"ABC-3":  {priority: 2, script: "attempt 0:\nsh echo half > half.txt\nfail 400 no good\nattempt 1+:\n{commit}\n{move Human Review}", state: "Human Review", runs: "failed succeeded"},
	"ABC-4":  {priority: 2, script: "attempt 0:\nsh echo more >> more.txt\nattempt 1+:\n{commit}\n{move Human Review}", state: "Human Review", runs: "succeeded succeeded"},
	"ABC-5":  {priority: 2, script: "sh sleep 6005", byHand: "Backlog", state: "Backlog", runs: "canceled"},
	"ABC-6":  {priority: 3, script: "{comment I have nothing to add}\nturn 2:\nsay still nothing", state: "Todo", runs: "succeeded succeeded succeeded"},
	"ABC-7":  {priority: 0, script: "stream 300 10ms\n{move Human Review}", state: "Human Review", runs: "succeeded"},
	"ABC-8":  {priority: 1, blocked: []string{"ABC-1", "ABC-2"}, script: "{move Human Review}", state: "Human Review", runs: "succeeded"},
	"ABC-9":  {priority: 4, script: "background sleep 6009\nsh echo nine > nine.txt\n{commit}\n{move Done}", state: "Done", runs: "succeeded"},
	"ABC-10": {priority: 4, script: "sh sleep 6010", byHand: "Done", state: "Done", runs: "canceled"},
}

const soakWorkflow = `---
tracker:
  kind: linear
  endpoint: %s
  api_key: $LINEAR_API_KEY
  project_slug: demo
  terminal_states: [Done, Canceled]
workspace:
  root: ./ws
  keep_removed_ms: 0
  min_free_bytes: 0
hooks:
  after_create: %s
  after_run: echo "$SYMPHONY_ISSUE_IDENTIFIER $SYMPHONY_OUTCOME" >> ../../after_run
agent:
  max_concurrent_agents: %d
  max_turns: 2
  max_retry_backoff_ms: 1000
codex:
  command: %s
---
{{ issue.title }}

{{ issue.description }}
Attempt: {{ attempt }}
`

func TestSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what ps says is compared with /proc")
	}
	t.Run("scripted", func(t *testing.T) { newSoak(t, "").run() })
	t.Run("codex", func(t *testing.T) {
		codex := os.Getenv("SYMPHONY_TEST_CODEX")
		if codex == "" {
			t.Skip("SYMPHONY_TEST_CODEX names no codex; the soak with the real one is skipped")
		}
		newSoak(t, codex).run()
	})
}

type soak struct {
	t      *testing.T
	dir    string
	env    []string
	mark   string
	linear *lineartest.Server
	model  *modeltest.Server // nil with the scripted agent
	began  time.Time

	mu    sync.Mutex
	ticks []time.Duration
	looks []time.Duration
}

// newSoak sets the scene: a tracker with the ten issues, an agent, a repository where the real codex is to
// commit to one, and a workflow.
func newSoak(t *testing.T, codex string) *soak {
	t.Helper()
	s := &soak{t: t, mark: fmt.Sprintf("soak-%d-%d", os.Getpid(), time.Now().UnixNano()), began: time.Now()}
	s.linear = lineartest.New(lineartest.Config{Key: "lin_api_" + strings.Repeat("secret", 3)})
	s.must(s.linear.Start())
	t.Cleanup(func() { s.linear.Close() })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	s.must(err)
	s.dir = dir
	home, codexHome := filepath.Join(dir, "home"), filepath.Join(dir, "codex-home")
	s.must(errors.Join(os.Mkdir(home, 0o700), os.Mkdir(codexHome, 0o700)))
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + codexHome, "TMPDIR=" + dir, markName + "=" + s.mark,
		"SYMPHONY_STATE_DIR=" + filepath.Join(dir, "state"), "LINEAR_API_KEY=" + s.linear.Key(),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	t.Cleanup(s.sweep)
	// The scripted agent needs nothing but Go's own tools: it has no repository.
	agent, create, commit := "", "echo seed > seed.txt", "sh echo committed > committed.txt"
	if codex == "" {
		agent, err = inPath(os.Getenv("PATH"), "fake-codex")
		s.must(err)
		agent += " app-server --pace 300ms --home " + codexHome // or all would be over in three seconds
	} else {
		s.model = modeltest.New()
		t.Cleanup(s.model.Close)
		s.must(modeltest.WriteHome(codexHome, s.model.URL))
		agent, create, commit = codex+" app-server", "git clone -q "+filepath.Join(dir, "repo")+" .", "sh git add -A && git commit -qm work"
		s.command("git", "init", "-q", "-b", "main", "repo")
		s.command("git", "-C", "repo", "commit", "-q", "--allow-empty", "-m", "Begin")
	}
	for _, name := range slices.Sorted(maps.Keys(soakIssues)) {
		s.addIssue(name, soakIssues[name], commit)
	}
	s.must(os.WriteFile(filepath.Join(dir, "WORKFLOW.md"), fmt.Appendf(nil, soakWorkflow, s.linear.Endpoint(), create, soakAgents, agent), 0o600))
	return s
}

func (s *soak) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) addIssue(name string, i soakIssue, commit string) {
	s.t.Helper()
	call := func(query string, variables map[string]string) string {
		variables["issue"] = name
		data, err := json.Marshal(map[string]any{"query": query, "variables": variables})
		s.must(err)
		return "tool linear_graphql " + string(data)
	}
	script := moveMacro.ReplaceAllStringFunc(i.script, func(m string) string {
		id, err := s.linear.StateID("ABC", moveMacro.FindStringSubmatch(m)[1])
		s.must(err)
		return call("mutation($issue: String!, $state: String!) { issueUpdate(id: $issue, input: {stateId: $state}) { success } }", map[string]string{"state": id})
	})
	script = commentMacro.ReplaceAllStringFunc(script, func(m string) string {
		body := commentMacro.FindStringSubmatch(m)[1]
		return call("mutation($issue: String!, $body: String!) { commentCreate(input: {issueId: $issue, body: $body}) { success } }", map[string]string{"body": body})
	})
	text := "```agent\n" + strings.ReplaceAll(script, "{commit}", commit) + "\n```\n"
	_, err := s.linear.AddIssue(lineartest.Issue{
		Identifier: name, Title: "Issue " + name, Description: &text, State: "Todo", Priority: i.priority, BlockedBy: i.blocked,
	})
	s.must(err)
}

// command runs a program in the soak's directory and returns what it says and how long it took. What it says
// must not hold the key.
func (s *soak) command(name string, args ...string) (string, time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), soakTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.WaitDelay = time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	if strings.Contains(string(out), s.linear.Key()) {
		s.t.Errorf("%s says the key:\n%s", name, out)
	}
	return string(out), time.Since(began)
}

func (s *soak) run() {
	ctx, stop := context.WithTimeout(context.Background(), soakBound)
	defer stop()
	// The first pass makes the database that ps reads.
	s.tick()
	var work sync.WaitGroup
	over := make(chan struct{})
	work.Go(func() { s.everySecond(over) })
	work.Go(func() { s.moveByHand(ctx) })
	c := newChecker(s)
	for !c.finished && ctx.Err() == nil && !s.t.Failed() {
		c.sample()
		project.Sleep(ctx, soakSample)
	}
	close(over)
	stop()
	work.Wait()
	s.settled(c)
	c.report()
	s.final()
}

func (s *soak) tick() {
	out, took := s.command("symphony", "tick", "--trigger", "cron")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks = append(s.ticks, took)
	if testing.Verbose() {
		s.t.Logf("%5.1fs tick:\n%s", time.Since(s.began).Seconds(), out)
	}
}

// everySecond is cron.
func (s *soak) everySecond(over <-chan struct{}) {
	every := time.NewTicker(soakTick)
	defer every.Stop()
	for {
		select {
		case <-over:
			return
		case <-every.C:
			s.tick()
		}
	}
}

// moveByHand moves those issues that a person takes away, once their agent is at work.
func (s *soak) moveByHand(ctx context.Context) {
	left := map[string]soakIssue{}
	for name, i := range soakIssues {
		if i.byHand != "" {
			left[name] = i
		}
	}
	for len(left) > 0 && project.Sleep(ctx, soakSample/2) {
		for name, i := range left {
			_, duration, _ := strings.Cut(i.script, "sh ")
			for _, p := range s.processes() {
				if strings.Join(p.argv, " ") == duration {
					s.must(s.linear.Move(name, i.byHand))
					delete(left, name)
					break
				}
			}
		}
	}
}

// settled waits for what the last pass has started, and lets one more pass find nothing to do.
func (s *soak) settled(c *checker) {
	if s.t.Failed() || !c.finished {
		s.t.Errorf("given up after %.1f s", time.Since(s.began).Seconds())
		s.command("symphony", "stop", "--all")
	}
	end := time.Now().Add(soakTimeout)
	for len(s.processes()) > 0 && time.Now().Before(end) {
		time.Sleep(soakSample / 4)
	}
	if left := s.processes(); len(left) > 0 {
		s.t.Errorf("processes are left: %+v", left)
	}
	out, _ := s.command("symphony", "tick")
	if !strings.Contains(out, ": 0 running, 0 waiting, 1 held") || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		s.t.Errorf("the pass after the end:\n%s", out)
	}
	c.sample()
}

// sweep ends what a soak that failed has left.
func (s *soak) sweep() {
	for _, p := range s.processes() {
		s.t.Errorf("left behind: %d %q", p.pid, p.argv)
		if process, err := os.FindProcess(p.pid); err == nil {
			process.Kill()
		}
	}
}

// final looks at what is left: states, runs, claims, workspaces, and the key in no file.
func (s *soak) final() {
	runs := s.runsByIssue()
	var terminal []string
	for name, want := range soakIssues {
		issue, err := s.linear.Issue(name)
		s.must(err)
		if issue.State != want.state {
			s.t.Errorf("%s is %s, not %s", name, issue.State, want.state)
		}
		if got := strings.Join(runs[name], " "); got != want.runs {
			s.t.Errorf("%s: runs %q, want %q", name, got, want.runs)
		}
		if want.state == "Done" {
			terminal = append(terminal, name)
		}
	}
	comments, err := s.linear.Comments("ABC-6")
	s.must(err)
	if len(comments) != 3 {
		s.t.Errorf("%d comments on the issue whose agent only comments", len(comments))
	}
	if claims := s.query("SELECT identifier || ' ' || status || ' ' || hold_reason FROM claims"); !slices.Equal(claims, []string{"ABC-6 held max_idle_runs"}) {
		s.t.Errorf("claims: %q", claims)
	}
	if bad := s.query("SELECT id FROM runs WHERE settled = 0 OR outcome IS NULL"); len(bad) > 0 {
		s.t.Errorf("runs that were not settled: %q", bad)
	}
	for _, name := range terminal {
		for _, path := range []string{name, ".symphony/" + name + ".json", ".symphony/work/" + name} {
			if _, err := os.Lstat(filepath.Join(s.dir, "ws", path)); !errors.Is(err, fs.ErrNotExist) {
				s.t.Errorf("%s is left: %v", path, err)
			}
		}
	}
	if trash, err := os.ReadDir(filepath.Join(s.dir, "ws", ".symphony", "trash")); err != nil || len(trash) > 0 {
		s.t.Errorf("the trash holds %v, %v", trash, err)
	}
	s.inOrder()
	s.tokens()
	s.noSecret()
}

// inOrder: the first three slots went by priority, and an issue without one came last.
func (s *soak) inOrder() {
	first := s.query("SELECT identifier FROM runs WHERE kind = 'agent' GROUP BY identifier ORDER BY min(id)")
	if len(first) < 3 || !slices.Equal(first[:3], []string{"ABC-1", "ABC-3", "ABC-4"}) {
		s.t.Errorf("first runs: %q", first)
	}
	for _, name := range []string{"ABC-5", "ABC-6", "ABC-9", "ABC-10"} {
		if slices.Index(first, name) > slices.Index(first, "ABC-7") {
			s.t.Errorf("ABC-7, which has no priority, ran before %s: %q", name, first)
		}
	}
}

// tokens: the totals are those of the runs, and with a model those that it told of, but for calls that were
// cut with their run.
func (s *soak) tokens() {
	sum := s.query("SELECT sum(tokens_total) FROM runs")
	totals := s.query("SELECT value FROM meta WHERE key = 'totals_total'")
	if !slices.Equal(sum, totals) || sum[0] == "0" {
		s.t.Errorf("the runs used %q tokens, the totals say %q", sum, totals)
	}
	if s.model == nil {
		return
	}
	input, output := s.model.Tokens()
	var counted int
	if _, err := fmt.Sscan(totals[0], &counted); err != nil || counted > input+output || counted < input+output-2*1050 {
		s.t.Errorf("%d tokens counted, the model told of %d (%v)", counted, input+output, err)
	}
}

func (s *soak) runsByIssue() map[string][]string {
	runs := map[string][]string{}
	for _, row := range s.query("SELECT identifier || ' ' || coalesce(outcome, '-') FROM runs WHERE kind = 'agent' ORDER BY id") {
		name, outcome, _ := strings.Cut(row, " ")
		runs[name] = append(runs[name], outcome)
	}
	return runs
}

// query gives the first column of a query on the database.
func (s *soak) query(text string, args ...any) []string {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "state", "state.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	s.must(err)
	defer db.Close()
	rows, err := db.Query(text, args...)
	s.must(err)
	defer rows.Close()
	var list []string
	for rows.Next() {
		var v string
		s.must(rows.Scan(&v))
		list = append(list, v)
	}
	s.must(rows.Err())
	return list
}

func (s *soak) noSecret() {
	s.must(filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), s.linear.Key()) {
			s.t.Errorf("the key stands in %s", path)
		}
		return err
	}))
}
