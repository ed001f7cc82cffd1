//go:build linux

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/team"
)

const (
	// teamIssues is how many issues the machines of a team have.
	teamIssues = 24
	// otherClaims is how many claims of another project are in the same remote.
	otherClaims = 1000
	// teamHaste is how much faster the clocks go that terms are counted with: a term of a minute takes
	// 15 seconds.
	teamHaste = 4
)

// teamColumns are the figures of a team that must be zero.
var teamColumns = []string{
	"deliveries without the claim", "claims taken too early", "issues stuck", "commits lost",
	"commits delivered twice", "claims left", "claims of others lost", "unexpected ends",
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
  claims: {term_ms: 60000, watch_ms: 60000}
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

// teamLog notes each change of a reference of the remote: "MILLISECONDS OLD NEW REF", and an empty line
// after each transaction. In a storm the remote sometimes dies afterwards.
const teamLog = `#!/bin/bash
[ "$1" = committed ] || exit 0
now=$(date +%%s%%3N)
printf '%%s\n\n' "$(while read -r line; do echo "$now $line"; done)" >> %[1]s
[ "$CHAOS_STORM" ] && [ $((RANDOM %% 8)) = 0 ] && kill -KILL $PPID
exit 0
`

// teamScene is a project on which several machines work.
type teamScene struct {
	scene
	machines []*machine
	others   map[string]bool // the references of the claims of another project

	mu     sync.Mutex
	faults map[string][]string
	kills  map[string]int
	exits  map[string]int
	cuts   int
	erased int // claims that a person has deleted
	taken  int // claims that one machine has taken from another
	pushes int // deliveries
}

// machine is one of a team.
type machine struct {
	stage.Project
	name string
	mark string // in the environment of its processes
	link *cable
}

// teamChaos runs a storm over a team, and prints a table. Then one machine is switched off, and the
// others finish everything.
func teamChaos(ctx context.Context, out io.Writer) error {
	s := &teamScene{
		others: map[string]bool{},
		faults: map[string][]string{},
		kills:  map[string]int{},
		exits:  map[string]int{},
	}
	err := stage.Catch(func() {
		s.prepare(ctx)
		defer s.print(out)
		s.storm(ctx)
		fmt.Fprintln(os.Stderr, "chaos: killing has ended; the first machine is switched off")
		calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Minute)
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
	s.remote = newRemote(s.random("remote"))
	hook := fmt.Sprintf(teamLog, s.log())
	stage.Must(os.WriteFile(filepath.Join(s.remote.git, "hooks", "reference-transaction"), []byte(hook), 0o700))
	s.addOtherClaims()
	for n := range *machines {
		s.addMachine(n)
	}
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
	m.link = newCable(s.remote.server.Addr().String())
	m.Env = append(m.Env, s.mark, m.mark,
		"SYMPHONY_MACHINE="+name,
		"SYMPHONY_TEST_UPTIME="+filepath.Join(dir, "uptime"),
		"SYMPHONY_TEST_CLOCK="+filepath.Join(dir, "clock"))
	m.setClock(time.Duration(n-1) * 10 * time.Minute)
	stage.Must(os.WriteFile(filepath.Join(dir, "uptime"), []byte(strconv.Itoa(teamHaste)), 0o600))
	url := "git://" + m.link.address() + "/" + remoteName + ".git"
	stage.Must(m.WriteWorkflow(s.tracker.Endpoint(), teamWorkflow, url, s.symphony, m.AgentHome))
	s.machines = append(s.machines, m)
}

// setClock sets how much the clock of the machine that people read is ahead.
func (m *machine) setClock(ahead time.Duration) {
	path := filepath.Join(m.Dir, "clock")
	stage.Must(os.WriteFile(path+".new", []byte(ahead.String()), 0o600))
	stage.Must(os.Rename(path+".new", path))
}

// addOtherClaims adds claims of another project.
func (s *teamScene) addOtherClaims() {
	var refs bytes.Buffer
	object := filepath.Join(s.remote.dir, "claim")
	id := ""
	for n := range otherClaims {
		c := team.Claim{
			Token:      fmt.Sprint("other-", n),
			Machine:    "elsewhere",
			Project:    "another project",
			IssueID:    fmt.Sprint(n),
			Identifier: fmt.Sprint("OTHER-", n),
			Status:     team.Working,
			TermMS:     time.Hour.Milliseconds(),
		}
		if n%100 == 0 { // some objects for all of them
			stage.Must(os.WriteFile(object, []byte(c.Content()), 0o600))
			id = stage.Get(s.remote.run("hash-object", "-w", object))
		}
		ref := claimsRefs + team.Key(c.Project, c.IssueID)
		s.others[ref] = true
		fmt.Fprintf(&refs, "create %s %s\n", ref, id)
	}
	cmd := exec.Command("git", "--git-dir", s.remote.git, "-c", "core.hooksPath=/dev/null", "update-ref", "--stdin")
	cmd.Stdin = &refs
	if text, err := cmd.CombinedOutput(); err != nil {
		stage.Must(fmt.Errorf("claims of another project: %w: %s", err, text))
	}
}

// claimsRefs begins the names of claims.
const claimsRefs = "refs/symphony/claims/"

// teamIssues returns issues whose first agents may crash or hang, and whose later ones succeed.
func (s *teamScene) teamIssues() (list []lineartest.Issue) {
	behaviours := []string{
		"COMMIT\nMOVE",
		"COMMIT\nstream 60 50ms\nCOMMIT\nMOVE",
		"COMMIT\nsh sleep 2\nCOMMIT\nMOVE",
		"COMMIT\nstream 100 100ms\nMOVE",
		"COMMIT\nhang",
		"COMMIT\nstream 10 50ms\ncrash",
	}
	random := s.random("issues")
	for n := range teamIssues {
		name := fmt.Sprintf("ABC-%d", n+1)
		text := "```agent\n"
		for attempt := range 2 {
			behaviour := s.expand(behaviours[random.IntN(len(behaviours))], name)
			text += fmt.Sprintf("attempt %d:\n%s\n", attempt, behaviour)
		}
		text += fmt.Sprintf("attempt 2+:\n%s\n```\n", s.expand("COMMIT\nMOVE", name))
		list = append(list, lineartest.Issue{
			Identifier:  name,
			Title:       "Issue " + name,
			Description: &text,
			State:       "Todo",
		})
	}
	return list
}

// storm runs passes on all machines, kills, freezes, cuts links, and deletes claims.
func (s *teamScene) storm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
	defer cancel()
	fmt.Fprintf(os.Stderr, "chaos: %d seconds in %s\n", *seconds, s.Dir)
	var all sync.WaitGroup
	for _, m := range s.machines {
		all.Go(func() { s.ticks(ctx, m) })
		all.Go(func() { s.cutter(ctx, m) })
	}
	errs := make([]error, 2)
	all.Go(func() { errs[0] = s.killer(ctx) })
	all.Go(func() { errs[1] = s.eraser(ctx) })
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
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 150*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limit, s.symphony, "tick", "--trigger", "cron", "--lock-timeout", "2s")
	cmd.Dir = m.Dir
	cmd.Env = m.Env
	out, _ := cmd.CombinedOutput() // the exit code is checked below
	exit := cmd.ProcessState.ExitCode()
	s.mu.Lock()
	s.exits[fmt.Sprint(exit)]++
	log := stage.Get(os.OpenFile(filepath.Join(m.Dir, "passes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	_, err := fmt.Fprintf(log, "%s exit %d\n%s\n", time.Now().Format("15:04:05.000"), exit, out)
	s.mu.Unlock()
	stage.Must(errors.Join(err, log.Close()))
	if exit > 4 || bytes.Contains(out, []byte("panic:")) || limit.Err() != nil {
		s.fault("unexpected ends", "a pass of %s: exit %d: %.1500s", m.name, exit, out)
	}
}

func (s *teamScene) fault(column, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(s.faults[column], text) {
		s.faults[column] = append(s.faults[column], text)
	}
}

// processesOf lists the processes of a machine that the killer may hit.
func (s *teamScene) processesOf(m *machine) (list []process) {
	for _, p := range stage.Get(stage.Processes(m.Dir, m.mark)) {
		if (process{p}).kind() != "" {
			list = append(list, process{p})
		}
	}
	return list
}

// killer kills or freezes processes, some of them for longer than a term.
func (s *teamScene) killer(ctx context.Context) error {
	random := s.random("killer")
	var frozen sync.WaitGroup
	defer frozen.Wait()
	for pause(ctx, time.Duration(100+random.IntN(500))*time.Millisecond) {
		m := s.machines[random.IntN(len(s.machines))]
		choice := random.IntN(1 << 30)
		way := random.IntN(100)
		sleep := time.Duration(50+random.IntN(3000)) * time.Millisecond
		if random.IntN(4) == 0 {
			sleep = 20 * time.Second // longer than a term and its grace
		}
		list := s.processesOf(m)
		if len(list) == 0 || lull() {
			continue
		}
		if random.IntN(40) == 0 {
			s.switchOff(m)
			continue
		}
		p := list[choice%len(list)]
		sig := syscall.SIGKILL
		switch {
		case way >= 60:
			sig = syscall.SIGSTOP
		case way >= 45:
			sig = syscall.SIGTERM
		}
		handle, err := p.open()
		if handle == nil {
			if err != nil {
				return fmt.Errorf("killer: %w", err)
			}
			continue
		}
		s.mu.Lock()
		s.kills[p.kind()+" "+unix.SignalName(sig)]++
		s.mu.Unlock()
		if err := send(handle, sig); err != nil {
			return fmt.Errorf("killer: %w", err)
		}
		frozen.Go(func() {
			if sig == syscall.SIGSTOP {
				time.Sleep(sleep)
				_ = send(handle, syscall.SIGCONT) // it may have been killed
			}
			_ = handle.Release()
		})
	}
	return nil
}

// switchOff kills everything of a machine.
func (s *teamScene) switchOff(m *machine) {
	s.mu.Lock()
	s.kills["machine"]++
	s.mu.Unlock()
	for range 20 { // a process may have started another before it died
		list := stage.Get(stage.Processes(m.Dir, m.mark))
		if len(list) == 0 {
			return
		}
		for _, p := range list {
			handle, _ := (process{p}).open()
			if handle != nil {
				_ = errors.Join(send(handle, syscall.SIGKILL), handle.Release()) // it may have ended
			}
		}
	}
}

// cutter cuts the link of a machine to the remote now and then, also for longer than a term.
func (s *teamScene) cutter(ctx context.Context, m *machine) {
	random := s.random("link of " + m.name)
	for pause(ctx, time.Duration(4+random.IntN(30))*time.Second) {
		length := time.Duration(500+random.IntN(8000)) * time.Millisecond
		if random.IntN(3) == 0 {
			length = 20 * time.Second
		}
		s.mu.Lock()
		s.cuts++
		s.mu.Unlock()
		m.link.cut(length)
	}
}

// eraser is a person who deletes claims.
func (s *teamScene) eraser(ctx context.Context) error {
	random := s.random("eraser")
	for pause(ctx, time.Duration(2000+random.IntN(5000))*time.Millisecond) {
		refs := s.ourClaims()
		if len(refs) == 0 {
			continue
		}
		if _, err := s.remote.run("update-ref", "-d", refs[random.IntN(len(refs))]); err == nil {
			s.erased++ // else a machine was faster
		}
	}
	return nil
}

// claims returns the references of the claims of the team's project, and how many others there are.
func (s *teamScene) claims() (ours []string, others int) {
	for ref := range strings.Lines(stage.Get(s.remote.run("for-each-ref", "--format=%(refname)", claimsRefs))) {
		ref = strings.TrimSpace(ref)
		if s.others[ref] {
			others++
		} else {
			ours = append(ours, ref)
		}
	}
	return ours, others
}

func (s *teamScene) ourClaims() []string {
	ours, _ := s.claims()
	return ours
}

// judge lets all machines but the first finish everything, and checks what is there then.
func (s *teamScene) judge(ctx context.Context) {
	first := s.machines[0]
	s.switchOff(first)
	rest := s.machines[1:]
	isLeft := func(i lineartest.Issue) bool { return i.State != "Human Review" }
	s.passesUntil(ctx, 2*time.Minute, rest, func() bool { return !slices.ContainsFunc(s.tracker.Issues(), isLeft) })
	for _, i := range s.tracker.Issues() {
		if isLeft(i) {
			s.fault("issues stuck", "%s is %s", i.Identifier, i.State)
		}
	}
	for range 3 { // the first machine is back
		s.pass(ctx, first)
	}
	for _, i := range s.tracker.Issues() {
		stage.Must(s.tracker.Move(i.Identifier, "Done"))
	}
	for n, m := range s.machines { // reviews are looked at now and then
		m.setClock(time.Hour + time.Duration(n-1)*10*time.Minute)
	}
	s.passesUntil(ctx, time.Minute, s.machines, func() bool { return len(s.ourClaims()) == 0 })
	for _, ref := range s.ourClaims() {
		s.fault("claims left", "%s: %s", ref, stage.Get(s.remote.run("cat-file", "-p", ref)))
	}
	if _, others := s.claims(); others != otherClaims {
		s.fault("claims of others lost", "%d of %d are left", others, otherClaims)
	}
	s.checkLog()
	s.checkCommits()
}

// passesUntil runs passes of machines until something is so.
func (s *teamScene) passesUntil(ctx context.Context, most time.Duration, on []*machine, isSo func() bool) {
	for end := time.Now().Add(most); time.Now().Before(end) && !isSo(); {
		for _, m := range on {
			s.pass(ctx, m)
		}
		pause(ctx, 300*time.Millisecond)
		stage.Must(ctx.Err())
	}
}

// refChange is a change of a reference of the remote.
type refChange struct {
	at            int64 // milliseconds
	old, new, ref string
}

// checkLog checks all changes of references of the remote: each delivery has to be in one push with the
// claim of its machine, and a machine may take another one's claim only after its term and the grace.
func (s *teamScene) checkLog() {
	data := stage.Get(os.ReadFile(s.log()))
	pushed := map[string]int64{} // when an object became a claim
	for push := range strings.SplitSeq(string(data), "\n\n") {
		var claims, branches []refChange
		for line := range strings.Lines(push) {
			w := strings.Fields(line)
			if len(w) != 4 {
				continue
			}
			c := refChange{at: stage.Get(strconv.ParseInt(w[0], 10, 64)), old: w[1], new: w[2], ref: w[3]}
			switch {
			case strings.HasPrefix(c.ref, claimsRefs):
				claims = append(claims, c)
				pushed[c.new] = c.at
			case strings.HasPrefix(c.ref, "refs/heads/symphony/"):
				branches = append(branches, c)
			}
		}
		for _, c := range claims {
			s.checkTaken(c, pushed)
		}
		for _, b := range branches {
			s.checkDelivery(b, claims)
		}
	}
}

// claimIn returns the claim in an object; nil for none.
func (s *teamScene) claimIn(object string) *team.Claim {
	if strings.Trim(object, "0") == "" {
		return nil
	}
	content := stage.Get(s.remote.run("cat-file", "-p", object))
	at := strings.IndexByte(content, '{') // after the head of a commit, if it is one
	c := stage.Get(team.Parse(content[max(at, 0):]))
	return &c
}

// late is how late the remote may note a change.
const late = 1000

func (s *teamScene) checkTaken(c refChange, pushed map[string]int64) {
	before := s.claimIn(c.old)
	after := s.claimIn(c.new)
	if before == nil || after == nil || before.Machine == after.Machine {
		return
	}
	s.taken++
	term := before.TermMS / teamHaste
	age := c.at - pushed[c.old]
	if age < term+term/10-late {
		s.fault("claims taken too early", "%s from %s by %s after %d ms",
			before.Identifier, before.Machine, after.Machine, age)
	}
}

func (s *teamScene) checkDelivery(b refChange, claims []refChange) {
	s.pushes++
	for _, c := range claims {
		before := s.claimIn(c.old)
		after := s.claimIn(c.new)
		isIts := after != nil && "refs/heads/symphony/"+after.Identifier == b.ref
		if isIts && (before == nil || before.Machine == after.Machine) {
			return
		}
	}
	s.fault("deliveries without the claim", "%s at %d", b.ref, b.at)
}

// checkCommits checks that each commit of an agent is in the remote or in a workspace.
func (s *teamScene) checkCommits() {
	has := commits(s.remote.git, "--all")
	for _, m := range s.machines {
		for _, pattern := range []string{"*/.git", ".symphony/trash/*/.git"} {
			for _, git := range stage.Get(filepath.Glob(filepath.Join(m.Dir, "workspaces", pattern))) {
				maps.Copy(has, commits(git, "--all", "HEAD"))
			}
		}
	}
	for _, i := range s.tracker.Issues() {
		for _, made := range s.made(i.Identifier) {
			if !has[made.id] {
				s.fault("commits lost", "%s of %s", made.id, i.Identifier)
			}
		}
	}
	for _, branch := range strings.Fields(stage.Get(s.remote.run("for-each-ref", "--format=%(refname)", "refs/heads/symphony"))) {
		seen := map[string]bool{}
		for subject := range strings.Lines(stage.Get(s.remote.run("log", "--format=%s", branch))) {
			if seen[subject] {
				s.fault("commits delivered twice", "%s: %s", branch, subject)
			}
			seen[subject] = true
		}
	}
}

// print writes the table of figures.
func (s *teamScene) print(out io.Writer) {
	total := 0
	for _, n := range s.kills {
		total += n
	}
	made := 0
	for n := range teamIssues {
		made += len(s.made(fmt.Sprintf("ABC-%d", n+1)))
	}
	for _, line := range [][2]string{
		{"seed", fmt.Sprint(*seed)},
		{"machines, issues", fmt.Sprintf("%d, %d", len(s.machines), teamIssues)},
		{"passes by exit code", counts(s.exits)},
		{"kills", fmt.Sprintf("%d: %s", total, counts(s.kills))},
		{"links cut, claims deleted by a person", fmt.Sprintf("%d, %d", s.cuts, s.erased)},
		{"claims taken from another machine", fmt.Sprint(s.taken)},
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
	for _, m := range s.machines {
		m.link.close()
	}
	return s.scene.end()
}

// cable is the link of a machine to the remote.
type cable struct {
	to     string
	server net.Listener

	mu    sync.Mutex
	until time.Time // of the cut
	open  map[net.Conn]bool
}

func newCable(to string) *cable {
	c := &cable{to: to, open: map[net.Conn]bool{}}
	c.server = stage.Get(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		for conn, err := c.server.Accept(); err == nil; conn, err = c.server.Accept() {
			go c.carry(conn)
		}
	}()
	return c
}

func (c *cable) address() string { return c.server.Addr().String() }

// close closes all connections.
func (c *cable) close() {
	c.cut(time.Hour)
	_ = c.server.Close() // nobody connects any more
}

// cut breaks all connections, and refuses new ones for a time.
func (c *cable) cut(length time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(length)
	if length == 0 {
		return
	}
	for conn := range c.open {
		_ = conn.Close() // the other side may have
	}
}

// carry copies a connection in both directions.
func (c *cable) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	c.mu.Lock()
	isCut := time.Now().Before(c.until)
	c.open[near] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.open, near)
		c.mu.Unlock()
	}()
	if isCut {
		return
	}
	go func() {
		_, _ = io.Copy(far, near) // either side may end
		_ = far.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(near, far)
}
