//go:build linux

// Soak runs a loop with many short runs and shows whether its memory and its descriptors are
// constant.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

var (
	minutes  = flag.Int("minutes", 120, "how long it takes")
	runs     = flag.Int("runs", 1000, "how many runs there are")
	projects = flag.Int("projects", 2, "in how many projects of the loop")
	args     = flag.String("args", "", "more flags of tick --loop, separated by spaces")
)

func main() {
	flag.Parse()
	if *minutes < 1 || *runs < 1 || *projects < 1 {
		fmt.Fprintln(os.Stderr, "soak: -minutes, -runs and -projects must be at least 1")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &soak{}
	err := stage.Catch(func() { s.run(ctx) })
	s.end()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

const workflowText = `---
tracker: {kind: file, provider: {path: ./issues}}
polling: {interval_ms: 5000}
workspace: {root: ./workspaces, min_free_bytes: 0, keep_removed_ms: 0}
hooks: {after_create: echo seed > seed.txt}
codex:
  command: "'%s' demo-agent app-server --home '%s'"
---
{{ issue.description }}
`

const issueText = "---\ntitle: Say hello\nstatus: To Do\n---\n" +
	"```agent\nsh echo hello > hello.txt\nstream 20 50ms\ntokens 100 10\ntool issue_update {\"state\": \"Done\"}\n```\n"

// soak is a loop and its projects, in a temporary folder.
type soak struct {
	stage.Project
	program string
	dirs    []string // of the projects
	loop    *exec.Cmd
	ended   chan error
	samples []sample
}

// sample is the use of resources by the loop at a moment.
type sample struct {
	at                      time.Duration
	done                    int // issues that were worked on and released
	rss, anonymous          int // kB
	files, threads          int
	goroutines, heap        int // heap in bytes
	database, wal, complete int // bytes; complete: passes
}

// build builds the program as for a release, with a file that reports its goroutines.
func (s *soak) build(ctx context.Context) {
	s.program = filepath.Join(s.Dir, "symphony")
	added := stage.Get(filepath.Abs("cmd/symphony/soak_probe.go"))
	source := stage.Get(filepath.Abs("scripts/internal/soak/probe.go.txt"))
	overlay := map[string]map[string]string{"Replace": {added: source}}
	path := filepath.Join(s.Dir, "overlay.json")
	stage.Must(os.WriteFile(path, stage.Get(json.Marshal(overlay)), 0o600))
	cmd := exec.CommandContext(ctx, "scripts/build", s.program)
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+path)
	if text, err := cmd.CombinedOutput(); err != nil {
		stage.Must(fmt.Errorf("scripts/build: %w\n%s", err, text))
	}
}

func (s *soak) run(ctx context.Context) {
	s.Project = stage.Get(stage.NewProject(stage.Get(os.MkdirTemp("", "symphony-soak-"))))
	s.build(ctx)
	var workflows []string
	for i := range *projects {
		dir := filepath.Join(s.Dir, fmt.Sprintf("project%d", i))
		stage.Must(os.MkdirAll(filepath.Join(dir, "issues"), 0o700))
		workflow := filepath.Join(dir, "WORKFLOW.md")
		content := fmt.Appendf(nil, workflowText, s.program, s.AgentHome)
		stage.Must(os.WriteFile(workflow, content, 0o600))
		s.dirs = append(s.dirs, dir)
		workflows = append(workflows, workflow)
	}
	isOfOneProject := func(v string) bool { return strings.HasPrefix(v, "SYMPHONY_") }
	s.Env = append(slices.DeleteFunc(s.Env, isOfOneProject), "SOAK_PROBE="+s.probe())
	command := slices.Concat([]string{"tick", "--loop", "-v"}, strings.Fields(*args), workflows)
	s.loop = exec.Command(s.program, command...)
	output := stage.Get(os.Create(filepath.Join(s.Dir, "loop.log")))
	s.loop.Dir = s.Dir
	s.loop.Env = s.Env
	s.loop.Stdout = output
	s.loop.Stderr = output
	stage.Must(s.loop.Start())
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.loop.Wait() }()
	s.feed(ctx)
	s.judge()
}

func (s *soak) probe() string { return filepath.Join(s.Dir, "probe") }

// feed adds an issue at a time, evenly over the time, and measures the loop each minute.
func (s *soak) feed(ctx context.Context) {
	total := time.Duration(*minutes) * time.Minute
	began := time.Now()
	next := time.NewTicker(total / time.Duration(*runs))
	defer next.Stop()
	look := time.NewTicker(min(time.Minute, total/30))
	defer look.Stop()
	fmt.Printf(
		"%8s %6s %7s %8s %8s %6s %8s %11s %8s %8s %8s\n",
		"time",
		"runs",
		"passes",
		"RSS kB",
		"anon kB",
		"files",
		"threads",
		"goroutines",
		"heap kB",
		"db kB",
		"WAL kB",
	)
	for added := 0; time.Since(began) < total; {
		select {
		case <-next.C:
			added++
			if added <= *runs {
				issue := filepath.Join(s.dirs[added%len(s.dirs)], "issues", fmt.Sprintf("S-%d.md", added))
				stage.Must(os.WriteFile(issue, []byte(issueText), 0o600))
			}
		case <-look.C:
			s.measure(time.Since(began))
		case err := <-s.ended:
			s.ended <- err
			stage.Must(fmt.Errorf("the loop has ended: %w", errors.Join(err, s.tail())))
		case <-ctx.Done():
			stage.Must(ctx.Err())
		}
	}
}

