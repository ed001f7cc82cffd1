package pass

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// TickOptions are the flags of tick. With Loop they are those of Loop, otherwise those of Tick.
type TickOptions struct {
	Options
	Loop, StopOnExit, JSON, Quiet, Wait bool
	// Ended is called with each run that has ended, where the command waits for them.
	Ended func(*project.Project, reconcile.Run)
	// LogLevel and LogFormat are empty unless a log was asked for.
	LogLevel, LogFormat string
	// Beside runs beside the passes of a loop, from their beginning until ctx ends; nil for nothing.
	Beside func(ctx context.Context)
	// told is what a loop has printed; nil without a loop.
	told *told
}

// Check refuses flags that contradict each other.
func (o *TickOptions) Check(triggerSet bool) error {
	for _, flag := range []struct {
		name, value string
		allowed     []string
	}{
		{"trigger", o.Trigger, []string{project.TriggerCron, project.TriggerTimer, project.TriggerManual, project.TriggerWorker, project.TriggerCommand}},
		{"log-level", o.LogLevel, []string{"debug", "info", "warn", "error", ""}},
		{"log-format", o.LogFormat, []string{term.TextLog, term.JSONLog, ""}},
	} {
		if !slices.Contains(flag.allowed, flag.value) {
			return exit.Usage("tick: --%s must be one of %s, not %q", flag.name, strings.TrimSuffix(strings.Join(flag.allowed, ", "), ", "), flag.value)
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
		o.Trigger = project.TriggerLoop
	}
	return nil
}

func (o TickOptions) wantsLog() bool { return o.LogLevel != "" || o.LogFormat != "" }

// logger returns the log of a pass.
func (o TickOptions) logger(w *term.Env) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case o.LogLevel != "":
		_ = level.UnmarshalText([]byte(o.LogLevel)) // Check refuses other names
	case o.wantsLog() || o.Loop && !o.JSON && !o.Quiet:
		level = slog.LevelInfo
	case o.Quiet:
		level = slog.LevelError + 1 // reportQuiet reports errors when they change; no pass logs them
	}
	return w.NewLog(level, o.LogFormat)
}

// Tick runs one pass.
func Tick(ctx context.Context, p *project.Project, o TickOptions) error {
	if o.wantsLog() {
		p.Env.Log = o.logger(p.Env) // the log replaces the lines on stderr
	}
	o.Stays = o.Wait
	r, err := Run(ctx, p, o.Options)
	switch {
	case err != nil && o.Trigger == project.TriggerWorker:
		return err
	case err != nil:
		return quietError(ctx, p, o, err)
	case r.Holder != nil && o.LockTimeout > 0 && o.Quiet:
		return exit.Only(exit.Lock) // that another pass holds the lock is not worth a mail
	case r.Holder != nil && o.LockTimeout > 0:
		locked := project.LockedError(r.Holder)
		locked.Hint += ", or with a longer --lock-timeout"
		return locked
	case o.Trigger == project.TriggerWorker:
		return followUp(ctx, p, o, r) // its output is discarded; its errors are in the row of the pass
	}
	report(ctx, p, o, r)
	if o.Wait && !o.DryRun {
		failed, err := waitForRuns(ctx, p, r, o)
		if err != nil {
			return err
		}
		if failed {
			return exit.Only(exit.Failed)
		}
	}
	return r.ExitCode()
}

// followUpWait is how long the pass that a worker starts waits for a retry that is due soon. A continuation is due one second
// after the end of the run.
const followUpWait = 3 * time.Second

// followUp runs a second pass for a continuation that is due soon, so that it need not wait for the schedule.
func followUp(ctx context.Context, p *project.Project, o TickOptions, r Result) error {
	wait := r.NextWake.Sub(p.Env.Now())
	if r.NextWake.IsZero() || wait > followUpWait {
		return r.ExitCode()
	}
	if !project.Sleep(ctx, max(wait, 0)) {
		return nil
	}
	r, err := Run(ctx, project.New(p.Env, p.Path, p.StateDir), o.Options)
	if err != nil {
		return err
	}
	return r.ExitCode()
}

