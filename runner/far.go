package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	linkStep    = time.Second      // how often the worker looks at its link
	linkSilence = 45 * time.Second // in which a cut link is noticed at the latest
	// endBound is how long a worker tries to end a run on its host, besides the time in which
	// it copies the commits from there. The next pass starts another one.
	endBound = 5 * time.Minute
	// settling is how long after a loss of the link events of the agent may still be on their
	// way.
	settling = 10 * time.Second
)

// farStep reaches the machine of a run that works elsewhere, and leaves it.
type farStep struct{ *job }

// reach opens the machine of the run, if that is another one. That something may be at work
// there is stored first.
func (f *farStep) reach(ctx context.Context) error {
	if f.Reach == nil {
		return nil
	}
	if err := f.rec.markBegun(ctx); err != nil {
		return err
	}
	// A link that was cut without a word is noticed after a while.
	f.Config.ReadTimeout = max(f.Config.ReadTimeout, linkSilence)
	f.Config.InitializeTimeout = max(f.Config.InitializeTimeout, linkSilence)
	far, begun, err := f.Reach(ctx, func(why string) {
		f.rec.change(func(r *reconcile.Run) { r.Activity = "waits for its job: " + why })
	})
	f.rec.change(func(r *reconcile.Run) { r.Activity = "" })
	if err != nil {
		if !begun {
			f.rec.change(func(r *reconcile.Run) { r.Remote = "" })
		}
		return err
	}
	f.localGit = &localGit{f.Machine.Run(host.HereID(f.run.ID)), f.Env}
	// The machines may share a home, in which host.json of each run has the secret of its
	// daemon.
	f.Config.Unreadable = append(slices.Clone(f.Config.Unreadable), filepath.Dir(f.Dir))
	f.Machine = far.Machine
	f.StateDir = far.Account.StateDir
	f.Env = far.Account.Env
	f.Redactor.Add(f.Config.SecretsIn(f.Env))
	root := expandHome(f.run.WorkspaceRoot, far.Account.Home)
	f.run.WorkspaceRoot = root
	f.link = far.Link
	f.rec.change(func(r *reconcile.Run) {
		r.WorkspaceRoot = root
		f.rec.link = far.Link
	})
	f.host = far.Machine.Run(f.run.ID)
	go f.watchLink(far.Link)
	return f.useAccount(ctx, far.Account)
}

// useAccount sets the paths of codex on that machine. What agents here may not read, they may
// not read there either.
func (f *farStep) useAccount(ctx context.Context, a host.Account) error {
	c := &f.Config
	login := expandHome(cmp.Or(c.CodexHome, valueOf(a.Env, "CODEX_HOME"), "~/.codex"), a.Home)
	if c.CodexHome != "" {
		c.CodexHome = login
	}
	if c.AgentHome != "" {
		c.LoginHome = login
		c.AgentHome = filepath.Join(a.StateDir, "codex")
	}
	secret := append(c.Unreadable, filepath.Join(login, "auth.json"))
	facts, err := f.Machine.Facts(ctx, host.FactsRequest{Resolve: secret})
	if err == nil && len(facts.Resolved) != len(secret) {
		err = errResolved
	}
	c.Unreadable = facts.Resolved
	return err
}

var errResolved = errors.New("the machine has not resolved the paths")

// expandHome replaces a leading ~ by the home directory of an account.
func expandHome(path, home string) string {
	if path == "~" {
		return home
	}
	if rest, found := strings.CutPrefix(path, "~/"); found {
		return filepath.Join(home, rest)
	}
	return path
}

// watchLink ends the run when its host serves it no more, or has been silent for twice the
// time after which the host ends it. It watches until the link is closed: also the end of a
// run may wait for it.
func (f *farStep) watchLink(l Link) {
	patience := 2 * f.Config.Policy.LostAfter
	for lost := false; ; {
		select {
		case <-l.Done():
			if err := l.Err(); err != nil {
				code, message := codeOf(err)
				f.cancel(runEnd{reconcile.InterruptedRun, code, message})
			}
			return
		case <-time.After(linkStep):
		}
		if now := l.Lost() > 0; now != lost {
			lost = now
			f.Log.Info(map[bool]string{
				true:  "link lost",
				false: "link back",
			}[lost], "host", f.run.Host)
		}
		if l.Lost() > patience {
			f.cancel(
				runEnd{
					reconcile.Lost,
					reconcile.HoldHostLost,
					fmt.Sprintf("nothing was heard of %s for %v", f.run.Host, patience),
				},
			)
			l.Close() // the calls that wait for it fail
			return
		}
	}
}

// linkUnsettled reports whether the link is lost, or has come back so recently that events of
// the agent may still be on their way.
func (j *job) linkUnsettled() bool {
	return j.link != nil && (j.link.Lost() > 0 || j.link.Back() < settling)
}

