// Package doctor checks everything that a run of a project needs: the workflow, the tracker, codex, programs, directories, the
// schedule. The same checks run in two environments: the one of the caller, and the one that a schedule would provide.
package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/runner"
)

// check is one line of the report.
type check struct {
	name  string
	bound time.Duration
	needs need
	once  bool // it does not depend on the environment
	// run returns what it found, also if all is well; nil if the check does not apply.
	run func(ctx context.Context, e *environment) []finding
	// ifDifferent is the hint if both environments are fine but not equal; empty if that does no harm.
	ifDifferent string
}

// need is what a check can't do without. It is skipped then: the check of that reports it.
type need int

const (
	needsNothing need = iota
	needsConfig       // a workflow that can be read
	needsKey          // the tracker's key
	needsAgent        // a codex that starts
)

const (
	shortBound = 10 * time.Second
	longBound  = 45 * time.Second
	// returnBound is how long a check may take to return after its bound.
	returnBound = 5 * time.Second
)

// checks lists the checks in the order of their lines.
func checks() []check {
	return []check{
		{name: "workflow", bound: shortBound, run: checkWorkflow},
		{
			name: "environment file", bound: shortBound, run: checkEnvFile,
			ifDifferent: "its name is that of the state directory, its folder that of XDG_CONFIG_HOME: have the same of both in the schedule's line",
		},
		{name: "key", bound: shortBound, needs: needsConfig, run: checkKey},
		{name: "tracker", bound: longBound, needs: needsKey, run: checkTracker},
		{name: "clock", bound: longBound, needs: needsKey, run: checkClock},
		{
			name: "codex", bound: longBound, needs: needsConfig, run: checkCodex,
			ifDifferent: "write its path into codex.command, so that both start the same",
		},
		{name: "codex login", bound: longBound, needs: needsAgent, run: checkLogin},
		{name: "codex home", bound: longBound, needs: needsAgent, run: checkCodexHome, ifDifferent: "set codex.home, so that both use the same"},
		{name: "sandbox", bound: longBound, needs: needsAgent, run: checkSandbox},
		{name: "pass_env", bound: shortBound, needs: needsConfig, run: checkTokens},
		{name: "git", bound: shortBound, needs: needsConfig, run: checkGit},
		{name: "gh", bound: shortBound, needs: needsConfig, run: checkGh},
		{
			name: "ssh agent", bound: shortBound, needs: needsConfig, run: checkSSHAgent,
			ifDifferent: "give hooks a key of their own (IdentityFile in ~/.ssh/config), or set SSH_AUTH_SOCK to a lasting agent's in the environment file",
		},
		{
			name: "workspace root", bound: shortBound, needs: needsConfig, run: checkRoot,
			ifDifferent: "write workspace.root in full, or set the variables that it names in the environment file",
		},
		{
			name: "state directory", bound: longBound, run: checkState,
			ifDifferent: "name it with --state-dir in the schedule's line, or unset what sets it here: two states would both take the same issues",
		},
		{name: "schedule", bound: shortBound, once: true, run: checkSchedule},
		{name: "workers", bound: shortBound, run: checkWorkers},
		{name: "leftovers", bound: longBound, once: true, needs: needsConfig, run: checkLeftovers},
		{name: "account", bound: shortBound, once: true, run: checkAccount},
	}
}

// Examine runs all checks and prints their findings. stateFlag is the state directory of a flag, empty without one.
func Examine(ctx context.Context, p *project.Project, stateFlag string) error {
	called := newEnvironment(asCalled, p)
	scheduled := newEnvironment(asScheduled, underSchedule(ctx, p, stateFlag))
	scheduled.other = called
	d := &doctor{called: called, scheduled: scheduled, returnBound: returnBound}
	return d.run(ctx)
}

// doctor examines one project in two environments.
type doctor struct {
	called, scheduled *environment
	returnBound       time.Duration
}

// run starts all checks at once, so that one that hangs delays no other, and prints their findings in order.
func (d *doctor) run(ctx context.Context) error {
	w := d.called.p.Env
	for _, e := range []*environment{d.called, d.scheduled} {
		e.agent = sync.OnceValues(func() (*runner.Inspection, error) { return e.startAgent(ctx) })
		e.tracker = sync.OnceValue(func() *trackerAnswer { return e.askTracker(ctx) })
	}
	all := checks()
	results := make([]chan result, len(all))
	for i, c := range all {
		results[i] = make(chan result, 1)
		go func() { results[i] <- d.examine(ctx, c) }()
	}
	var findings []finding
	add := func(r result) {
		findings = append(findings, slices.Concat(r.called, r.scheduled)...)
		if !w.JSON && ctx.Err() == nil {
			r.print(w)
		}
	}
	for i := range all {
		add(<-results[i])
	}
	add(d.close())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.JSON {
		w.PrintJSON(findings)
	}
	return exitCode(findings)
}

// examine runs one check in both environments.
func (d *doctor) examine(ctx context.Context, c check) result {
	r := result{name: c.name}
	if c.once {
		r.called = d.runIn(ctx, c, d.called)
		return r
	}
	scheduled := make(chan []finding, 1)
	go func() { scheduled <- d.runIn(ctx, c, d.scheduled) }()
	r.called = d.runIn(ctx, c, d.called)
	r.scheduled = <-scheduled
	r.warnIfDifferent(c.ifDifferent)
	return r
}

// runIn runs a check in one environment. If it does not return in time, that is the finding.
func (d *doctor) runIn(ctx context.Context, c check, e *environment) []finding {
	bounded, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	done := make(chan []finding, 1)
	go func() {
		if e.has(c.needs) {
			done <- c.run(bounded, e)
		} else {
			done <- nil
		}
	}()
	var list []finding
	select {
	case list = <-done:
	case <-time.After(c.bound + d.returnBound):
		list = fail("no answer within "+c.bound.String(), "something that it looks at hangs: a disk, a mount, a program in the login profile")
	}
	for i := range list {
		list[i].Check, list[i].As = c.name, e.as
		for _, e := range []*environment{d.called, d.scheduled} {
			list[i].Message, list[i].Hint = e.hideKey(list[i].Message), e.hideKey(list[i].Hint)
		}
	}
	return list
}

// close ends what was started for the checks.
func (d *doctor) close() result {
	r := result{name: "tidying up"}
	for _, e := range []*environment{d.called, d.scheduled} {
		if err := e.close(); err != nil {
			for _, f := range warn("something is left that was started for codex's checks: "+err.Error(), "look at what is named") {
				f.Check, f.As = r.name, e.as
				r.called = append(r.called, f)
			}
		}
	}
	return r
}
