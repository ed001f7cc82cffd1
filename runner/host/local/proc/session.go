package proc

import (
	"errors"
	"os"

	"github.com/symphony-cron/symphony/reconcile"
)

// Session is the session that a worker leads, and where those in it are at work for the run. It is the one trace of a
// program that gives what it starts neither environment nor descriptors (codex starts MCP servers so) if the worker
// dies before it could write that down.
type Session struct {
	// Leader is the worker. Its number stays taken as long as the session has a member.
	Leader reconcile.Process
	// Folder is the workspace root, without symlinks. Members that work elsewhere don't belong: once all of the run's
	// are gone, the leader's number may come to lead a stranger's session and end before it.
	Folder string
}

// claimSession claims those at work in the session. It is asked after the table was read: where somebody else has the
// leader's number by now, the run's session had no member left.
func (f *family) claimSession(s Session, worksBelow func(pid int, folder string) (bool, error)) error {
	if s.Leader.PID == 0 || s.Folder == "" {
		return nil
	}
	leader, err := statOf(s.Leader.PID)
	switch {
	case err != nil && !errors.Is(err, os.ErrProcessDone):
		return err
	case err == nil && leader.start != s.Leader.Start:
		return nil
	}
	var errs []error
	for i, e := range f.entries {
		if f.owned[i] || e.session != s.Leader.PID || e.pid == s.Leader.PID || e.start < s.Leader.Start {
			continue
		}
		works, err := worksBelow(e.pid, s.Folder)
		errs = append(errs, err)
		if works {
			f.claim(i)
		}
	}
	return errors.Join(errs...)
}