// waitForRuns waits until every run that this pass started has ended, and prints how.
func waitForRuns(ctx context.Context, p *project.Project, r Result, o TickOptions) (failed bool, err error) {
	for _, a := range r.Applied {
		if a.Kind != reconcile.ActDispatch && a.Kind != reconcile.ActDeliver || a.Err != nil {
			continue
		}
		run, err := WaitForRun(ctx, p, a.RunID)
		if err != nil {
			return false, err
		}
		if !o.JSON && !o.Quiet { // with --json the pass's object is the whole output
			o.Ended(p, run)
		}
		failed = failed || run.Outcome != reconcile.Succeeded || run.Delivery.Code != ""
	}
	return failed, nil
}

// WaitForRun waits until a run has an outcome, or until its worker has died without recording one.
func WaitForRun(ctx context.Context, p *project.Project, id string) (reconcile.Run, error) {
	reading := context.WithoutCancel(ctx) // after a signal the run is read once more, for the message
	db, err := project.OpenForReading(reading, p)
	if err != nil {
		return reconcile.Run{}, err
	}
	defer db.Close()
	for {
		run, err := db.Views.Run(reading, id)
		if err != nil {
			return run, err
		}
		run, dead := project.ConfirmDead(reading, p, db.Views, run)
		if dead {
			run.Outcome, run.ErrorCode, run.ErrorText = reconcile.Lost, reconcile.CodeWorkerLost, "its worker died"
		}
		if run.Outcome != "" {
			return run, nil
		}
		if !project.Sleep(ctx, project.WaitStep) {
			return run, &reconcile.Error{
				Code: "canceled", Message: "ended by a signal; the run of " + run.Identifier + " continues",
				Hint: "symphony logs -f " + run.Identifier + " follows it, symphony stop " + run.Identifier + " ends it", Err: ctx.Err(),
			}
		}
	}
}

// report prints a pass as lines or as one JSON object. With --quiet it prints the errors if they have changed.
func report(ctx context.Context, p *project.Project, o TickOptions, r Result) {
	w := p.Env
	if w.Log != nil {
		r.writeLog(ctx, w.Log)
	}
	switch {
	case o.Quiet:
		if r.Holder == nil {
			reportQuiet(ctx, p, o, r.Errors)
		}
	case o.JSON:
		w.PrintJSON(r.JSON())
		for _, e := range o.told.news(w, r.Errors, r.Obstacle) {
			w.PrintError(e)
		}
	case o.told.reportActions(p, r) && !w.Verbose:
		fmt.Fprint(w.Stdout, Lines(w, o.told.changed(narrator{r, w})))
	}
}

// ReportActions prints what a pass did and its errors: in sentences, or with -v a line of fields for each action and a summary.
// It returns false if another pass has the lock.
func ReportActions(p *project.Project, r Result) bool { return (*told)(nil).reportActions(p, r) }

func (t *told) reportActions(p *project.Project, r Result) bool {
	w := p.Env
	if r.Holder != nil {
		fmt.Fprintf(w.Stdout, "another pass is running (%s); nothing to do\n", r.Holder)
		return false
	}
	for _, text := range t.newWarnings(r.warnings) {
		w.Note(slog.LevelWarn, text)
	}
	if w.Verbose {
		printFields(w, r, t.news(w, r.Errors, r.Obstacle))
		return true
	}
	fmt.Fprint(w.Stdout, Lines(w, Sentences(p, r)))
	for _, e := range t.news(w, r.Errors, r.Obstacle) {
		w.PrintError(e)
	}
	return true
}

