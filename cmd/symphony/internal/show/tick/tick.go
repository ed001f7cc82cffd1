// Package tick is the command tick: a single pass or, with --loop, pass after pass, and the
// output about them.
package tick

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Options are the flags of tick. With Loop set they are for Loop, otherwise for Tick.
type Options struct {
	pass.Options
	Loop       bool
	StopOnExit bool
	JSON       bool
	Quiet      bool
	Wait       bool
	// LogLevel and LogFormat are empty unless a log was asked for.
	LogLevel  string
	LogFormat string
	// Beside runs beside the passes of a loop, from their beginning until ctx ends; nil for
	// nothing.
	Beside func(ctx context.Context)
	// printed remembers the messages that a loop printed; nil without a loop.
	printed *printed
}

// Check refuses flags that contradict each other.
func (o *Options) Check(triggerSet bool) error {
	triggers := []string{
		wiring.TriggerCron,
		wiring.TriggerTimer,
		wiring.TriggerManual,
		wiring.TriggerWorker,
		wiring.TriggerCommand,
	}
	for _, flag := range []struct {
		name    string
		value   string
		allowed []string
	}{
		{"trigger", o.Trigger, triggers},
		{"log-level", o.LogLevel, []string{"debug", "info", "warn", "error", ""}},
		{"log-format", o.LogFormat, []string{term.TextLog, term.JSONLog, ""}},
	} {
		if !slices.Contains(flag.allowed, flag.value) {
			allowed := strings.TrimSuffix(strings.Join(flag.allowed, ", "), ", ")
			return exit.Usage("tick: --%s must be one of %s, not %q", flag.name, allowed, flag.value)
		}
	}
	switch {
	case o.Loop && (o.DryRun || o.Wait):
		return exit.Usage("tick: --loop cannot be combined with --dry-run or --wait")
	case o.Loop && triggerSet:
		return exit.Usage("tick: --loop and --trigger cannot be combined: a loop has its own trigger")
	case o.StopOnExit && !o.Loop:
		return exit.Usage("tick: --stop-on-exit works only with --loop")
	case o.LockTimeout < 0:
		return exit.Usage("tick: --lock-timeout must not be negative")
	}
	if o.Loop {
		o.Trigger = wiring.TriggerLoop
	}
	return nil
}

func (o Options) wantsLog() bool { return o.LogLevel != "" || o.LogFormat != "" }

// logger returns the log of a pass.
func (o Options) logger(w *term.Env) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.LogLevel != "":
		_ = level.UnmarshalText([]byte(o.LogLevel)) // Check refuses other names
	case o.wantsLog() || o.Loop && !o.JSON && !o.Quiet:
		level = slog.LevelInfo
	case o.Quiet:
		// reportQuiet reports errors when they change; no pass logs them
		level = slog.LevelError + 1
	}
	return w.NewLog(level, o.LogFormat)
}

// Tick runs a single pass.
func Tick(ctx context.Context, w *term.Env, p *wiring.Project, o Options) error {
	if o.wantsLog() {
		w.Log = o.logger(w) // the log replaces the lines on stderr
	}
	o.Stays = o.Wait
	r, err := pass.Run(ctx, p, o.Options)
	if err != nil {
		if o.Trigger == wiring.TriggerWorker {
			return err
		}
		return quietError(ctx, w, p, o, err)
	}
	if r.Holder != nil && o.LockTimeout > 0 {
		if o.Quiet {
			return exit.Only(exit.Lock) // that another pass holds the lock is not worth a mail
		}
		locked := wiring.LockedError(r.Holder)
		locked.Hint += ", or with a longer --lock-timeout"
		return locked
	}
	if o.Trigger == wiring.TriggerWorker {
		// its output is discarded; its errors are in the row of the pass
		return followUp(ctx, p, o, r)
	}
	report(ctx, w, p, o, r)
	if o.Wait && !o.DryRun {
		failed, err := waitForRuns(ctx, w, p, r, o)
		if err != nil {
			return err
		}
		if failed {
			return exit.Only(exit.Failed)
		}
	}
	return r.ExitCode()
}

// followUpWait is how long the pass that a worker starts waits for a retry that is due soon. A
// continuation is due 1 s after the end of the run.
const followUpWait = 3 * time.Second

// followUp runs a second pass for a continuation that is due soon, so that it need not wait
// for the schedule.
func followUp(ctx context.Context, p *wiring.Project, o Options, r pass.Result) error {
	wait := r.NextWake.Sub(p.Env.Now())
	if r.NextWake.IsZero() || wait > followUpWait {
		return r.ExitCode()
	}
	if !wiring.Sleep(ctx, max(wait, 0)) {
		return nil
	}
	r, err := pass.Run(ctx, wiring.NewProject(p.Env, p.Path, p.StateDir), o.Options)
	if err != nil {
		return err
	}
	return r.ExitCode()
}

