package wiring

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// FindIssue finds an issue by its identifier or web address in the database, otherwise in the
// tracker.
func FindIssue(
	ctx context.Context,
	p *Project,
	db *state.DB,
	ref string,
) (id, identifier string, err error) {
	id, identifier, found, err := db.Views.FindIssue(ctx, ref)
	if err != nil || found {
		return id, identifier, err
	}
	issue, err := FetchIssue(ctx, p, ref)
	if err != nil {
		return "", "", err
	}
	return issue.ID, issue.Identifier, nil
}

// FetchIssue asks the tracker for an issue by its identifier or id, or by the number of its
// identifier if only a single issue matches.
func FetchIssue(ctx context.Context, p *Project, ref string) (*reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{Warn: WarnForIssue(p.Env, cfg)})
	if err != nil {
		return nil, err
	}
	issue, err := tracker.Find(ctx, ref)
	if err == nil {
		return issue, nil
	}
	unknown, ok := errors.AsType[*reconcile.Error](err)
	number := strings.TrimPrefix(ref, "#")
	if !ok || unknown.Code != "issue_not_found" || !text.IsNumber(number) {
		return nil, err
	}
	names, err := namesOf(ctx, p, tracker, cfg.Policy.ActiveStates, number)
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, unknown
	case len(names) == 1:
		return tracker.Find(ctx, names[0])
	}
	return nil, numberOfSeveral(number, names)
}

// NameFaults asks the tracker for the labels, states and users that the workflow names, and returns a
// sentence about each that it does not have.
func NameFaults(ctx context.Context, p *Project) ([]string, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{Warn: func(string) {}})
	if err != nil || tracker.Verify == nil {
		return nil, err
	}
	found, err := tracker.Verify(ctx, TrackerNames(cfg))
	if err != nil {
		return nil, err
	}
	sentence := func(e *reconcile.Error) string { return e.Message + ": " + e.Hint }
	return text.Map(WrongNames(cfg, tracker.Name, found), sentence), nil
}

// FetchCandidates asks the tracker for the issues in active states.
func FetchCandidates(ctx context.Context, p *Project) ([]reconcile.Issue, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	tracker, err := NewTracker(p, cfg, TrackerOptions{})
	if err != nil {
		return nil, err
	}
	return tracker.Candidates(ctx, cfg.Policy.ActiveStates)
}

// KnowsIssue reports whether the project's state contains records of an issue with that
// identifier.
func KnowsIssue(ctx context.Context, p *Project, identifier string) (known bool, err error) {
	if !p.HasState() {
		return false, nil
	}
	db, err := OpenForReading(ctx, p)
	if err != nil {
		return false, err
	}
	defer db.Close()
	_, _, known, err = db.Views.FindIssue(ctx, identifier)
	return known, err
}

// IssueName returns the id and the identifier of the issue that a reference names: for abc-7 or
// 7 that is ABC-7. A reference to nothing that is known comes back unchanged, without an id.
func IssueName(ctx context.Context, db *state.DB, ref string) (id, name string, err error) {
	id, name, known, err := db.Views.FindIssue(ctx, ref)
	if !known {
		name = ref
	}
	return id, name, err
}

// namesOf returns the identifiers that end with a number, of the issues that the project knows
// and of the candidates.
func namesOf(
	ctx context.Context,
	p *Project,
	tracker reconcile.Tracker,
	states []string,
	number string,
) (names []string, err error) {
	db, err := OpenForReading(ctx, p)
	if err == nil {
		names, _ = db.Views.Identifiers(ctx) // without them the candidates decide
		_ = db.Close()
	}
	candidates, err := tracker.Candidates(ctx, states)
	if err != nil {
		return nil, err
	}
	for _, c := range candidates {
		names = append(names, c.Identifier)
	}
	return withNumber(names, number), nil
}

// withNumber returns the identifiers that end with a number, as WEB-7 does with 7, sorted and
// each once. There are none for a reference that is no number, such as shop-7.
func withNumber(identifiers []string, number string) []string {
	if !text.IsNumber(number) {
		return nil
	}
	found := text.Filter(identifiers, func(name string) bool { return strings.HasSuffix(name, "-"+number) })
	slices.Sort(found)
	return slices.Compact(found)
}

// numberOfSeveral is the error for a number with which several identifiers end.
func numberOfSeveral(number string, identifiers []string) error {
	return reconcile.NewError(
		"issue_not_found",
		number+" is the number of "+strings.Join(identifiers, " and "),
		"give the identifier, such as "+identifiers[0],
	)
}

// UnknownIssue is the error for an issue that the database does not know, although the tracker
// may. why tells what is missing, such as "it has had no run".
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	same := withNumber(names, ref)
	if len(same) > 1 {
		return numberOfSeveral(ref, same)
	}
	return reconcile.NewError(
		"issue_not_found",
		ref+" is not known here: "+why+suggest.DidYouMeanIssue(ref, names),
		"",
	).WithHint("%s lists the known issues; symphony show %s asks the tracker",
		reconcile.CommandLine{Verb: "ps", Rest: "--all"}, ref)
}
