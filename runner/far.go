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

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

const (
	linkStep    = time.Second      // how often the worker looks at its link
	linkSilence = 45 * time.Second // in which a cut link is noticed at the latest
	// endBound is how long a worker tries to end a run on its host, besides the time in which
	// it copies the commits from there. The next pass starts another worker.
	endBound = 5 * time.Minute
	// settling is how long after a loss of the link events of the agent may still be on their
	// way.
	settling = 10 * time.Second
)

// reach reaches the other machine on which the run works, and makes that its site. It stores
// before that something may be at work there.
func (j *job) reach(ctx context.Context) error {
	if err := j.rec.markBegun(ctx); err != nil {
		return err
	}
	far, begun, err := j.Reach(ctx, func(why string) {
		j.rec.change(func(r *reconcile.Run) { r.Activity = "waits for its job: " + why })
	})
	j.rec.change(func(r *reconcile.Run) { r.Activity = "" })
	if err != nil {
		if !begun {
			j.rec.change(func(r *reconcile.Run) { r.Remote = "" })
		}
		return err
	}
	j.enter(far)
	// From here on the run must be ended on that machine too (leaveHost), also after an error.
	if err := j.hideLogin(ctx, far); err != nil {
		return err
	}
	j.site.Config.Unreadable, err = j.site.Machine.Resolve(ctx, j.site.Config.Unreadable)
	return err
}

// hideLogin hides the login there as SecretFiles does here: with its directory, if agents have
// another home and no programs of codex are in it.
func (j *job) hideLogin(ctx context.Context, far Far) error {
	c := &j.site.Config
	home := far.loginHome(*c)
	programs, err := j.site.Machine.Existing(ctx, []string{filepath.Join(home, "packages")})
	if err != nil {
		return err
	}
	hidden := home
	if c.AgentHome == "" || !c.Agent.Sandboxes || len(programs) > 0 || paths.Inside(home, far.Account.Home) {
		hidden = filepath.Join(home, "auth.json")
	}
	c.Unreadable = append(c.Unreadable, hidden)
	return nil
}

// loginHome is the directory of the operator's login there.
func (f Far) loginHome(c Config) string {
	home := cmp.Or(c.NamedHome, host.Variable(f.Account.Env, c.Agent.HomeVar), "~/"+c.Agent.HomeDir)
	return expandHome(home, f.Account.Home)
}

// enter makes a machine that was reached the site of the run.
func (j *job) enter(far Far) {
	here := j.Here
	root := expandHome(j.run.WorkspaceRoot, far.Account.Home)
	*j.site = site{
		Place:   far.place(here.Config, j.Dir),
		here:    here,
		root:    root,
		host:    far.Machine.Run(j.run.ID),
		link:    far.Link,
		gitHere: here.Machine.Run(host.HereID(j.run.ID)),
	}
	j.Redactor.Add(j.site.Config.SecretsIn(j.site.Env))
	j.rec.change(func(r *reconcile.Run) {
		r.WorkspaceRoot = root
		j.rec.link = far.Link
	})
	go j.watchLink(far.Link)
}

// place returns the place of a run on the machine, given the configuration on this machine and
// the run's directory here. Paths that agents may not read here, they may not read there
// either: the machines may share a home, in which host.json of each run contains the secret of
// its daemon.
func (f Far) place(here Config, dir string) Place {
	c := here
	// A link that was cut without a word is noticed after a while.
	c.ReadTimeout = max(c.ReadTimeout, linkSilence)
	c.InitializeTimeout = max(c.InitializeTimeout, linkSilence)
	login := f.loginHome(c)
	if c.NamedHome != "" {
		c.NamedHome = login
	}
	if c.AgentHome != "" {
		c.LoginHome = login
		c.AgentHome = filepath.Join(f.Account.StateDir, c.Agent.Name)
	}
	c.Unreadable = append(slices.Clone(c.Unreadable), filepath.Dir(dir))
	return Place{Machine: f.Machine, StateDir: f.Account.StateDir, Env: f.Account.Env, Config: c}
}

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

// watchLink ends the run when its host serves it no more, or was silent for twice the time
// after which the host ends it. It watches until the link is closed: also the end of a run may
// wait for it.
func (j *job) watchLink(link Link) {
	patience := 2 * j.Here.Config.Policy.LostAfter
	lost := false
	for {
		select {
		case <-link.Done():
			if err := link.Err(); err != nil {
				code, message := codeOf(err)
				j.rec.cancel(runEnd{reconcile.InterruptedRun, code, message})
			}
			return
		case <-time.After(linkStep):
		}
		silent := link.Lost()
		if silent > 0 && !lost {
			j.Log.Info("link lost", "host", j.run.Host)
		}
		if silent == 0 && lost {
			j.Log.Info("link back", "host", j.run.Host)
		}
		lost = silent > 0
		if silent > patience {
			message := fmt.Sprintf("nothing was heard of %s for %v", j.run.Host, patience)
			j.rec.cancel(runEnd{reconcile.Lost, reconcile.HoldHostLost, message})
			link.Close() // the calls that wait for it fail
			return
		}
	}
}

