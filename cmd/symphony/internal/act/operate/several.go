package operate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Verbs that are no commands to the planner.
const (
	VerbRun     reconcile.Verb = "run"
	VerbApprove reconcile.Verb = "approve"
	VerbDeny    reconcile.Verb = "deny"
	VerbAnswer  reconcile.Verb = "answer"
	VerbTell    reconcile.Verb = "tell"
)

// Do carries out any command about one issue, request or project. Unless NoWait is set, it
// waits for the runs that it stops and for deliveries.
func Do(ctx context.Context, p *wiring.Project, c Command) (r Result, err error) {
	switch c.Verb {
	case VerbRun:
		return StartIssue(ctx, p, c.Issue, c.Model)
	case VerbApprove, VerbDeny, VerbAnswer:
		r = Result{Verb: c.Verb}
		decided, err := requests.Decide(ctx, p, c.Issue, c.Decision)
		if err == nil {
			lines, note := requests.Describe(decided)
			r.Applied = true
			r.Decided = &decided
			r.Effect = slices.DeleteFunc(append(lines, note), func(s string) bool { return s == "" })
		}
		return r, err
	case VerbTell:
		return operate(ctx, p, c, func(o *operation) error { return o.tell(ctx) })
	case reconcile.VerbStop, reconcile.VerbStopAll:
		var ended []string
		add := func(line string) { ended = append(ended, line) }
		r, err = Stop(ctx, p, c, StopCalls{Ended: add})
		r.Effect = append(r.Effect, ended...)
		return r, err
	case reconcile.VerbDeliver, reconcile.VerbVerify:
		if r, err = Deliver(ctx, p, c); err != nil || c.NoWait {
			return r, err
		}
		run, err := pass.WaitForRun(ctx, p, r.RunID)
		if err == nil && (run.Outcome != reconcile.Succeeded || run.Delivery.Handover.Refused()) {
			err = reconcile.NewError(
				cmp.Or(run.ErrorCode, run.Delivery.Code, "verify_failed"),
				run.Identifier+" was not delivered",
				"symphony show "+run.Identifier+" explains it",
			)
		}
		return r, err
	default:
		return Apply(ctx, p, c)
	}
}

// Target is an issue or a request of a project.
type Target struct {
	Project *wiring.Project
	Name    string // the issue or the request
}

// Several is what a command with several issues prints with --json.
type Several struct {
	Results []TargetResult `json:"results"`
}

// TargetResult is what became of a command about one of several targets.
type TargetResult struct {
	Project string `json:"project"` // the name of the folder of WORKFLOW.md
	Name    string `json:"name"`    // the issue or the request, as the command was given it
	// Outcome is done, failed, or stored: then the next pass applies the command.
	Outcome Outcome          `json:"outcome"`
	RunID   *string          `json:"run_id"` // of the run that was started
	Lines   []string         `json:"lines"`  // what was done, in sentences
	Error   *reconcile.Error `json:"error"`

	code int
}

// Outcome is what became of a command.
type Outcome string

// The outcomes.
const (
	OutcomeDone   Outcome = "done"
	OutcomeStored Outcome = "stored"
	OutcomeFailed Outcome = "failed"
)

// fail makes the result one that failed, with an error that names its target.
func (r *TargetResult) fail(err error) {
	e := *exit.From(err)
	if !strings.Contains(e.Message, r.Name) {
		e.Message = r.Name + ": " + e.Message
	}
	r.Error = &e
	r.Outcome = OutcomeFailed
	r.code = cmp.Or(exit.Code(&e), exit.Failed)
}

// mostAtOnce is how many commands share a pass. Each has the database open meanwhile.
const mostAtOnce = 50

// Each carries out a command about each of the targets, whatever becomes of the others, and
// returns the results in the order of the targets. It calls tell with each: in that order, or
// as soon as its run has ended if it waits for that. Commands share a pass if they can, and
// runs are stopped all at once, because each may take its time to end.
func Each(
	ctx context.Context,
	targets []Target,
	c Command,
	tell func(TargetResult),
) (results []TargetResult) {
	atOnce := mostAtOnce
	switch {
	case c.Verb == reconcile.VerbStop && c.waitsForRun():
		atOnce = max(len(targets), 1)
	case !slices.Contains(passSharingVerbs, c.Verb), c.waitsForRun():
		atOnce = 1
	}
	for some := range slices.Chunk(targets, atOnce) {
		results = append(results, doAll(ctx, some, c, tell)...)
	}
	return results
}

// passSharingVerbs are the verbs whose commands can all be applied by the same pass.
var passSharingVerbs = []reconcile.Verb{
	reconcile.VerbHold, reconcile.VerbRetry, reconcile.VerbHostGone, reconcile.VerbStop, reconcile.VerbDeliver, reconcile.VerbVerify,
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
		run, stopWaiting := passes[t.Project.StateDir].join()
		running.Go(func() {
			<-begin // all have joined
			defer stopWaiting()
			one := c
			one.pass = run
			results[i] = doOne(ctx, t, one)
			if c.waitsForRun() {
				telling.Lock()
				defer telling.Unlock()
				tell(results[i])
			}
		})
	}
	close(begin)
	running.Wait()
	for _, r := range results {
		if !c.waitsForRun() {
			tell(r)
		}
	}
	return results
}

// sharedPass is the pass of several commands.
type sharedPass struct {
	missing sync.WaitGroup // commands that have neither asked for it nor ended
	mu      sync.Mutex
	only    []string // the issues of those that have asked
	once    sync.Once
	result  pass.Result
	err     error
}

// join adds a command, for which the pass then waits. run waits for the others, and returns
// the result of the pass that is run once for all. A command that ends without a pass calls
// stopWaiting, so that the others get theirs.
func (s *sharedPass) join() (run passRunner, stopWaiting func()) {
	s.missing.Add(1)
	stopWaiting = sync.OnceFunc(s.missing.Done)
	return func(ctx context.Context, p *wiring.Project, o pass.Options) (pass.Result, error) {
		s.mu.Lock()
		s.only = append(s.only, o.Only...)
		s.mu.Unlock()
		stopWaiting()
		s.missing.Wait()
		s.once.Do(func() {
			all := o
			all.Only = s.only
			s.result, s.err = pass.Run(ctx, p, all)
		})
		return s.result.About(o.Only[0]), s.err
	}, stopWaiting
}

func doOne(ctx context.Context, t Target, c Command) TargetResult {
	out := TargetResult{
		Project: t.Project.Name(),
		Name:    t.Name,
		Outcome: OutcomeDone,
		Lines:   []string{},
	}
	switch {
	case ctx.Err() != nil:
		out.fail(reconcile.NewError("canceled", "ended by a signal before "+t.Name, "repeat the command"))
		return out
	case t.Name == "": // without an issue a stop would be about all of them
		out.fail(exit.Usage("%s: an empty name names no issue", c.Verb))
		return out
	}
	// of its own: commands may run at the same time
	p := wiring.NewProject(t.Project.Env.Silent(), t.Project.Path, t.Project.StateDir)
	c.Issue = t.Name
	r, err := Do(ctx, p, c)
	out.RunID = text.OrNull(r.RunID)
	if err == nil {
		out.Lines = text.Filter(
			r.Lines(p.Env.Now()),
			func(line string) bool { return strings.TrimSpace(line) != "" },
		)
		if r.Err() == nil {
			return out
		}
		err = r.Err()
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
