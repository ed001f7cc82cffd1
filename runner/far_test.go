package runner

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// endedLink is a link to a host that serves the run no more.
type endedLink struct {
	Link
	err error
}

func (l endedLink) Err() error { return l.err }

// A run that its host has ended is interrupted. A call may report that, or only the link.
func TestEndedThere(t *testing.T) {
	ended := reconcile.NewError(host.CodeEnded, "a signal", "")
	j := &job{parts: &parts{site: &site{}, boxes: &boxes{}}}
	end := j.judge(t.Context(), errors.Join(errors.New("thread"), ended))
	test.Equal(
		t,
		"a call",
		[]string{string(end.outcome), end.code, end.message},
		[]string{"interrupted", "host_ended", "a signal"},
	)
	end = j.judge(t.Context(), reconcile.NewError(host.CodeDied, "killed", ""))
	test.Equal(
		t,
		"its server has died",
		[]string{string(end.outcome), end.code},
		[]string{"interrupted", "host_died"},
	)
	code, message := j.site.endOfLink()
	test.Equal(t, "here", code+message, "")
	j.site.link = endedLink{}
	code, _ = j.site.endOfLink()
	test.Equal(t, "a link", code, "")
	j.site.link = endedLink{err: ended}
	code, message = j.site.endOfLink()
	test.Equal(t, "an ended link", []string{code, message}, []string{"host_ended", "a signal"})
}

// servedLink is a link to a host that serves the run, and that nobody watches any more.
type servedLink struct{ Link }

func (servedLink) Lost() time.Duration { return 0 }

func (servedLink) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (servedLink) Err() error { return nil }

// A write of the row that fails does not end a run that works on another machine: the project's
// directory that has to exist is the one on this machine.
func TestFailedWriteWhileElsewhere(t *testing.T) {
	r := newRig(t, "say done")
	far := Far{Machine: r.Here.Machine, Account: host.Account{StateDir: "/only/there"}, Link: servedLink{}}
	r.Reach = func(context.Context, func(string)) (Far, bool, error) { return far, true, nil }
	var ended error
	j := r.newJob(r.run, func(err error) { ended = err })
	test.OK(t, j.reach(t.Context()))
	locked := errors.New("the database is locked")
	r.journal.refuse = func(reconcile.Run) error { return locked }
	test.Equal(t, "the write fails", errors.Is(j.rec.store(t.Context()), locked), true)
	test.OK(t, ended)
	test.OK(t, os.RemoveAll(j.Here.StateDir))
	test.Equal(t, "the next one, too", errors.Is(j.rec.store(t.Context()), locked), true)
	test.Equal(t, "the run ends without its directory", errors.Is(ended, errNotOurs), true)
}

// leftRun is a run on a host whose worker has died, with its machine and the link to it.
type leftRun struct {
	host.Machine
	host.Run
	Link
	keep     func(ctx context.Context, q host.KeepRequest) (string, error)
	finished bool
}

func (l *leftRun) machine() host.Machine { return leftMachine{l.Machine, l} }

type leftMachine struct {
	host.Machine
	left *leftRun
}

func (m leftMachine) Run(string) host.Run { return m.left }

func (l *leftRun) EndRun(context.Context, host.KillRequest) error { return nil }

func (l *leftRun) Release(context.Context) error { return nil }

func (l *leftRun) Close() {}

func (l *leftRun) Keep(ctx context.Context, q host.KeepRequest) (string, error) {
	return l.keep(ctx, q)
}

func (l *leftRun) Finish(ctx context.Context) error {
	l.finished = ctx.Err() == nil
	return ctx.Err()
}

// A run whose worker has died ends on its host after its commits were copied. A copy that
// takes too long leaves time to end it. If this machine is the reason that nothing was copied,
// the run stays there, with the only commits.
func TestEndThere(t *testing.T) {
	full := reconcile.NewError(host.CodeDiskFull, "no space left on device", "")
	for _, c := range []struct {
		name  string
		keep  func(context.Context, host.KeepRequest) (string, error)
		ended bool
	}{
		{"copied", func(context.Context, host.KeepRequest) (string, error) { return "1", nil }, true},
		{"a slow copy", func(ctx context.Context, q host.KeepRequest) (string, error) {
			return host.Within(ctx, q.Timeout, host.CodeDeliveryFailed, "the copy",
				func(ctx context.Context) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				})
		}, true},
		{"a fault there", func(context.Context, host.KeepRequest) (string, error) { return "", full }, true},
		{"a fault here", func(context.Context, host.KeepRequest) (string, error) {
			return "", host.FaultHere{Err: full}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := bare(newMemory())
				left := &leftRun{keep: c.keep}
				w.Here.Config.Repository.URL = "remote.git"
				w.Reach = func(context.Context, func(string)) (Far, bool, error) {
					return Far{Machine: left.machine(), Link: left}, true, nil
				}
				err := w.EndThere(t.Context(), reconcile.Run{ID: "run-1", Kind: reconcile.AgentRun})
				test.Equal(t, "finished", left.finished, c.ended)
				test.Equal(t, "ended", err == nil, c.ended)
				if err != nil {
					code, _ := codeOf(err)
					test.Equal(t, "its code", code, host.CodeDiskFull)
				}
			})
		})
	}
}
