package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// facts are what is known of a project, whatever the issue.
type facts struct {
	p   *project.Project
	db  *state.DB // nil before the first pass
	now time.Time
	// only are the ids of the issues that a view is confined to, empty for all.
	only []string

	cfg      *workflow.Config
	cfgErr   error
	recorded reconcile.State
	requests []reconcile.Request // the open ones
	instant  reconcile.Instant   // now, on the monotonic clock
	block    *project.BlockedRow // stops every issue
	low      time.Time           // until then the tracker's allowance counts as low
	schedule bool                // something runs passes
	nextPass *NextPass           // nil where the schedule's passes show no rhythm yet
}

// open opens the database. Where the command line named only a state directory, the workflow is the one that it belongs to.
func (f *facts) open(ctx context.Context) (err error) {
	if f.db, err = project.OpenForReading(ctx, f.p); err != nil || f.p.SourceErr == nil {
		return err
	}
	path, known, err := f.db.Meta(ctx, project.OwnerKey)
	if err == nil && known {
		f.p = project.New(f.p.Env, path, f.p.StateDir)
	}
	return err
}

// read reads the facts beside the recorded state, which the caller has read. Without a database they come from the workflow
// and the account.
func (f *facts) read(ctx context.Context) (err error) {
	f.cfg, f.cfgErr = f.p.ConfigWithoutKey()
	// The tracker's and the machine's block matter most, then the account's, then the agent's.
	f.block = project.BlockedBy(f.recorded)
	if f.cfg != nil && f.recorded.TrackerBlock == nil && f.recorded.HostBlock == nil {
		if b := project.AccountBlock(project.OpenAccount(f.p, f.cfg.Codex.Home), f.now); b != nil {
			f.block = b
		}
	}
	if f.instant, err = Instant(); err != nil || f.db == nil {
		return err
	}
	var errs [4]error
	f.requests, errs[0] = OpenRequests(ctx, f.p, f.db)
	f.low, errs[1] = project.LowUntil(ctx, f.p, f.db)
	f.schedule, errs[2] = project.ScheduleAlive(ctx, f.db, f.now)
	f.schedule = f.schedule || project.Looping(f.p.StateDir)
	passes, err := f.db.Views.ScheduleGaps(ctx)
	errs[3] = err
	if gap, known := project.UsualGap(passes); known && f.schedule {
		f.nextPass = &NextPass{At: passes[0].StartedAt.Add(gap), Trigger: passes[0].Trigger}
	}
	return errors.Join(errs[:]...)
}

func (f *facts) wants(issueID string) bool {
	return len(f.only) == 0 || slices.Contains(f.only, issueID)
}

func (f *facts) project() ProjectRow {
	row := ProjectRow{WorkflowPath: f.p.Path, StateDir: f.p.StateDir}
	if f.cfg != nil {
		row.TrackerKind, row.ProjectSlug = &f.cfg.Tracker.Kind, &f.cfg.Tracker.ProjectSlug
	}
	return row
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// UnknownIssue is the error for an issue that the database does not know. It suggests a similar identifier.
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	return &reconcile.Error{
		Code: "issue_not_found", Message: ref + " is not known here: " + why + text.DidYouMean(ref, names, "%s"),
		Hint: "symphony ps --all lists the known issues; symphony show " + ref + " asks the tracker",
	}
}

// WorkspacePath is the workspace of an issue's last run.
func WorkspacePath(ctx context.Context, p *project.Project, ref string) (path, identifier string, err error) {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return "", "", err
	}
	defer db.Close()
	id, identifier, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return "", "", err
	}
	if !known {
		return "", "", UnknownIssue(ctx, db, ref, "it has no workspace")
	}
	run, _, err := db.Views.LastRun(ctx, id)
	if err == nil && run.WorkspacePath == "" {
		err = &reconcile.Error{Code: "workspace_not_found", Message: identifier + " has had no workspace yet", Hint: "symphony show " + identifier + " says why"}
	}
	return run.WorkspacePath, identifier, err
}

// RequestRow is a request of an agent that an operator has not answered yet.
type RequestRow struct {
	ID         string                `json:"id"`
	Identifier string                `json:"issue_identifier"`
	IssueURL   *string               `json:"issue_url"`
	RunID      string                `json:"run_id"`
	Kind       reconcile.RequestKind `json:"kind"`
	Summary    string                `json:"summary"`
	// Options are the labels of the first question, which --choice counts; Questions are all of them.
	Options   []string   `json:"options"`
	Questions []Question `json:"questions"`
	Outside   bool       `json:"outside_sandbox"`
	AskedAt   time.Time  `json:"asked_at"`
	ExpiresAt time.Time  `json:"expires_at"`

	Request reconcile.Request `json:"-"`
}

// Question is one question of a request. Other is set where a text beside the options is accepted.
type Question struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Other    bool     `json:"other"`
	Secret   bool     `json:"secret"`
}

// requestRow takes the time that is left from the monotonic clock, so that a stepped wall clock changes nothing.
func (f *facts) requestRow(r reconcile.Request) RequestRow {
	expires := f.now.Add(r.Left(f.now, f.instant))
	if expires.Sub(r.ExpiresAt).Abs() < time.Second {
		expires = r.ExpiresAt
	}
	row := RequestRow{
		ID: r.ID(), Identifier: r.Identifier, RunID: r.RunID, Kind: r.Kind, Summary: r.Summary, Options: []string{},
		Questions: []Question{}, Outside: r.Outside, AskedAt: r.AskedAt, ExpiresAt: expires.Truncate(time.Millisecond), Request: r,
	}
	for i, q := range r.Detail.Questions {
		labels := []string{}
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		if i == 0 {
			row.Options = labels
		}
		row.Questions = append(row.Questions, Question{Question: q.Text, Options: labels, Other: q.Other || len(labels) == 0, Secret: q.Secret})
	}
	return row
}

// OpenRequests are the unanswered requests of living workers. A request ends with its worker.
func OpenRequests(ctx context.Context, p *project.Project, db *state.DB) ([]reconcile.Request, error) {
	all, err := db.Views.OpenRequests(ctx)
	return slices.DeleteFunc(all, func(r reconcile.Request) bool { return !project.Alive(p.StateDir, r.RunID) }), err
}

// HowToAnswer is the command that answers a request.
func HowToAnswer(r reconcile.Request) string {
	if r.Kind != reconcile.QuestionRequest {
		return "symphony approve " + r.ID() + " | symphony deny " + r.ID()
	}
	answer := " --choice N"
	if slices.ContainsFunc(r.Detail.Questions, func(q reconcile.RequestQuestion) bool { return len(q.Options) == 0 }) {
		answer = ` "TEXT"`
	}
	return "symphony answer " + r.ID() + strings.Repeat(answer, len(r.Detail.Questions))
}

// ErrorText is "<code>: <message>", nil where there is neither. The errors that the specification words itself stand without
// a code.
func ErrorText(code, message string) *string {
	switch {
	case code == "" && message == "":
		return nil
	case code == "" || code == reconcile.CodeSpawnFailed || code == string(reconcile.Stalled):
		return &message
	case message == "":
		return &code
	}
	return new(code + ": " + message)
}
