//go:build linux

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/team"
)

const (
	// otherClaims is how many claims of another project are in the same remote.
	otherClaims = 1000
	// teamHaste is how much faster the clocks go that terms are counted with.
	teamHaste = 4
)

// term is for how long claims hold. On a busy machine a push to a real Gitea takes seconds, because it starts
// three hooks: all of a term of fifteen seconds would be spent on renewals.
func (s *teamScene) term() time.Duration {
	if s.way == overGitea {
		return time.Minute
	}
	return 15 * time.Second
}

// issueCount is how many issues the machines have. They are finished after the storm: so there are fewer in
// a short one, and on a real Gitea, of which each push takes a few seconds of CPU time.
func (s *teamScene) issueCount() int {
	switch {
	case *seconds < 30 || s.way == overGitea:
		return 9
	case *seconds < 120:
		return 24
	}
	return 40
}

// teamColumns are the figures of a team that must be zero.
var teamColumns = []string{
	"deliveries without the claim", "deliveries pushed over", "claims taken too early", "issues stuck",
	"starts beside a claim", "commits lost", "commits delivered twice", "claims left", "claims of others lost",
	"unexpected ends",
}

const teamWorkflow = `  terminal_states: [Done]
polling:
  interval_ms: 1000
workspace:
  root: ./workspaces
  min_free_bytes: 0
repository:
  url: %[1]s
  git_name: Agent
  git_email: agent@example.com
  claims: {term_ms: %[5]d, watch_ms: %[5]d%[4]s}
handoff:
  state: Human Review
hooks:
  timeout_ms: 5000
agent:
  max_concurrent_agents: 3
  max_turns: 2
  max_retry_backoff_ms: 1000
  max_failures: 0
  max_idle_runs: 0
  max_runs: 0
codex:
  stall_timeout_ms: 5000
  command: "exec '%[2]s' demo-agent app-server --home '%[3]s'"
---
You work on {{ issue.identifier }}.

{{ issue.description }}

Attempt: {{ attempt }}
`

// teamScene is a project on which several machines work.
type teamScene struct {
	scene
	machines  []*machine
	loner     *machine // without claims
	lonerRuns []lonerRun
	way       string // by which the machines reach the remote
	gitea     *giteatest.Server
	giteaName string                 // of the repository there
	onBranch  bool                   // the claims are files on a branch
	others    map[string]bool        // the keys of the claims of another project
	read      map[string]*team.Claim // by object

	mu       sync.Mutex
	faults   map[string][]string
	kills    map[string]int
	exits    map[string]int
	cuts     int
	erased   int     // claims that a person has deleted
	refusals int     // times in which claims were refused
	sleeps   int     // of one machine, or of all
	jumps    []int64 // when all machines slept for an hour, in milliseconds
	taken    int     // claims that one machine has taken from another
	pushes   int     // deliveries
}

// machine is one of a team.
type machine struct {
	stage.Project
	name  string
	mark  string // in the environment of its processes
	link  *cable
	ahead time.Duration // of the clock that people read
	slept time.Duration
	awake sync.RWMutex // write-locked while the machine sleeps
}

// teamChaos runs a storm over a team, and prints a table. Then one machine is switched off, and the
// others finish everything.
func teamChaos(ctx context.Context, out io.Writer) error {
	s := &teamScene{
		others: map[string]bool{},
		read:   map[string]*team.Claim{},
		faults: map[string][]string{},
		kills:  map[string]int{},
		exits:  map[string]int{},
	}
	err := stage.Catch(func() {
		s.prepare(ctx)
		defer s.print(out)
		s.storm(ctx)
		fmt.Fprintln(os.Stderr, "chaos: killing has ended; the first machine is switched off")
		calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Minute)
		defer cancel()
		s.judge(calm)
	})
	err = errors.Join(err, s.end())
	if err == nil && len(s.faults) > 0 {
		err = fmt.Errorf("%d figures that must be zero are not; repeat with -seed %d", len(s.faults), *seed)
	}
	return err
}

