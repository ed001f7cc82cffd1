package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const (
	workIssues = 10
	workTime   = 2 * time.Second // of each agent
	workEvery  = time.Second     // between passes, or polls
	workWait   = 90 * time.Second
	idleWindow = 5 * time.Second
	// peerVar names the command of another implementation of the specification. It is run by bash in the folder of the
	// project, with the path of the WORKFLOW.md as its only argument, LINEAR_API_KEY and an empty HOME in its environment.
	// It has to take the ten issues to the end without a question, go on running, and end by SIGTERM.
	peerVar = "SYMPHONY_PEER"
)

// way is one of those to have the work done.
type way struct {
	name  string
	every time.Duration
	argv  func(s *project) []string
}

func ways() []way {
	ours := func(words ...string) func(s *project) []string {
		return func(s *project) []string {
			return append([]string{s.b.symphony, "tick", "--workflow", s.Workflow, "--state-dir", s.StateDir, "--quiet"}, words...)
		}
	}
	list := []way{{"tick --loop", 0, ours("--loop")}, {"a pass each second, as by cron", workEvery, ours("--trigger", "cron")}}
	if peer := os.Getenv(peerVar); peer != "" {
		list = append(list, way{"the other implementation", 0, func(s *project) []string {
			return []string{"bash", "-c", "exec " + peer + ` "$1"`, "peer", s.Workflow}
		}})
	}
	return list
}

// work has ten issues done whose agents take two seconds, in each way, and then nothing to do for a while.
func (b *bench) work() error {
	for _, w := range ways() {
		var all []workResult
		for n := range min(3, b.o.runs) {
			r, err := b.worked(w, n)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			all = append(all, r)
		}
		b.workRows(w, all)
	}
	if os.Getenv(peerVar) == "" {
		b.table.heading("%d issues with agents of %s: another implementation", workIssues, workTime)
		b.table.unmeasured(figure{Name: "all of it"}, peerVar+" names none")
	}
	return nil
}

// workResult is one repetition.
type workResult struct {
	done     time.Duration // start to the last issue done
	usage    herdUsage
	requests int64
	// peak and idle are bytes of PSS of all that is neither an agent nor started by one: the most, and after the work.
	peak, idle float64
	// between counts processes while no pass runs, but for workers and agents; left those after the work.
	between, left int
	polls         float64 // requests a second after the work
	unreadable    bool    // the memory of workers may not be read
}

func (b *bench) workRows(w way, all []workResult) {
	t := &b.table
	t.heading("%d issues with agents of %s: %s", workIssues, workTime, w.name)
	t.add(figure{Name: "start to the last issue done", Unit: "ms", Values: each(all, func(r workResult) float64 { return float64(r.done) / 1e6 })})
	t.add(figure{Name: "CPU, agents and an idle time after it included", Unit: "ms", Values: each(all, func(r workResult) float64 { return float64(r.usage.CPUNS) / 1e6 })})
	t.add(figure{Name: "requests", Values: each(all, func(r workResult) float64 { return float64(r.requests) })})
	t.memory(figure{Name: "peak memory (PSS) without agents", Unit: "MB", Values: each(all, func(r workResult) float64 { return r.peak / 1e6 })}, all)
	idle := figure{Name: "memory (PSS) after the work, between passes", Unit: "MB", Values: each(all, func(r workResult) float64 { return r.idle / 1e6 })}
	left := figure{Name: "processes after the work, between passes", Values: each(all, func(r workResult) float64 { return float64(r.left) })}
	if w.every > 0 {
		idle.Budget, left.Budget = atMost(0).worst().steady(), atMost(0).worst().steady()
		t.add(figure{Name: "processes between passes besides workers and their agents", Values: each(all, func(r workResult) float64 { return float64(r.between) }), Budget: atMost(0).worst().steady()})
	}
	t.memory(idle, all)
	t.add(left)
	t.add(figure{Name: "requests a second after the work", Values: each(all, func(r workResult) float64 { return r.polls })})
}

func (t *table) memory(f figure, all []workResult) {
	if slices.ContainsFunc(all, func(r workResult) bool { return r.unreadable }) {
		t.unmeasured(f, onlyRoot)
		return
	}
	t.add(f)
}

