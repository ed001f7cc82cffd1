package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

// pastAfter is how long the runs of an issue that is gone are kept at least, unless --older-than says otherwise.
const pastAfter = 7 * 24 * time.Hour

func pruneCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "prune", Usage: "remove what is left of issues that are done or deleted",
		UsageText: usageText("prune", "[WORKFLOW]"),
		Description: `Goes: the trash; workspaces of issues that nobody claims and that are in a terminal state or that the tracker no
longer shows; what the state directory keeps of the runs of such issues; directories of runs that nobody knows. A
workspace goes into the trash as after a run, and is deleted after workspace.keep_removed_ms or by the next prune.

Stays: what is claimed or in use, and, unless --force is given, what has commits that no remote has or changes that
no commit has.

Example:

    symphony prune --dry-run
    symphony prune --yes --older-than 24h`,
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would go"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.BoolFlag{Name: "force", Usage: "also workspaces with work that is nowhere else"},
			&cli.DurationFlag{Name: "older-than", Usage: "keep runs that began or ended within this `TIME`", Value: pastAfter, DefaultText: "168h"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			_, positional, err := arguments(c)
			if err != nil {
				return err
			}
			if c.Duration("older-than") < 0 {
				return exit.Usage("prune: --older-than is not negative")
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return pruneProject(c.Context, p, pruning{
				dryRun: c.Bool("dry-run"), yes: c.Bool("yes"), force: c.Bool("force"), olderThan: c.Duration("older-than"),
			})
		},
	}
}

// pruning says how much goes.
type pruning struct {
	dryRun, yes, force bool
	olderThan          time.Duration
}

func pruneProject(ctx context.Context, p *project.Project, o pruning) error {
	if err := p.Nested(); err != nil {
		return err
	}
	cfg, err := p.Config()
	if err != nil {
		return err
	}
	found, err := findPrunable(ctx, p, cfg, o)
	if err != nil {
		return err
	}
	if !o.dryRun && !o.yes {
		if err := askWords(ctx, p, found); err != nil {
			return err
		}
	}
	if o.dryRun || found.nothing() {
		return sayPruned(p, found, o.dryRun)
	}
	if !o.yes {
		found.print(p.Env, "goes")
		if sure, err := confirmRemoval(ctx, p.Env, "Remove? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}, commandPatience)
	switch {
	case err != nil:
		return err
	case holder != nil:
		return lockedError(holder)
	}
	if err = dropRevived(ctx, p, cfg, found); err == nil {
		err = removePrunable(context.WithoutCancel(ctx), p, cfg, found)
	}
	if unlocked := release(); err == nil {
		err = unlocked
	}
	if err != nil {
		return err
	}
	return sayPruned(p, found, false)
}

// askWords lets a person say of each workspace with work that is nowhere else that it may go: by its identifier, for a
// plain yes is said too quickly.
func askWords(ctx context.Context, p *project.Project, found *prunable) error {
	if !p.Env.OnTerminal() {
		return nil
	}
	kept := found.kept
	found.kept = nil
	for _, s := range kept {
		if s.held {
			found.kept = append(found.kept, s)
			continue
		}
		fmt.Fprintln(p.Env.Stdout, term.Visible(s.rec.Path+" has "+s.unsaved))
		word, err := term.AskLine(ctx, p.Env, "Type "+term.Visible(s.rec.Identifier)+" to remove it all the same, or nothing to keep it: ", false)
		if err != nil {
			return err
		}
		if strings.TrimSpace(word) == s.rec.Identifier {
			found.spaces = append(found.spaces, s)
		} else {
			found.kept = append(found.kept, s)
		}
	}
	return nil
}

func sayPruned(p *project.Project, found *prunable, dryRun bool) error {
	if p.Env.JSON {
		p.Env.PrintJSON(found.json(dryRun))
		return nil
	}
	verb, end := "gone", "removed "
	if dryRun {
		verb, end = "goes", "would remove "
	}
	found.print(p.Env, verb)
	if found.nothing() {
		fmt.Fprintln(p.Env.Stdout, "nothing to remove")
		return nil
	}
	fmt.Fprintln(p.Env.Stdout, end+found.sum())
	return nil
}

// roots are the workspace roots of the project, the workflow's first.
func allRoots(ctx context.Context, p *project.Project, db *state.DB, cfg *workflow.Config) ([]string, error) {
	known, err := rootsOf(ctx, db)
	list := []string{project.Policy(cfg).WorkspaceRoot}
	for _, r := range known {
		if r != list[0] {
			list = append(list, r)
		}
	}
	return list, err
}
