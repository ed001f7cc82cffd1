//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// Only the operator changes the first issues, and the tracker leaves them active, so the
// effect of every command is known.
const (
	ownedIssues = 2
	allIssues   = 12
)

// scene is one project: a tracker, a workflow, a state directory, workspaces and an empty
// home.
type scene struct {
	stage.Project
	mark     string // in the environment of every process
	gateDir  string
	symphony string
	tracker  *lineartest.Server
	model    *modeltest.Server // nil with scripted agents
	remote   *remote
	forge    *forge
	scripts  map[string][]string
}

const workflowText = `  terminal_states: [Done, Canceled]
polling:
  interval_ms: 1000
workspace:
  root: ./workspaces
  min_free_bytes: 0
  keep_removed_ms: 0
repository:
  url: %[1]s
  git_name: Agent
  git_email: agent@example.com
  deliver: pull-request
  api: %[4]s
  token: $GITHUB_TOKEN
handoff:
  state: Human Review
verify:
  command: commit=$(git rev-parse HEAD) && { [ -e %[3]s/calm ] || [ $(($$ %% 3)) != 0 ]; } && echo $commit >> %[3]s/proven
feedback:
  state: In Progress
  merged_state: Done
  rounds: %[5]d
merge:
  when: approved
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
%[2]s
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Attempt: {{ attempt }}
`

// prepare builds the program and sets the scene.
func (s *scene) prepare(ctx context.Context) {
	s.Project = stage.Get(stage.NewProject(stage.Get(os.MkdirTemp("", "symphony-chaos-"))))
	s.gateDir = filepath.Join(s.Dir, "gate")
	s.symphony = filepath.Join(s.Dir, "symphony")
	s.mark = "CHAOS_MARK=" + s.Dir
	s.Env = append(s.Env, s.mark, "GITHUB_TOKEN="+forgeToken)
	stage.Must(errors.Join(os.Mkdir(s.gateDir, 0o700), os.Mkdir(filepath.Join(s.Dir, "made"), 0o700)))
	stage.Must(stage.Build(ctx, s.symphony))
	s.tracker = lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	s.tracker.Start()
	s.remote = newRemote(s.random("remote"))
	s.forge = newForge(s.remote, s.random("forge"))
	s.remote.forge = s.forge
	keys := s.prepareAgent()
	if *hosts {
		s.prepareHosts(ctx)
		keys += hostKeys
	}
	workflow := workflowText
	if *merges {
		s.beCalm()
		workflow = quickWorkflow(workflow)
	}
	stage.Must(
		s.WriteWorkflow(
			s.tracker.Endpoint(),
			workflow,
			s.remote.url(),
			keys,
			s.Dir,
			s.forge.front.URL,
			forgeRounds,
		),
	)
	stage.Must(s.tracker.Load(lineartest.Seed{Issues: s.issues()}))
}

// prepareAgent returns the keys of the codex section.
func (s *scene) prepareAgent() string {
	exe := stage.Get(os.Executable())
	if *codex == "" {
		return fmt.Sprintf(
			`  command: "exec '%s' gate '%s' '%s' demo-agent app-server --home '%s' --deaf-for 4s"`,
			exe,
			s.gateDir,
			s.symphony,
			s.AgentHome,
		)
	}
	s.model = modeltest.New()
	stage.Must(modeltest.WriteHome(s.AgentHome, s.model.URL))
	// codex starts this MCP server without the mark, and does not wait for its end.
	config := filepath.Join(s.AgentHome, "config.toml")
	text := fmt.Appendf(
		stage.Get(os.ReadFile(config)),
		"\n[mcp_servers.deaf]\ncommand = \"bash\"\nstartup_timeout_sec = 1\n"+
			"args = [\"-c\", \"trap '' TERM HUP INT; exec -a %s/left/mcp sleep 900\"]\n",
		s.Dir,
	)
	stage.Must(os.WriteFile(config, text, 0o600))
	// There is no sandbox, because the end of a sandbox ends all processes that the agent
	// leaves behind.
	return fmt.Sprintf(
		"  home: '%s'\n  turn_sandbox_policy: {type: dangerFullAccess}\n  command: \"exec '%s' gate "+
			"'%s' '%s' app-server\"",
		s.AgentHome,
		exe,
		s.gateDir,
		stage.Get(filepath.Abs(*codex)),
	)
}

