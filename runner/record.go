package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	// heartbeat is the interval of a worker's heartbeats, and of its scans for new processes
	// of the run while the agent sends events. A process that removes all markers is lost if
	// the worker dies before the next scan.
	heartbeat = 5 * time.Second
	// quietBeats is the number of heartbeats between two scans while the agent is silent.
	quietBeats = 4
	// clockStep is how far the wall clock must deviate from the monotonic clock to count as a
	// step or a suspend.
	clockStep = time.Second
)

// record is the worker's copy of its run's row, and the only writer of the row. Events change
// the copy; every heartbeat writes it, and so do changes that views should show at once.
type record struct {
	*Worker
	cancel context.CancelCauseFunc // ends the run

	write sync.Mutex // held while the row is written
	mu    sync.Mutex // guards the fields up to commitSaid
	row   reconcile.Run
	stop  string // why a pass asked the run to stop; empty if none did
	// link is the connection to the other machine on which the run works, once that is
	// reached; nil for a run of this machine.
	link Link
	// movedMono is row.MovedAt on the monotonic clock.
	movedMono time.Duration
	// corrects: after row.MovedAt the agent got another turn.
	corrects bool
	// said are the last words of the agent, and commitSaid what its last git commit has
	// printed, for example by a hook; empty if that did not fail.
	said, commitSaid string

	count sync.Mutex                  // held from reading token totals until they are stored
	base  map[string]reconcile.Tokens // use of resumed threads before this run
	used  map[string]reconcile.Tokens // use of this run, by thread
	// messages gets a value when a write finds messages of operators that the agent did not
	// get yet.
	messages chan struct{}
	// unstored are the sessions whose totals could not be stored. A run with several
	// conversations has a session for each.
	unstored   map[agent.Session]struct{}
	overBudget atomic.Bool // whether the issue used up agent.max_tokens
}

func (w *Worker) newRecord(run reconcile.Run, cancel context.CancelCauseFunc) *record {
	return &record{
		Worker:   w,
		cancel:   cancel,
		row:      run,
		base:     map[string]reconcile.Tokens{},
		used:     map[string]reconcile.Tokens{},
		unstored: map[agent.Session]struct{}{},
		messages: make(chan struct{}, 1),
	}
}

// change alters the copy; the next heartbeat writes it.
func (r *record) change(f func(*reconcile.Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.row)
}

// get returns the copy.
func (r *record) get() reconcile.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row
}

// phase moves the run to its next phase and writes it at once.
func (r *record) phase(ctx context.Context, p reconcile.Phase) {
	r.change(func(run *reconcile.Run) { run.Phase = p })
	r.Log.Info("phase", "phase", p)
	r.flush(ctx)
}

// flush writes the row. An error does not stop the run: the next heartbeat tries again.
func (r *record) flush(ctx context.Context) { warn(r.Log, "heartbeat not stored", r.store(ctx)) }

// store writes the row, and ends the run if it is to be stopped or is not this worker's any
// more.
func (r *record) store(ctx context.Context) error {
	r.write.Lock()
	defer r.write.Unlock()
	now := r.Now()
	r.change(func(run *reconcile.Run) { r.setTimes(run, now) })
	orders, err := r.Journal.UpdateRun(context.WithoutCancel(ctx), now, r.get())
	if errors.Is(err, reconcile.ErrConflict) {
		r.cancel(errNotOurs)
		return nil
	}
	if err != nil && r.stateDeleted() {
		r.Log.Error("the state directory was deleted: the run ends", "directory", r.Here.StateDir)
		r.cancel(errNotOurs)
		return err
	}
	if orders.Stop != "" { // possibly together with an error of the write
		r.change(func(*reconcile.Run) { r.stop = orders.Stop })
		r.cancel(runEnd{reconcile.Canceled, orders.Stop, reconcile.StoppedText(orders.Stop)})
	}
	if orders.Messages {
		select {
		case r.messages <- struct{}{}:
		default: // the turn has not looked since the last write
		}
	}
	return err
}

// setTimes sets the times in the row that depend on the time of a write. The caller holds mu.
func (r *record) setTimes(run *reconcile.Run, now time.Time) {
	if r.corrects && !run.MovedAt.IsZero() {
		run.MovedAt = now
		r.movedMono = r.Mono()
	}
	// If the wall clock was stepped, or ran on during a suspend, the handoff keeps its age.
	at := now.Add(r.movedMono - r.Mono())
	if !run.MovedAt.IsZero() && at.Sub(run.MovedAt).Abs() > clockStep {
		run.MovedAt = at
	}
	// without a link it is being opened
	if run.Remote == reconcile.RemoteBegun && (r.link == nil || r.link.Lost() == 0) {
		run.HeardAt = now
	}
}

