package project

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// openForReading opens the database for commands that only look.
func OpenForReading(ctx context.Context, p *Project) (*state.DB, error) {
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if err != nil || p.SourceErr != nil { // without a workflow the state directory alone says what is meant
		return db, NoState(p, err)
	}
	if _, err := OwnerPath(ctx, p, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// noState says what is missing where no pass has run: in the wrong directory that is the workflow.
func NoState(p *Project, err error) error {
	switch {
	case !errors.Is(err, state.ErrNoState):
		return err
	case p.SourceErr != nil:
		return p.SourceErr
	}
	return &reconcile.Error{
		Code: "no_state", Message: "no pass has run yet for " + p.Path + " with the state directory " + p.StateDir,
		Hint: "symphony tick runs one", Err: err,
	}
}

// fetchIssue asks the tracker for an issue by its identifier.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(cfg, p.Env.Now, WarnTo(NewLog(p.Env, slog.LevelWarn)))
	if err != nil {
		return nil, err
	}
	return tracker.Find(ctx, ref)
}

// findIssue finds an issue by its identifier: in the database, else at the tracker.
func FindIssue(ctx context.Context, p *Project, ref string) (id, identifier string, err error) {
	db, err := OpenForReading(ctx, p)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	return FindIssueIn(ctx, p, db, ref)
}

func FindIssueIn(ctx context.Context, p *Project, db *state.DB, ref string) (id, identifier string, err error) {
	id, identifier, ok, err := db.FindIssue(ctx, ref)
	if err != nil || ok {
		return id, identifier, err
	}
	issue, err := FetchIssue(ctx, p, ref)
	if err != nil {
		return "", "", err
	}
	return issue.ID, issue.Identifier, nil
}

// rowless are the directories of runs that no row is about: a takeover's for one.
func Rowless(ctx context.Context, p *Project, db *state.DB) (list []fs.DirEntry, err error) {
	entries, err := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, nil
	}
	known, err := db.RunIDs(ctx) // after the directories: a run's row is there first
	for _, e := range entries {
		if err == nil && !known[e.Name()] {
			list = append(list, e)
		}
	}
	return list, err
}
