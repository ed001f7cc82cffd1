package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/worker"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

func takeoverCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "takeover", Usage: "go on with an issue yourself, in codex's own terminal, in its workspace",
		UsageText: usageText("takeover", "ISSUE [WORKFLOW]"),
		Description: `Holds the issue, ends its run if it has one, and opens codex on the issue's thread, in its workspace and under
the sandbox that a run has. Nothing else works there meanwhile. What was set of git's configuration and hooks is
taken back at the end, as after a run; then you are asked whether a run goes on where you stop.

Example:

    symphony takeover ABC-7
    symphony takeover ABC-7 --yes --then retry`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "yes", Usage: "do not ask before a run is stopped"},
			&cli.StringFlag{Name: "then", Usage: "do not ask at the end: retry or hold"},
		),
		Action: func(c *cli.Context) error {
			args, positional, err := arguments(c, "ISSUE")
			if err != nil {
				return err
			}
			switch c.String("then") {
			case "", "retry", "hold":
			default:
				return exit.Usage("takeover: --then is retry or hold, not %q", c.String("then"))
			}
			if !w.OnTerminal() {
				return &reconcile.Error{
					Code: "not_a_terminal", Message: "takeover opens codex's own terminal, and this is none", Hint: "call it from one",
				}
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			t := takeover{p: p, yes: c.Bool("yes"), then: c.String("then")}
			return t.run(c.Context, args[0])
		},
	}
}

// takeover is one issue in a person's hands.
type takeover struct {
	p    *project.Project
	yes  bool
	then string // retry, hold, or empty: ask

	id, identifier string
	issue          reconcile.Issue
	root           string
}

func (t *takeover) run(ctx context.Context, ref string) error {
	if err := t.p.Nested(); err != nil {
		return err
	}
	cfg, err := t.p.Config()
	if err != nil {
		return err
	}
	if t.id, t.identifier, err = project.FindIssue(ctx, t.p, ref); err != nil {
		return err
	}
	if sure, err := t.stopRun(ctx); err != nil || !sure {
		return err
	}
	if err := t.claim(ctx, cfg); err != nil {
		return err
	}
	code, err := t.session(ctx, cfg)
	if err != nil {
		return err
	}
	return t.after(ctx, code)
}

// stopRun holds the issue, and ends its run where it has one; sure is false where the person would rather not.
func (t *takeover) stopRun(ctx context.Context) (sure bool, err error) {
	db, err := project.OpenForReading(ctx, t.p)
	if err != nil {
		return false, err
	}
	c, claimed, err := db.ClaimByIssue(ctx, t.id)
	if err = errors.Join(err, db.Close()); err != nil {
		return false, err
	}
	if claimed && c.Status == reconcile.Running && !t.yes {
		fmt.Fprintln(t.p.Env.Stdout, term.Visible(fmt.Sprintf("%s runs (run %s): it is stopped first", t.identifier, c.RunID)))
		if sure, err := cleanup.Confirm(ctx, t.p.Env, "Stop it? [y]es, [N]o: "); err != nil || !sure {
			return false, err
		}
	}
	s := operate.Stop{P: t.p, Only: t.id, ForTakeover: true, Cmd: reconcile.Command{Verb: reconcile.VerbStop, IssueID: t.id, Identifier: t.identifier}}
	return true, s.Run(ctx)
}

// claim reads the issue as it is held now.
func (t *takeover) claim(ctx context.Context, cfg *workflow.Config) error {
	db, err := project.OpenForReading(ctx, t.p)
	if err != nil {
		return err
	}
	defer db.Close()
	c, claimed, err := db.ClaimByIssue(ctx, t.id)
	switch {
	case err != nil:
		return err
	case !claimed || c.Status != reconcile.Held:
		return &reconcile.Error{
			Code: "not_held", Message: t.identifier + " could not be held", Hint: "symphony show " + t.identifier + " says how it stands",
		}
	}
	t.issue, t.root = c.Issue, c.WorkspaceRoot
	if t.root == "" {
		t.root = project.Policy(cfg).WorkspaceRoot
	}
	if t.issue.State == "" { // held before symphony has met it
		issue, err := project.FetchIssue(ctx, t.p, t.identifier)
		if err != nil {
			return err
		}
		t.issue = *issue
	}
	return nil
}

