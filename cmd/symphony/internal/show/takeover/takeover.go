// Package takeover gives an issue to the operator: the agent's own terminal in its workspace.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Options say what an operator is not asked.
type Options struct {
	Issue string
	Stop  bool   // stop its run without asking
	Then  string // at the end of the session: "retry" or "hold"; empty asks
}

// Run holds an issue, ends its run, and opens the agent's own terminal in the issue's workspace.
// It returns at the end of the session.
func Run(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	if !w.OnTerminal() {
		return reconcile.NewError(
			"not_a_terminal",
			"takeover needs a terminal",
			"run it in a terminal",
		)
	}
	if err := p.Nested(); err != nil {
		return err
	}
	claim, err := holdIssue(ctx, w, p, o)
	if err != nil {
		return err
	}
	identifier := claim.Identifier
	ended, err := openSession(ctx, w, p, claim)
	if err != nil {
		return err
	}
	hint := "symphony retry " + identifier + " releases it"
	interrupted := reconcile.NewError("canceled", "ended by a signal; "+identifier+" stays held", hint)
	if ctx.Err() != nil {
		return interrupted
	}
	if ended.code != 0 {
		return reconcile.NewError(
			"failed",
			fmt.Sprintf("%s ended with exit code %d; %s stays held", ended.agent, ended.code, identifier),
			hint,
		)
	}
	then := o.Then
	if then == "" {
		question := "Let a run continue " + text.Visible(identifier) + "? [r]etry, [H]old: "
		line, err := term.AskLine(ctx, w, question)
		if ctx.Err() != nil {
			return interrupted
		}
		if err != nil {
			return err
		}
		then = strings.ToLower(strings.TrimSpace(line))
	}
	if then != "r" && then != "retry" {
		fmt.Fprintln(w.Stdout, text.Visible(identifier+" stays held: "+hint))
		return nil
	}
	return render.Apply(ctx, w, p, operate.Retry{Issue: identifier})
}

// refuseAgentOf refuses an issue whose agent has no terminal of its own, before its run is
// stopped. If the workflow can't be read, that is said later.
func refuseAgentOf(p *wiring.Project, c reconcile.Claim) error {
	cfg, err := p.Config()
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	kind, err := wiring.AgentOf(wiring.ConfigOf(p, cfg, c.Issue, c.Agent).Chosen.Kind)
	if err != nil {
		return err
	}
	return refuseWithoutTerminal(kind)
}

// refuseWithoutTerminal refuses a kind of agent whose own terminal can't be opened.
func refuseWithoutTerminal(kind agent.Kind) error {
	if kind.NoTerminal == "" {
		return nil
	}
	return reconcile.NewError(
		workflow.CodeUnsupportedKey,
		"takeover does not work with agent.kind: "+kind.Name+": "+kind.NoTerminal,
		"symphony show prints its workspace: start the agent there yourself",
	)
}

// holdIssue holds an issue and ends its run. The claim is not held if the operator declined to
// stop the run.
func holdIssue(
	ctx context.Context,
	w *term.Env,
	p *wiring.Project,
	o Options,
) (c reconcile.Claim, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return c, err
	}
	defer db.Close()
	id, identifier, err := wiring.FindIssue(ctx, p, db, o.Issue)
	if err != nil {
		return c, err
	}
	if err := wiring.RefuseElsewhere(ctx, db, id, "takeover"); err != nil {
		return c, err
	}
	c, claimed, err := db.Views.ClaimByIssue(ctx, id)
	if err != nil {
		return c, err
	}
	if err := refuseAgentOf(p, c); err != nil {
		return c, err
	}
	if claimed && c.Status == reconcile.Running && !o.Stop {
		const running = "%s is running (run %s) and has to be stopped first"
		fmt.Fprintln(w.Stdout, text.Visible(fmt.Sprintf(running, identifier, c.RunID)))
		if err := term.Confirm(ctx, w, "Stop it? [y]es, [N]o: "); err != nil {
			return c, err
		}
	}
	if err := render.Stop(ctx, w, p, operate.Stop{Issue: identifier}); err != nil {
		return c, err
	}
	c, _, err = db.Views.ClaimByIssue(ctx, id)
	if err != nil {
		return c, fmt.Errorf("read the claim of %s: %w", identifier, err)
	}
	if c.Status != reconcile.Held {
		return c, reconcile.NewError(
			"not_possible",
			identifier+" could not be held",
			"symphony show "+identifier+" shows its state",
		)
	}
	return c, nil
}

