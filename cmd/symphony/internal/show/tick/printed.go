package tick

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/reconcile"
)

// printed remembers the messages of a loop about lasting conditions, to print only changes. It
// is nil without a loop.
type printed struct {
	outlook  []string // the sentences about waiting issues, without times
	warnings []string
	// faults are the codes of the last pass's errors, by code and, unless they are faults of a
	// tracker or the machine, by message.
	faults map[string]string
}

// newErrors returns the errors of a pass that are not printed yet, and prints which earlier
// ones are over.
func (p *printed) newErrors(
	w *term.Env,
	errs []*reconcile.Error,
	o *reconcile.Obstacle,
) []*reconcile.Error {
	if p == nil {
		return errs
	}
	var list []*reconcile.Error
	now := map[string]string{}
	for _, e := range errs {
		key := e.Code
		class := reconcile.ClassOf(e)
		if class != reconcile.ClassTracker && class != reconcile.ClassMachine {
			key += ": " + e.Message
		}
		if p.faults[key] == "" {
			list = append(list, e)
		}
		now[key] = e.Code
	}
	for _, key := range slices.Sorted(maps.Keys(p.faults)) {
		if _, lasts := now[key]; lasts {
			continue
		}
		code := p.faults[key]
		if o != nil && o.Reason == code { // this pass did not try
			now[key] = code
			continue
		}
		if !slices.Contains(slices.Collect(maps.Values(now)), code) {
			w.Note(slog.LevelInfo, "over: "+code)
		}
	}
	p.faults = now
	return list
}

// newWarnings returns the warnings about the workflow if they have changed.
func (p *printed) newWarnings(warnings []string) []string {
	if p == nil {
		return warnings
	}
	isSame := slices.Equal(p.warnings, warnings)
	p.warnings = warnings
	if isSame {
		return nil
	}
	return warnings
}

// newSentences returns the sentences about waiting issues that are not printed yet. A sentence
// that differs only in its times counts as printed.
func (p *printed) newSentences(r pass.Result, at time.Time) []string {
	all := r.Outlook(at)
	if p == nil {
		return all
	}
	r.NextDue = time.Time{}
	if r.Obstacle != nil {
		r.Obstacle = &reconcile.Obstacle{
			Reason:  r.Obstacle.Reason,
			Message: r.Obstacle.Message,
			Tester:  r.Obstacle.Tester,
		}
	}
	timeless := r.Outlook(at)
	var list []string
	for i, sentence := range timeless {
		if !slices.Contains(p.outlook, sentence) {
			list = append(list, all[i])
		}
	}
	p.outlook = timeless
	return list
}