// leaveHost ends the run on its host, where nothing of it is left, and records that.
func (j *job) leaveHost(ctx context.Context) {
	link := j.site.link
	if link == nil {
		return
	}
	defer link.Close()
	err := saveSpace(ctx, j.Journal, j.site.Place, j.rec.get())
	warn(j.Log, "workspace on the host not recorded", err)
	err = link.Release(ctx)
	if err == nil || hostEnded(err) {
		j.rec.change(func(r *reconcile.Run) {
			r.Remote = reconcile.RemoteEnded
			r.HeardAt = j.Now()
		})
		return
	}
	warn(j.Log, "run not ended on its host", err)
}

// hostEnded reports whether an error is the host's answer that the run ended there.
func hostEnded(err error) bool {
	known, is := errors.AsType[*reconcile.Error](err)
	return is && known.Code == host.CodeEnded
}

// saveSpace stores the workspace of a run's issue as its host records it; none if the host
// keeps no record of a workspace.
func saveSpace(ctx context.Context, journal RunJournal, there Place, run reconcile.Run) error {
	if run.IssueID == "" || run.WorkspaceRoot == "" {
		return nil
	}
	// The error may be about the records of other workspaces.
	spaces, err := there.Machine.Workspaces(ctx, run.WorkspaceRoot)
	i := slices.IndexFunc(spaces, func(r host.WorkspaceRecord) bool {
		return r.IssueID == run.IssueID && r.StateDir == there.StateDir
	})
	if i < 0 && err != nil {
		return err
	}
	if i < 0 {
		return journal.SaveRemoteWorkspace(ctx, run, nil)
	}
	r := spaces[i]
	return journal.SaveRemoteWorkspace(ctx, run, &reconcile.Workspace{
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
	})
}

const longestUnsaved = 1 << 10 // bytes of a host's message about work in a workspace

// EndThere ends a run on its host after the death of its worker, and stores that the host
// confirmed it. An error means that it did not.
func (w *Worker) EndThere(ctx context.Context, run reconcile.Run) error {
	bound := endBound
	if w.keepsLast(run) {
		bound += w.Here.keepRequest(run.IssueID).Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	beats := run.Beats
	go repeat(ctx, heartbeat, func() {
		beats++
		warn(w.Log, "alive file not written", w.Alive.Beat(beats, w.Mono()))
	})
	ended, err := w.endReached(ctx, run)
	if err == nil || hostEnded(err) {
		err = nil
		ended.Remote = reconcile.RemoteEnded
		ended.HeardAt = w.Now()
		ended.Activity = ""
		w.Log.Info("the run has ended on its host", "host", run.Host)
	}
	if err != nil {
		ended.Activity = text.Short(text.OneLine(err.Error()), maxActivity)
	}
	return errors.Join(err, w.Journal.SaveRemote(context.WithoutCancel(ctx), ended, w.Now()))
}

// endReached reaches the host, and ends the run there. The commits are copied to this machine
// before: an engine may remove the workspace together with the job. It returns the run with
// the news from the host, also with an error.
func (w *Worker) endReached(ctx context.Context, run reconcile.Run) (reconcile.Run, error) {
	far, _, err := w.Reach(ctx, func(string) {})
	if err != nil {
		return run, err
	}
	defer far.Link.Close()
	run.WorkspaceRoot = expandHome(run.WorkspaceRoot, far.Account.Home)
	err = far.Link.EndRun(ctx, host.KillRequest{ThreadID: run.ThreadID, Root: run.WorkspaceRoot})
	if err != nil {
		return run, err
	}
	there := far.Machine.Run(run.ID)
	run.Delivery.Handover, err = w.keepLast(ctx, there, run)
	if err != nil {
		return run, err
	}
	if err := there.Finish(ctx); err != nil {
		return run, err
	}
	place := Place{Machine: far.Machine, StateDir: far.Account.StateDir}
	warn(w.Log, "workspace on the host not recorded", saveSpace(ctx, w.Journal, place, run))
	return run, far.Link.Release(ctx)
}

// keepLast copies the commits of a run whose worker died to this machine, and returns its
// handover, which then names the newest commit. The run may have ended before it got a
// workspace, or the process that held the workspace may have ended: then nothing is copied. An
// error is an error of this machine: the next pass tries again, and until then the host keeps
// the commits.
func (w *Worker) keepLast(
	ctx context.Context,
	there host.Run,
	run reconcile.Run,
) (*reconcile.Handover, error) {
	handover := run.Delivery.Handover
	if !w.keepsLast(run) {
		return handover, nil
	}
	commit, err := there.Keep(ctx, w.Here.keepRequest(run.IssueID))
	if errors.As(err, &host.FaultHere{}) {
		return handover, fmt.Errorf("copy the commits to this machine: %w", err)
	}
	if err != nil {
		w.Log.Warn("the commits are not copied to this machine", "error", err)
		return handover, nil
	}
	return handover.About(commit), nil
}

// keepsLast reports whether the commits of a run are copied to this machine when it is ended.
func (w *Worker) keepsLast(run reconcile.Run) bool {
	return run.Kind == reconcile.AgentRun && w.Here.Config.Repository.URL != ""
}