// leftBehind returns the newest thread of an issue that its agent can go on with, and its last
// push.
func leftBehind(
	ctx context.Context,
	p *wiring.Project,
	id string,
	kind agent.Kind,
) (thread reconcile.Thread, delivered reconcile.Delivered, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return thread, delivered, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// An agent without homes has its name for a home.
	newest, own, err := db.Journal.LastThread(ctx, id, kind.Name)
	if err != nil {
		return thread, delivered, fmt.Errorf("read the newest thread: %w", err)
	}
	switch {
	case kind.Terminal != nil && own.Home == kind.Name:
		thread = own
	case kind.Terminal != nil: // all are of other agents
	case filepath.IsAbs(newest.Home) || newest.Home == "":
		thread = newest
	}
	delivered, _, err = db.Views.Delivered(ctx, id)
	if err != nil {
		return thread, delivered, fmt.Errorf("read what was delivered: %w", err)
	}
	return thread, delivered, nil
}

// ending is how a terminal ended.
type ending struct {
	agent string // as people call it
	code  int    // its exit code
}

// openSession takes the workspace of a held issue and opens the agent's terminal in it, on the
// issue's newest thread if that thread worked in this workspace.
func openSession(
	ctx context.Context,
	w *term.Env,
	p *wiring.Project,
	c reconcile.Claim,
) (end ending, err error) {
	cfg, err := p.Config()
	if err != nil {
		return end, err
	}
	// An issue that was held before its first run is without a root and a record.
	if c.WorkspaceRoot == "" {
		c.WorkspaceRoot = wiring.Policy(cfg).WorkspaceRoot
	}
	if c.Issue.State == "" {
		issue, err := wiring.FetchIssue(ctx, p, c.Identifier)
		if err != nil {
			return end, err
		}
		c.Issue = *issue
	}
	cfg = wiring.ConfigOf(p, cfg, c.Issue, c.Agent)
	kind, err := wiring.AgentOf(cfg.Chosen.Kind)
	if err != nil {
		return end, err
	}
	if err := refuseWithoutTerminal(kind); err != nil {
		return end, err
	}
	thread, delivered, err := leftBehind(ctx, p, c.IssueID, kind)
	if err != nil {
		return end, err
	}
	log := w.NewLog(slog.LevelWarn, term.TextLog)
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	holding := wiring.NewHolding(p, cfg, c.Issue, c.WorkspaceRoot, log)
	holding.Delivered = delivered
	holding.Here.Config.WritableRoots, err = wiring.WritableRoots(ctx, p, cfg)
	if err != nil {
		return end, err
	}
	holding.Here.Config.RootsAreReal = true
	defer func() { err = errors.Join(err, holding.Release(ctx)) }()
	space, err := holding.Take(ctx)
	if err != nil {
		return end, err
	}
	if thread.WorkspaceID != space.ID {
		thread = reconcile.Thread{}
	}
	what := "a new session, because no thread has worked there"
	if thread.ID != "" {
		what = "thread " + thread.ID
	}
	taken := fmt.Sprintf("you have taken over %s in %s, %s", c.Identifier, space.Path, what)
	fmt.Fprintln(w.Stdout, text.Visible(taken))
	if names := holding.WithheldPassEnv(); len(names) > 0 {
		withheld := strings.Join(names, ", ")
		warning := "symphony: commands in this session do not get " + withheld + " (agent.pass_env)"
		fmt.Fprintln(w.Stderr, text.Visible(warning))
	}
	in := w.Stdin.(*os.File) // Run checked that it is a terminal
	home := thread.Home
	if kind.Terminal != nil {
		home = ""
	}
	end.agent = kind.Title
	end.code, err = holding.Session(ctx, thread.ID, home, host.Stdio{
		In:  in,
		Out: w.Stdout,
		Err: w.Stderr,
	})
	return end, err
}
