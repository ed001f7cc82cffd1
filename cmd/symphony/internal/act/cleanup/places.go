package cleanup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state"
)

// place is a machine with workspaces of a project.
type place struct {
	host.Machine
	name     string // of the host, empty for this machine
	stateDir string // of the project there
	roots    []string
	leave    func() error
}

// visit reaches a host, or this machine.
func visit(ctx context.Context, p *project.Project, db *state.DB, name string, roots []string) (*place, error) {
	far, leave, err := project.Visit(ctx, p, db, name)
	if err != nil {
		return nil, err
	}
	there := &place{Machine: far.Machine, name: name, stateDir: far.Account.StateDir, leave: leave}
	for _, root := range roots {
		if root = runner.ExpandHome(root, far.Account.Home); !slices.Contains(there.roots, root) {
			there.roots = append(there.roots, root)
		}
	}
	return there, nil
}

// places are machines by name.
type places map[string]*place

// openPlaces reaches all machines on which the project has workspaces. The error describes those that do not answer. close must be called.
func openPlaces(ctx context.Context, p *project.Project, cfg *workflow.Config, db *state.DB) (places, error) {
	roots, err := allRoots(ctx, cfg, db)
	rec, recErr := db.Store.State(ctx)
	if err = cmp.Or(err, recErr); err != nil {
		return nil, err
	}
	there := map[string][]string{"": roots}
	for _, name := range cfg.Policy.Hosts {
		there[name] = []string{cfg.Policy.RemoteRoot}
	}
	for _, w := range rec.RemoteWorkspaces {
		if !w.Abandoned {
			there[w.Host] = append(there[w.Host], w.Root)
		}
	}
	all := places{}
	var visits sync.WaitGroup
	var mu sync.Mutex
	for name, roots := range there {
		visits.Go(func() {
			found, visitErr := visit(ctx, p, db, name, roots)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, visitErr); visitErr == nil {
				all[name] = found
			}
		})
	}
	visits.Wait()
	return all, err
}

// list returns the machines, this one first.
func (p places) list() []*place {
	return text.Map(slices.Sorted(maps.Keys(p)), func(name string) *place { return p[name] })
}

func (p places) close() (err error) {
	for _, one := range p {
		err = errors.Join(err, one.leave())
	}
	return err
}

// record stores what a host has of an issue, as its runs do.
func (p *place) record(ctx context.Context, db *state.DB, issueID, root string) error {
	run, found, err := db.Runs.Last(ctx, issueID)
	if err != nil || !found || p.name == "" {
		return err
	}
	run.Host, run.WorkspaceRoot = p.name, root
	return runner.RecordSpace(ctx, p, p.stateDir, db.Journal, run)
}

// where is a path, after the name of the host if that is another machine.
func (p *place) where(path string) string {
	return reconcile.Workspace{Host: p.name, Path: path}.Where()
}
