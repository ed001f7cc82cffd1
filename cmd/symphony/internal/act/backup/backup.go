// Package backup writes what a project needs to go on elsewhere into one file, and makes the state of a project from such a file.
package backup

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/state"
)

const (
	kind      = "backup" // in its manifest
	projectDB = "project/state.db"
)

// names are those of the files in a backup, and placesOf where each belongs.
var names = []string{projectDB, "agents/state.db", "account/limits.json", "environment/project.env", "environment/symphony.env"}

func placesOf(p *project.Project) map[string]string {
	home := ""
	if cfg, err := p.ConfigWithoutKey(); err == nil {
		home = cfg.Codex.Home
	}
	return map[string]string{
		names[0]: filepath.Join(p.StateDir, "state.db"), names[1]: filepath.Join(project.AgentsDir(p.Env), "state.db"),
		names[2]: project.OpenAccount(p, home).LimitsFile(), names[3]: p.EnvPath(), names[4]: p.SharedEnvPath(),
	}
}

// Write writes a backup of the project to a new file, while passes and workers continue. Secrets adds the environment files.
func Write(ctx context.Context, p *project.Project, path string, secrets bool) (m archive.Manifest, err error) {
	m = archive.Manifest{Kind: kind, Version: project.Version(), MadeAt: p.Env.Now().UTC()}
	places := placesOf(p)
	for _, name := range names {
		f, schema := archive.File{Name: name}, 0
		switch {
		case filepath.Base(name) == "state.db":
			f.Data, schema, err = state.Backup(ctx, filepath.Dir(places[name]))
			m.Schema = cmp.Or(m.Schema, schema) // the project's is the first
		case filepath.Ext(name) == ".env" && !secrets:
			continue
		default:
			f.Data, err = os.ReadFile(places[name])
		}
		switch {
		case err == nil:
			m.Files = append(m.Files, f)
		case name == projectDB || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, state.ErrNoState):
			return m, project.NoState(p, err)
		}
	}
	return m, archive.Write(p.Env.Absolute(path), m)
}

// Restored is what Restore has done.
type Restored struct {
	From string   // the path of the workflow whose state it was
	Made []string // files that were made beside the database
	Kept []string // those that existed already
}

// Restore makes the state of a project that has none from a backup. The database appears last and at once; an interrupted Restore can be
// repeated. The next pass treats the workers that were alive during the backup as lost.
func Restore(ctx context.Context, p *project.Project, path string) (out Restored, err error) {
	if err := cmp.Or(p.Nested(), p.SourceErr); err != nil {
		return out, err
	}
	m, err := archive.Read(p.Env.Absolute(path), kind, names)
	if err != nil {
		return out, err
	}
	if len(m.Files) == 0 || m.Files[0].Name != projectDB {
		return out, reconcile.NewError("archive_invalid", path+" does not begin with the state of a project",
			"use another one; nothing was changed")
	}
	places := placesOf(p)
	me := state.Holder{Trigger: project.TriggerCommand, Since: p.Env.Now()}
	release, holder, err := state.Acquire(ctx, p.StateDir, me, project.CommandPatience, false)
	if err == nil && holder != nil {
		err = project.LockedError(holder)
	}
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	stage := filepath.Join(p.StateDir, "restoring")
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }() // also that of a restoration that was killed
	if _, err := state.OpenReadOnly(ctx, p.StateDir); state.NeedsRepair(err) {
		return out, err
	} else if !errors.Is(err, state.ErrNoState) {
		return out, reconcile.NewError("state_exists", p.StateDir+" has a state, which is not replaced",
			"to give it up: symphony stop --all, then move it aside: mv "+text.ShellQuote(p.StateDir)+" "+text.ShellQuote(p.StateDir+".old"))
	}
	ctx = context.WithoutCancel(ctx)
	for _, f := range m.Files {
		place := places[f.Name]
		switch {
		case f.Name == projectDB:
			err = errors.Join(os.RemoveAll(stage), os.Mkdir(stage, 0o700))
			if err = errors.Join(err, os.WriteFile(filepath.Join(stage, "state.db"), f.Data, 0o600)); err == nil {
				out.From, err = adopt(ctx, p, stage)
			}
		case project.Exists(place):
			out.Kept = append(out.Kept, place)
		default:
			out.Made = append(out.Made, place)
			err = errors.Join(os.MkdirAll(filepath.Dir(place), 0o700), durable.WriteFile(place, f.Data, 0o600))
		}
		if err != nil {
			return out, err
		}
	}
	crash.At("restore.placed")
	err = os.Rename(filepath.Join(stage, "state.db"), places[projectDB])
	crash.At("restore.renamed")
	return out, errors.Join(err, durable.SyncDir(p.StateDir))
}

// adopt gives the database in dir to the project, and returns the workflow that it belonged to. An older one is migrated. A newer one, a
// damaged one, and that of a project that this machine has are refused.
func adopt(ctx context.Context, p *project.Project, dir string) (from string, err error) {
	db, err := state.Create(ctx, dir, p.Env.Now())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := cmp.Or(db.Newer(), db.QuickCheck(ctx)); err != nil {
		return "", err
	}
	place, err := project.OriginalPath(ctx, p, db)
	if err != nil {
		return "", err
	}
	if from, err = project.OwnerPath(ctx, p, db); err != nil {
		return "", err
	}
	roots, err := project.RootsOf(ctx, db)
	cfg, wrong := p.ConfigWithoutKey()
	for _, root := range roots {
		// Workspaces stay behind. Where their root does not exist, the next runs use the present one.
		if err == nil && wrong == nil && !project.Exists(root) {
			err = db.Operator.MoveWorkspaces(ctx, root, paths.Real(cfg.Workspace.Root))
		}
	}
	return from, errors.Join(err, project.GiveTo(ctx, db, cmp.Or(from, p.Path), p.Path, place, p.StateDir))
}