// random returns the source of one actor's choices, which is independent of the other actors.
func (s *scene) random(actor string) *rand.Rand {
	var n uint64
	for _, c := range actor {
		n = n*131 + uint64(c)
	}
	return rand.New(rand.NewPCG(*seed, n))
}

// issues returns the issues. Each has an agent that behaves differently in each attempt.
func (s *scene) issues() (list []lineartest.Issue) {
	// The arguments contain the folder, so that the checker finds these processes in any
	// environment.
	sleeper := func(name string) string { return fmt.Sprintf("bash -c 'exec -a %s/left/%s sleep 900'", s.Dir, name) }
	behaviours := []string{
		"COMMIT\ntokens 100 10\nstream 30 50ms\nCOMMIT\ntokens 50 5\nsay done",
		"tokens 70 7\nCOMMIT\nCOMMIT\nstream 20 50ms\nMOVE\ntokens 20 2",
		"COMMIT\nMOVE",
		"COMMIT\nMOVE",
		"COMMIT\nMOVE\nsay done",
		"COMMIT\nMOVE",
		"tokens 3 1\nCOMMIT\nstream 5 50ms\nMOVE",
		"COMMIT\nCOMMIT\nhang",
		"tokens 10 1\nCOMMIT\nstream 10 50ms\ncrash",
		"tokens 12 3\nCOMMIT\nbackground " + sleeper("crash") + "\nstream 10 50ms\ncrash",
		"tokens 5 1\nhang",
		"tokens 8 1\nCOMMIT\ndeaf\nbackground " + sleeper("deaf") + "\nhang",
		"tokens 9 1\nCOMMIT\nbackground " + sleeper("plain") + "\nstream 20 50ms\nsay a process is left",
		"tokens 11 1\nbackground setsid " + sleeper("session") + "\nstream 20 50ms\nsay a session is left",
		"tokens 13 1\nbackground env -i setsid " + sleeper(
			"unmarked",
		) + "\nstream 20 50ms\nsay a process without mark is left",
		"tokens 15 2\nbackground env -i bash -c \"trap '' TERM HUP INT; exec -a " + s.Dir + "/left/server sleep 900\"" +
			"\nstream 20 50ms\nsay a process without mark that ignores signals is left",
		"tokens 14 1\nCOMMIT\nsh sleep 2\nsubagent hello\nfail other on purpose",
	}
	if s.model != nil {
		behaviours = []string{
			"tokens 100 10\nCOMMIT\nstream 30 50ms\nsay done",
			"tokens 70 7\nCOMMIT\nCOMMIT\nstream 20 50ms\nMOVE",
			"COMMIT\nMOVE",
			"tokens 10 1\nCOMMIT\nstream 10 50ms\ncrash",
			"tokens 5 1\nhang",
			"silent",
			"tokens 9 1\nCOMMIT\nbackground " + sleeper("plain") + "\nstream 20 50ms\nsay a process is left",
			"tokens 11 1\nbackground setsid " + sleeper(
				"session",
			) + " >/dev/null 2>&1 &\nstream 20 50ms\nsay a session is left",
			"tokens 14 1\nCOMMIT\nsh sleep 2\nfail 400 on purpose",
		}
	}
	random := s.random("issues")
	s.scripts = map[string][]string{}
	if *merges {
		behaviours = []string{"COMMIT\nMOVE", "COMMIT\nCOMMIT\nMOVE"}
	}
	for n := range issueCount() {
		name := fmt.Sprintf("ABC-%d", n+1)
		text := "```agent\n"
		for attempt := range 5 {
			behaviour := s.expand(behaviours[random.IntN(len(behaviours))], name)
			s.scripts[name] = append(s.scripts[name], behaviour)
			more := ""
			if attempt == 4 {
				more = "+"
			}
			text += fmt.Sprintf("attempt %d%s:\n%s\n", attempt, more, behaviour)
		}
		text += "```\n"
		list = append(list, lineartest.Issue{
			Identifier:  name,
			Title:       "Issue " + name,
			Description: &text,
			State:       "Todo",
			Priority:    random.IntN(5),
		})
	}
	return list
}

