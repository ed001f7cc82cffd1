package runner

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// Worker carries out a run that it took. It does not change during the run.
type Worker struct {
	// Here is this machine. A run works there, unless Reach is set.
	Here    Place
	Prompt  Prompt
	Journal Journal
	Tracker *reconcile.TrackerAdapter
	// Forge returns where a pull request is opened for each branch. The login is looked for in
	// env. Nil: none is opened.
	Forge    func(ctx context.Context, env []string) (*reconcile.Forge, error)
	Requests agent.RequestStore
	// Reach reaches the other machine on which the run works; nil for a run on this machine.
	Reach   Reach
	Account Account // nil: nothing is shared with other projects
	Alive   Alive
	Dir     string // the run's directory, on this machine
	Version string
	Now     func() time.Time
	// Mono is the monotonic clock of this machine. Its values are comparable within the same
	// Boot.
	Mono func() time.Duration
	Boot string
	Log  *slog.Logger
	// Redactor removes secrets from everything that the run writes. Log must write through it,
	// too, because secrets may be found during the run.
	Redactor *agent.Redactor
	// Free contains the additional settings of an agent without an issue; nil for other runs.
	Free *Free
	// Team is this machine as a member of the team that shares the repository; nil without a team, or
	// for a run that needs no claim.
	Team *team.Member
	// Attend starts to notify a person of stored requests, without waiting. Nil: the next pass
	// notifies.
	Attend func(ctx context.Context)
}

// Place is a machine on which a run works, with the settings that differ between machines.
type Place struct {
	Machine host.Machine
	// StateDir is the project's directory there. On another machine only the directories of
	// runs are in it.
	StateDir string
	// Env is the environment of hooks and agent, before secrets are removed.
	Env []string
	// Config contains the paths of that machine, such as the home of agents.
	Config Config
}

// Config is the part of the workflow that runs need. It does not change during a run.
type Config struct {
	confine.Config
	Policy     reconcile.Policy
	MaxTurns   int
	Hooks      Hooks
	Repository Repository
	Handoff    Handoff
	Verify     Verify

	// Agent is the kind of Command. A machine refuses a kind that it does not know, of which
	// only the name is set.
	Agent agent.Kind
	// the command that starts the agent, run by bash in the workspace, with the variables that a
	// login shell sets (specification 10.1)
	Command string
	// Sandbox is that of symphony itself; nil if the agent confines itself, or is not confined.
	Sandbox *Sandbox
	// AgentEnv are variables of the agent and its commands, such as "FOO=bar" (agent.env).
	AgentEnv []string
	// Program is symphony's own, for what agents start of it.
	Program string
	// TrustLauncher starts Command even if files in the workspace decide which program that
	// is.
	TrustLauncher bool

	// for the login profile; 0: 30 s
	LoginTimeout                                              time.Duration
	ReadTimeout, InitializeTimeout, TurnTimeout, StallTimeout time.Duration

	OnApproval    agent.Approval
	AnswerTimeout time.Duration // for an operator's answer to a request
	ResumeThread  bool
	KeepRemoved   time.Duration
}

// Hooks are the workflow's shell scripts (specification 5.3.4); an empty script does nothing.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string
	// by the name of the hook: its place in the workflow, for messages
	Where   map[string]string
	Timeout time.Duration
}

// scripts are the commands that may run files of the repository outside the sandbox, and
// verify.command.
func (c Config) scripts() string {
	hooks := c.Hooks
	return strings.Join([]string{
		c.Verify.Command,
		c.Repository.Check,
		hooks.AfterCreate,
		hooks.BeforeRun,
		hooks.AfterRun,
		hooks.BeforeRemove,
	}, "\n")
}

// Repository is the workflow's repository. Without a URL symphony neither clones nor pushes.
type Repository struct {
	host.Repository
	Branch  Prompt              // renders the name of an issue's branch
	Deliver bool                // push the commits of runs
	Check   string              // decides whether they may be pushed; empty for no check
	Words   reconcile.PullWords // what people call pull requests there
	// Token is the token for the forge that the workflow names, empty for none. TokenVar is
	// the variable that contains it, such as GITHUB_TOKEN.
	Token, TokenVar string
	// AskPass is the program that git asks for a password, GIT_ASKPASS of the environment file; empty
	// for none.
	AskPass string
	// ClaimsBranch is the branch of the remote with the claims of a team, such as symphony-claims;
	// empty if they are references, or without a team.
	ClaimsBranch string
}

// Handoff names the states to which issues are moved that agents hand over; the zero value if
// agents move them.
type Handoff struct {
	State        string
	BlockedState string // for an agent that needs something from a person
}

// Verify is the command that must pass before an issue is handed over; the zero value if there
// is none.
type Verify struct {
	Command string
	Timeout time.Duration
	Rounds  int // how often it may fail in a row
}

// isDue reports whether the command must still pass for a commit that is to be handed over;
// with an empty commit, for any.
func (v Verify) isDue(h *reconcile.Handover, commit string) bool {
	return h != nil && v.Command != "" && h.NeedsVerify(commit)
}
