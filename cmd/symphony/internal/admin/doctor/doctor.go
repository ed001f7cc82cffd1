// Package doctor checks everything that a run of a project needs: the workflow, the tracker,
// the agent, programs, directories, the schedule. Each check runs in two environments: the
// caller's, and the bare environment of a schedule.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

// check is a line of the report.
type check struct {
	name  string
	needs need
	// run returns its findings, good or bad; nil if the check does not apply.
	run func(ctx context.Context, e *environment) []finding
	// ifDifferent is the hint if both environments are fine but different; empty if that does
	// no harm.
	ifDifferent string
	about       subject
}

// subject is the subject of a check, if agents may work on other machines.
type subject int

const (
	ofProject subject = iota // it is made always
	ofAgents                 // the machine of agents: the check is left out if that is another machine
	ofDefault                // the same, if agents are of the default kind
	ofOthers                 // the same, if they are not
	ofTurns                  // the same, if a trial turn is asked for
	// the machine of agents, or the machine on which git reaches the repository, which is
	// always this machine
	ofRepository
)

// need is a condition of a check. If it is not met, the check is skipped and another check
// reports why.
type need int

const (
	needsNothing  need = iota
	needsWorkflow      // a workflow, which may be wrong
	needsConfig        // a workflow that can be read
	needsKey           // the tracker's key
	// a workflow that can be read, or none: then the agent is checked with the defaults
	needsDefaults
	needsLogin // a login shell that ends
	needsAgent // an agent that starts, and gets the whole protocol
)

// JSON is the output of doctor --json.
type JSON = []finding

// needsProject reports whether the condition needs a workflow. Where there is none, its check
// is skipped without a complaint.
func (n need) needsProject() bool { return n == needsWorkflow || n == needsConfig || n == needsKey }

// checks lists the checks in the order of their lines.
var checks = slices.Concat(
	[]check{
		{"workflow", needsNothing, checkWorkflow, "", ofProject},
		{
			"environment file",
			needsNothing,
			checkEnvFile,
			"its path follows from the state directory and XDG_CONFIG_HOME: use the same of both in the schedule and here",
			ofProject,
		},
		{"key", needsConfig, checkKey, "", ofProject},
		{"tracker", needsKey, checkTracker, "", ofProject},
		{"hosts", needsConfig, checkHosts, "", ofProject},
		{"login shell", needsDefaults, checkLoginShell, "", ofRepository},
	},
	defaultChecks,
	[]check{
		{"sandbox", needsLogin, checkBox, "", ofAgents},
		{"caches", needsLogin, checkCaches, "", ofAgents},
		{"limits", needsConfig, checkLimits, "", ofAgents},
		{"agent", needsLogin, aboutKind(checkAgent), "write its full path into agent.command", ofOthers},
		{"login", needsAgent, aboutKind(checkAgentLogin), "", ofOthers},
		{"conversation", needsAgent, aboutKind(checkConversation), "", ofOthers},
		{"trial turn", needsAgent, aboutKind(checkTurn), "", ofTurns},
		{"secrets", needsConfig, checkSecrets, "", ofAgents},
		{"git", needsLogin, checkGit, "", ofRepository},
		{"gh", needsLogin, checkGh, "", ofRepository},
		{"repository", needsLogin, checkRepository, "", ofRepository},
		{
			"claims", needsLogin, checkClaims,
			"set " + wiring.MachineVar + " in the environment file, so that the schedule uses the same name", ofRepository,
		},
		{"pull requests", needsLogin, checkForge, "", ofProject},
		{"git lfs", needsLogin, checkLargeFiles, "", ofRepository},
		{"commits", needsLogin, checkCommit, "", ofAgents},
		{"signatures", needsLogin, checkSignature, "", ofRepository},
		{
			"workspace root", needsConfig, checkRoot,
			"write workspace.root as an absolute path, or set the variables in it in the environment file", ofAgents,
		},
		{
			"state directory", needsWorkflow, checkState,
			"name it with --state-dir in the schedule, or unset the variable that sets it here: " +
				"two state directories would both take the same issues", ofProject,
		},
		{"schedule", needsNothing, checkSchedule, "", ofProject},
		{"monitoring", needsConfig, checkMonitor, "", ofProject},
		{"workers", needsNothing, checkWorkers, "", ofProject},
		{"account", needsNothing, checkAccount, "", ofProject},
	},
)

const (
	// checkBound is the time limit of a check. A check that does not return within giveUpBound
	// is reported.
	checkBound  = 45 * time.Second
	giveUpBound = 50 * time.Second
	// turnBound is the limit where a turn is tried: an agent repeats what its model refuses.
	turnBound = 3 * time.Minute
)

// Options are the flags of doctor.
type Options struct {
	StateDir string // the value of --state-dir
	// Named is set if the caller named a workflow. Otherwise, if the workflow is missing,
	// doctor checks the machine alone.
	Named   bool
	Verbose bool
	// Deep: the agent answers once, which uses tokens.
	Deep bool
}

