package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// passMonitor reports the end of a pass to a check that watches that passes run. A failure to do
// so is a warning, and never changes the pass.
type passMonitor struct {
	p   *wiring.Project
	o   Options
	cfg *workflow.Config // nil if the workflow is invalid
	// reported is set if an earlier pass reported the present fault, read if that is known.
	reported, read bool
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

// reportedKey is set in the database while monitor.ping_url has a fault, which is reported once.
const reportedKey = "monitor_faults"

// readReported reads whether an earlier pass reported a fault.
func (m *passMonitor) readReported(ctx context.Context, db *state.DB, cfg *workflow.Config) {
	if cfg == nil || !m.scheduled() || cfg.Monitor == (workflow.Monitor{}) {
		return
	}
	reported, _, err := db.Meta(ctx, reportedKey)
	m.reported = reported != ""
	m.read = err == nil
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
	cfg := cmp.Or(r.Config, m.cfg) // if the workflow is invalid, the last valid configuration
	if r.Holder != nil || r.DryRun || cfg == nil || !m.scheduled() {
		return
	}
	failed := err != nil || r.ExitCode() != nil
	last := m.o.Reported
	isRecent := last != nil && !last.IsZero() && m.p.Env.Now().Sub(*last) < reportPause
	if isRecent && !failed {
		return
	}
	fault := ""
	switch {
	case cfg.Monitor.PingURL != "":
		pingErr := monitor.Report(cfg.Monitor.PingURL, failed, m.summary(cfg, r, err))
		if pingErr != nil {
			fault = pingErr.Error()
		}
		if last != nil {
			*last = time.Time{}
			if pingErr == nil && !failed {
				*last = m.p.Env.Now()
			}
		}
	case cfg.Monitor.PingVar != "":
		fault = "the environment variable " + cfg.Monitor.PingVar + " is not set, or empty"
	}
	m.reportFault(ctx, fault)
}

// reportFault reports a fault of monitor.ping_url, unless an earlier pass has. It is empty if there
// is none.
func (m *passMonitor) reportFault(ctx context.Context, fault string) {
	if m.reported == (fault != "") || !m.read {
		return
	}
	stored := ""
	if fault != "" {
		m.p.Env.Warn("monitor.ping_url: " + fault + " (passes continue; this is reported once)")
		stored = "reported"
	}
	db, err := state.Open(ctx, m.p.StateDir)
	if err != nil {
		return // the next pass reports it again
	}
	defer db.Close()
	_ = db.SetMeta(ctx, reportedKey, stored) // likewise
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