// stateDeleted reports whether the project's state directory no longer exists. A database that
// is gone alone can be restored while the worker goes on; without the directory no pass will
// ever know of the run.
func (r *record) stateDeleted() bool {
	_, err := os.Lstat(r.Here.StateDir)
	return errors.Is(err, fs.ErrNotExist)
}

// markBegun stores that something may be at work on the host of the run. It comes before
// anything happens there.
func (r *record) markBegun(ctx context.Context) error {
	r.write.Lock()
	defer r.write.Unlock()
	r.change(func(run *reconcile.Run) {
		run.Remote = reconcile.RemoteBegun
		run.HeardAt = r.Now()
	})
	_, err := r.Journal.UpdateRun(ctx, r.Now(), r.get())
	if err != nil {
		r.change(func(run *reconcile.Run) { run.Remote = "" })
	}
	return err
}

// recordMove records that the agent's tool, or symphony for the agent, is about to change the
// issue: this may be the handoff.
func (r *record) recordMove() {
	r.change(func(run *reconcile.Run) {
		run.MovedAt = r.Now()
		run.MovedTo = ""
		r.movedMono = r.Mono()
	})
}

// waitForCorrection lets passes wait for the run although the agent moved its issue: it gets
// another turn, to correct its commits. From then on each heartbeat renews the time of the
// move. Passes still stop the run if someone else moves the issue.
func (r *record) waitForCorrection(ctx context.Context) {
	r.change(func(*reconcile.Run) { r.corrects = true })
	r.flush(ctx)
}

// keepLinks adds links to the run. They are written at once, so that they are not lost if the
// worker dies.
func (r *record) keepLinks(links []reconcile.Link) {
	for i := range links {
		links[i].URL = r.Redactor.Text(links[i].URL)
	}
	more := false
	r.change(func(run *reconcile.Run) {
		before := len(run.Links)
		run.Links = reconcile.MergeLinks(run.Links, links)
		more = len(run.Links) > before
	})
	if more {
		r.flush(context.Background())
	}
}

// hear keeps what people need to know if the run ends without a handover.
func (r *record) hear(i *agent.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case i == nil || !i.Ended:
	case i.Kind == agent.ItemMessage:
		r.said = i.Text
	case i.Kind == agent.ItemCommand && strings.Contains(i.Command, "git commit"):
		r.commitSaid = ""
		if i.Failed() {
			r.commitSaid = i.Output
		}
	}
}

// lastWords are the last words of the agent, such as a question; empty if it said nothing.
func (r *record) lastWords() string {
	r.mu.Lock()
	said := r.said
	r.mu.Unlock()
	words := r.failedCommit()
	if said != "" {
		words += "; its agent's last words: " + r.quote(said)
	}
	return strings.TrimPrefix(words, "; ")
}

// failedCommit is what the agent's last git commit printed, as the end of a sentence, if it failed.
func (r *record) failedCommit() string {
	r.mu.Lock()
	said := r.commitSaid
	r.mu.Unlock()
	if said == "" {
		return ""
	}
	return "; its last git commit failed: " + r.quote(said)
}

// mostQuotedWords is how many characters of the agent's words are in a message: the end, which
// may be a question.
const mostQuotedWords = 300

// quote returns the end of others' words in a line, in quotation marks that it can't close.
func (r *record) quote(said string) string {
	line := []rune(text.Visible(text.OneLine(r.Redactor.Text(said))))
	if len(line) > mostQuotedWords {
		line = append([]rune("…"), line[len(line)-mostQuotedWords:]...)
	}
	return "“" + strings.ReplaceAll(string(line), "”", "'") + "”"
}

// startHeartbeat sends heartbeats until stop is called, even after the end of ctx. A separate
// goroutine counts them in the alive file, even while the database is locked or slow, because
// a pass kills a worker whose counter does not change.
func (r *record) startHeartbeat(ctx context.Context) (beats context.Context, stop func()) {
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		repeat(beats, heartbeat, func() {
			r.change(func(run *reconcile.Run) {
				run.Beats++
				run.HeartbeatAt = r.Now()
			})
			warn(r.Log, "alive file not written", r.Alive.Beat(r.get().Beats, r.Mono()))
		})
	})
	running.Go(func() { repeat(beats, heartbeat, func() { r.flush(beats) }) })
	return beats, func() {
		cancel()
		running.Wait()
	}
}

// repeat calls do at once, and then at every interval until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// storeTokens stores the token totals of the agent's threads, and computes how many tokens
// this run used: the totals of a resumed thread include earlier runs. It reads the totals
// itself: if two calls come at once, the later call stores the newer totals.
func (r *record) storeTokens(ctx context.Context, session agent.Session) {
	warn(r.Log, "tokens not stored", r.saveTotals(ctx, session))
}