// waitForRuns waits until every run that this pass started ended, and prints how.
func waitForRuns(
	ctx context.Context,
	w *term.Env,
	p *wiring.Project,
	r pass.Result,
	o Options,
) (failed bool, err error) {
	for _, a := range r.Applied {
		starts := a.Kind == reconcile.ActDispatch || a.Kind == reconcile.ActDeliver
		if !starts || a.Err != nil {
			continue
		}
		run, err := pass.WaitForRun(ctx, p, a.RunID)
		if err != nil {
			return false, err
		}
		if !o.JSON && !o.Quiet { // with --json the pass's object is the whole output
			render.RunEnd(w, p, run)
		}
		failed = failed || !run.Outcome.IsRegular() || run.Delivery.Code != ""
	}
	return failed, nil
}

// report prints a pass as lines or as a JSON object. With --quiet it prints the errors if they
// changed.
func report(ctx context.Context, w *term.Env, p *wiring.Project, o Options, r pass.Result) {
	if w.Log != nil {
		render.PassLog(ctx, w.Log, r)
	}
	switch {
	case o.Quiet:
		if r.Holder == nil {
			reportQuiet(ctx, w, p, o, r)
		}
	case o.JSON:
		w.PrintJSON(r.JSON())
		for _, e := range o.printed.newErrors(w, r.Errors, r.Obstacle) {
			w.PrintError(e)
		}
	case r.Holder != nil:
		render.Pass(w, r, nil, nil)
	default:
		render.Pass(w, r, o.printed.newWarnings(r.Warnings), o.printed.newErrors(w, r.Errors, r.Obstacle))
		if !w.Verbose {
			render.Sentences(w, o.printed.newSentences(r, w.Now()))
		}
	}
}

// quietReport are the errors that the last pass with --quiet printed.
type quietReport struct {
	Codes []string  `json:"codes"`
	At    time.Time `json:"at"`
}

const (
	quietReportKey   = "quiet_errors"
	quietRepeatAfter = time.Hour
)

// reportQuiet prints errors if the last pass had others by their codes, repeats them every hour
// while they stay the same, and prints a line when they are over. Cron mails every line that it
// gets. The database records the printed errors; a loop remembers them itself, and repeats none.
func reportQuiet(ctx context.Context, w *term.Env, p *wiring.Project, o Options, r pass.Result) {
	if o.printed != nil {
		for _, e := range o.printed.newErrors(w, r.Errors, r.Obstacle) {
			w.PrintError(e)
		}
		return
	}
	codes := text.Map(r.Errors, func(e *reconcile.Error) string { return e.Code })
	slices.Sort(codes)
	now := quietReport{At: w.Now(), Codes: slices.Compact(codes)}
	var last quietReport
	db, err := state.Open(ctx, p.StateDir)
	if err == nil { // otherwise the pass has already said why there is none
		defer db.Close()
		stored, _, _ := db.Meta(ctx, quietReportKey)
		_ = json.Unmarshal([]byte(stored), &last) // an unreadable report counts as none
	}
	if !now.isDue(last) {
		return
	}
	for _, e := range r.Errors {
		w.PrintError(e)
	}
	if len(r.Errors) == 0 {
		w.Note(slog.LevelInfo, "over: "+strings.Join(last.Codes, ", "))
	}
	if db == nil {
		return
	}
	if err := db.SetMeta(ctx, quietReportKey, string(text.JSON(now))); err != nil {
		w.PrintError(exit.From(err))
	}
}

// isDue reports whether a pass prints its report after the last printed report.
func (r quietReport) isDue(last quietReport) bool {
	if !slices.Equal(r.Codes, last.Codes) {
		return true
	}
	return len(r.Codes) > 0 && r.At.Sub(last.At).Abs() >= quietRepeatAfter
}

// quietError returns the error that prevented a pass. With --quiet it prints the error if it
// is new and returns the bare exit code. A loop gets that also for an error that it printed
// before.
func quietError(ctx context.Context, w *term.Env, p *wiring.Project, o Options, err error) error {
	known := exit.From(err)
	if o.Quiet && p.HasState() {
		reportQuiet(ctx, w, p, o, pass.Result{Report: reconcile.Report{Errors: []*reconcile.Error{known}}})
		return exit.Only(exit.Code(known))
	}
	if len(o.printed.newErrors(w, []*reconcile.Error{known}, nil)) > 0 {
		return err
	}
	return exit.Only(exit.Code(known))
}
