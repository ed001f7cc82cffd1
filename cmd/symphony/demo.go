package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
	"github.com/urfave/cli/v2"
)

func demoCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "demo", Usage: "watch passes take five issues of a made-up project to their handoff; needs no account",
		UsageText: "symphony demo [flags]",
		Description: "Serves a small Linear on loopback, makes a git repository and a WORKFLOW.md in a temporary folder, and runs\n" +
			"real passes with real detached workers. The agent is a scripted one unless --agent codex asks for the real.\n\n" +
			exampleText("symphony demo --rm"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "agent", Value: "scripted", Usage: "scripted, or codex for the real one (needs it installed and logged in)"},
			&cli.BoolFlag{Name: "rm", Usage: "remove the folder at the end"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return exit.Usage("demo: unexpected argument %q", c.Args().First())
			}
			agent := c.String("agent")
			if agent != "scripted" && agent != "codex" {
				return exit.Usage("demo: --agent is scripted or codex, not %q", agent)
			}
			return demo(c.Context, w, agent, c.Bool("rm"))
		},
	}
}

// demoAgentCommand is the scripted agent: a process of its own that speaks codex's protocol.
func demoAgentCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "demo-agent", Hidden: true, SkipFlagParsing: true, Usage: "the scripted agent of symphony demo",
		Action: func(c *cli.Context) error {
			if code := codextest.Main(c.Args().Slice(), w.Stdin, w.Stdout, w.Stderr); code != 0 {
				return exit.Only(code)
			}
			return nil
		},
	}
}

// How long a demo may take, and how often it looks.
const (
	scriptedBound = 20 * time.Second
	codexBound    = 20 * time.Minute
	demoStep      = 150 * time.Millisecond
)

// playground is the folder of a demo and what runs for it.
type playground struct {
	w      *term.Env
	dir    string
	agent  string
	linear *lineartest.Server
	began  time.Time
	seen   map[string]int  // changes of each issue that were shown
	ended  map[string]bool // runs whose end was shown
}

