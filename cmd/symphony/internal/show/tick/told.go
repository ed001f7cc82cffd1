package tick

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// told is what a loop has printed about things that last: it prints only what has changed. It is nil without a loop.
type told struct {
	outlook  []string // the sentences about waiting issues, without times
	warnings []string
	faults   map[string]fault // by code, and by message unless they are faults of a tracker or the machine
}

// fault is an error that consecutive passes have reported.
type fault struct {
	code   string
	since  time.Time
	passes int
}

// news returns the errors of a pass that are not told yet, and tells which are over.
func (t *told) news(w *term.Env, errs []*reconcile.Error, o *reconcile.Obstacle) (list []*reconcile.Error) {
	if t == nil {
		return errs
	}
	now := map[string]fault{}
	for _, e := range errs {
		key := e.Code
		if class := reconcile.ClassOf(e); class != reconcile.ClassTracker && class != reconcile.ClassMachine {
			key += ": " + e.Message
		}
		f, known := t.faults[key]
		if !known {
			f = fault{code: e.Code, since: w.Now()}
			list = append(list, e)
		}
		f.passes++
		now[key] = f
	}
	for _, key := range slices.Sorted(maps.Keys(t.faults)) {
		f := t.faults[key]
		same := func(other fault) bool { return other.code == f.code }
		switch _, lasts := now[key]; {
		case lasts:
		case o != nil && o.Reason == f.code: // this pass has not tried
			now[key] = f
		case !slices.ContainsFunc(slices.Collect(maps.Values(now)), same):
			w.Note(slog.LevelInfo, fmt.Sprintf("over: %s, after %s; failed passes: %d", f.code, text.Duration(w.Now().Sub(f.since)), f.passes))
		}
	}
	t.faults = now
	return list
}

// newWarnings returns the warnings about the workflow if they have changed.
func (t *told) newWarnings(warnings []string) []string {
	if t == nil {
		return warnings
	}
	same := slices.Equal(t.warnings, warnings)
	if t.warnings = warnings; same {
		return nil
	}
	return warnings
}

// changed returns the sentences about waiting issues that are not told yet. A sentence whose times alone have changed is.
func (t *told) changed(r pass.Result, at time.Time) (list []string) {
	all := r.Outlook(at)
	if t == nil {
		return all
	}
	r.NextDue = time.Time{}
	if r.Obstacle != nil {
		r.Obstacle = &reconcile.Obstacle{Reason: r.Obstacle.Reason, Message: r.Obstacle.Message, Tester: r.Obstacle.Tester}
	}
	timeless := r.Outlook(at)
	for i, sentence := range timeless {
		if !slices.Contains(t.outlook, sentence) {
			list = append(list, all[i])
		}
	}
	t.outlook = timeless
	return list
}