func (s *teamScene) prepare(ctx context.Context) {
	s.Project = stage.Get(stage.NewProject(stage.Get(os.MkdirTemp("", "symphony-chaos-"))))
	s.mark = "CHAOS_MARK=" + s.Dir
	s.symphony = filepath.Join(s.Dir, "symphony")
	stage.Must(os.Mkdir(filepath.Join(s.Dir, "made"), 0o700))
	// the test binary: its clocks can be changed
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", s.symphony, "./cmd/symphony")
	if text, err := build.CombinedOutput(); err != nil {
		stage.Must(fmt.Errorf("%s: %w: %s", build, err, text))
	}
	s.tracker = lineartest.New(lineartest.Config{RequestsPerHour: 1e9, ComplexityPerHour: 1e12})
	s.tracker.Start()
	s.choose()
	s.prepareRemote()
	for n := range *machines {
		s.addMachine(n)
	}
	s.addLoner()
	stage.Must(s.tracker.Load(lineartest.Seed{Issues: s.teamIssues()}))
}

// log is the file with all changes of references of the remote.
func (s *teamScene) log() string { return filepath.Join(s.Dir, "references") }

// addMachine adds a machine. The clock of each differs from the others' by ten minutes.
func (s *teamScene) addMachine(n int) {
	name := fmt.Sprintf("m%d", n+1)
	dir := filepath.Join(s.Dir, name)
	stage.Must(os.Mkdir(dir, 0o700))
	m := &machine{Project: stage.Get(stage.NewProject(dir)), name: name, mark: "CHAOS_MACHINE=" + dir}
	m.Env = append(m.Env, s.mark, m.mark,
		"SYMPHONY_MACHINE="+name,
		"SYMPHONY_TEST_UPTIME="+filepath.Join(dir, "uptime"),
		"SYMPHONY_TEST_CLOCK="+filepath.Join(dir, "clock"))
	m.ahead = time.Duration(n-1) * 10 * time.Minute
	m.setClocks()
	branch := ""
	if s.onBranch {
		branch = ", branch: " + strings.TrimPrefix(claimsBranch, "refs/heads/")
	}
	endpoint := s.tracker.Endpoint()
	if n == 1 { // another name of the same project
		endpoint = strings.Replace(endpoint, "127.0.0.1", "localhost", 1)
	}
	stage.Must(m.WriteWorkflow(
		endpoint, teamWorkflow, s.connect(m), s.symphony, m.AgentHome, branch,
		(teamHaste * s.term()).Milliseconds(),
	))
	s.machines = append(s.machines, m)
}

// setClocks sets the clock of the machine that people read, and the one that terms are counted with.
func (m *machine) setClocks() {
	clocks := map[string]string{
		"clock":  (m.ahead + m.slept).String(),
		"uptime": fmt.Sprint(teamHaste, " ", m.slept),
	}
	for name, text := range clocks {
		path := filepath.Join(m.Dir, name)
		stage.Must(os.WriteFile(path+".new", []byte(text), 0o600))
		stage.Must(os.Rename(path+".new", path))
	}
}

// teamIssues returns issues whose first agents may crash or hang, and whose later ones succeed.
func (s *teamScene) teamIssues() (list []lineartest.Issue) {
	behaviours := []string{
		"COMMIT\nMOVE",
		"COMMIT\nstream 60 50ms\nCOMMIT\nMOVE",
		"COMMIT\nsh sleep 2\nCOMMIT\nMOVE",
		"COMMIT\nstream 100 50ms\nMOVE",
		"COMMIT\nsh while [ -e " + s.stormFile() + " ]; do sleep 0.2; done\nMOVE", // it hangs as long as the storm lasts
		"COMMIT\nstream 10 50ms\ncrash",
	}
	random := s.random("issues")
	for n := range s.issueCount() {
		name := fmt.Sprintf("ABC-%d", n+1)
		// what another machine has pushed since; an agent that was killed may have left locks of git
		merge := fmt.Sprintf("sh find .git -name '*.lock' -delete; ! git rev-parse -q --verify origin/symphony/%s || "+
			"git merge -q --no-edit origin/symphony/%[1]s", name)
		text := "```agent\n"
		for attempt := range 2 {
			behaviour := s.expand(behaviours[random.IntN(len(behaviours))], name)
			text += fmt.Sprintf("attempt %d:\n%s\n%s\n", attempt, merge, behaviour)
		}
		text += fmt.Sprintf("attempt 2+:\n%s\n%s\n```\n", merge, s.expand("COMMIT\nMOVE", name))
		list = append(list, lineartest.Issue{
			Identifier:  name,
			Title:       "Issue " + name,
			Description: &text,
			State:       "Todo",
		})
	}
	return list
}