// worked does it once.
func (b *bench) worked(w way, n int) (r workResult, err error) {
	s, err := b.projectOf(fmt.Sprintf("work-%s-%d", strings.Fields(w.name)[1], n), settings{agents: workIssues, pollingMS: int(workEvery.Milliseconds()), turns: 20})
	if err != nil {
		return r, err
	}
	exe, err := os.Executable()
	if err != nil {
		return r, err
	}
	// The agent moves its issue itself, so that it does not matter which tools it is offered.
	script := fmt.Sprintf("sleep %s\nsh '%s' %s '%s' {issue}", workTime, exe, moveCommand, b.tracker.URL)
	if err := b.tracker.Seed(b.ctx, agents(workIssues, script)); err != nil {
		return r, err
	}
	before, err := b.tracker.traffic(b.ctx)
	if err != nil {
		return r, err
	}
	began := time.Now()
	h, err := startHerd(herdJob{job{Argv: w.argv(s), Env: s.Env, Dir: s.Dir}, w.every})
	if err != nil {
		return r, err
	}
	err = s.watchWork(h, began, &r)
	usage, endErr := h.end()
	if err := errors.Join(err, endErr); err != nil {
		return r, err
	}
	after, err := b.tracker.traffic(b.ctx)
	r.usage, r.requests = usage, after.since(before).Requests
	return r, errors.Join(err, s.clear())
}

// watchWork looks on until all is done and nobody is at work, and then for a while more.
func (s *project) watchWork(h *herd, began time.Time, r *workResult) error {
	ctx, cancel := context.WithTimeout(s.b.ctx, workWait)
	defer cancel()
	err := until(ctx, func() (bool, error) {
		l, err := h.look(s.b.agent)
		if err != nil {
			return false, err
		}
		r.peak, r.unreadable = max(r.peak, l.memory), r.unreadable || l.unreadable
		if !l.pass {
			r.between = max(r.between, l.others)
		}
		if r.done == 0 {
			done, err := s.allDone(ctx)
			if err != nil || !done {
				return false, err
			}
			r.done = time.Since(began)
		}
		return l.agents == 0 && l.workers == 0, nil
	})
	if err != nil {
		return fmt.Errorf("the work was not done: %w", err)
	}
	return s.watchIdle(h, r)
}

// watchIdle looks what is there while there is nothing to do. What goes on while a pass runs is not between passes.
func (s *project) watchIdle(h *herd, r *workResult) error {
	if err := s.b.pause(2 * workEvery); err != nil { // the last run is settled, workspaces are removed
		return err
	}
	before, err := s.b.tracker.traffic(s.b.ctx)
	if err != nil {
		return err
	}
	looks := 0
	began := time.Now()
	for time.Since(began) < idleWindow {
		l, err := h.look(s.b.agent)
		if err != nil {
			return err
		}
		if !l.pass {
			looks++
			r.idle, r.left = max(r.idle, l.memory), max(r.left, l.workers+l.others)
		}
		if err := s.b.pause(50 * time.Millisecond); err != nil {
			return err
		}
	}
	if looks == 0 {
		return errors.New("there was no moment without a pass")
	}
	after, err := s.b.tracker.traffic(s.b.ctx)
	r.polls = float64(after.since(before).Requests) / time.Since(began).Seconds()
	return err
}

func (s *project) allDone(ctx context.Context) (bool, error) {
	var list []lineartest.Issue
	if err := s.b.tracker.Control(ctx, "issues", nil, &list); err != nil {
		return false, err
	}
	for _, i := range list {
		if i.State != "Done" {
			return false, nil
		}
	}
	return len(list) == workIssues, nil
}

// moveCommand is the word for an agent to move its issue: move URL IDENTIFIER.
const moveCommand = "move"

func moveIssue(ctx context.Context, args []string, errw io.Writer) int {
	err := fmt.Errorf("usage: bench %s URL IDENTIFIER", moveCommand)
	if len(args) == 2 {
		err = postMove(ctx, args[0]+"/control/move", map[string]string{"identifier": args[1], "state": "Done"})
	}
	if err != nil {
		fmt.Fprintln(errw, "bench:", err)
		return 1
	}
	return 0
}

func postMove(ctx context.Context, url string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
