package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// Documents of --json.
type (
	ProjectsJSON = []ProjectRow
	TrashJSON    = []TrashRow
)

// Projects returns the projects of the account: the state directories in the default place, and the
// ones elsewhere that passes have registered.
func Projects(ctx context.Context, w *environ.Env) (ProjectsJSON, error) {
	dirs, err := wiring.StateDirs(w)
	if err != nil {
		return nil, err
	}
	rows := text.Map(dirs, func(dir string) ProjectRow { return readState(ctx, w, dir) })
	slices.SortFunc(rows, func(a, b ProjectRow) int {
		return strings.Compare(a.WorkflowPath+"\x00"+a.StateDir, b.WorkflowPath+"\x00"+b.StateDir)
	})
	return rows, nil
}

// Space is a workspace that may be removed.
type Space struct {
	loss
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	Bytes      int64  `json:"bytes"`
	Why        string `json:"why"`    // it may be removed
	InUse      bool   `json:"in_use"` // its lease is held
	rec        host.WorkspaceRecord
}

// Remark is the size of the workspace and the reasons to keep it, in parentheses.
func (s Space) Remark() string {
	remark := "(" + text.BytesText(s.Bytes)
	if s.InUse {
		remark += ", in use"
	}
	if s.Unsaved != "" {
		remark += ", " + s.Unsaved
	}
	return remark + ")"
}

// listSpaces returns the workspaces in a project's roots that belong to it or to a project
// that no longer exists.
func listSpaces(ctx context.Context, stateDir string, roots []string) (list []Space, err error) {
	machine := wiring.ThisMachine()
	for _, path := range roots {
		records, err := machine.Workspaces(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, rec := range records {
			if rec.StateDir != stateDir && !isGone(rec.StateDir) {
				continue
			}
			found, err := machine.Examine(ctx, host.ExamineRequest{Root: rec.Root, Key: rec.Key})
			if err != nil {
				return nil, err
			}
			list = append(list, Space{
				loss:       newLoss(rec.Path, found.Unsaved),
				IssueID:    rec.IssueID,
				Identifier: rec.Identifier,
				Bytes:      found.Bytes,
				InUse:      found.InUse,
				rec:        rec,
			})
		}
	}
	return list, nil
}

// isGone reports whether a state directory no longer contains a database. If the database
// can't be examined, it may exist.
func isGone(stateDir string) bool {
	_, err := os.Stat(filepath.Join(stateDir, "state.db"))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// refuseBusy refuses a project with workers or a loop. hint explains how to stop the workers.
func refuseBusy(p *wiring.Project, hint string) error {
	living := wiring.LivingRuns(p)
	if len(living) > 0 {
		workers := text.Plural(len(living), "worker")
		ids := strings.Join(living, ", ")
		return reconcile.NewError(
			codeBusy,
			fmt.Sprintf("%s still running on %s: run %s", workers, p.StateDir, ids),
			hint,
		)
	}
	if wiring.Looping(p.StateDir) {
		return reconcile.NewError(
			codeBusy,
			"symphony tick --loop is running on "+p.StateDir,
			"end it first, with Ctrl-C or SIGTERM",
		)
	}
	return nil
}

// refuseUnverified refuses a project with runs that may be at work on hosts: its database
// knows how to end them. It refuses the database of a newer program, too, which may contain
// such runs.
func (r ProjectRow) refuseUnverified() error {
	if r.Error != nil && state.IsNewer(r.Error) {
		return r.Error
	}
	if len(r.unverified) == 0 {
		return nil
	}
	run := r.unverified[0]
	return reconcile.NewError(
		codeBusy,
		fmt.Sprintf("run %s of %s may still be at work on %s", run.ID, run.Identifier, run.Host),
		"symphony tick ends it; if the host is gone: symphony retry --host-is-gone "+run.Identifier,
	)
}

// ProjectRow is a project of the account, as symphony projects lists it.
type ProjectRow struct {
	StateDir       string     `json:"state_dir"`
	WorkflowPath   string     `json:"workflow_path"`
	WorkflowExists bool       `json:"workflow_exists"`
	Schedule       bool       `json:"schedule_active"`
	Paused         bool       `json:"paused"`
	Running        int        `json:"running"`
	Retrying       int        `json:"retrying"`
	NeedsHelp      int        `json:"needs_help"`
	Held           int        `json:"held"`
	LastPass       *time.Time `json:"last_pass_at"`
	// Roots are the workspace roots that the project used, the current root first.
	Roots []string `json:"workspace_roots"`
	// Error is the reason why the database can't be read.
	Error      *reconcile.Error      `json:"error"`
	there      []reconcile.Workspace // on hosts
	unverified []reconcile.Run       // which may be at work there
}

// readState reads the state of a project. If it can't be read, the row's Error is the reason.
func readState(ctx context.Context, w *environ.Env, dir string) ProjectRow {
	row := ProjectRow{StateDir: dir, Roots: []string{}}
	if err := row.read(ctx, w); err != nil {
		row.Error = exit.From(err)
	}
	return row
}

func (r *ProjectRow) read(ctx context.Context, w *environ.Env) (err error) {
	db, err := state.OpenReadOnly(ctx, r.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// Workflow and roots are also known of a database that this program can't use otherwise.
	path, _, err := db.Meta(ctx, wiring.OwnerKey)
	if err != nil {
		return err
	}
	r.WorkflowPath = path
	r.WorkflowExists = path != "" && wiring.Exists(path)
	r.Roots, err = wiring.RootsOf(ctx, db)
	if err != nil {
		return err
	}
	if err := db.Newer(); err != nil {
		return err
	}
	rec, err := db.Store.State(ctx)
	if err != nil {
		return err
	}
	last, err := wiring.LastPass(ctx, db)
	if err != nil {
		return err
	}
	alive, err := wiring.ScheduleAlive(ctx, db, w.Now())
	if err != nil {
		return err
	}
	claims := map[reconcile.ClaimStatus]int{}
	for _, c := range rec.Claims {
		claims[c.Status]++
		if c.HoldReason == reconcile.HoldNeedsHelp && c.Status == reconcile.Held {
			r.NeedsHelp++
		}
	}
	r.there = rec.RemoteWorkspaces
	r.unverified = text.Filter(
		rec.Runs,
		func(run reconcile.Run) bool { return run.Remote == reconcile.RemoteBegun },
	)
	r.Running = claims[reconcile.Running]
	r.Held = claims[reconcile.Held] - r.NeedsHelp
	r.Retrying = claims[reconcile.Waiting]
	if last != nil {
		r.LastPass = &last.StartedAt
	}
	r.Paused = rec.Paused
	r.Schedule = alive || wiring.Looping(r.StateDir)
	return nil
}
