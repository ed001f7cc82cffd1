// Package doctor checks everything that a run of a project needs: the workflow, the tracker, codex, programs, directories, the
// schedule. The same checks run in two environments: the one of the caller, and the one that a schedule would provide.
package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/runner/agent"
)

// check is one line of the report.
type check struct {
	name  string
	needs need
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

// checks lists the checks in the order of their lines.
var checks = []check{
	{"workflow", needsNothing, checkWorkflow, ""},
	{
		"environment file", needsNothing, checkEnvFile,
		"its name is that of the state directory, its folder that of XDG_CONFIG_HOME: have the same of both in the schedule's line",
	},
	{"key", needsConfig, checkKey, ""},
	{"tracker", needsKey, checkTracker, ""},
	{"clock", needsKey, checkClock, ""},
	{"codex", needsConfig, checkCodex, "write its path into codex.command, so that both start the same"},
	{"codex login", needsAgent, checkLogin, ""},
	{"sandbox", needsAgent, checkSandbox, ""},
	{"pass_env", needsConfig, checkTokens, ""},
	{"git", needsConfig, checkGit, ""},
	{"gh", needsConfig, checkGh, ""},
	{"workspace root", needsConfig, checkRoot, "write workspace.root in full, or set the variables that it names in the environment file"},
	{
		"state directory", needsNothing, checkState,
		"name it with --state-dir in the schedule's line, or unset what sets it here: two states would both take the same issues",
	},
	{scheduleCheck, needsNothing, checkSchedule, ""},
	{"workers", needsNothing, checkWorkers, ""},
}

// scheduleCheck does not depend on the environment: it runs as called alone.
const scheduleCheck = "schedule"

const (
	// checkBound is how long a check may take, giveUpBound how long it may take to return.
	checkBound  = 45 * time.Second
	giveUpBound = 50 * time.Second
)

// Examine runs all checks and prints their findings. stateFlag is the state directory of a flag, empty without one.
//
// All checks run at once, so that one that hangs delays no other.
func Examine(ctx context.Context, p *project.Project, stateFlag string) error {
	called := newEnvironment(ctx, asCalled, p, nil)
	scheduled := newEnvironment(ctx, asScheduled, schedule.AsScheduled(ctx, p, stateFlag), called)
	secrets := agent.NewRedactor(slices.Concat(called.secrets(), scheduled.secrets()))
	examine := func(c check, e *environment) <-chan []finding {
		done := make(chan []finding, 1)
		if e == scheduled && c.name == scheduleCheck {
			done <- nil
			return done
		}
		go func() {
			list := e.examine(ctx, c, giveUpBound)
			for i := range list {
				list[i].Message, list[i].Hint = secrets.Text(list[i].Message), secrets.Text(list[i].Hint)
			}
			done <- list
		}()
		return done
	}
	var asCalled, asScheduled []<-chan []finding
	for _, c := range checks {
		asCalled, asScheduled = append(asCalled, examine(c, called)), append(asScheduled, examine(c, scheduled))
	}
	var findings []finding
	add := func(r result) {
		r.warnIfDifferent()
		findings = append(findings, slices.Concat(r.called, r.scheduled)...)
		if !p.Env.JSON && ctx.Err() == nil {
			r.print(p.Env)
		}
	}
	for i, c := range checks {
		add(result{c, <-asCalled[i], <-asScheduled[i]})
	}
	left := check{name: "tidying up"}
	add(result{left, called.close(), scheduled.close()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Env.JSON {
		p.Env.PrintJSON(findings)
	}
	return exitCode(findings)
}

// examine runs a check. If it does not return in time, that is the finding.
func (e *environment) examine(ctx context.Context, c check, giveUp time.Duration) []finding {
	bounded, cancel := context.WithTimeout(ctx, checkBound)
	defer cancel()
	done := make(chan []finding, 1)
	go func() {
		if !e.has(c.needs) {
			done <- nil
			return
		}
		done <- c.run(bounded, e)
	}()
	var list []finding
	select {
	case list = <-done:
	case <-time.After(giveUp):
		list = fail("no answer within "+giveUp.String(), "something that it looks at hangs: a disk, a mount, a program in the login profile")
	}
	for i := range list {
		list[i].Check, list[i].As = c.name, e.as
	}
	return list
}
