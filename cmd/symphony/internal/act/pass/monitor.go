package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/monitor"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

// passMonitor reports a pass to people and programs that watch that passes run. A failure to
// do so is a warning, and never changes the pass.
type passMonitor struct {
	p    *wiring.Project
	o    Options
	cfg  *workflow.Config // nil if the workflow is invalid
	ping *monitor.Ping
	// onlyFailure is set if a loop reported a success just before, so that this pass is
	// reported only if it fails.
	onlyFailure bool
	// reported are the keys whose fault an earlier pass reported; reportedRead is whether they
	// could be read.
	reported     string
	reportedRead bool
}

// scheduled reports whether a schedule runs the pass. Only such passes send pings: pings of
// workers' passes would hide that the schedule ended.
func (m *passMonitor) scheduled() bool {
	return slices.Contains(
		[]string{wiring.TriggerCron, wiring.TriggerTimer, wiring.TriggerLoop},
		m.o.Trigger,
	)
}

// reportPause is how long a loop reports no further success: healthchecks.io takes about ten
// requests a minute.
const reportPause = 15 * time.Second

// begin tells the check that the pass holds the lock.
func (m *passMonitor) begin(cfg *workflow.Config) {
	last := m.o.Reported
	m.onlyFailure = last != nil && !last.IsZero() && m.p.Env.Now().Sub(*last) < reportPause
	m.cfg = cfg
	if cfg != nil && m.scheduled() && !m.onlyFailure {
		m.ping = monitor.Start(cfg.Monitor.PingURL)
	}
}

// reportedKey names the keys in the database whose fault was reported, so that each is
// reported once.
const reportedKey = "monitor_faults"

// readReported reads the faults that earlier passes reported.
func (m *passMonitor) readReported(ctx context.Context, db *state.DB, cfg *workflow.Config) {
	if cfg == nil || !m.scheduled() || cfg.Monitor == (workflow.Monitor{}) {
		return
	}
	reported, _, err := db.Meta(ctx, reportedKey)
	if err == nil {
		m.reported = reported
		m.reportedRead = true
	}
}

// end tells the check how the pass ended. It is called without the
// lock, so that a slow check delays no other pass.
func (m *passMonitor) end(ctx context.Context, r Result, err error) {
	if ctx.Err() != nil { // a signal is no failure of the pass
		r.Errors = slices.DeleteFunc(
			slices.Clone(r.Errors),
			func(e *reconcile.Error) bool { return e.Code == "canceled" },
		)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	ctx = context.WithoutCancel(ctx)
	cfg := cmp.Or(r.Config, m.cfg)
	if r.Holder != nil || r.DryRun || cfg == nil {
		return
	}
	faults := map[string]string{}
	if !m.scheduled() {
		return
	}
	failed := err != nil || r.ExitCode() != nil
	// if the workflow is invalid, cfg is the last valid configuration
	if m.ping == nil && (failed || !m.onlyFailure) {
		m.ping = monitor.Start(cfg.Monitor.PingURL)
	}
	switch {
	case m.ping != nil:
		pingErr := m.ping.End(failed, m.summary(cfg, r, err))
		if pingErr != nil {
			faults["monitor.ping_url"] = pingErr.Error()
		}
		if m.o.Reported != nil {
			*m.o.Reported = time.Time{}
			if pingErr == nil && !failed {
				*m.o.Reported = m.p.Env.Now()
			}
		}
	case cfg.Monitor.PingURL == "" && cfg.Monitor.PingVar != "":
		faults["monitor.ping_url"] = "the environment variable " + cfg.Monitor.PingVar + " is not set, or empty"
	}
	m.reportFaults(ctx, faults)
}

// reportFaults reports the faults that earlier passes have not.
func (m *passMonitor) reportFaults(ctx context.Context, faults map[string]string) {
	keys := slices.Sorted(maps.Keys(faults))
	now := strings.Join(keys, " ")
	if now == m.reported || !m.reportedRead {
		return
	}
	reported := strings.Fields(m.reported)
	for _, key := range keys {
		if !slices.Contains(reported, key) {
			m.p.Env.Warn(key + ": " + faults[key] + " (passes continue; this is reported once)")
		}
	}
	db, err := state.Open(ctx, m.p.StateDir)
	if err != nil {
		return // the next pass reports it again
	}
	defer db.Close()
	_ = db.SetMeta(ctx, reportedKey, now) // likewise
}

// summary is the text about the pass that the check stores, without secrets: the counts, and
// the errors.
func (m *passMonitor) summary(cfg *workflow.Config, r Result, err error) string {
	lines := []string{fmt.Sprintf("%s, by %s: %s", m.p.Path, m.o.Trigger, r.Summary(m.p.Env.Now()))}
	if err != nil {
		lines = []string{m.p.Path + ": " + exit.From(err).Error()}
	}
	lines = append(lines, text.Map(r.Errors, (*reconcile.Error).Error)...)
	secrets := append(agent.EnvSecrets(m.p.Environ()), wiring.Secrets(m.p, cfg)...)
	return agent.NewRedactor(secrets).Text(strings.Join(lines, "\n") + "\n")
}
