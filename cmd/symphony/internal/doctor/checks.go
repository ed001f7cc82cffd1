package doctor

import (
	"context"
	"time"
)

// check is one question. It may be put to both places, when what it looks at depends on the environment.
type check struct {
	name  string
	bound time.Duration
	twice bool
	// run finds something to say, be it that all is well; nil where the question does not arise.
	run func(ctx context.Context, at *place) []finding
	// config: it needs a workflow that can be read.
	config bool
	// differs is what to do where both places are well and yet not the same; empty where that does no harm.
	differs string
}

const (
	shortBound = 10 * time.Second
	longBound  = 45 * time.Second
	// latePatience is left to a check to come back by itself after its bound.
	latePatience = 5 * time.Second
)

// What to do about places that differ.
const (
	sameEnvFile = "its name is that of the state directory, its folder that of XDG_CONFIG_HOME: have the same of both in the schedule's line"
	sameCodex   = "write its path into codex.command, so that both start the same"
	sameHome    = "set codex.home, so that both use the same"
	sameAgent   = "give hooks a key of their own (IdentityFile in ~/.ssh/config), or set SSH_AUTH_SOCK to a lasting agent's in the environment file"
	sameRoot    = "write workspace.root in full, or set the variables that it names in the environment file"
	sameState   = "name it with --state-dir in the schedule's line, or unset what sets it here: two states would both take the same issues"
)

// checks are all of them, in the order of their lines: each stands on those before it.
func checks() []check {
	return []check{
		{name: "workflow", bound: shortBound, twice: true, run: checkWorkflow},
		{name: "environment file", bound: shortBound, twice: true, run: checkEnvFile, differs: sameEnvFile},
		{name: "key", bound: shortBound, twice: true, config: true, run: checkKey},
		{name: "tracker", bound: longBound, twice: true, config: true, run: checkTracker},
		{name: "clock", bound: longBound, twice: true, config: true, run: checkClock},
		{name: "codex", bound: longBound, twice: true, config: true, run: checkCodex, differs: sameCodex},
		{name: "codex login", bound: longBound, twice: true, config: true, run: checkLogin},
		{name: "codex home", bound: longBound, twice: true, config: true, run: checkCodexHome, differs: sameHome},
		{name: "sandbox", bound: longBound, twice: true, config: true, run: checkSandbox},
		{name: "git", bound: shortBound, twice: true, config: true, run: checkGit},
		{name: "gh", bound: shortBound, twice: true, config: true, run: checkGh},
		{name: "ssh agent", bound: shortBound, twice: true, config: true, run: checkSSHAgent, differs: sameAgent},
		{name: "workspace root", bound: shortBound, twice: true, config: true, run: checkRoot, differs: sameRoot},
		{name: "state directory", bound: longBound, twice: true, run: checkState, differs: sameState},
		{name: "schedule", bound: shortBound, run: checkSchedule},
		{name: "workers", bound: shortBound, twice: true, run: checkWorkers},
		{name: "leftovers", bound: longBound, config: true, run: checkLeftovers},
		{name: "account", bound: shortBound, run: checkAccount},
	}
}