// leaveHost ends the run on its host, where nothing of it is left, and records that.
func (f *farStep) leaveHost(ctx context.Context) {
	if f.link == nil {
		return
	}
	defer f.link.Close()
	f.warn("workspace on the host not recorded", saveSpace(ctx, f.Worker, f.rec.get()))
	err := f.link.Release(ctx)
	if err == nil || hostEnded(err) {
		f.rec.change(func(r *reconcile.Run) {
			r.Remote = reconcile.RemoteEnded
			r.HeardAt = f.Now()
		})
		return
	}
	f.warn("run not ended on its host: another worker ends it", err)
}

// endOfLink returns why the host of the run does not serve it any more; a code only if that is
// so.
func (f *farStep) endOfLink() (code, message string) {
	if f.link == nil || f.link.Err() == nil {
		return "", ""
	}
	return codeOf(f.link.Err())
}

// hostEnded reports whether an error is the host's answer that the run has ended there.
func hostEnded(err error) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && known.Code == host.CodeEnded
}

func saveSpace(ctx context.Context, w *Worker, run reconcile.Run) error {
	if run.IssueID == "" || run.WorkspaceRoot == "" {
		return nil
	}
	// The error may name other records.
	root, err := w.Machine.Root(ctx, host.RootRequest{Root: run.WorkspaceRoot, Records: true})
	i := slices.IndexFunc(
		root.Workspaces,
		func(r host.WorkspaceRecord) bool { return r.IssueID == run.IssueID && r.StateDir == w.StateDir },
	)
	if i < 0 && err != nil {
		return err
	}
	var found *reconcile.Workspace
	if i >= 0 {
		r := root.Workspaces[i]
		found = &reconcile.Workspace{
			IssueID:    run.IssueID,
			Identifier: run.Identifier,
			Key:        r.Key,
			Root:       run.WorkspaceRoot,
			Path:       r.Path,
			Project:    r.Project,
			Host:       run.Host,
			Unsaved:    text.Within(r.Unsaved, longestUnsaved),
			UnsavedAt:  r.UnsavedAt,
			KeptSince:  r.KeptSince,
			Restored:   r.Restored,
		}
	}
	return w.Journal.SaveRemoteWorkspace(ctx, run, found)
}

const longestUnsaved = 1 << 10 // bytes of what a host says about work in a workspace

// EndThere ends a run on its host whose worker has died, and stores that the host has
// confirmed it. An error means that it has not.
func (w *Worker) EndThere(ctx context.Context, run reconcile.Run) error {
	bound := endBound
	if w.keepsLast(run) {
		bound += w.keepRequest(run.IssueID, w.Env).Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	beats := run.Beats
	go repeat(ctx, heartbeat, func() {
		beats++
		if err := w.Alive.Beat(beats, w.Mono()); err != nil {
			w.Log.Warn("alive file not written", "error", err)
		}
	})
	err := w.endReached(ctx, &run)
	if err == nil || hostEnded(err) {
		err = nil
		run.Remote = reconcile.RemoteEnded
		run.HeardAt = w.Now()
		w.Log.Info("the run has ended on its host", "host", run.Host)
	}
	return errors.Join(err, w.Journal.SaveRemote(context.WithoutCancel(ctx), run, w.Now()))
}

// endReached reaches the host, and ends the run there. The commits are copied to this machine
// before: an engine may remove the workspace together with the job.
func (w *Worker) endReached(ctx context.Context, run *reconcile.Run) error {
	far, _, err := w.Reach(ctx, func(string) {})
	if err != nil {
		return err
	}
	defer far.Link.Close()
	w.Machine = far.Machine
	w.StateDir = far.Account.StateDir
	run.WorkspaceRoot = expandHome(run.WorkspaceRoot, far.Account.Home)
	err = far.Link.EndRun(ctx, host.KillRequest{ThreadID: run.ThreadID, Root: run.WorkspaceRoot})
	if err != nil {
		return err
	}
	if err := w.keepLast(ctx, run); err != nil {
		return err
	}
	if err := far.Machine.Run(run.ID).Finish(ctx); err != nil {
		return err
	}
	if err := saveSpace(ctx, w, *run); err != nil {
		w.Log.Warn("workspace on the host not recorded", "error", err)
	}
	return far.Link.Release(ctx)
}

// keepLast copies the commits of a run whose worker has died to this machine. The run may have
// ended before it had a workspace, or the process that held it. After an error, which is one
// of this machine, the next pass tries again: until then the host keeps the commits.
func (w *Worker) keepLast(ctx context.Context, run *reconcile.Run) error {
	if !w.keepsLast(*run) {
		return nil
	}
	commit, err := w.Machine.Run(run.ID).Keep(ctx, w.keepRequest(run.IssueID, w.Env))
	if errors.As(err, &host.FaultHere{}) {
		return fmt.Errorf("copy the commits to this machine: %w", err)
	}
	if err != nil {
		w.Log.Warn("the commits are not copied to this machine", "error", err)
		return nil
	}
	run.Delivery.Handover = run.Delivery.Handover.About(commit)
	return nil
}

// keepsLast reports whether the commits of a run are copied to this machine when it is ended.
func (w *Worker) keepsLast(run reconcile.Run) bool {
	return run.Kind == reconcile.AgentRun && w.Config.Repository.URL != ""
}