// printFields prints a line of fields for each action, errors, and a summary.
func printFields(w *term.Env, r Result, errs []*reconcile.Error) {
	for _, a := range r.Applied {
		line := a.String()
		if a.Err != nil {
			line += "  (not done)"
		}
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	name := fmt.Sprintf("pass %d", r.Pass.ID)
	if r.Pass.ID == 0 {
		name = "pass not recorded"
	}
	if r.dryRun {
		name = "dry run"
		for _, s := range r.Skips {
			fmt.Fprintln(w.Stdout, text.Visible(fmt.Sprintf("skip %s reason=%s: %s", s.Identifier, s.Reason, s.Message)))
		}
	}
	for _, e := range errs {
		w.PrintError(e)
	}
	fmt.Fprintf(w.Stdout, "%s: %s\n", name, r.summary(w.Now()))
}

// summary counts the issues, and says why the pass started nothing.
func (r Result) summary(now time.Time) string {
	due := ""
	if r.Undelivered > 0 {
		due = fmt.Sprintf(", %d not delivered", r.Undelivered)
	}
	switch d := r.NextDue.Sub(now); {
	case r.NextDue.IsZero():
	case d > 0:
		due += ", next due in " + text.Duration(d)
	default:
		due += ", one is due"
	}
	return fmt.Sprintf("%d running, %d waiting, %d held, %d skipped%s%s",
		r.Running, r.Retrying, r.Held, len(r.Skips), due, text.Visible(r.obstacleText(now)))
}

// obstacleText says why the pass started nothing and until when, for the end of its summary; empty if nothing was in the way.
func (r Result) obstacleText(now time.Time) string {
	o := r.Obstacle
	if o == nil {
		return ""
	}
	said := func(e *reconcile.Error) bool { return e.Code == o.Reason } // the error is printed above
	line := "; nothing starts: " + o.Reason
	if !slices.ContainsFunc(r.Errors, said) {
		line += ": " + o.Message
	}
	switch left := o.Until.Sub(now); {
	case o.Tester != "":
		line += "; the run of " + o.Tester + " tests whether it is over"
	case !o.Until.IsZero() && left > 0 && o.Reason == reconcile.SkipBlocked:
		line += "; next try in " + text.Duration(left) + ", or at once with symphony unblock"
	case !o.Until.IsZero() && left > 0:
		line += "; for another " + text.Duration(left)
	}
	return line
}

// writeLog logs the actions of a pass and a summary, and at level debug the skipped issues. Errors and warnings are logged where
// they are printed.
func (r Result) writeLog(ctx context.Context, log *slog.Logger) {
	if r.Holder != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "locked", slog.Int("pid", r.Holder.PID), slog.String("trigger", r.Holder.Trigger))
		return
	}
	if r.dryRun {
		log = log.With(slog.Bool("dry_run", true))
	} else {
		log = log.With(slog.Int64("pass_id", r.Pass.ID))
	}
	for _, a := range r.Applied {
		level, message, attrs := slog.LevelInfo, "action", a.LogValue().Group()
		if a.Err != nil {
			level, message, attrs = slog.LevelWarn, "action not done", append(attrs, slog.String("error", a.Err.Error()))
		}
		log.LogAttrs(ctx, level, message, attrs...)
	}
	for _, s := range r.Skips {
		log.LogAttrs(ctx, slog.LevelDebug, "skip", slog.String("issue_id", s.IssueID),
			slog.String("issue_identifier", s.Identifier), slog.String("reason", s.Reason), slog.String("message", s.Message))
	}
	attrs := []slog.Attr{
		slog.String("trigger", r.Pass.Trigger), slog.Int64("duration_ms", r.Pass.Duration.Milliseconds()), slog.Int("running", r.Running),
		slog.Int("retrying", r.Retrying), slog.Int("held", r.Held), slog.Int("skipped", len(r.Skips)),
	}
	if o := r.Obstacle; o != nil {
		attrs = append(attrs, slog.String("obstacle", o.Reason), slog.String("obstacle_message", o.Message))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "pass", append(attrs, slog.Int("errors", len(r.Errors)))...)
}

// quietReport is what the last pass with --quiet printed.
type quietReport struct {
	Codes []string  `json:"codes"`
	At    time.Time `json:"at"`
}

const (
	quietReportKey   = "quiet_errors"
	quietRepeatAfter = time.Hour
)

// reportQuiet prints errors if their codes differ from those of the last pass, repeats them every hour while they stay the same,
// and prints a line when they are over. Cron mails every line that it gets.
func reportQuiet(ctx context.Context, p *project.Project, o TickOptions, errs []*reconcile.Error) {
	w := p.Env
	now, last := quietReport{At: w.Now()}, quietReport{}
	for _, e := range errs {
		now.Codes = append(now.Codes, e.Code)
	}
	slices.Sort(now.Codes)
	now.Codes = slices.Compact(now.Codes)
	db, err := o.database.opened(), error(nil)
	if db == nil {
		if db, err = state.Open(ctx, p.StateDir); err == nil {
			defer db.Close()
		}
	}
	if err == nil {
		text, _, _ := db.Meta(ctx, quietReportKey)
		_ = json.Unmarshal([]byte(text), &last) // an unreadable report counts as none
	}
	same := slices.Equal(now.Codes, last.Codes)
	if same && (len(errs) == 0 || now.At.Sub(last.At).Abs() < quietRepeatAfter) {
		return
	}
	for _, e := range errs {
		w.PrintError(e)
	}
	if err != nil {
		return
	}
	if len(errs) == 0 {
		w.Note(slog.LevelInfo, "over: "+strings.Join(last.Codes, ", "))
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = db.SetMeta(ctx, quietReportKey, string(text))
	}
	if err != nil {
		w.PrintError(exit.From(err))
	}
}

