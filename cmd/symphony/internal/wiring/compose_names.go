package wiring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// TrackerNames returns the names in a workflow that a tracker can look up.
func TrackerNames(cfg *workflow.Config) reconcile.TrackerNames {
	p := cfg.Policy
	return reconcile.TrackerNames{
		States:    slices.Concat(p.ActiveStates, p.TerminalStates, cfg.Handoff.States()),
		Labels:    p.RequiredLabels,
		Assignee:  p.Assignee,
		Operators: cfg.Tracker.Operators,
	}
}

// WrongNames returns an error for each name in the workflow that the tracker does not have, and for
// the rights that its key lacks, with the next step as its hint.
func WrongNames(
	cfg *workflow.Config,
	tracker string,
	found reconcile.TrackerFindings,
) (list []*reconcile.Error) {
	add := func(message, hint string) {
		list = append(list, &reconcile.Error{
			Message: message,
			Hint:    hint,
		})
	}
	for _, u := range found.States {
		if slices.Contains(cfg.Tracker.NamedStates, u.Name) { // a missing default state is not a mistake
			add(
				"the "+scope(cfg.Tracker)+" has no state "+u.String(),
				"correct the name in WORKFLOW.md, or add the state in the tracker",
			)
		}
	}
	for _, u := range found.Labels {
		add(
			tracker+" has no label "+u.String(),
			"create the label, or correct tracker.required_labels; until then no run starts",
		)
	}
	if u := found.Assignee; u != nil {
		add(tracker+" has no user "+u.String(), "correct tracker.assignee; until then no run starts")
	}
	for _, name := range found.OwnOperators {
		add(
			fmt.Sprintf(
				"tracker.operators: %q is the user of symphony's key, with which agents comment, too: "+
					"its answers are ignored",
				name,
			),
			"give symphony a key of another user, or name another operator",
		)
	}
	if found.Denied != nil {
		list = append(list, found.Denied)
	}
	return list
}

// scope returns whether a team or a project defines the states of a tracker's issues, as a
// word for people.
func scope(t workflow.Tracker) string {
	if t.Team != "" {
		return "team"
	}
	return "project"
}

// NoComments returns an error if symphony can't comment in the tracker.
func NoComments(t *reconcile.TrackerAdapter) *reconcile.Error {
	if t.Comments != nil && t.Post != nil && t.Edit != nil {
		return nil
	}
	return &reconcile.Error{
		Message: "tracker.operators has no effect: symphony can't comment in " + t.Name,
		Hint:    "give the tracker's program the verb comment, or remove the key",
	}
}

// VerifyNames wraps the tracker so that its reads check whether project, states, labels and
// assignee exist, where that matters: if the workflow defines names of its own, or if the
// tracker shows no issue, as it does for a mistyped project. The database stores the checked
// names; if db is nil, every process checks them.
func VerifyNames(
	t *reconcile.TrackerAdapter,
	db *state.DB,
	cfg *workflow.Config,
	path string,
	warn func(string),
) *reconcile.TrackerAdapter {
	if t.Verify == nil {
		return t
	}
	checked := *t
	checked.Tracker = &verified{t: t, db: db, cfg: cfg, path: path, warn: warn}
	return &checked
}

type verified struct {
	t    *reconcile.TrackerAdapter
	db   *state.DB
	cfg  *workflow.Config
	path string
	warn func(string)

	once sync.Once
	err  error
	// unchecked: the tracker refused or failed the check of these names.
	unchecked bool
}

// ByIDs implements reconcile.Tracker.
func (v *verified) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	found, err := v.t.ByIDs(ctx, ids)
	if err != nil {
		return found, v.explain(err)
	}
	if len(ids) == 0 {
		return found, nil
	}
	shown := showsProject(found)
	if shown && !v.hasOwnNames() {
		return found, nil
	}
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	if v.unchecked && !shown {
		return found, v.confirmProject(ctx)
	}
	return found, nil
}

// showsProject reports whether any of the issues is in the workflow's project, which then
// exists.
func showsProject(found map[string]reconcile.Issue) bool {
	for _, issue := range found {
		if !issue.Elsewhere {
			return true
		}
	}
	return false
}