// storm runs passes on all machines, kills, freezes, cuts links, deletes and refuses claims, and lets
// machines sleep.
func (s *teamScene) storm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
	defer cancel()
	fmt.Fprintf(os.Stderr, "chaos: %d seconds in %s, by %s, claims in %s\n", *seconds, s.Dir, s.way, s.place())
	stage.Must(os.WriteFile(s.stormFile(), nil, 0o600))
	var all sync.WaitGroup
	for _, m := range s.machines {
		all.Go(func() { s.ticks(ctx, m) })
		all.Go(func() { s.cutter(ctx, m) })
		all.Go(func() { s.repairer(ctx, m) })
	}
	all.Go(func() { s.ticks(ctx, s.loner) })
	actors := []func(context.Context) error{s.killer, s.sleeper, s.eraser, s.refuser}
	errs := make([]error, len(actors))
	for n, actor := range actors {
		all.Go(func() { errs[n] = actor(ctx) })
	}
	all.Go(func() {
		<-ctx.Done()
		_ = os.Remove(s.stormFile()) // it ends hooks that hang
	})
	all.Wait()
	stage.Must(errors.Join(errs...))
	for _, m := range s.machines {
		m.link.cut(0)
	}
	s.remote.calm()
}

// ticks runs one pass of a machine after another.
func (s *teamScene) ticks(ctx context.Context, m *machine) {
	random := s.random(m.name)
	for pause(ctx, time.Duration(200+random.IntN(1500))*time.Millisecond) {
		s.pass(ctx, m)
	}
}

// pass runs a pass to its end, and checks how it ended.
func (s *teamScene) pass(ctx context.Context, m *machine) {
	s.command(ctx, m, "tick", "--trigger", "cron", "--lock-timeout", "2s")
}

