package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner"
)

// examine puts all questions at once, so that one that hangs holds up no other, and prints the answers in their order.
func (d *doctor) examine(ctx context.Context) error {
	for _, at := range []*place{d.called, d.schedule} {
		at.agent = sync.OnceValues(func() (*runner.Inspection, error) { return at.startAgent(ctx) })
		at.tracker = sync.OnceValue(func() *trackerAnswer { return at.askTracker(ctx) })
	}
	all := checks()
	answers := make([]chan diagnosis, len(all))
	for i, c := range all {
		answers[i] = make(chan diagnosis, 1)
		go func() { answers[i] <- d.put(ctx, c) }()
	}
	var report report
	for i := range all {
		a := <-answers[i]
		report.add(a)
		if !d.w.JSON && ctx.Err() == nil {
			d.print(a)
		}
	}
	report.add(d.close())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.w.JSON {
		d.w.PrintJSON(report.findings)
	}
	return report.code()
}

// put asks one question at the places that it is meant for.
func (d *doctor) put(ctx context.Context, c check) diagnosis {
	a := diagnosis{name: c.name}
	if !c.twice {
		a.called = d.ask(ctx, c, d.called)
		return a
	}
	there := make(chan []finding, 1)
	go func() { there <- d.ask(ctx, c, d.schedule) }()
	a.called = d.ask(ctx, c, d.called)
	a.schedule = <-there
	a.distrust(c.differs)
	return a
}

// ask waits for a check no longer than its bound, whatever it does.
func (d *doctor) ask(ctx context.Context, c check, at *place) []finding {
	if c.config && at.cfg == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.bound)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.run(bounded, at) }()
	var found []finding
	select {
	case found = <-done:
	case <-time.After(c.bound + d.patience):
		found = []finding{bad("no answer within "+c.bound.String(), "something that it looks at hangs: a disk, a mount, a program in the login profile")}
	}
	for i := range found {
		found[i].Check, found[i].As = c.name, at.as
		found[i].Message, found[i].Hint = d.clean(found[i].Message), d.clean(found[i].Hint)
	}
	return found
}

// close ends what was started for the checks.
func (d *doctor) close() diagnosis {
	a := diagnosis{name: "tidying up"}
	for _, at := range []*place{d.called, d.schedule} {
		if err := at.close(); err != nil {
			f := wary("of what was started for codex's checks something is left: "+err.Error(), "look at what is named")
			f.Check, f.As = a.name, at.as
			a.called = append(a.called, f)
		}
	}
	if len(a.called) > 0 && !d.w.JSON {
		d.print(a)
	}
	return a
}

// sorted gives the elements in a fixed order, each once.
func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
