// Package backup writes what a project needs to go on elsewhere into one file, and makes the state of a project from such a file.
package backup

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/archive"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/state"
)

// kind is the kind of a backup in its manifest.
const kind = "backup"

// The names of the files in a backup.
const (
	projectDB  = "project/state.db"
	agentsDB   = "agents/state.db"
	limitsFile = "account/limits.json"
	ownEnv     = "environment/project.env"
	sharedEnv  = "environment/symphony.env"
)

var names = []string{projectDB, agentsDB, limitsFile, ownEnv, sharedEnv}

// filesOf returns where the files of a backup belong that are not databases.
func filesOf(p *project.Project) map[string]string {
	home := ""
	if cfg, err := p.ConfigWithoutKey(); err == nil {
		home = cfg.Codex.Home
	}
	limits := project.OpenAccount(p, home).LimitsFile()
	return map[string]string{limitsFile: limits, ownEnv: p.EnvPath(), sharedEnv: p.SharedEnvPath()}
}

// Write writes a backup of the project to a new file, while passes and workers continue. Secrets adds the environment files.
func Write(ctx context.Context, p *project.Project, path string, secrets bool) (m archive.Manifest, err error) {
	if err := p.Nested(); err != nil {
		return m, err
	}
	m = archive.Manifest{Kind: kind, Version: project.Version(), MadeAt: p.Env.Now().UTC()}
	m, err = archive.Write(p.Env.Absolute(path), m, func(w *archive.Writer) error {
		schema, err := addDatabase(ctx, w, p.StateDir, projectDB)
		if err != nil {
			return project.NoState(p, err)
		}
		w.SetSchema(schema)
		crash.At("backup.project")
		if _, err := addDatabase(ctx, w, project.AgentsDir(p.Env), agentsDB); err != nil && !errors.Is(err, state.ErrNoState) {
			return err
		}
		files := filesOf(p)
		for _, name := range names {
			file := files[name]
			if file == "" || name != limitsFile && !secrets {
				continue
			}
			// They are small, and are replaced but never changed.
			data, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = w.Add(name, data)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return m, diskFull(path, err)
}

// addDatabase adds the database of a state directory, and returns its schema.
func addDatabase(ctx context.Context, w *archive.Writer, dir, name string) (schema int, err error) {
	db, err := state.OpenForBackup(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	copied := filepath.Join(w.Dir, filepath.Dir(name))
	if err := db.Backup(ctx, copied); err != nil {
		return 0, err
	}
	return db.Schema(), w.AddFile(name, copied)
}

// diskFull gives the error of a full disk its code.
func diskFull(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return reconcile.NewError("disk_full", path+": "+err.Error(), "free disk space, and repeat the command").WithCause(err)
	}
	return err
}

// CodeStateExists is the code of the error if there is a state already.
const CodeStateExists = "state_exists"

// Restored is what Restore has done.
type Restored struct {
	archive.Manifest
	From     string   // the path of the workflow whose state it was
	StateDir string   // of the workflow whose state it is now
	Made     []string // other files and directories that were made
	Kept     []string // those that existed already
}

// restorer is one call of Restore.
type restorer struct {
	p     *project.Project
	stage string // a directory with the unpacked archive
	out   Restored
}

// Restore makes the state directory of the project from a backup, which must not exist. It appears at once, when everything else is in its
// place; an interrupted Restore can be repeated. The next pass treats the workers that were alive during the backup as lost.
func Restore(ctx context.Context, p *project.Project, path string) (out Restored, err error) {
	if err := cmp.Or(p.Nested(), p.SourceErr); err != nil {
		return out, err
	}
	r := &restorer{p: p, out: Restored{StateDir: p.StateDir}}
	// Beside the state directory, so that it can be renamed. It is not listed among projects, because it has no database itself.
	beside := p.StateDir + ".restoring"
	me := state.Holder{PID: os.Getpid(), Trigger: project.TriggerCommand, Since: p.Env.Now()}
	release, holder, err := state.Acquire(ctx, beside, me, 0, false)
	if err == nil && holder != nil {
		err = project.LockedError(holder)
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = errors.Join(os.RemoveAll(beside), release()) }()
	r.stage = filepath.Join(beside, "files")
	if err := r.refuseExisting(); err != nil {
		return out, err
	}
	if err = os.RemoveAll(r.stage); err == nil { // of an interrupted Restore
		r.out.Manifest, err = archive.Extract(p.Env.Absolute(path), r.stage, kind, names)
	}
	if err == nil && !project.Exists(r.staged(projectDB)) {
		err = reconcile.NewError(archive.CodeInvalid, path+" has no database", "use another one; nothing was changed")
	}
	crash.At("restore.unpacked")
	if err == nil {
		err = r.place(context.WithoutCancel(ctx))
	}
	return r.out, diskFull(p.StateDir, err)
}

func (r *restorer) staged(name string) string { return filepath.Join(r.stage, name) }

// refuseExisting refuses to replace a state.
func (r *restorer) refuseExisting() error {
	_ = unix.Rmdir(r.p.StateDir) // fails unless it is an empty directory
	if !project.Exists(r.p.StateDir) {
		return nil
	}
	return reconcile.NewError(CodeStateExists, r.p.StateDir+" exists, and is not replaced",
		"to give up what is in it: symphony projects remove "+text.ShellQuote(r.p.StateDir))
}

// place checks the databases, and puts what was unpacked into its place, the project's database last.
func (r *restorer) place(ctx context.Context) error {
	if err := r.adopt(ctx); err != nil {
		return err
	}
	if agents := project.AgentsDir(r.p.Env); project.Exists(r.staged(agentsDB)) {
		if err := r.check(ctx, filepath.Dir(r.staged(agentsDB)), nil); err != nil {
			return err
		}
		if err := r.put(agents, func() error { return os.Rename(filepath.Dir(r.staged(agentsDB)), agents) }); err != nil {
			return err
		}
	}
	files := filesOf(r.p)
	for _, name := range names {
		data, err := os.ReadFile(r.staged(name))
		if files[name] == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.put(files[name], func() error { return durable.WriteFile(files[name], data, 0o600) }); err != nil {
			return err
		}
	}
	crash.At("restore.placed")
	if err := r.refuseExisting(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Dir(r.staged(projectDB)), r.p.StateDir); err != nil {
		return err
	}
	crash.At("restore.renamed")
	return durable.SyncDir(filepath.Dir(r.p.StateDir))
}

// put makes a file or directory unless it exists.
func (r *restorer) put(path string, create func() error) error {
	if project.Exists(path) {
		r.out.Kept = append(r.out.Kept, path)
		return nil
	}
	r.out.Made = append(r.out.Made, path)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), create())
}

// check opens an unpacked database, which is migrated if it is older, and calls do with it. It refuses a newer one, and a damaged one.
func (r *restorer) check(ctx context.Context, dir string, do func(db *state.DB) error) error {
	db, err := state.Create(ctx, dir, r.p.Env.Now())
	if err != nil {
		return err
	}
	if err = cmp.Or(db.Newer(), db.QuickCheck(ctx)); err == nil && do != nil {
		err = do(db)
	}
	return errors.Join(err, db.Close())
}

// adopt gives the unpacked state to the project. It refuses that of a project that this machine has.
func (r *restorer) adopt(ctx context.Context) error {
	return r.check(ctx, filepath.Dir(r.staged(projectDB)), func(db *state.DB) error {
		from, err := project.OriginalPath(ctx, r.p, db)
		if err == nil {
			r.out.From, err = project.OwnerPath(ctx, r.p, db)
		}
		if err != nil {
			return err
		}
		roots, err := project.RootsOf(ctx, db)
		if err != nil {
			return err
		}
		// Workspaces stay behind. Where their root does not exist, the next runs use the present one.
		if cfg, err := r.p.ConfigWithoutKey(); err == nil {
			for _, root := range roots {
				if now := paths.Real(cfg.Workspace.Root); root != now && !project.Exists(root) {
					if err := db.Operator.MoveWorkspaces(ctx, root, now); err != nil {
						return err
					}
				}
			}
		}
		return project.GiveTo(ctx, db, cmp.Or(r.out.From, r.p.Path), r.p.Path, from, r.p.StateDir)
	})
}