// command runs a command of a machine to its end, and checks how it ended.
func (s *teamScene) command(ctx context.Context, m *machine, args ...string) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 200*time.Second)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limit, s.symphony, args...)
	cmd.Dir = m.Dir
	cmd.Env = m.Env
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.WaitDelay = time.Second
	m.awake.RLock()
	err := cmd.Start()
	m.awake.RUnlock()
	stage.Must(err)
	_ = cmd.Wait() // the exit code is checked below
	exit := cmd.ProcessState.ExitCode()
	s.mu.Lock()
	s.exits[fmt.Sprint(exit)]++
	log := stage.Get(os.OpenFile(filepath.Join(m.Dir, args[0]+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	_, err = fmt.Fprintf(log, "%s exit %d\n%s\n", time.Now().Format("15:04:05.000"), exit, out.Bytes())
	s.mu.Unlock()
	stage.Must(errors.Join(err, log.Close()))
	if exit > 4 || bytes.Contains(out.Bytes(), []byte("panic:")) || limit.Err() != nil {
		s.fault("unexpected ends", "%s %s: exit %d: %.1500s", m.name, args[0], exit, out.Bytes())
	}
}

// count counts one more.
func (s *teamScene) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// place is where the claims are.
func (s *teamScene) place() string {
	if s.onBranch {
		return "a branch"
	}
	return "references"
}

func (s *teamScene) fault(column, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(s.faults[column], text) {
		s.faults[column] = append(s.faults[column], text)
	}
}

// judge lets all machines but the first finish everything, and checks what is there then.
func (s *teamScene) judge(ctx context.Context) {
	first := s.machines[0]
	s.switchOff(first)
	rest := s.machines[1:]
	for _, m := range rest { // until then nothing may start there, after faults of the remote
		s.command(ctx, m, "resume")
	}
	s.passesUntilNone(ctx, rest, func() int {
		left := s.notHandedOver()
		if len(left) > 0 && s.areClaimedBy(first, left) {
			s.allSleep() // a machine that dies in a delivery has claimed its issue for twenty minutes
		}
		return len(left)
	})
	for _, i := range s.notHandedOver() {
		s.fault("issues stuck", "%s is %s", i.Identifier, i.State)
	}
	s.command(ctx, first, "resume")
	for range 3 { // the first machine is back
		s.pass(ctx, first)
	}
	for _, i := range s.tracker.Issues() {
		stage.Must(s.tracker.Move(i.Identifier, "Done"))
	}
	for _, m := range s.machines { // reviews are looked at now and then
		m.ahead += time.Hour
		m.setClocks()
	}
	s.passesUntilNone(ctx, s.machines, func() int { return len(s.ourClaims()) })
	for key, object := range s.ourClaims() {
		s.fault("claims left", "%s: %s", key, stage.Get(s.remote.run("cat-file", "-p", object)))
	}
	if _, others := s.claims(); len(others) != len(s.others) {
		s.fault("claims of others lost", "%d of %d are left", len(others), len(s.others))
	}
	s.readLoner(ctx)
	s.checkLog()
	s.checkCommits()
}

// notHandedOver are the issues that are not finished.
func (s *teamScene) notHandedOver() []lineartest.Issue {
	return slices.DeleteFunc(s.tracker.Issues(), func(i lineartest.Issue) bool { return i.State == "Human Review" })
}

// areClaimedBy reports whether a machine has the claims of all of the issues.
func (s *teamScene) areClaimedBy(m *machine, issues []lineartest.Issue) bool {
	holders := map[string]string{}
	for _, object := range s.ourClaims() {
		c := s.claimIn(object)
		holders[c.Identifier] = c.Machine
	}
	isOthers := func(i lineartest.Issue) bool { return holders[i.Identifier] != m.name }
	return !slices.ContainsFunc(issues, isOthers)
}

// passesUntilNone runs passes of machines until nothing is left, or until no less is left for a while.
func (s *teamScene) passesUntilNone(ctx context.Context, on []*machine, left func() int) {
	least := left()
	for end := time.Now().Add(patience); least > 0 && time.Now().Before(end); {
		for _, m := range on {
			s.pass(ctx, m)
		}
		pause(ctx, 300*time.Millisecond)
		stage.Must(ctx.Err())
		if now := left(); now < least {
			least = now
			end = time.Now().Add(patience)
		}
	}
}

// patience is how long nothing may change before what is left is stuck. Many terms are over by then,
// also on a busy machine.
const patience = 3 * time.Minute

// print writes the table of figures.
func (s *teamScene) print(out io.Writer) {
	total := 0
	for _, n := range s.kills {
		total += n
	}
	made := 0
	for n := range s.issueCount() {
		made += len(s.made(fmt.Sprintf("ABC-%d", n+1)))
	}
	for _, line := range [][2]string{
		{"seed", fmt.Sprint(*seed)},
		{"machines, issues", fmt.Sprintf("%d, %d", len(s.machines), s.issueCount())},
		{"remote, claims", fmt.Sprintf("by %s, in %s", s.way, s.place())},
		{"commands by exit code", counts(s.exits)},
		{"kills", fmt.Sprintf("%d: %s", total, counts(s.kills))},
		{"links cut or hanging", fmt.Sprint(s.cuts)},
		{"claims deleted by a person", fmt.Sprint(s.erased)},
		{"times in which claims are refused", fmt.Sprint(s.refusals)},
		{"sleeps, of them of all for an hour", fmt.Sprintf("%d, %d", s.sleeps, len(s.jumps))},
		{"claims taken from another machine", fmt.Sprint(s.taken)},
		{"agents of the machine without claims", fmt.Sprint(len(s.lonerRuns))},
		{"commits of agents, deliveries", fmt.Sprintf("%d, %d", made, s.pushes)},
	} {
		fmt.Fprintf(out, "%-40s %s\n", line[0], line[1])
	}
	fmt.Fprintln(out, "\nmust be zero:")
	for _, name := range teamColumns {
		fmt.Fprintf(out, "  %-34s %d\n", name, len(s.faults[name]))
		for _, text := range s.faults[name][:min(5, len(s.faults[name]))] {
			fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(text, "\n", "\n      "))
		}
	}
}

func (s *teamScene) end() error {
	for _, m := range append(s.machines, s.loner) {
		if m != nil {
			m.link.close()
		}
	}
	err := s.scene.end()
	if s.gitea != nil {
		giteatest.Stop()
	}
	return err
}
