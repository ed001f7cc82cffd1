package runner

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// site is where a run works: a machine, and there the workspace of the run's issue. All parts
// of a job share it, because another machine is reached, and the workspace taken, only in the
// course of the run.
type site struct {
	Place        // of the machine: this machine until another is reached
	here  Place  // this machine
	root  string // the workspace root on the machine
	host  host.Run
	link  Link // to the machine; nil for this machine
	// gitHere runs git on this machine, which reaches the repository for a run on another
	// machine; nil for a run of this machine.
	gitHere host.Run
	space   *host.Workspace // nil until it is taken
}

// newSite returns the site of a run before its workspace is taken. Its host is nil if another
// machine is to be reached.
func (w *Worker) newSite(run reconcile.Run) *site {
	s := &site{Place: w.Here, here: w.Here, root: run.WorkspaceRoot}
	if w.Reach == nil && w.Here.Machine != nil {
		s.host = w.Here.Machine.Run(run.ID)
	}
	return s
}

// newSpace describes a workspace that is in no workspace root, and makes the directories below
// dir for the temporary files and caches of its programs.
func newSpace(path, dir string) (*host.Workspace, error) {
	space := &host.Workspace{
		Path:     path,
		TmpDir:   filepath.Join(dir, "tmp"),
		CacheDir: filepath.Join(dir, "cache"),
		Agent: host.Dirs{
			Tmp:   filepath.Join(dir, "agent-tmp"),
			Cache: filepath.Join(dir, "agent-cache"),
		},
	}
	space.Hooks = space.Agent
	for _, d := range []string{space.TmpDir, space.CacheDir, space.Agent.Tmp, space.Agent.Cache} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	return space, nil
}

// turnPolicy returns the sandbox policy of turns in the workspace.
func (s *site) turnPolicy(ctx context.Context) (json.RawMessage, error) {
	return s.Config.TurnPolicy(ctx, s.Machine, *s.space)
}

// profile returns the sandbox policy of turns, and the permission profile that applies instead;
// nil for none.
func (s *site) profile(ctx context.Context) (policy json.RawMessage, profile map[string]any, err error) {
	policy, err = s.turnPolicy(ctx)
	if err != nil {
		return nil, nil, err
	}
	profile, err = s.Config.Profile(ctx, s.Machine, policy)
	return policy, profile, err
}

// farClone reports whether the workspace is a clone on another machine, with which its commits
// can be lost.
func (s *site) farClone() bool {
	return s.gitHere != nil && s.space != nil && s.Config.Repository.URL != ""
}

// unsettled reports whether the link is lost, or came back so recently that events of the
// agent may still be on their way.
func (s *site) unsettled() bool {
	return s.link != nil && (s.link.Lost() > 0 || s.link.Back() < settling)
}

// endOfLink returns why the machine does not serve the run any more; a code only if that is so.
func (s *site) endOfLink() (code, message string) {
	if s.link == nil {
		return "", ""
	}
	err := s.link.Err()
	if err == nil {
		return "", ""
	}
	return codeOf(err)
}
