package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// shelterOnly are runners that are only asked whether workers live on.
func shelterOnly(p *project.Project) *runner.Local {
	return &runner.Local{StateDir: p.StateDir, Scopes: &proc.Shelter{Env: p.Env.Environ}}
}

// checkLeftovers looks for what nobody needs any more.
func checkLeftovers(ctx context.Context, at *place) []finding {
	claimed, runs, err := recordedHere(ctx, at.p)
	if err != nil {
		return nil // the check of the state directory says so
	}
	list := deadRuns(ctx, at.p, runs)
	root, found, err := workspace.FindRoot(project.Resolve(at.cfg.Workspace.Root))
	if err != nil || !found {
		return orNone(list, "") // the check of the root says so
	}
	records, err := root.List()
	if err != nil {
		list = append(list, wary(err.Error(), "look at the file that is named"))
	}
	unclaimed := 0
	for _, r := range records {
		if r.StateDir == at.p.StateDir && !claimed[r.IssueID] {
			unclaimed++
		}
	}
	for _, folder := range runner.LeftInspections(root.Path) {
		list = append(list, wary(folder+" is left of a doctor that was killed", "rm -rf "+term.ShellQuote(folder)))
	}
	trash, stuck, size, err := sizeOfTrash(ctx, root.Path)
	if err != nil {
		list = append(list, wary("the trash of "+root.Path+": "+err.Error(), "look at its permissions"))
	}
	for _, path := range stuck {
		list = append(list, wary(path+" could not be deleted", "delete it by hand, maybe as root"))
	}
	return orNone(list, fmt.Sprintf("%s without a claim, %d in the trash (%s)", text.Plural(unclaimed, "workspace"), trash, term.BytesText(size)))
}

func orNone(list []finding, text string) []finding {
	if list == nil {
		if text == "" {
			text = "none"
		}
		return []finding{well("%s", text)}
	}
	return list
}

// recordedHere is what the database holds, nothing where there is none.
func recordedHere(ctx context.Context, p *project.Project) (claimed map[string]bool, runs []reconcile.Run, err error) {
	claimed = map[string]bool{}
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if errors.Is(err, state.ErrNoState) {
		return claimed, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	rec, err := db.State(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range rec.Claims {
		claimed[c.IssueID] = true
	}
	recent, err := db.RecentRuns(ctx, project.PastRuns)
	if err != nil {
		return nil, nil, err
	}
	runs = append(rec.Runs, recent...)
	takeovers, err := project.Rowless(ctx, p, db)
	for _, d := range takeovers {
		runs = append(runs, reconcile.Run{ID: d.Name(), Identifier: "a takeover"})
	}
	return claimed, runs, err
}

// deadRuns names the processes that runs have left whose workers are dead.
func deadRuns(ctx context.Context, p *project.Project, runs []reconcile.Run) []finding {
	local := &runner.Local{StateDir: p.StateDir}
	var list []finding
	seen := map[string]bool{}
	for _, r := range runs {
		if seen[r.ID] || ctx.Err() != nil {
			continue
		}
		seen[r.ID] = true
		ends := "the next pass ends what an unsettled run left"
		if r.IssueID == "" {
			ends = "symphony stop --all ends it"
		}
		for _, left := range local.Probe(ctx, r).Left {
			list = append(list, wary(fmt.Sprintf("process %d (%s) is left of run %s of %s", left.PID, left.Name, r.ID, r.Identifier),
				fmt.Sprintf("%s; else look at it: ps -fp %d", ends, left.PID)))
		}
	}
	return list
}

// sizeOfTrash counts removed workspaces that are kept, and names those that could not be deleted.
func sizeOfTrash(ctx context.Context, root string) (entries int, stuck []string, size int64, err error) {
	trash := filepath.Join(root, ".symphony", "trash")
	err = filepath.WalkDir(trash, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // none yet, or gone meanwhile
		case err != nil:
			return err
		}
		if filepath.Dir(path) == trash && d.IsDir() {
			entries++
			if strings.HasSuffix(path, ".stuck") {
				stuck = append(stuck, path)
			}
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return entries, stuck, size, err
}

// checkAccount says what an agent can read because this account can.
func checkAccount(_ context.Context, at *place) []finding {
	var files []string
	if project.Exists(at.p.EnvPath()) {
		files = append(files, at.p.EnvPath())
	}
	if keys, err := filepath.Glob(filepath.Join(at.p.Env.Home, ".ssh", "id_*")); err == nil && len(keys) > 0 {
		files = append(files, filepath.Join(at.p.Env.Home, ".ssh"))
	}
	if at.cfg != nil {
		if login := filepath.Join(at.codexHome(), "auth.json"); project.Exists(login) {
			files = append(files, login)
		}
	}
	if len(files) == 0 {
		return []finding{well("no environment file, ssh key or login of codex lies where an agent could read it")}
	}
	return []finding{wary("agents run as it, and can read "+strings.Join(files, ", "), "an OS user of its own for symphony keeps the rest of yours from them")}
}
