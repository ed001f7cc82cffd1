package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/worker"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Takeover holds an issue, ends its run, and opens codex's own terminal in the issue's workspace. It returns when the session
// has ended. With yes it does not ask before it stops a run; then is retry, hold, or empty: ask at the end.
func Takeover(ctx context.Context, p *project.Project, ref string, yes bool, then string) error {
	w := p.Env
	if !w.OnTerminal() {
		return &reconcile.Error{Code: "not_a_terminal", Message: "takeover opens codex's own terminal, and this is none", Hint: "call it from one"}
	}
	if err := p.Nested(); err != nil {
		return err
	}
	claim, thread, err := holdIssue(ctx, p, ref, yes)
	if err != nil || claim.Status != reconcile.Held {
		return err
	}
	identifier := claim.Identifier
	code, err := openSession(ctx, p, claim, thread)
	if err != nil {
		return err
	}
	hint := "symphony retry " + identifier + " lets it go"
	interrupted := &reconcile.Error{Code: "canceled", Message: "ended by a signal; " + identifier + " stays held", Hint: hint}
	if ctx.Err() != nil {
		return interrupted
	}
	if code != 0 {
		return &reconcile.Error{Code: "takeover_failed", Message: fmt.Sprintf("codex ended with %d; %s stays held", code, identifier), Hint: hint}
	}
	if then == "" {
		line, err := term.AskLine(ctx, w, "Let "+term.Visible(identifier)+" go? [r]etry, [H]old: ", false)
		if ctx.Err() != nil {
			return interrupted
		}
		if err != nil {
			return err
		}
		then = strings.ToLower(strings.TrimSpace(line))
	}
	if then != "r" && then != "retry" {
		fmt.Fprintln(w.Stdout, term.Visible(identifier+" stays held: "+hint))
		return nil
	}
	return Apply(ctx, p, reconcile.VerbRetry, identifier)
}

// holdIssue holds an issue and ends its run. It returns the claim and the issue's newest thread; the claim is not held if the
// operator does not want the run to be stopped.
func holdIssue(ctx context.Context, p *project.Project, ref string, yes bool) (c reconcile.Claim, thread reconcile.Thread, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return c, thread, err
	}
	defer db.Close()
	id, identifier, err := project.FindIssue(ctx, p, db, ref)
	if err != nil {
		return c, thread, err
	}
	c, claimed, err := db.Views.ClaimByIssue(ctx, id)
	if err != nil {
		return c, thread, err
	}
	if claimed && c.Status == reconcile.Running && !yes {
		fmt.Fprintln(p.Env.Stdout, term.Visible(fmt.Sprintf("%s runs (run %s): it is stopped first", identifier, c.RunID)))
		if confirmed, err := term.Confirm(ctx, p.Env, "Stop it? [y]es, [N]o: "); err != nil || !confirmed {
			return c, thread, err
		}
	}
	if err := Stop(ctx, p, identifier, false); err != nil {
		return c, thread, err
	}
	c, _, err = db.Views.ClaimByIssue(ctx, id)
	if err == nil && c.Status != reconcile.Held {
		err = &reconcile.Error{Code: "not_held", Message: identifier + " could not be held", Hint: "symphony show " + identifier + " says how it stands"}
	}
	if err == nil {
		thread, _, err = db.Journal.LastThread(ctx, id, "")
	}
	return c, thread, err
}

// openSession takes the workspace of a held issue and opens codex's terminal in it, on the issue's newest thread if that worked
// in this very workspace. The exit code is codex's.
func openSession(ctx context.Context, p *project.Project, c reconcile.Claim, thread reconcile.Thread) (code int, err error) {
	w := p.Env
	cfg, err := p.Config()
	if err != nil {
		return 0, err
	}
	// An issue that was held before its first run has neither a root nor a record.
	if c.WorkspaceRoot == "" {
		c.WorkspaceRoot = project.Policy(cfg).WorkspaceRoot
	}
	if c.Issue.State == "" {
		issue, err := project.FetchIssue(ctx, p, c.Identifier)
		if err != nil {
			return 0, err
		}
		c.Issue = *issue
	}
	log := w.NewLog(slog.LevelWarn, term.TextLog)
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	takeover := project.NewTakeover(p, cfg, c.Issue, c.WorkspaceRoot, log)
	defer func() { err = errors.Join(err, takeover.Close(ctx)) }()
	space, err := takeover.Take(ctx)
	if err != nil {
		return 0, err
	}
	if thread.WorkspaceID != space.ID {
		thread = reconcile.Thread{}
	}
	what := "a new session: no thread of codex's has worked there"
	if thread.ID != "" {
		what = "thread " + thread.ID
	}
	fmt.Fprintln(w.Stdout, term.Visible(fmt.Sprintf("%s is yours in %s, %s", c.Identifier, space.Path, what)))
	if names := takeover.WithheldPassEnv(); len(names) > 0 {
		fmt.Fprintln(w.Stderr, term.Visible("symphony: commands do not get "+strings.Join(names, ", ")+" here (agent.pass_env)"))
	}
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return 0, errors.New("stdin is no terminal")
	}
	return takeover.Session(ctx, thread.ID, thread.CodexHome, host.Stdio{In: in, Out: w.Stdout, Err: w.Stderr})
}
