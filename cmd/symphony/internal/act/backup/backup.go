// Package backup writes everything that a project needs to go on elsewhere into a single file,
// and makes the state of a project from such a file.
package backup

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/state"
)

const (
	kind = "backup" // in its manifest

	projectDB = "project/state.db" // in every backup, before all others
)

// part is a file that a backup may contain.
type part struct {
	name    string // in the backup
	place   string // on this machine
	content content
}

// content is what a part contains.
type content int

const (
	database content = iota
	record
	secrets // keys of services
)

// partsOf lists the parts of a project's backup, in their order.
func partsOf(p *wiring.Project) []part {
	home := "" // the default home
	cfg, err := p.ConfigWithoutKey()
	if err == nil {
		home = cfg.Chosen.Home
	}
	return []part{
		{projectDB, filepath.Join(p.StateDir, "state.db"), database},
		{"agents/state.db", filepath.Join(wiring.AgentsDir(p.Env), "state.db"), database},
		{"account/limits.json", wiring.OpenAccount(p, home).LimitsFile(), record},
		{"environment/project.env", p.EnvPath(), secrets},
		{"environment/symphony.env", p.SharedEnvPath(), secrets},
	}
}

// partCalled returns the part with a name in a backup.
func partCalled(parts []part, name string) part {
	return text.First(parts, func(f part) bool { return f.name == name })
}

// Write writes a backup of the project to a new file, while passes and workers continue.
// withSecrets adds the environment files.
func Write(
	ctx context.Context,
	p *wiring.Project,
	path string,
	withSecrets bool,
) (m archive.Manifest, err error) {
	m = archive.Manifest{Kind: kind, Version: wiring.Version(), MadeAt: p.Env.Now().UTC()}
	for _, f := range partsOf(p) {
		if f.content == secrets && !withSecrets {
			continue
		}
		data, schema, err := f.read(ctx)
		missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, state.ErrNoState)
		if missing && f.name != projectDB {
			continue
		}
		if err != nil {
			return m, wiring.NoState(p, err, "there is nothing to back up yet")
		}
		m.Schema = cmp.Or(m.Schema, schema) // the project's is the first
		m.Files = append(m.Files, archive.File{Name: f.name, Data: data})
	}
	return m, archive.Write(p.Env.Absolute(path), m)
}

// read reads a part in its place. schema is the version of a database, 0 for another part.
func (f part) read(ctx context.Context) (data []byte, schema int, err error) {
	if f.content == database {
		return state.Backup(ctx, filepath.Dir(f.place))
	}
	data, err = os.ReadFile(f.place)
	return data, 0, err
}

// Restored is the result of Restore.
type Restored struct {
	From string   // the path of the workflow whose state it was
	Made []string // files that were made beside the database
	Kept []string // files that existed already
}

// Restore makes the state of a project without state from a backup. The database appears last
// and at once; an interrupted Restore can be repeated. The next pass treats the runs that had a
// worker during the backup as interrupted by a restart.
func Restore(ctx context.Context, p *wiring.Project, path string) (out Restored, err error) {
	if err := p.Nested(); err != nil {
		return out, err
	}
	if p.SourceErr != nil {
		return out, p.SourceErr
	}
	parts := partsOf(p)
	names := text.Map(parts, func(f part) string { return f.name })
	m, err := archive.Read(p.Env.Absolute(path), kind, names)
	if err != nil {
		return out, err
	}
	if len(m.Files) == 0 || m.Files[0].Name != projectDB {
		return out, archive.Invalid(path, kind, errors.New("it does not begin with the state of a project"))
	}
	release, err := wiring.LockProject(ctx, p.Env, p.StateDir)
	if err != nil {
		return out, err
	}
	stage := filepath.Join(p.StateDir, "restoring")
	// also the stage of a restoration that was killed
	defer func() { err = errors.Join(err, os.RemoveAll(stage), release()) }()
	if err := refuseState(ctx, p); err != nil {
		return out, err
	}
	ctx = context.WithoutCancel(ctx)
	if err := os.RemoveAll(stage); err != nil {
		return out, err
	}
	// before anything is placed; symphony ignores limits that are damaged
	for _, f := range m.Files {
		if partCalled(parts, f.Name).content != database {
			continue
		}
		if err := examine(ctx, p, path, stage, f); err != nil {
			return out, err
		}
	}
	out.From, err = assignTo(ctx, p, filepath.Join(stage, filepath.Dir(projectDB)))
	if err != nil {
		return out, err
	}
	for _, f := range m.Files[1:] {
		place := partCalled(parts, f.Name).place
		if wiring.Exists(place) {
			out.Kept = append(out.Kept, place)
			continue
		}
		out.Made = append(out.Made, place)
		if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
			return out, err
		}
		if err := durable.WriteFile(place, f.Data, 0o600); err != nil {
			return out, err
		}
	}
	crash.At("restore.placed")
	err = os.Rename(filepath.Join(stage, projectDB), partCalled(parts, projectDB).place)
	crash.At("restore.renamed")
	return out, errors.Join(err, durable.SyncDir(p.StateDir))
}

// refuseState returns an error if the project already has a state, even a state that can't be
// used.
func refuseState(ctx context.Context, p *wiring.Project) error {
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if state.NeedsRepair(err) {
		return err
	}
	if err == nil {
		_ = db.Close() // it was only read
	}
	return reconcile.NewError(
		"already_exists",
		p.StateDir+" has a state, which is not replaced",
		"to give it up: symphony stop --all, then move it aside: "+state.Aside(p.StateDir),
	)
}

// examine puts a database of the backup at path into stage and migrates it there. It refuses a
// database that is damaged or of a newer program.
func examine(ctx context.Context, p *wiring.Project, path, stage string, f archive.File) error {
	staged := filepath.Join(stage, f.Name)
	if err := os.MkdirAll(filepath.Dir(staged), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(staged, f.Data, 0o600); err != nil {
		return err
	}
	db, err := state.Create(ctx, filepath.Dir(staged), p.Env.Now())
	if err == nil {
		err = errors.Join(db.QuickCheck(ctx), db.Close())
	}
	if state.NeedsRepair(err) {
		return archive.Invalid(path, kind, errors.New(f.Name+" is damaged"))
	}
	return err
}

// assignTo makes p the project of the database in dir, and returns the path of the workflow
// that the database belonged to. It refuses the database of another project of this machine.
func assignTo(ctx context.Context, p *wiring.Project, dir string) (from string, err error) {
	db, err := state.Open(ctx, dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	place, err := wiring.OriginalPath(ctx, p, db)
	if err != nil {
		return "", err
	}
	from, err = wiring.OwnerPath(ctx, p, db)
	if err != nil {
		return "", err
	}
	if err := moveLeftRoots(ctx, p, db); err != nil {
		return from, err
	}
	if err := db.Operator.ForgetWorkers(ctx); err != nil {
		return from, err
	}
	return from, wiring.GiveTo(ctx, db, cmp.Or(from, p.Path), p.Path, place, p.StateDir)
}

// moveLeftRoots gives issues whose workspaces stay behind the present workspace root, so that
// the next runs use it.
func moveLeftRoots(ctx context.Context, p *wiring.Project, db *state.DB) error {
	roots, err := wiring.RootsOf(ctx, db)
	if err != nil {
		return err
	}
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return nil //nolint:nilerr // the next pass reports it
	}
	for _, root := range roots {
		if wiring.Exists(root) {
			continue
		}
		if err := db.Operator.MoveWorkspaces(ctx, root, paths.Real(cfg.Workspace.Root)); err != nil {
			return err
		}
	}
	return nil
}