// session takes the workspace and gives it to the person for as long as codex's terminal is open.
func (t *takeover) session(ctx context.Context, cfg *workflow.Config) (code int, err error) {
	w := t.p.Env
	log := project.NewLog(w, slog.LevelWarn)
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	hand := &runner.Takeover{
		Config: project.RunnerConfig(cfg), StateDir: t.p.StateDir, ID: project.NewRunID(w.Now()), Issue: t.issue, Root: t.root,
		Env: t.p.Environ(), Version: project.Version(), Now: w.Now, Log: log,
	}
	defer func() { err = errors.Join(err, hand.Close(ctx)) }()
	if err := hand.Take(ctx); err != nil {
		return 0, err
	}
	path, id, made := hand.Where()
	thread, err := t.thread(ctx, id, made)
	if err != nil {
		return 0, err
	}
	what := "a new session: no thread of codex's has worked there"
	if thread.ID != "" {
		what = "thread " + thread.ID
	}
	fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%s is yours in %s, %s", t.identifier, path, what)))
	if left := hand.LeftOut(); len(left) > 0 {
		fmt.Fprintln(w.Stderr, term.Visible("symphony: commands do not get "+strings.Join(left, ", ")+" here (agent.pass_env)"))
	}
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return 0, errors.New("stdin is no terminal")
	}
	return hand.Session(ctx, thread.ID, thread.CodexHome, runner.Stdio{In: in, Out: w.Stdout, Err: w.Stderr})
}

// thread is the one to go on with: the issue's newest, if it worked in this very workspace.
func (t *takeover) thread(ctx context.Context, workspaceID string, made bool) (reconcile.Thread, error) {
	db, err := state.OpenReadOnly(ctx, t.p.StateDir)
	if err != nil {
		return reconcile.Thread{}, err
	}
	defer db.Close()
	newest, _, err := db.LastThread(ctx, t.id, "")
	if err != nil || made || newest.WorkspaceID != workspaceID {
		return reconcile.Thread{}, err
	}
	return newest, nil
}

// after says how it ended, and lets the issue go where the person wants that.
func (t *takeover) after(ctx context.Context, code int) error {
	w := t.p.Env
	if ctx.Err() != nil {
		return t.cutOff()
	}
	if code != 0 {
		return &reconcile.Error{
			Code: "takeover_failed", Message: fmt.Sprintf("codex ended with %d; %s stays held", code, t.identifier),
			Hint: "symphony retry " + t.identifier + " lets it go",
		}
	}
	answer := t.then
	if answer == "" {
		line, err := term.AskLine(ctx, w, "Let "+term.Visible(t.identifier)+" go? [r]etry, [H]old: ", false)
		if ctx.Err() != nil {
			return t.cutOff()
		}
		if err != nil {
			return err
		}
		answer = strings.ToLower(strings.TrimSpace(line))
	}
	if !slices.Contains([]string{"r", "retry"}, answer) {
		fmt.Fprintln(w.Stdout, term.Visible(t.identifier+" stays held: symphony retry "+t.identifier+" lets it go"))
		return nil
	}
	return operate.Apply(ctx, t.p, reconcile.Command{Verb: reconcile.VerbRetry, IssueID: t.id, Identifier: t.identifier}, t.id)
}

// cutOff: a signal, or a terminal that went away, decides nothing.
func (t *takeover) cutOff() error {
	return &reconcile.Error{
		Code: "canceled", Message: "ended by a signal; " + t.identifier + " stays held", Hint: "symphony retry " + t.identifier + " lets it go",
	}
}
