package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Target is an issue or a request of a project, or the project itself.
type Target struct {
	Project *wiring.Project
	Of      string // the name of the project among several; empty for the name of its folder
	Name    string // the issue or the request; empty for the project
}

// Several is the output of a command with several issues and --json.
type Several struct {
	Results []TargetResult `json:"results"`
}

// TargetResult is the result of a command for a single target of several.
type TargetResult struct {
	Project string `json:"project"` // the name of the folder of WORKFLOW.md
	// Name is the issue or the request, as the command was given it; empty for the project.
	Name string `json:"name"`
	// Outcome is done, failed, or stored: then the next pass applies the command.
	Outcome Outcome          `json:"outcome"`
	RunID   *string          `json:"run_id"` // of the run that was started
	Lines   []string         `json:"lines"`  // the results, in sentences
	Error   *reconcile.Error `json:"error"`

	code int
}

// Outcome tells how a command ended.
type Outcome string

// The outcomes.
const (
	OutcomeDone   Outcome = "done"
	OutcomeStored Outcome = "stored"
	OutcomeFailed Outcome = "failed"
)

// fail makes the result a failure, with an error that names its target.
func (r *TargetResult) fail(err error) {
	e := *exit.From(err)
	if !strings.Contains(e.Message, r.Name) {
		e.Message = r.Name + ": " + e.Message
	}
	r.Error = &e
	r.Outcome = OutcomeFailed
	r.code = cmp.Or(exit.Code(&e), exit.Failed)
}

// mostAtOnce is how many commands share a pass. Each holds the database open meanwhile.
const mostAtOnce = 50

// Each carries out a command for each of the targets, whether or not it fails for others, and
// returns the results in the order of the targets. If the command waits for runs, tell is
// called as each ends; otherwise after all, in order. Commands share a pass if they can, and
// runs are stopped all at once, because each may take its time to end.
func Each(
	ctx context.Context,
	targets []Target,
	c Command,
	tell func(TargetResult),
) (results []TargetResult) {
	for some := range slices.Chunk(targets, c.atOnce(len(targets))) {
		results = append(results, doAll(ctx, some, c, tell)...)
	}
	return results
}

// doAll carries out a command about all of the targets at the same time.
func doAll(ctx context.Context, targets []Target, c Command, tell func(TargetResult)) []TargetResult {
	results := make([]TargetResult, len(targets))
	passes := map[string]*sharedPass{} // by the state directories of the projects
	var telling sync.Mutex
	var running sync.WaitGroup
	begin := make(chan struct{})
	for i, t := range targets {
		if passes[t.Project.StateDir] == nil {
			passes[t.Project.StateDir] = &sharedPass{}
		}
		runPass, stopWaiting := passes[t.Project.StateDir].join()
		running.Go(func() {
			<-begin // all have joined
			defer stopWaiting()
			results[i] = doOne(ctx, t, c, runPass)
			if c.waits() {
				telling.Lock()
				defer telling.Unlock()
				tell(results[i])
			}
		})
	}
	close(begin)
	running.Wait()
	if !c.waits() {
		for _, r := range results {
			tell(r)
		}
	}
	return results
}

// sharedPass is the pass of several commands.
type sharedPass struct {
	missing sync.WaitGroup // commands that have neither asked for it nor ended
	mu      sync.Mutex
	only    []string // the issues of the commands that asked for it
	starts  bool     // one of them asks for a run
	once    sync.Once
	result  pass.Result
	err     error
}

// join adds a command, for which the pass then waits. runPass waits for the others, and returns
// the result of the pass that is run once for all. A command that ends without a pass calls
// stopWaiting, so that the others get theirs.
func (s *sharedPass) join() (runPass passRunner, stopWaiting func()) {
	s.missing.Add(1)
	stopWaiting = sync.OnceFunc(s.missing.Done)
	runPass = func(ctx context.Context, p *wiring.Project, o pass.Options) (pass.Result, error) {
		s.mu.Lock()
		s.only = append(s.only, o.Only...)
		s.starts = s.starts || o.Starts
		s.mu.Unlock()
		stopWaiting()
		s.missing.Wait()
		s.once.Do(func() {
			all := o
			all.Only = s.only
			all.Starts = s.starts
			s.result, s.err = pass.Run(ctx, p, all)
		})
		if len(o.Only) == 0 { // it is about all issues
			return s.result, s.err
		}
		return s.result.About(o.Only[0]), s.err
	}
	return runPass, stopWaiting
}

// doOne carries out a command about a single target of several.
func doOne(ctx context.Context, t Target, c Command, runPass passRunner) TargetResult {
	out := TargetResult{
		Project: cmp.Or(t.Of, t.Project.Name()),
		Name:    t.Name,
		Outcome: OutcomeDone,
		Lines:   []string{},
	}
	if ctx.Err() != nil {
		next := cmp.Or(t.Name, out.Project)
		out.fail(reconcile.NewError("canceled", "ended by a signal before "+next, "repeat the command"))
		return out
	}
	if t.Name == "" && !aboutProject(c) {
		out.fail(exit.Usage("%s: an empty name names no issue", c.Name()))
		return out
	}
	// of its own: commands may run at the same time
	p := wiring.NewProject(t.Project.Env.Silent(), t.Project.Path, t.Project.StateDir)
	r, err := c.About(t.Name).do(ctx, p, runPass)
	out.RunID = text.OrNull(r.RunID)
	if err == nil {
		isText := func(line string) bool { return strings.TrimSpace(line) != "" }
		out.Lines = text.Filter(r.Lines(p.Env.Now()), isText)
		err = r.Err()
		if err == nil {
			return out
		}
		if len(r.Pass.Errors) > 0 {
			err = r.Pass.Errors[0]
		}
	}
	out.fail(err)
	if r.stored && !r.Applied {
		out.Outcome = OutcomeStored
	}
	return out
}

// aboutProject reports whether a command is about a project, and not about an issue of it.
func aboutProject(c Command) bool {
	return slices.Contains([]reconcile.Verb{
		reconcile.VerbPause,
		reconcile.VerbResume,
		reconcile.VerbStopAll,
	}, c.Name())
}

// ExitCode is an exit.Only unless everything is done: with the code that all failures share,
// or else 1.
func ExitCode(results []TargetResult) error {
	code := exit.OK
	for _, r := range results {
		switch {
		case r.Outcome == OutcomeDone:
		case code == exit.OK || code == r.code:
			code = r.code
		default:
			return exit.Only(exit.Failed)
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}