func demo(ctx context.Context, w *term.Env, agent string, remove bool) (err error) {
	dir, err := os.MkdirTemp("", "symphony-demo-")
	if err != nil {
		return fmt.Errorf("demo folder: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("demo folder: %w", err)
	}
	d := &playground{w: w, dir: dir, agent: agent, began: w.Now(), seen: map[string]int{}, ended: map[string]bool{}}
	if remove {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := d.set(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.linear.Close()) }()
	d.say("a Linear with %d issues listens on %s; everything else is in %s", len(d.linear.Issues()), d.linear.Endpoint(), dir)
	if err := d.play(ctx); err != nil {
		return errors.Join(err, d.clear(ctx))
	}
	return d.close(ctx, remove)
}

func (d *playground) say(format string, args ...any) {
	fmt.Fprintf(d.w.Stdout, "%5.1fs  %s\n", d.w.Now().Sub(d.began).Seconds(), term.Visible(fmt.Sprintf(format, args...)))
}

// set makes the tracker, the repository and the workflow.
func (d *playground) set(ctx context.Context) error {
	d.linear = lineartest.New(lineartest.Config{})
	if err := d.linear.Load(lineartest.Seed{
		Teams:    []lineartest.SeedTeam{{Key: "DEMO", Name: "Demo"}},
		Projects: []lineartest.SeedProject{{Name: "Demo", SlugID: "demo"}},
	}); err != nil {
		return fmt.Errorf("demo tracker: %w", err)
	}
	if err := d.linear.Start(); err != nil {
		return fmt.Errorf("demo tracker: %w", err)
	}
	if err := d.addIssues(); err != nil {
		return fmt.Errorf("demo issues: %w", err)
	}
	d.w.Environ = append(d.w.Environ,
		"LINEAR_API_KEY="+d.linear.Key(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Symphony demo", "GIT_AUTHOR_EMAIL=demo@example.com",
		"GIT_COMMITTER_NAME=Symphony demo", "GIT_COMMITTER_EMAIL=demo@example.com")
	if d.agent == "scripted" { // no account's limits are its business, and no account is to learn of its runs
		d.w.Environ = append(d.w.Environ, "XDG_STATE_HOME="+d.stateDir(), reconcile.MaxAgentsVar+"=")
	}
	if err := d.makeRepository(ctx); err != nil {
		return err
	}
	return d.writeWorkflow()
}

func (d *playground) makeRepository(ctx context.Context) error {
	repo := filepath.Join(d.dir, "repository")
	if err := os.MkdirAll(repo, 0o700); err != nil {
		return fmt.Errorf("demo repository: %w", err)
	}
	if err := os.WriteFile(filepath.Join(repo, "README.md"), []byte("# A small project\n"), 0o600); err != nil {
		return fmt.Errorf("demo repository: %w", err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "Begin"}} {
		git := exec.CommandContext(ctx, "git", args...)
		git.Dir, git.Env = repo, d.w.Environ
		if out, err := git.CombinedOutput(); err != nil {
			return &reconcile.Error{
				Code: "demo_failed", Message: fmt.Sprintf("git %s: %v: %s", args[0], err, strings.TrimSpace(string(out))),
				Hint: "the demo needs git on PATH", Err: err,
			}
		}
	}
	return nil
}

const demoWorkflow = `---
tracker:
  kind: linear
  endpoint: %s
  api_key: $LINEAR_API_KEY
  project_slug: demo
  terminal_states: [Done, Closed, Canceled, Duplicate]
polling:
  interval_ms: 1000
workspace:
  root: ./workspaces
  min_free_bytes: 0
hooks:
  after_create: |
    git clone -q %s . && git switch -q -c "work/$SYMPHONY_ISSUE_IDENTIFIER"
agent:
  max_concurrent_agents: 3
  max_retry_backoff_ms: 1500
codex:%s
  command: |-
    %s
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Commit your work on the branch that is checked out. Then hand the issue over with linear_graphql:
set its state to {{ "Human Review" }}, unless the text above names another.

Attempt: {{ attempt }}
`

func (d *playground) writeWorkflow() error {
	command, account := "codex app-server", ""
	if d.agent == "scripted" {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("own program: %w", err)
		}
		home := filepath.Join(d.dir, "agent-home")
		if err := os.MkdirAll(home, 0o700); err != nil {
			return fmt.Errorf("demo agent: %w", err)
		}
		command = fmt.Sprintf("%s demo-agent app-server --pace 150ms --home %s", term.ShellQuote(exe), term.ShellQuote(home))
		account = "\n  home: ./agent-home"
	}
	text := fmt.Sprintf(demoWorkflow, d.linear.Endpoint(), term.ShellQuote(filepath.Join(d.dir, "repository")), account, command)
	if err := os.WriteFile(d.workflow(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("demo workflow: %w", err)
	}
	return nil
}

func (d *playground) workflow() string { return filepath.Join(d.dir, "WORKFLOW.md") }
func (d *playground) stateDir() string { return filepath.Join(d.dir, "state") }

// play runs pass after pass until every issue is handed over and nothing runs.
func (d *playground) play(ctx context.Context) error {
	bound := scriptedBound
	if d.agent == "codex" {
		bound = codexBound
	}
	// The demo is a loop: as with any, workers leave the settling to it, so that nothing outlives it.
	if err := os.MkdirAll(d.stateDir(), 0o700); err != nil {
		return fmt.Errorf("demo folder: %w", err)
	}
	lock := project.LoopLock(d.stateDir())
	if _, err := project.TryLoopLock(ctx, lock); err != nil {
		return fmt.Errorf("demo folder: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // it ends with the process
	for d.w.Now().Sub(d.began) < bound {
		r, err := d.pass(ctx)
		if err != nil {
			return err
		}
		if err := d.show(ctx, r); err != nil {
			return err
		}
		if d.over(r) {
			d.say("every issue is handed over, and nothing runs")
			return nil
		}
		if !project.Sleep(ctx, demoStep) {
			return ctx.Err()
		}
	}
	return &reconcile.Error{
		Code: "demo_failed", Message: fmt.Sprintf("not every issue was handed over within %s", bound),
		Hint: fmt.Sprintf("see why: %s ps --all -w %s --state-dir %s", program(), term.ShellQuote(d.workflow()), term.ShellQuote(d.stateDir())),
	}
}

func (d *playground) pass(ctx context.Context) (pass.Result, error) {
	p := project.New(d.w, d.workflow(), d.stateDir())
	r, err := pass.Run(ctx, p, pass.Options{Trigger: project.TriggerManual, Stays: true, LockTimeout: project.CommandPatience})
	if err == nil && len(r.Errors) > 0 {
		err = r.Errors[0]
	}
	return r, err
}

// show tells what has moved in the tracker, which runs have ended, and what the pass did about it.
func (d *playground) show(ctx context.Context, r pass.Result) error {
	for _, issue := range d.linear.Issues() {
		changes, err := d.linear.History(issue.Identifier)
		if err != nil {
			return err
		}
		for _, c := range changes[d.seen[issue.Identifier]:] {
			if c.Field == "state" {
				d.say("linear    %s: %s -> %s", issue.Identifier, c.From, c.To)
			}
		}
		d.seen[issue.Identifier] = len(changes)
	}
	if err := d.showEnds(ctx); err != nil {
		return err
	}
	for _, a := range r.Applied {
		if a.Kind != reconcile.ActSettle { // the run's own end says it
			d.say("pass %-4d %s", r.Pass.ID, a.String())
		}
	}
	return nil
}

func (d *playground) showEnds(ctx context.Context) error {
	p := project.New(d.w, d.workflow(), d.stateDir())
	v, err := view.Read(ctx, p, view.Options{All: true})
	if err != nil {
		return err
	}
	for i := len(v.Ended) - 1; i >= 0; i-- {
		e := v.Ended[i]
		if d.ended[e.RunID] {
			continue
		}
		d.ended[e.RunID] = true
		what := "run of " + e.Identifier
		if e.Kind == string(reconcile.CleanupRun) {
			what = "cleanup of " + e.Identifier
		}
		text := ""
		if e.Error != nil {
			text = ": " + *e.Error
		}
		d.say("worker    %s %s, %d turns, %d tokens%s", what, e.Outcome, e.Turns, e.Tokens.Total, text)
	}
	if b := v.Blocked; b != nil { // a schedule would wait for the end of it; a demo is being watched
		return &reconcile.Error{
			Code: "demo_failed", Message: b.Reason + ": " + b.Message,
			Hint: "without --agent codex the demo needs none; with it, codex must be installed and logged in",
		}
	}
	return nil
}

// over: nothing is claimed, nothing is left to do, and no workspace is being removed.
func (d *playground) over(r pass.Result) bool {
	if r.Holder != nil || r.Running+r.Retrying+r.Held > 0 || len(r.Applied) > 0 {
		return false
	}
	for _, issue := range d.linear.Issues() {
		if issue.State == "Todo" || issue.State == "In Progress" {
			return false
		}
	}
	p := project.New(d.w, d.workflow(), d.stateDir())
	return len(pass.LiveRuns(context.Background(), p)) == 0
}

// clear ends what still runs when the demo is broken off.
func (d *playground) clear(ctx context.Context) error {
	silent := *d.w
	silent.Stdout, silent.Stderr = io.Discard, io.Discard
	p := project.New(&silent, d.workflow(), d.stateDir())
	if !p.HasState() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	if err := operate.Apply(ctx, p, reconcile.VerbStopAll, ""); err != nil {
		return err
	}
	for len(pass.LiveRuns(ctx, p)) > 0 && project.Sleep(ctx, project.WaitStep) {
	}
	return nil
}

// close shows how it ended and what can be looked at now.
func (d *playground) close(ctx context.Context, removed bool) error {
	p := project.New(d.w, d.workflow(), d.stateDir())
	v, err := view.Read(ctx, p, view.Options{All: true})
	if err != nil {
		return err
	}
	fmt.Fprintln(d.w.Stdout)
	for _, issue := range d.linear.Issues() {
		fmt.Fprintf(d.w.Stdout, "  %-8s %-14s %s\n", issue.Identifier, issue.State, issue.Title)
	}
	fmt.Fprintf(d.w.Stdout, "\n%d runs, %d tokens, nothing running.\n", len(v.Ended), v.Totals.Total)
	if removed {
		return nil
	}
	at := fmt.Sprintf("-w %s --state-dir %s", term.ShellQuote(d.workflow()), term.ShellQuote(d.stateDir()))
	fmt.Fprintf(d.w.Stdout, "\nLook around:\n\n")
	for _, line := range []string{
		fmt.Sprintf("%s ps --all %s", program(), at),
		fmt.Sprintf("%s logs DEMO-3 %s", program(), at),
		fmt.Sprintf("git -C %s log -p main..", term.ShellQuote(filepath.Join(d.dir, "workspaces", "DEMO-3"))),
	} {
		fmt.Fprintln(d.w.Stdout, "  "+line)
	}
	return nil
}

// program is how this one is called from a shell: go run's binary is gone when it ends.
func program() string {
	exe, err := os.Executable()
	if err != nil || strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/symphony"
	}
	return term.ShellQuote(exe)
}
