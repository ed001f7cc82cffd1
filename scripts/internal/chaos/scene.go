package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
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
	o        options
	dir      string
	stateDir string
	gateDir  string
	workflow string
	symphony string
	env      []string
	tracker  *tracker
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
  command: "exec '%s' gate '%s' '%s' demo-agent app-server --home '%s' --deaf-for 4s"
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Attempt: {{ attempt }}
`

// begin builds the program and sets the scene.
func begin(ctx context.Context, o options, progress io.Writer) (s *scene, err error) {
	dir, err := os.MkdirTemp("", "symphony-chaos-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	s = &scene{
		o: o, dir: dir, progress: progress,
		stateDir: filepath.Join(dir, "state"), gateDir: filepath.Join(dir, "gate"), workflow: filepath.Join(dir, "WORKFLOW.md"),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
			s = nil
		}
	}()
	if err := s.build(ctx); err != nil {
		return s, err
	}
	home, agentHome, tmp := filepath.Join(dir, "home"), filepath.Join(dir, "agent-home"), filepath.Join(dir, "tmp")
	for _, dir := range []string{home, agentHome, tmp, s.gateDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return s, err
		}
	}
	if s.tracker, err = startTracker(); err != nil {
		return s, err
	}
	exe, err := os.Executable()
	if err != nil {
		return s, err
	}
	text := fmt.Sprintf(workflowText, s.tracker.url+"/graphql", exe, s.gateDir, s.symphony, agentHome)
	if err := os.WriteFile(s.workflow, []byte(text), 0o600); err != nil {
		return s, err
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + tmp, markName + "=" + dir,
		"SYMPHONY_WORKFLOW=" + s.workflow, "SYMPHONY_STATE_DIR=" + s.stateDir, "LINEAR_API_KEY=" + lineartest.DefaultKey,
	}
	return s, s.tracker.control(ctx, "seed", lineartest.Seed{Issues: s.issues(s.random("issues"))}, nil)
}

// random is the source of one actor's choices, so that those of the others do not shift it.
func (s *scene) random(actor string) *rand.Rand {
	var n uint64
	for _, c := range actor {
		n = n*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(s.o.seed, n))
}

func (s *scene) build(ctx context.Context) error {
	// Always in our folder and by this name: the killer knows it by that.
	s.symphony = filepath.Join(s.dir, "symphony")
	if s.o.symphony != "" {
		data, err := os.ReadFile(s.o.symphony)
		if err != nil {
			return err
		}
		return os.WriteFile(s.symphony, data, 0o700) //nolint:gosec // a program
	}
	fmt.Fprintln(s.progress, "chaos: building ./cmd/symphony")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", s.o.tags, "-ldflags", "-s -w", "-o", s.symphony, "./cmd/symphony")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	return nil
}

// issues have an agent each that behaves otherwise at each attempt.
func (s *scene) issues(random *rand.Rand) (list []lineartest.Issue) {
	// The names of these processes hold our folder, so that they are found whatever they lost of their environment.
	sleeper := func(name string) string { return fmt.Sprintf("bash -c 'exec -a %s/left/%s sleep 900'", s.dir, name) }
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
		"tokens 14 1\nsh sleep 2\nsubagent hello\nfail other on purpose",
	}
	for n := range allIssues {
		var script strings.Builder
		for attempt := range 5 {
			more := ""
			if attempt == 4 {
				more = "+"
			}
			fmt.Fprintf(&script, "attempt %d%s:\n%s\n", attempt, more, behaviours[random.IntN(len(behaviours))])
		}
		text := "```agent\n" + script.String() + "```\n"
		name := fmt.Sprintf("ABC-%d", n+1)
		list = append(list, lineartest.Issue{
			Identifier: name, Title: "Issue " + name, Description: &text, State: "Todo", Priority: random.IntN(5),
		})
	}
	return list
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
	if s.tracker != nil {
		errs = append(errs, s.tracker.close())
	}
	if s.o.keep {
		fmt.Fprintln(s.progress, "chaos: kept", s.dir)
	} else {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