// expand replaces COMMIT and MOVE, which asks for the handover, by commands of the agent of an
// issue. An agent that was killed may have left locks of git.
func (s *scene) expand(behaviour, issue string) string {
	commit := fmt.Sprintf(
		`sh find .git -name '*.lock' -delete; d=$(date +%%s%%N); echo $d > $d.md && git add . && git commit -qm "%s $d" && `+
			`echo $(git rev-parse HEAD) $(date +%%s%%3N) >> %s`,
		issue,
		filepath.Join(s.Dir, "made", issue),
	)
	return strings.NewReplacer("COMMIT", commit, "MOVE", `tool hand_over {"summary": "Done."}`).
		Replace(behaviour)
}

// scriptCrashes reports whether the agent of that attempt ends by itself.
func (s *scene) scriptCrashes(identifier, attempt string) bool {
	n, err := strconv.Atoi(attempt)
	scripts := s.scripts[identifier]
	return err != nil || len(scripts) == 0 || strings.Contains(scripts[min(n, len(scripts)-1)], "crash")
}

// process is a process of the scene.
type process struct{ stage.Process }

func (s *scene) processes() (list []process, err error) {
	found, err := stage.Processes(s.Dir, s.mark)
	for _, p := range found {
		list = append(list, process{p})
	}
	return list, err
}

const (
	kindLink   = "link"   // ssh
	kindDaemon = "daemon" // of a run on a host
)

// kind returns the kind of a process that the killer may hit, "" for every other process.
func (p process) kind() string {
	switch {
	case slices.Contains(p.Args, "app-server") && !slices.Contains(p.Args, gateCommand):
		return "agent"
	case filepath.Base(p.Args[0]) == "git":
		return "git"
	case filepath.Base(p.Args[0]) == "ssh":
		return kindLink
	case len(p.Args) < 2 || filepath.Base(p.Args[0]) != "symphony":
		return ""
	case p.IsWorker():
		return "worker"
	case p.Args[1] == "host" && slices.Contains(p.Args, "--detached"):
		return kindDaemon
	case p.Args[1] == "host":
		return "connect"
	case p.Args[1] == "tick" && slices.Contains(p.Args, "--loop"):
		return "loop"
	case p.Args[1] == "tick":
		return "pass"
	}
	return "operator"
}

// run returns the run id of a worker.
func (p process) run() string {
	if at := slices.Index(p.Args, "--run"); at > 0 && at+1 < len(p.Args) {
		return p.Args[at+1]
	}
	return ""
}

// open returns a handle of the process, nil if it has ended. It compares the arguments,
// because the pid may have been reused since the process was listed.
func (p process) open() (*os.Process, error) {
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	now, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
	if err != nil || !slices.Equal(stage.Args(now), p.Args) {
		return nil, handle.Release()
	}
	return handle, nil
}

// send sends a signal unless the process has ended.
func send(p *os.Process, sig syscall.Signal) error {
	if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// end kills the remaining processes and removes the folder.
func (s *scene) end() error {
	if s.Dir == "" {
		return nil // nothing was prepared
	}
	var errs []error
	for range 20 { // a process may have started another before it died
		list, err := s.processes()
		errs = append(errs, err)
		if len(list) == 0 {
			break
		}
		for _, p := range list {
			handle, err := p.open()
			if handle != nil {
				err = errors.Join(send(handle, syscall.SIGKILL), handle.Release())
			}
			errs = append(errs, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if s.tracker != nil {
		s.tracker.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
	if s.forge != nil {
		s.forge.close()
	}
	if s.remote != nil {
		errs = append(errs, s.remote.close())
	}
	if *keep {
		fmt.Fprintln(os.Stderr, "chaos: kept", s.Dir)
	} else {
		errs = append(errs, os.RemoveAll(s.Dir))
	}
	return errors.Join(errs...)
}
