//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// markName is the variable by which processes are known as ours; its value is the folder.
const markName = "CHAOS_MARK"

// The issues: the first ones are the operator's, whom nobody else contradicts; they stay active to the end.
const (
	ownedIssues = 2
	allIssues   = 12
)

// scene is one project: a tracker, a workflow, its state, its workspaces, an empty home.
type scene struct {
	stage.Project
	o        options
	gateDir  string
	symphony string
	tracker  tracker
	model    *modeltest.Server // nil with scripted agents
	scripts  map[int][]string  // what the agents do, by number of the issue and attempt
	progress io.Writer
}

const workflowText = `---
tracker:
  kind: linear
  endpoint: %s
  api_key: $LINEAR_API_KEY
  project_slug: demo
  terminal_states: [Done, Canceled]
polling:
  interval_ms: 1000
workspace:
  root: ./workspaces
  min_free_bytes: 0
  keep_removed_ms: 0
hooks:
  after_create: echo seed > seed.txt
  before_run: echo begin >> runs.txt
  after_run: echo "$SYMPHONY_OUTCOME" >> runs.txt
  timeout_ms: 5000
agent:
  max_concurrent_agents: 4
  max_turns: 2
  max_retry_backoff_ms: 1000
  max_failures: 0
  max_idle_runs: 0
  max_runs: 0
codex:
  stall_timeout_ms: 5000
%s
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Attempt: {{ attempt }}
`

// begin builds the program and sets the scene.
func begin(ctx context.Context, o options, progress io.Writer) (s *scene, err error) {
	dir, err := stage.TempDir("chaos")
	if err != nil {
		return nil, err
	}
	s = &scene{o: o, progress: progress, scripts: map[int][]string{}, gateDir: filepath.Join(dir, "gate"), symphony: filepath.Join(dir, "symphony")}
	s.Dir = dir
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
			s = nil
		}
	}()
	if s.Project, err = stage.NewProject(dir); err != nil {
		return s, err
	}
	s.Env = append(s.Env, markName+"="+dir, "SYMPHONY_WORKFLOW="+s.Workflow, "SYMPHONY_STATE_DIR="+s.StateDir)
	if err := s.build(ctx); err != nil {
		return s, err
	}
	if err := os.Mkdir(s.gateDir, 0o700); err != nil {
		return s, err
	}
	if s.tracker.Tracker, err = stage.StartTracker(10 * time.Second); err != nil {
		return s, err
	}
	agent, err := s.agent()
	if err != nil {
		return s, err
	}
	if err := s.WriteWorkflow(workflowText, s.tracker.Endpoint(), agent); err != nil {
		return s, err
	}
	return s, s.tracker.Seed(ctx, s.issues(s.random("issues")))
}

// agent prepares the agents' home and gives what a workflow says of them.
func (s *scene) agent() (keys string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if s.o.codex == "" {
		return fmt.Sprintf(`  command: "exec '%s' gate '%s' '%s' demo-agent app-server --home '%s' --deaf-for 4s"`,
			exe, s.gateDir, s.symphony, s.AgentHome), nil
	}
	codex, err := filepath.Abs(s.o.codex)
	if err != nil {
		return "", err
	}
	s.model = modeltest.New()
	if err := modeltest.WriteHome(s.AgentHome, s.model.URL); err != nil {
		return "", err
	}
	// codex starts such a server with an environment of its own, and does not wait for its end.
	config := filepath.Join(s.AgentHome, "config.toml")
	f, err := os.OpenFile(config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, `
[mcp_servers.deaf]
command = "bash"
args = ["-c", "trap '' TERM HUP INT; exec -a %s/left/mcp sleep 900"]
startup_timeout_sec = 1
`, s.Dir)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	// Without a sandbox, in which nothing could be left.
	return fmt.Sprintf(`  home: '%s'
  turn_sandbox_policy: {type: dangerFullAccess}
  command: "exec '%s' gate '%s' '%s' app-server"`, s.AgentHome, exe, s.gateDir, codex), nil
}

// random is the source of one actor's choices, so that those of the others do not shift it.
func (s *scene) random(actor string) *rand.Rand {
	var n uint64
	for _, c := range actor {
		n = n*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(s.o.seed, n))
}

// build makes the program, always in our folder and by this name: the killer knows it by that.
func (s *scene) build(ctx context.Context) error {
	if s.o.symphony != "" {
		data, err := os.ReadFile(s.o.symphony)
		if err != nil {
			return err
		}
		return os.WriteFile(s.symphony, data, 0o700) //nolint:gosec // a program
	}
	fmt.Fprintln(s.progress, "chaos: building ./cmd/symphony")
	return stage.Build(ctx, s.o.tags, s.symphony, "./cmd/symphony")
}