func (r *record) saveTotals(ctx context.Context, session agent.Session) error {
	r.count.Lock()
	defer r.count.Unlock()
	ctx = context.WithoutCancel(ctx)
	run := r.get()
	byThread := session.UsageByThread()
	if len(byThread) == 0 || r.Journal == nil { // an inspection stores nothing
		return nil
	}
	r.unstored[session] = struct{}{}
	for id, u := range byThread {
		base, known := r.base[id]
		if !known {
			before, _, err := r.Journal.Thread(ctx, id)
			if err != nil {
				// stored now, the total would hide the use of earlier runs
				return err
			}
			base = before
			r.base[id] = before
		}
		total := reconcile.Tokens{
			Input:     u.Input,
			Cached:    u.CachedInput,
			Output:    u.Output,
			Reasoning: u.Reasoning,
			Total:     u.Total,
			Paid:      u.Paid,
		}
		thread := reconcile.Thread{ID: id, WorkspaceID: run.WorkspaceID}
		err := r.Journal.SaveThread(ctx, run.ID, run.IssueID, thread, total, r.Now())
		if err != nil {
			// the run must not count them either, because the next run on the thread will
			return err
		}
		r.used[id] = total.Since(base)
	}
	var sum reconcile.Tokens
	for _, used := range r.used {
		sum = sum.Plus(used)
	}
	delete(r.unstored, session)
	r.change(func(run *reconcile.Run) { run.Tokens = sum })
	r.checkBudget(ctx)
	return nil
}

// retryTokens stores the totals that could not be stored before, for instance because the disk
// was full.
func (r *record) retryTokens(ctx context.Context) error {
	r.count.Lock()
	sessions := slices.Collect(maps.Keys(r.unstored))
	r.count.Unlock()
	var errs []error
	for _, session := range sessions {
		errs = append(errs, r.saveTotals(ctx, session))
	}
	return errors.Join(errs...)
}

// overBudgetGrace is how long a turn may go on after the issue used up agent.max_tokens: the
// tokens of a model call may be reported just before the turn ends, and a completed turn should
// not count as canceled.
const overBudgetGrace = 500 * time.Millisecond

// checkBudget ends the run, even during a turn, when its issue used up agent.max_tokens.
// Tokens of earlier runs count, except tokens before an operator's retry. The next pass then
// holds the issue.
func (r *record) checkBudget(ctx context.Context) {
	limit := r.Here.Config.Policy.MaxTokens
	if limit <= 0 {
		return
	}
	used, err := r.Journal.IssueTokens(ctx, r.get().IssueID)
	if err != nil {
		warn(r.Log, "tokens of the issue not read", err) // the next count checks again
		return
	}
	if used < limit || !r.overBudget.CompareAndSwap(false, true) {
		return
	}
	message := fmt.Sprintf("%d tokens used, agent.max_tokens is %d", used, limit)
	time.AfterFunc(overBudgetGrace, func() {
		r.cancel(runEnd{reconcile.Canceled, reconcile.CodeMaxTokens, message})
	})
}

// How long and how often to try to store an outcome: a full disk or a locked database must not
// lose the result of a run.
const (
	concludePatience = 10 * time.Minute
	concludePause    = 2 * time.Second
)

// finish stores the tokens that could not be stored before, and then the outcome.
func (r *record) finish(ctx context.Context) error {
	if err := r.retryTokens(ctx); err != nil {
		return err
	}
	return r.Journal.Finish(ctx, r.Now(), r.get())
}

// conclude stores the outcome of the run. If that fails, it tries again for concludePatience,
// and the run stays the worker's meanwhile. It gives up at once if the run is no longer the
// worker's, if the database was replaced by another, or if the database is missing or damaged
// and the worker was told to end.
func (r *record) conclude(run context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(run), concludePatience)
	defer cancel()
	var last error
	for {
		err := r.finish(ctx)
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return err
		}
		if ctx.Err() != nil && last != nil {
			err = last // err only means that the time is up
		}
		code, _ := codeOf(err)
		terminated := errors.Is(context.Cause(run), errTerminated)
		if ctx.Err() != nil || code == "state_replaced" ||
			terminated && code == "state_corrupt" {
			// the time is up, or the database needs manual repair
			return fmt.Errorf("outcome of %s: %w", r.get().ID, err)
		}
		last = err
		r.Log.Error("outcome not stored, retrying", "error", err)
		select {
		case <-time.After(concludePause):
		case <-ctx.Done():
		}
	}
}