// quietError returns the error that prevented a pass. With --quiet it prints the error if it is new and returns the bare exit
// code, which is also what a loop gets of an error that it has told.
func quietError(ctx context.Context, p *project.Project, o TickOptions, err error) error {
	known := exit.From(err)
	if o.Quiet && p.HasState() {
		reportQuiet(ctx, p, o, []*reconcile.Error{known})
	} else if len(o.told.news(p.Env, []*reconcile.Error{known}, nil)) > 0 {
		return err
	}
	return exit.Only(exit.Code(known))
}

// ResultJSON is the documented shape of tick --json.
type ResultJSON struct {
	// Project is the name of the folder of WORKFLOW.md. In a loop with several projects of that name, the later ones have a number behind it.
	Project string    `json:"project"`
	Pass    *passJSON `json:"pass"`
	// Holder has the lock; it is left out until it has written its name.
	Holder  *state.Holder `json:"holder,omitempty"`
	Actions []actionJSON  `json:"actions"`
	Skipped any           `json:"skipped"` // the candidates that get no run, or "locked" if another pass has the lock
	Counts  view.Counts   `json:"counts"`
	// Obstacle is why the pass started nothing, null if it started runs or nothing was in the way.
	Obstacle *obstacleJSON      `json:"obstacle"`
	Errors   []*reconcile.Error `json:"errors"`
}

// obstacleJSON has the reason of a skip, or the code of an error for which no pass starts anything.
type obstacleJSON struct {
	Reason   string  `json:"reason"`
	Message  string  `json:"message"`
	Until    *string `json:"until"`     // when it ends or is tested again
	TestedBy *string `json:"tested_by"` // the issue whose run tests whether it is over
}

type passJSON struct {
	ID         *int64 `json:"id"` // null in a dry run, and if the pass could not be recorded
	Trigger    string `json:"trigger"`
	StartedAt  string `json:"started_at"`
	DurationMS int64  `json:"duration_ms"`
	DryRun     bool   `json:"dry_run"`
}

type actionJSON struct {
	Action     string  `json:"action"`
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	RunID      *string `json:"run_id"`
	Reason     string  `json:"reason"`
}

// JSON returns the pass as tick --json prints it.
func (r Result) JSON() ResultJSON {
	out := ResultJSON{
		Project: r.Project, Actions: []actionJSON{}, Errors: []*reconcile.Error{},
		Counts: view.Counts{Running: r.Running, Retrying: r.Retrying, Held: r.Held, Undelivered: r.Undelivered},
	}
	if r.Holder != nil {
		out.Skipped = "locked"
		if r.Holder.PID != 0 {
			out.Holder = r.Holder
		}
		return out
	}
	out.Pass = &passJSON{&r.Pass.ID, r.Pass.Trigger, text.Rfc3339(r.Pass.StartedAt), r.Pass.Duration.Milliseconds(), r.dryRun}
	if r.Pass.ID == 0 {
		out.Pass.ID = nil
	}
	for _, a := range r.Applied {
		if a.Err == nil {
			out.Actions = append(out.Actions, actionJSON{string(a.Kind), a.IssueID, a.Identifier, text.OrNull(a.RunID), a.Reason})
		}
	}
	if o := r.Obstacle; o != nil {
		out.Obstacle = &obstacleJSON{Reason: o.Reason, Message: o.Message, TestedBy: text.OrNull(o.Tester)}
		if !o.Until.IsZero() {
			out.Obstacle.Until = new(text.Rfc3339(o.Until))
		}
	}
	out.Skipped = append([]reconcile.Skip{}, r.Skips...)
	out.Errors = append(out.Errors, r.Errors...)
	return out
}