// confirmProject returns an error if the tracker shows no issue of the workflow's project. The
// project may be mistyped then: issues that seem to be in another project, and issues of the
// project before, must not be stopped or released.
func (v *verified) confirmProject(ctx context.Context) error {
	candidates, err := v.t.Candidates(ctx, v.cfg.Policy.ActiveStates)
	if err != nil || len(candidates) > 0 {
		return err
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		fmt.Sprintf("%s: %s: %s shows no issue of %q, and whether the project exists could not be checked",
			v.path, v.cfg.Tracker.PlaceKey, v.t.Name, v.cfg.Tracker.Place),
		"correct it, or create an issue in an active state there; until then no run is stopped and no "+
			"issue is released",
	)
}

// Candidates implements reconcile.Tracker.
func (v *verified) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	issues, err := v.t.Candidates(ctx, states)
	if err != nil {
		return nil, v.explain(err)
	}
	if len(issues) > 0 && !v.hasOwnNames() {
		return issues, nil
	}
	if err := v.verify(ctx); err != nil {
		return nil, err
	}
	return issues, nil
}

// hasOwnNames reports whether the workflow contains names that may be mistyped although the
// tracker shows issues: states that not every project of the tracker has, labels, an assignee
// or operators.
func (v *verified) hasOwnNames() bool {
	n := TrackerNames(v.cfg)
	usual := workflow.UsualStates(v.cfg.Tracker.Kind)
	isOwn := func(state string) bool { return !slices.Contains(usual, state) }
	return slices.ContainsFunc(v.cfg.Tracker.NamedStates, isOwn) ||
		len(n.Labels) > 0 || len(n.Operators) > 0 || n.Assignee != ""
}

// explain completes the error of a project that does not exist: it names the workflow and the
// key with the project. It returns other errors as they are.
func (v *verified) explain(err error) error {
	if !isNoProject(err) {
		return err
	}
	known, _ := errors.AsType[*reconcile.Error](err)
	own := *known
	if !strings.HasPrefix(own.Message, "tracker.") { // it names no key
		own.Message = v.cfg.Tracker.PlaceKey + ": " + own.Message
	}
	own.Message = v.path + ": " + own.Message
	return &own
}

// isNoProject reports whether an error of the tracker says that the workflow's project does
// not exist.
func isNoProject(err error) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return ok && known.Code == "tracker_project_not_found"
}

func (v *verified) verify(ctx context.Context) error {
	v.once.Do(func() { v.err = v.check(ctx) })
	return v.err
}

const (
	// verifiedKey names the checked names in the database.
	verifiedKey = "verified"
	// refusedCheck precedes names that the tracker refused to check.
	refusedCheck = "refused "
)

// check asks the tracker whether the names of the workflow exist, unless the same names were
// checked before. The check is advisory: of what it finds, only a project that does not exist
// is an error. The specification has no request for it.
func (v *verified) check(ctx context.Context) error {
	if v.cfg.OnlySpecified() {
		v.unchecked = true
		return nil
	}
	n := TrackerNames(v.cfg)
	names := v.stampOf(n)
	if v.db != nil {
		known, _, err := v.db.Meta(ctx, verifiedKey)
		if err != nil {
			return fmt.Errorf("read which names of the workflow were checked: %w", err)
		}
		v.unchecked = known == refusedCheck+names
		if v.unchecked || known == names {
			return nil
		}
	}
	warn := func(text string) { v.warn(v.path + ": " + text) }
	found, err := v.t.Verify(ctx, n)
	if isNoProject(err) && !errors.Is(err, reconcile.ErrRejected) {
		return v.explain(err)
	}
	if err != nil && !errors.Is(err, reconcile.ErrRejected) {
		v.unchecked = true
		warn("project, states and labels are not checked: " + err.Error())
		return nil // the next pass tries again
	}
	if err != nil {
		v.unchecked = true
		names = refusedCheck + names
		warn("the tracker refused to check the project, states and labels: " + err.Error())
	}
	for _, e := range WrongNames(v.cfg, v.t.Name, found) {
		warn(e.Message + ": " + e.Hint)
	}
	if v.db == nil {
		return nil
	}
	return v.db.SetMeta(ctx, verifiedKey, names)
}

// stampOf writes down everything that WrongNames looks at, for a comparison with what was
// checked before.
func (v *verified) stampOf(n reconcile.TrackerNames) string {
	return fmt.Sprintf(
		"%q %q %q %q %q %q",
		v.cfg.Policy.Project,
		n.Assignee,
		n.Labels,
		n.States,
		v.cfg.Tracker.NamedStates,
		n.Operators,
	)
}