// tail returns the end of the loop's output, as an error.
func (s *soak) tail() error {
	text, err := os.ReadFile(filepath.Join(s.Dir, "loop.log"))
	return errors.Join(err, errors.New(string(text[max(0, len(text)-2000):])))
}

func (s *soak) measure(at time.Duration) {
	m := sample{at: at}
	proc := fmt.Sprintf("/proc/%d/", s.loop.Process.Pid)
	for line := range strings.Lines(string(stage.Get(os.ReadFile(proc + "status")))) {
		for key, value := range map[string]*int{
			"VmRSS:":   &m.rss,
			"RssAnon:": &m.anonymous,
			"Threads:": &m.threads,
		} {
			if rest, found := strings.CutPrefix(line, key); found {
				_ = stage.Get(fmt.Sscan(rest, value))
			}
		}
	}
	m.files = len(stage.Get(os.ReadDir(proc + "fd")))
	if text, err := os.ReadFile(s.probe()); err == nil {
		_, _ = fmt.Sscan(string(text), &m.goroutines, &m.heap)
	}
	log := stage.Get(os.ReadFile(filepath.Join(s.Dir, "loop.log")))
	m.done = bytes.Count(log, []byte(": release "))
	m.complete = bytes.Count(log, []byte(": pass "))
	for _, dir := range stage.Get(filepath.Glob(filepath.Join(s.Home, ".local", "state", "symphony", "*"))) {
		for suffix, size := range map[string]*int{"": &m.database, "-wal": &m.wal} {
			if info, err := os.Stat(filepath.Join(dir, "state.db"+suffix)); err == nil {
				*size += int(info.Size())
			}
		}
	}
	s.samples = append(s.samples, m)
	fmt.Printf(
		"%8s %6d %7d %8d %8d %6d %8d %11d %8d %8d %8d\n",
		at.Round(time.Second),
		m.done,
		m.complete,
		m.rss,
		m.anonymous,
		m.files,
		m.threads,
		m.goroutines,
		m.heap/1000,
		m.database/1000,
		m.wal/1000,
	)
	// of issues that are done, so that passes read as many files as at the beginning
	for _, dir := range s.dirs {
		for _, file := range stage.Get(filepath.Glob(filepath.Join(dir, "issues", "*.md"))) {
			if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte("status: Done")) {
				stage.Must(os.Remove(file))
			}
		}
	}
}

// judge compares the last tenth of the samples with the second tenth.
func (s *soak) judge() {
	tenth := max(len(s.samples)/10, 1)
	if len(s.samples) < 3*tenth {
		stage.Must(errors.New("too few samples"))
	}
	early := s.samples[tenth : 2*tenth]
	late := s.samples[len(s.samples)-tenth:]
	last := late[len(late)-1]
	var errs []error
	for _, v := range []struct {
		name  string
		of    func(sample) int
		slack int
	}{
		{"anonymous memory (kB)", func(m sample) int { return m.anonymous }, 2000},
		{"resident memory (kB)", func(m sample) int { return m.rss }, 4000},
		{"open files", func(m sample) int { return m.files }, 4},
		{"threads", func(m sample) int { return m.threads }, 4},
		{"goroutines", func(m sample) int { return m.goroutines }, 5},
	} {
		before := median(early, v.of)
		after := median(late, v.of)
		fmt.Printf("%s: %d, at the end %d\n", v.name, before, after)
		if after > before+v.slack {
			errs = append(errs, fmt.Errorf("%s grew from %d to %d", v.name, before, after))
		}
	}
	if last.done < *runs*9/10 {
		errs = append(errs, fmt.Errorf("only %d issues were done", last.done))
	}
	stage.Must(errors.Join(errs...))
}

func median(list []sample, of func(sample) int) int {
	values := text.Map(list, of)
	slices.Sort(values)
	return values[len(values)/2]
}

// end ends the loop and its workers, and removes the folder.
func (s *soak) end() {
	if s.Dir == "" { // it could not be made
		return
	}
	if s.loop != nil && s.loop.Process != nil {
		_ = s.loop.Process.Signal(syscall.SIGTERM)
		<-s.ended
	}
	for _, p := range stage.Get(stage.Processes(s.Dir, "")) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended
	}
	_ = os.RemoveAll(s.Dir)
}
