package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/worker"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// Takeover holds an issue, ends its run, and opens codex's own terminal in the issue's workspace.
type Takeover struct {
	P    *project.Project
	Yes  bool   // do not ask before a run is stopped
	Then string // retry, hold, or empty: ask at the end

	id, identifier string
}

// NeedsTerminal returns an error if the command was not called at a terminal.
func NeedsTerminal(w *term.Env) error {
	if w.OnTerminal() {
		return nil
	}
	return &reconcile.Error{
		Code: "not_a_terminal", Message: "takeover opens codex's own terminal, and this is none", Hint: "call it from one",
	}
}

// Run takes over the issue that ref names, and returns when the session has ended.
func (t *Takeover) Run(ctx context.Context, ref string) error {
	err := t.P.Nested()
	if err == nil {
		t.id, t.identifier, err = project.FindIssue(ctx, t.P, ref)
	}
	if err != nil {
		return err
	}
	if confirmed, err := t.stopRun(ctx); err != nil || !confirmed {
		return err
	}
	claim, err := t.heldClaim(ctx)
	if err != nil {
		return err
	}
	code, err := t.session(ctx, claim)
	if err != nil {
		return err
	}
	return t.finish(ctx, code)
}

func (t *Takeover) readClaim(ctx context.Context) (c reconcile.Claim, claimed bool, err error) {
	db, err := project.OpenForReading(ctx, t.P)
	if err != nil {
		return c, false, err
	}
	c, claimed, err = db.Views.ClaimByIssue(ctx, t.id)
	return c, claimed, errors.Join(err, db.Close())
}

// stopRun holds the issue, and ends its run if it has one. confirmed is false if the operator declined that.
func (t *Takeover) stopRun(ctx context.Context) (confirmed bool, err error) {
	c, claimed, err := t.readClaim(ctx)
	if err != nil {
		return false, err
	}
	if claimed && c.Status == reconcile.Running && !t.Yes {
		fmt.Fprintln(t.P.Env.Stdout, term.Visible(fmt.Sprintf("%s runs (run %s): it is stopped first", t.identifier, c.RunID)))
		if confirmed, err := cleanup.Confirm(ctx, t.P.Env, "Stop it? [y]es, [N]o: "); err != nil || !confirmed {
			return false, err
		}
	}
	s := Stop{P: t.P, Only: t.id, ForTakeover: true, Cmd: reconcile.Command{Verb: reconcile.VerbStop, IssueID: t.id, Identifier: t.identifier}}
	return true, s.Run(ctx)
}

// heldClaim returns the issue's claim, with what an issue that was held before its first run lacks.
func (t *Takeover) heldClaim(ctx context.Context) (reconcile.Claim, error) {
	c, claimed, err := t.readClaim(ctx)
	if err != nil {
		return c, err
	}
	if !claimed || c.Status != reconcile.Held {
		return c, &reconcile.Error{
			Code: "not_held", Message: t.identifier + " could not be held", Hint: "symphony show " + t.identifier + " says how it stands",
		}
	}
	if c.WorkspaceRoot == "" {
		cfg, err := t.P.Config()
		if err != nil {
			return c, err
		}
		c.WorkspaceRoot = project.Policy(cfg).WorkspaceRoot
	}
	if c.Issue.State == "" {
		issue, err := project.FetchIssue(ctx, t.P, t.identifier)
		if err != nil {
			return c, err
		}
		c.Issue = *issue
	}
	return c, nil
}

// session takes the workspace and opens codex's terminal in it. The exit code is codex's.
func (t *Takeover) session(ctx context.Context, c reconcile.Claim) (code int, err error) {
	w := t.P.Env
	cfg, err := t.P.Config()
	if err != nil {
		return 0, err
	}
	log := project.NewLog(w, slog.LevelWarn)
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	takeover := &runner.Takeover{
		Config: project.RunnerConfig(cfg), StateDir: t.P.StateDir, ID: project.NewRunID(w.Now()), Issue: c.Issue, Root: c.WorkspaceRoot,
		Env: t.P.Environ(), Version: project.Version(), Now: w.Now, Log: log,
	}
	defer func() { err = errors.Join(err, takeover.Close(ctx)) }()
	space, err := takeover.Take(ctx)
	if err != nil {
		return 0, err
	}
	var thread reconcile.Thread
	if !space.Created {
		if thread, err = t.threadIn(ctx, space.ID); err != nil {
			return 0, err
		}
	}
	what := "a new session: no thread of codex's has worked there"
	if thread.ID != "" {
		what = "thread " + thread.ID
	}
	fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%s is yours in %s, %s", t.identifier, space.Path, what)))
	if names := takeover.WithheldPassEnv(); len(names) > 0 {
		fmt.Fprintln(w.Stderr, term.Visible("symphony: commands do not get "+strings.Join(names, ", ")+" here (agent.pass_env)"))
	}
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return 0, errors.New("stdin is no terminal")
	}
	return takeover.Session(ctx, thread.ID, thread.CodexHome, runner.Stdio{In: in, Out: w.Stdout, Err: w.Stderr})
}

// threadIn returns the issue's newest thread if it worked in this very workspace, else none.
func (t *Takeover) threadIn(ctx context.Context, workspaceID string) (reconcile.Thread, error) {
	db, err := state.OpenReadOnly(ctx, t.P.StateDir)
	if err != nil {
		return reconcile.Thread{}, err
	}
	newest, _, err := db.Journal.LastThread(ctx, t.id, "")
	if err = errors.Join(err, db.Close()); err != nil || newest.WorkspaceID != workspaceID {
		return reconcile.Thread{}, err
	}
	return newest, nil
}

// finish reports how the session ended, and clears the hold if the operator wants that.
func (t *Takeover) finish(ctx context.Context, code int) error {
	w := t.P.Env
	hint := "symphony retry " + t.identifier + " lets it go"
	interrupted := &reconcile.Error{Code: "canceled", Message: "ended by a signal; " + t.identifier + " stays held", Hint: hint}
	if ctx.Err() != nil {
		return interrupted
	}
	if code != 0 {
		return &reconcile.Error{
			Code: "takeover_failed", Message: fmt.Sprintf("codex ended with %d; %s stays held", code, t.identifier), Hint: hint,
		}
	}
	answer := t.Then
	if answer == "" {
		line, err := term.AskLine(ctx, w, "Let "+term.Visible(t.identifier)+" go? [r]etry, [H]old: ", false)
		if ctx.Err() != nil {
			return interrupted
		}
		if err != nil {
			return err
		}
		answer = strings.ToLower(strings.TrimSpace(line))
	}
	if answer != "r" && answer != "retry" {
		fmt.Fprintln(w.Stdout, term.Visible(t.identifier+" stays held: "+hint))
		return nil
	}
	return Apply(ctx, t.P, reconcile.Command{Verb: reconcile.VerbRetry, IssueID: t.id, Identifier: t.identifier}, t.id)
}
