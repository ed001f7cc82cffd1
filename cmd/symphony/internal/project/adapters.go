package project

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
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

// selfExe is the running program, also after its file was replaced.
func selfExe() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// NewRunners returns the workers of this machine.
func NewRunners(p *Project, cfg *workflow.Config) (*runner.Local, error) {
	exe, err := selfExe()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
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
		OnApproval: onApproval(cfg.Agent.OnApproval), OnQuestion: onQuestion(cfg.Agent.OnQuestion), AnswerTimeout: cfg.Agent.AnswerTimeout,
		Network: cfg.Agent.Network, WritableRoots: cfg.Agent.WritableRoots, PassEnv: cfg.Agent.PassEnv,
		KeepGitConfig: cfg.Agent.KeepGitConfig, TrustRepository: cfg.Agent.TrustRepository, ResumeThread: cfg.Agent.ResumeThread,
		KeepRemoved: cfg.Workspace.KeepRemoved,
		Secrets:     cfg.SecretVars, SecretValues: []string{cfg.Tracker.APIKey.Reveal()},
	}
	if cfg.Codex.ThreadSandbox != "" {
		c.ThreadSandbox = json.RawMessage(strconv.Quote(cfg.Codex.ThreadSandbox)) // a plain word
	}
	if !cfg.Codex.ReadTimeoutSet {
		c.InitializeTimeout = max(c.InitializeTimeout, 30*time.Second)
	}
	return c
}

func onApproval(a workflow.Answer) agent.Approval {
	return map[workflow.Answer]agent.Approval{
		workflow.Approve: agent.ApprovalApprove, workflow.Deny: agent.ApprovalDeny, workflow.Fail: agent.ApprovalFail,
		workflow.Ask: agent.ApprovalAsk,
	}[a]
}

func onQuestion(a workflow.Answer) agent.QuestionPolicy {
	return map[workflow.Answer]agent.QuestionPolicy{workflow.Fail: agent.QuestionFail, workflow.Ask: agent.QuestionAsk}[a]
}
