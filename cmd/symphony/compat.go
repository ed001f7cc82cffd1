package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/codex/compat"
	"github.com/symphony-cron/symphony/state"
)

// fitness finds out for a pass whether the installed codex understands what workers say to it, and takes the values
// that the workflow passes through to it.
type fitness struct {
	p      *project.Project
	db     *state.DB // nil where a dry run finds none
	cfg    *workflow.Config
	dryRun bool
	r      *passResult
}

// keptReport is a report as it is kept.
type keptReport struct {
	compat.Report
	AskedAt time.Time `json:"asked_at"`
}

// lateFor is how long one counts that came to nothing because codex did not answer in time.
const lateFor = time.Hour

// current reports whether the report holds for the workflow.
func (v keptReport) current(cfg *workflow.Config, now time.Time) bool {
	return v.Current(cfg.Codex.Command, cfg.Codex.Home) && (!v.Late || now.Sub(v.AskedAt).Abs() < lateFor)
}

// look implements reconcile.Deps.Agent.
func (f fitness) look(ctx context.Context) reconcile.Fit {
	report, changed, err := f.report(ctx)
	if err != nil {
		return reconcile.Fit{Err: err}
	}
	if err := runner.CodexFits(report); err != nil {
		return reconcile.Fit{Err: err, Changed: changed}
	}
	errs, warnings := wrongValues(f.cfg, report)
	for _, w := range warnings {
		f.r.warn(w)
	}
	if len(errs) == 0 {
		return reconcile.Fit{Changed: changed}
	}
	f.r.Errors = append(f.r.Errors, errs[1:]...)
	return reconcile.Fit{Err: errs[0], Changed: changed}
}

// report is what is known of the present codex; where nothing is, it is asked. That costs a few tenths of a second, and
// is done once for each codex.
func (f fitness) report(ctx context.Context) (report compat.Report, changed bool, err error) {
	kept, ok, err := f.kept(ctx, runner.MetaCodex)
	if err != nil {
		return report, false, err
	}
	current := ok && kept.current(f.cfg, f.p.Env.Now())
	if current && !f.dryRun {
		changed, err = f.changedForRuns(ctx)
	}
	switch {
	case current && !changed || err != nil:
		return kept.Report, false, err
	case f.dryRun:
		f.r.warn("codex is not asked by a dry run: whether it understands what this version of symphony says to it is seen by the pass itself")
		return report, false, nil
	}
	report, err = project.RunnerConfig(f.cfg).CheckCodex(ctx, f.p.Environ(), filepath.Join(f.p.StateDir, "codex-check"))
	if err != nil || report.Absent { // the run will say so
		return report, true, err
	}
	for _, w := range report.Warning() {
		f.r.warn(w)
	}
	text, err := json.Marshal(keptReport{report, f.p.Env.Now()})
	if err != nil {
		return report, true, err
	}
	crash.At("compat.verdict.before")
	err = f.db.SetMeta(ctx, runner.MetaCodex, string(text))
	crash.At("compat.verdict.kept")
	return report, true, err
}

// changedForRuns reports whether the codex of which a run has found that it is another one is no longer that. What the
// run has found is forgotten then.
func (f fitness) changedForRuns(ctx context.Context) (bool, error) {
	kept, ok, err := f.kept(ctx, runner.MetaCodexOfRuns)
	if err != nil || !ok || kept.Command == "" || kept.Current(f.cfg.Codex.Command, f.cfg.Codex.Home) {
		return false, err
	}
	return true, f.db.SetMeta(ctx, runner.MetaCodexOfRuns, "{}")
}

// kept reads a report; one that can't be read is as good as none.
func (f fitness) kept(ctx context.Context, key string) (v keptReport, ok bool, err error) {
	if f.db == nil {
		return v, false, nil
	}
	text, known, err := f.db.Meta(ctx, key)
	if err != nil || !known {
		return v, false, err
	}
	return v, json.Unmarshal([]byte(text), &v) == nil, nil
}

// wrongValues are the values of the workflow that the reported codex does not take, and warnings about what it overlooks.
func wrongValues(cfg *workflow.Config, report compat.Report) (errs []*reconcile.Error, warnings []string) {
	for _, w := range report.Wrong(project.RunnerConfig(cfg).CodexValues()) {
		e := cfg.Fault(w.Key, w.Message, "correct it there; symphony doctor tells what the installed codex allows")
		if w.Ignored {
			warnings = append(warnings, e.Message)
			continue
		}
		errs = append(errs, e)
	}
	return errs, warnings
}