// Examine runs all checks at once, so that a check that hangs delays no other, and prints
// their findings: first the good findings, in the order of the checks, then the warnings, the
// failures, and a summary.
func Examine(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	called := newEnvironment(ctx, asCalled, p, o.Named, nil)
	called.deep = o.Deep
	scheduled := newEnvironment(ctx, asScheduled, schedule.AsScheduled(ctx, p, o.StateDir), o.Named, called)
	scheduled.deep = o.Deep
	secrets := agent.NewRedactor(slices.Concat(called.secrets(), scheduled.secrets()))
	for _, e := range []*environment{called, scheduled} {
		if e.config != nil && e.concerns(ofRepository) {
			e.login() // alone: the other checks would slow it down
		}
	}
	giveUp := patience(giveUpBound)
	if o.Deep {
		giveUp += turnBound
	}
	pending := text.Map(checks, func(c check) [2]<-chan answer {
		return [2]<-chan answer{called.start(ctx, c, giveUp), scheduled.start(ctx, c, giveUp)}
	})
	out := &report{w: w, verbose: o.Verbose, secrets: secrets}
	out.machine = called.machine
	add := func(c check, called, scheduled answer) {
		for i, f := range scheduled.findings { // fine, but not the same as here
			if c.ifDifferent != "" && f.Status == statusOK && len(called.findings) > 0 &&
				!f.in(called.findings) {
				scheduled.findings[i].Status = statusWarn
				scheduled.findings[i].Hint = c.ifDifferent
			}
		}
		if ctx.Err() == nil {
			out.add(result{
				name:      c.name,
				called:    called.findings,
				scheduled: scheduled.findings,
				skipped:   called.skipped,
			})
		}
	}
	for i, c := range checks {
		add(c, <-pending[i][0], <-pending[i][1])
	}
	add(check{name: tidyingUp}, answer{findings: called.close()}, answer{findings: scheduled.close()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return out.end()
}

// start starts a check and returns a channel for its findings. If the check does not return in
// time, that is the finding.
func (e *environment) start(ctx context.Context, c check, giveUp time.Duration) <-chan answer {
	done := make(chan answer, 1)
	out := make(chan answer, 1)
	go func() {
		bound := patience(checkBound)
		if e.deep {
			bound += turnBound
		}
		bounded, cancel := context.WithTimeout(ctx, bound)
		defer cancel()
		if !e.concerns(c.about) {
			done <- answer{}
			return
		}
		if !e.has(c.needs) {
			done <- answer{skipped: !e.machine || !c.needs.needsProject()}
			return
		}
		done <- answer{findings: c.run(bounded, e)}
	}()
	go func() {
		var a answer
		select {
		case a = <-done:
		case <-time.After(giveUp):
			a.findings = fail("no answer within "+giveUp.String(),
				"something that it examines hangs: a disk, a mount, or a program in the login profile")
		}
		for i := range a.findings {
			a.findings[i].Check = c.name
			a.findings[i].As = e.as
		}
		out <- a
	}()
	return out
}

// answer is the answer of a check in an environment.
type answer struct {
	findings []finding
	skipped  bool // because of a fault that another check reports
}

// status is the result of a check, from good to bad.
type status int

const (
	statusOK status = iota
	statusWarn
	statusFail
)

func (s status) MarshalText() ([]byte, error) {
	return []byte([...]string{"ok", "warn", "fail"}[s]), nil
}

// finding is a finding of a check in an environment.
type finding struct {
	Check   string `json:"check"`
	Status  status `json:"status"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	As      string `json:"as"`
	code    string // of the error
}

func ok(format string, args ...any) []finding {
	return []finding{{Message: fmt.Sprintf(format, args...)}}
}

func warn(message, hint string) []finding {
	return []finding{{Status: statusWarn, Message: message, Hint: hint}}
}

func fail(message, hint string) []finding {
	return []finding{{Status: statusFail, Message: message, Hint: hint}}
}

// failWith turns an error into findings, a finding for each fault.
func failWith(err error) (list []finding) {
	faults := workflow.Faults(err)
	var known *reconcile.Error
	var ofAgent *agent.Error
	switch {
	case len(faults) > 0:
	case errors.As(err, &known):
		faults = append(faults, known)
	case errors.As(err, &ofAgent):
		// The chain of errors ends with the last output of the agent.
		message := strings.TrimPrefix(err.Error(), string(ofAgent.Code)+": ")
		code := cmp.Or(ofAgent.Cause, ofAgent.Code)
		hint := cmp.Or(
			doctorHints[code],
			words.Hint(string(code), ""),
			"see the output of the agent in a run with symphony logs ISSUE --stderr",
		)
		faults = append(faults, reconcile.NewError(string(code), message, hint))
	case errors.Is(err, context.DeadlineExceeded):
		faults = append(
			faults,
			reconcile.NewError(
				string(agent.CodeResponseTimeout),
				err.Error(),
				"something hangs: run it yourself to see more",
			),
		)
	default:
		faults = append(faults, exit.From(err))
	}
	for _, e := range faults {
		list = append(list, finding{
			Status:  statusFail,
			Message: e.Error(),
			Hint:    e.Hint,
			code:    e.Code,
		})
	}
	return list
}

func (f finding) in(list []finding) bool {
	return slices.ContainsFunc(list, func(other finding) bool {
		return f.Status == other.Status && f.Message == other.Message && f.Hint == other.Hint
	})
}

// requiredChecks are the checks without which no pass begins.
var requiredChecks = []string{"workflow", "environment file", "key"}

// exitCode returns an exit.Only: 3 if a pass in the caller's environment would refuse the
// workflow, 1 if anything else fails.
func exitCode(findings []finding) error {
	code := exit.OK
	for _, f := range findings {
		if f.Status != statusFail {
			continue
		}
		code = max(code, exit.Failed)
		if f.As == asCalled && (slices.Contains(requiredChecks, f.Check) || f.code == workflow.CodeInvalid) {
			code = exit.Workflow
		}
	}
	if code == exit.OK {
		return nil
	}
	return exit.Only(code)
}
