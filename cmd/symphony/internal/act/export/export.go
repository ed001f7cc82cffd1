// Package export sends finished runs to OpenTelemetry, as traces in the JSON of its protocol
// OTLP.
package export

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

// Options choose the runs to export, how much of them, and where to.
type Options struct {
	To      string    // a file, "-" for Out, or the URL of a collector
	Out     io.Writer // the standard output
	Since   time.Time // runs that ended at this time or later
	Content bool      // also prompts, messages, commands and their output
}

// Result counts the exported runs and spans.
type Result struct {
	Runs, Spans int
	To          string // the file, or the host of the collector
}

// Runs exports runs. Repeated exports of a run use the same ids.
func Runs(ctx context.Context, p *wiring.Project, o Options) (Result, error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return Result{}, err
	}
	defer db.Close()
	t := trace{
		project:  p.Name(),
		machine:  wiring.MachineName(p),
		content:  o.Content,
		redactor: agent.NewRedactor(nil),
	}
	if cfg, invalid := p.ConfigWithoutKey(); invalid == nil {
		t.prices = cfg.Agent.Prices
		t.redactor.Add(wiring.Secrets(p, cfg))
	}
	ids, err := db.Runs.EndedIDs(ctx, o.Since)
	if err != nil {
		return Result{}, err
	}
	to, err := openSink(p, o, t.redactor)
	if err != nil {
		return Result{}, err
	}
	r := Result{To: to.name()}
	err = r.addRuns(ctx, db, p.StateDir, ids, t, to)
	closeErr := to.close()
	if err != nil {
		return r, err
	}
	return r, closeErr
}

// addRuns exports runs, each as t describes it, and counts them.
func (r *Result) addRuns(
	ctx context.Context,
	db *state.DB,
	stateDir string,
	ids []string,
	t trace,
	to sink,
) error {
	most := 500 // spans of a message, because a collector reads lines of a file up to 1 MiB
	if t.content {
		most = 8 // of up to 100 kB each
	}
	for _, id := range ids {
		run, err := db.Runs.Find(ctx, id)
		if errors.Is(err, state.ErrNotFound) { // it was pruned meanwhile
			continue
		}
		if err != nil {
			return err
		}
		one := t
		one.run = run
		if err := one.export(ctx, stateDir, to, most); err != nil {
			return err
		}
		r.Runs++
		r.Spans += len(one.spans)
	}
	return nil
}

// export reads the spans of the run and sends them, at most so many in a message.
func (t *trace) export(ctx context.Context, stateDir string, to sink, most int) error {
	if err := t.read(stateDir); err != nil {
		return err
	}
	for spans := range slices.Chunk(t.spans, most) {
		if err := to.send(ctx, t.encode(spans)); err != nil {
			return err
		}
	}
	return nil
}

// encode returns spans as a request of OTLP.
func (t *trace) encode(spans []*span) []byte {
	about := attributes("service.name", "symphony", "service.version", wiring.Version(), "host.name", t.machine)
	return text.JSON(object{"resourceSpans": []any{object{
		"resource":  object{"attributes": about},
		"schemaUrl": schema,
		"scopeSpans": []any{object{
			"scope":     object{"name": "symphony"},
			"schemaUrl": schema,
			"spans":     spans,
		}},
	}}})
}

func failed(message, hint string) error { return reconcile.NewError("export_failed", message, hint) }
