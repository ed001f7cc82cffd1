package wiring

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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
	number, isPull := pullNumber(ref)
	unknown, ok := errors.AsType[*reconcile.Error](err)
	if !ok || unknown.Code != "issue_not_found" || !text.IsNumber(number) {
		return nil, err
	}
	if name := issueOfPull(ctx, p, number); name != "" {
		unknown.Hint = number + " is the number of the pull request of " + name + ": write " + name + " instead"
		return nil, unknown
	}
	if isPull {
		unknown.Hint = "that is the address of a pull request: give its issue; symphony ps --all lists the known ones"
		return nil, unknown
	}
	names, err := namesOf(ctx, p, tracker, cfg.Policy.ActiveStates, number)
	if err != nil {
		return nil, err
	}
	switch len(names) {
	case 0:
		// a folder looks at its issues of any state, and one repository has each number once
		isWhole := cfg.Tracker.Kind == "file" || len(cfg.Tracker.Repositories.Names) == 1
		if !isWhole {
			unknown.Hint = NumberHint
		}
		return nil, unknown
	case 1:
		return tracker.Find(ctx, names[0])
	default:
		return nil, NumberOfSeveral(number, names)
	}
}

// pullAddress finds the number of a pull request in its address.
var pullAddress = text.Pattern(`^https?://.*/(?:pulls?|merge_requests)/(\d+)(?:[/?#].*)?$`)

// pullNumber returns the number in a reference, as in 12 and #12, or in the address of a pull request;
// isPull is true for an address.
func pullNumber(ref string) (number string, isPull bool) {
	found := pullAddress().FindStringSubmatch(ref)
	if found != nil {
		return found[1], true
	}
	return strings.TrimPrefix(ref, "#"), false
}

// issueOfPull returns the identifier of the issue whose pull request has a number; empty if none is
// known here.
func issueOfPull(ctx context.Context, p *Project, number string) string {
	if !p.HasState() {
		return ""
	}
	db, err := OpenForReading(ctx, p)
	if err != nil {
		return ""
	}
	defer db.Close()
	name, _ := db.Views.IssueOfPull(ctx, number) // without it the number is unknown
	return name
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
// Only for a web address the tracker may be asked.
func IssueName(ctx context.Context, p *Project, db *state.DB, ref string) (id, name string, err error) {
	id, name, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil || known {
		return id, name, err
	}
	_, isAddress := text.IssueAddress(ref)
	if !isAddress {
		return "", ref, nil
	}
	issue, err := FetchIssue(ctx, p, ref)
	if err != nil {
		return "", ref, nil //nolint:nilerr // what looks for it says that it is unknown
	}
	return issue.ID, issue.Identifier, nil
}

// NumberHint is the next step for a number with which no identifier ends that is known here.
const NumberHint = "symphony issues lists what is active; " +
	"another issue needs its whole identifier, of which a number alone is not enough"

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
	return WithNumber(names, number), nil
}

// WithNumber returns the identifiers that end with a number, as WEB-7 does with 7, sorted and
// each once. There are none for a reference that is no number, such as shop-7.
func WithNumber(identifiers []string, number string) []string {
	if !text.IsNumber(number) {
		return nil
	}
	found := text.Filter(identifiers, func(name string) bool { return strings.HasSuffix(name, "-"+number) })
	slices.Sort(found)
	return slices.Compact(found)
}

// NumberOfSeveral is the error for a number with which several identifiers end.
func NumberOfSeveral(number string, identifiers []string) error {
	return reconcile.NewError(
		"issue_not_found",
		number+" is the number of "+strings.Join(identifiers, " and "),
		"give the identifier, such as "+identifiers[0],
	)
}

// UnknownIssue is the error for an issue that the database does not know, although the tracker
// may. why tells what is missing, such as "it has had no run".
func UnknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	return unknownIssue(ctx, db, ref, why, "; symphony show "+ref+" asks the tracker") // nothing else does
}

// NoRun is the error for an issue without a run or workspace, of which the database has no record:
// the tracker may know it, in a state for which no agent begins.
func NoRun(ctx context.Context, p *Project, db *state.DB, ref, why string) error {
	bounded, cancel := context.WithTimeout(ctx, noRunPatience)
	defer cancel()
	issue, err := FetchIssue(bounded, p, ref)
	if err != nil {
		unknown, is := errors.AsType[*reconcile.Error](err)
		if is && unknown.Code == "issue_not_found" {
			return notInTracker(ctx, db, ref, unknown.Hint)
		}
		return UnknownIssue(ctx, db, ref, why)
	}
	return reconcile.NewError(
		"not_found",
		issue.Identifier+" has had no run: its state is "+issue.State,
		"",
	).WithHint("%s says what starts it", reconcile.CommandFor("show", issue.Identifier))
}

// noRunPatience is how long NoRun waits for the tracker.
const noRunPatience = 10 * time.Second

// NotInTracker is the error for an issue that neither the database nor the tracker knows.
func NotInTracker(ctx context.Context, db *state.DB, ref string) error {
	return notInTracker(ctx, db, ref, "")
}

// notInTracker adds to the hint that of the tracker, which may name its issues.
func notInTracker(ctx context.Context, db *state.DB, ref, hint string) error {
	if hint != "" {
		hint = "; " + hint
	}
	return unknownIssue(ctx, db, ref, "the tracker has no such issue, or does not let you read it", hint)
}

// unknownIssue names a similar identifier, and ends the hint with a further step.
func unknownIssue(ctx context.Context, db *state.DB, ref, why, further string) error {
	names, err := db.Views.Identifiers(ctx)
	if err != nil {
		return err
	}
	same := WithNumber(names, ref)
	if len(same) > 1 {
		return NumberOfSeveral(ref, same)
	}
	return reconcile.NewError(
		"issue_not_found",
		ref+" is not known here: "+why+suggest.DidYouMeanIssue(ref, names),
		"",
	).WithHint("%s lists the known issues%s", reconcile.CommandLine{Verb: "ps", Rest: "--all"}, further)
}
