package project

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Policy completes the configuration's policy with what this machine knows: the resolved workspace root.
func Policy(cfg *workflow.Config) reconcile.Policy {
	p := cfg.Policy
	p.WorkspaceRoot = Resolve(cfg.Workspace.Root)
	p.StopGrace = reconcile.ShortestStop
	if cfg.Hooks.AfterRun != "" {
		p.StopGrace += cfg.Hooks.Timeout
	}
	return p
}

// NewRunners returns the workers of this machine.
func NewRunners(p *Project, cfg *workflow.Config) (*runner.Local, error) {
	exe := "/proc/self/exe" // the running program, also after its file was replaced
	if !Exists(exe) {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("own program: %w", err)
		}
	}
	l := &runner.Local{
		StateDir: p.StateDir, Exe: exe, Env: p.WorkerEnviron(), Workflow: cfg.Redacted, WorkflowPath: p.Path,
		Project: cfg.Policy.Project, Root: Resolve(cfg.Workspace.Root), KeepRemoved: cfg.Workspace.KeepRemoved,
		Scopes: &proc.ScopeManager{Env: p.Env.Environ},
	}
	if cfg.KeyIsLiteral {
		l.Secret = []byte(cfg.Tracker.APIKey.Reveal())
	}
	return l, nil
}

// Secrets are the tracker's secret values. Of a configuration from which no tracker can be made, that is its key.
func Secrets(cfg *workflow.Config) []string {
	tracker, err := NewTracker(cfg, time.Now, nil)
	if err != nil {
		return []string{cfg.Tracker.APIKey.Reveal()}
	}
	return tracker.Secrets
}

// RunnerConfig is the configuration of a worker.
func RunnerConfig(cfg *workflow.Config) runner.Config {
	c := runner.Config{
		Policy: Policy(cfg), MaxTurns: cfg.Agent.MaxTurns,
		Hooks: runner.Hooks{
			AfterCreate: cfg.Hooks.AfterCreate, BeforeRun: cfg.Hooks.BeforeRun,
			AfterRun: cfg.Hooks.AfterRun, BeforeRemove: cfg.Hooks.BeforeRemove, Timeout: cfg.Hooks.Timeout,
		},
		StartAgent: codex.Start, Command: cfg.Codex.Command, CodexHome: cfg.Codex.Home,
		ApprovalPolicy: cfg.Codex.ApprovalPolicy, TurnSandboxPolicy: cfg.Codex.TurnSandboxPolicy,
		ReadTimeout: cfg.Codex.ReadTimeout, InitializeTimeout: cfg.Codex.ReadTimeout,
		TurnTimeout: cfg.Codex.TurnTimeout, StallTimeout: cfg.Codex.StallTimeout,
		OnApproval: approvals[cfg.Agent.OnApproval], OnQuestion: questions[cfg.Agent.OnQuestion], AnswerTimeout: cfg.Agent.AnswerTimeout,
		Network: cfg.Agent.Network, WritableRoots: cfg.Agent.WritableRoots, PassEnv: cfg.Agent.PassEnv,
		KeepGitConfig: cfg.Agent.KeepGitConfig, TrustRepository: cfg.Agent.TrustRepository, ResumeThread: cfg.Agent.ResumeThread,
		KeepRemoved: cfg.Workspace.KeepRemoved,
		Secrets:     cfg.SecretVars, SecretValues: Secrets(cfg),
	}
	if cfg.Codex.ThreadSandbox != "" {
		c.ThreadSandbox = json.RawMessage(strconv.Quote(cfg.Codex.ThreadSandbox)) // a plain word
	}
	if !cfg.Codex.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

var (
	approvals = map[workflow.Answer]agent.Approval{
		workflow.Approve: agent.ApprovalApprove, workflow.Deny: agent.ApprovalDeny, workflow.Fail: agent.ApprovalFail,
		workflow.Ask: agent.ApprovalAsk,
	}
	questions = map[workflow.Answer]agent.QuestionPolicy{workflow.Fail: agent.QuestionFail, workflow.Ask: agent.QuestionAsk}
)

// Version is the version of the program, which the go command derives from a tag or commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "devel"
	}
	return cmp.Or(info.Main.Version, "devel")
}

// ProgramPath is the path to start this program from again after an upgrade: the link by which it was called, if there is
// one. It is empty where the program is gone.
func ProgramPath() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	called, err := exec.LookPath(os.Args[0])
	if err == nil {
		called, err = filepath.Abs(called)
	}
	if err != nil || !SameFile(called, exe) {
		return exe
	}
	return called
}

// SameFile reports whether two paths name one file that exists.
func SameFile(a, b string) bool {
	there, errA := os.Stat(a)
	here, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(there, here)
}

const runStamp = "20060102T150405.000"

// NewRunID returns an id that sorts by time, to the millisecond.
func NewRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// RunIDs returns a function for ids that sort in the order of its calls, also after the clock was set back: an issue's last
// run is known by its id.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	var last string
	return func() string {
		if last == "" {
			// If the database can't be read, the run's row can't be written, and that is reported.
			if runs, err := db.Views.RecentRuns(context.Background(), 1); err == nil && len(runs) > 0 {
				last = runs[0].ID
			}
		}
		id := NewRunID(now())
		if len(last) > len(runStamp) && id[:len(runStamp)] <= last[:len(runStamp)] {
			if at, err := time.Parse(runStamp, last[:len(runStamp)]); err == nil {
				id = NewRunID(at.Add(time.Millisecond))
			}
		}
		last = id
		return id
	}
}
