package cleanup

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// pastAfter is how long the runs of an issue that is gone are kept at least, unless --older-than says otherwise.
const PastAfter = 7 * 24 * time.Hour

// pruning says how much goes.
type PruneOptions struct {
	DryRun, Yes, Force bool
	OlderThan          time.Duration
}

func Prune(ctx context.Context, p *project.Project, o PruneOptions) error {
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
	if !o.DryRun && !o.Yes {
		if err := askWords(ctx, p, found); err != nil {
			return err
		}
	}
	if o.DryRun || found.nothing() {
		return sayPruned(p, found, o.DryRun)
	}
	if !o.Yes {
		found.print(p.Env, "goes")
		if sure, err := Confirm(ctx, p.Env, "Remove? [y]es, [N]o: "); err != nil || !sure {
			return err
		}
	}
	release, holder, err := state.Acquire(ctx, p.StateDir, state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}, project.CommandPatience)
	switch {
	case err != nil:
		return err
	case holder != nil:
		return project.LockedError(holder)
	}
	if err = dropRevived(ctx, p, cfg, found); err == nil {
		err = removePrunable(context.WithoutCancel(ctx), p, cfg, found, o.Force)
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
	known, err := project.RootsOf(ctx, db)
	list := []string{project.Policy(cfg).WorkspaceRoot}
	for _, r := range known {
		if r != list[0] {
			list = append(list, r)
		}
	}
	return list, err
}