// issues have an agent each that behaves otherwise at each attempt.
func (s *scene) issues(random *rand.Rand) (list []lineartest.Issue) {
	// The names of these processes hold our folder, so that they are found whatever they lost of their environment.
	sleeper := func(name string) string { return fmt.Sprintf("bash -c 'exec -a %s/left/%s sleep 900'", s.Dir, name) }
	behaviours := []string{
		"tokens 100 10\nstream 30 50ms\nsh echo work >> work.txt\ntokens 50 5\nsay done",
		"tokens 70 7\nstream 60 50ms\ntokens 20 2",
		"tokens 10 1\nstream 10 50ms\ncrash",
		"tokens 12 3\nbackground " + sleeper("crash") + "\nstream 10 50ms\ncrash",
		"tokens 5 1\nhang",
		"tokens 8 1\ndeaf\nbackground " + sleeper("deaf") + "\nhang",
		"tokens 9 1\nbackground " + sleeper("plain") + "\nstream 20 50ms\nsay it is still there",
		"tokens 11 1\nbackground setsid " + sleeper("session") + "\nstream 20 50ms\nsay it has a session of its own",
		"tokens 13 1\nbackground env -i setsid " + sleeper("unmarked") + "\nstream 20 50ms\nsay it has no mark",
		"tokens 15 2\nbackground env -i bash -c \"trap '' TERM HUP INT; exec -a " + s.Dir + "/left/server sleep 900\"" +
			"\nstream 20 50ms\nsay my server has no mark and heeds nothing",
		"tokens 14 1\nsh sleep 2\nsubagent hello\nfail other on purpose",
	}
	if s.model != nil {
		behaviours = []string{
			"tokens 100 10\nstream 30 50ms\nsh echo work >> work.txt\nsay done",
			"tokens 70 7\nstream 60 50ms",
			"tokens 10 1\nstream 10 50ms\ncrash",
			"tokens 5 1\nhang",
			"silent",
			"tokens 9 1\nbackground " + sleeper("plain") + "\nstream 20 50ms\nsay it is still there",
			"tokens 11 1\nbackground setsid " + sleeper("session") + " >/dev/null 2>&1 &\nstream 20 50ms\nsay it has a session of its own",
			"tokens 14 1\nsh sleep 2\nfail 400 on purpose",
		}
	}
	for n := range allIssues {
		var script strings.Builder
		for attempt := range 5 {
			more := ""
			if attempt == 4 {
				more = "+"
			}
			behaviour := behaviours[random.IntN(len(behaviours))]
			fmt.Fprintf(&script, "attempt %d%s:\n%s\n", attempt, more, behaviour)
			s.scripts[n+1] = append(s.scripts[n+1], behaviour)
		}
		text := "```agent\n" + script.String() + "```\n"
		name := fmt.Sprintf("ABC-%d", n+1)
		list = append(list, lineartest.Issue{
			Identifier: name, Title: "Issue " + name, Description: &text, State: "Todo", Priority: random.IntN(5),
		})
	}
	return list
}

// crashes reports whether the agent of that attempt ends by itself.
func (s *scene) crashes(identifier string, attempt int) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(identifier, "ABC-"))
	if err != nil || len(s.scripts[n]) == 0 {
		return true // not ours to say
	}
	scripts := s.scripts[n]
	return strings.Contains(scripts[min(attempt, len(scripts)-1)], "crash")
}

// owned reports whether only the operator has a say on the issue.
func owned(identifier string) bool {
	for n := range ownedIssues {
		if identifier == fmt.Sprintf("ABC-%d", n+1) {
			return true
		}
	}
	return false
}

// end kills what is left, by handle, and removes the folder.
func (s *scene) end() error {
	var errs []error
	// What is killed may have had the time to start another.
	for range 20 {
		list, err := s.processes()
		errs = append(errs, err)
		if len(list) == 0 {
			break
		}
		for _, p := range list {
			errs = append(errs, p.kill())
		}
		time.Sleep(50 * time.Millisecond)
	}
	if s.tracker.Tracker != nil {
		errs = append(errs, s.tracker.Close())
	}
	if s.model != nil {
		s.model.Close()
	}
	if s.o.keep {
		fmt.Fprintln(s.progress, "chaos: kept", s.Dir)
	} else {
		errs = append(errs, os.RemoveAll(s.Dir))
	}
	return errors.Join(errs...)
}
