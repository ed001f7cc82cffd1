package team

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Member is this machine as one of a team.
type Member struct {
	Remote  Remote
	Journal Journal
	Terms   Terms
	// Machine and Account name this machine and its user for people, such as buildhost-2 and ann.
	// Project is the project of the tracker (reconcile.Policy.Project).
	Machine, Account, Project string
	Now                       func() time.Time
	// Clock goes on while the machine is suspended.
	Clock func() Instant
	// NewToken returns a text that nobody can guess, and another one each time.
	NewToken func() string

	// busy keeps a renewal and a delivery of one process from changing the same claim at once.
	busy sync.Mutex
}

// Issue is an issue for which a claim is wanted.
type Issue struct {
	ID, Identifier string
	// Origin is reconcile.Issue.Origin. It may be empty for an issue that this machine has claimed, and
	// for one of a claim that it has seen.
	Origin string
}

// IssueOf returns an issue of the tracker.
func IssueOf(i reconcile.Issue) Issue {
	return Issue{ID: i.ID, Identifier: i.Identifier, Origin: i.Origin()}
}

// Own is a claim of this machine, as it is stored here.
type Own struct {
	Issue
	Key     string // of the claim in the remote
	Version int64  // of the row, 0 for a new one
	// Content is what the remote has, as far as this machine knows, and Object the id of that. Both
	// are empty for a claim that was never there, or that a person deleted.
	Content, Object string
	// Tried are pushes whose results are not known, such as one during which this machine lost its
	// power. The remote may have the content of any of them instead of Content.
	Tried []Try
	// Renewed is when the push of Content began.
	Renewed Instant
	// LostTo is who has the claim instead of this machine, such as "ann on buildhost-2"; empty while
	// this machine has it.
	LostTo string
}

// Try is a push of a claim.
type Try struct {
	Content string  // empty if it deletes the claim
	At      Instant // when it began
}

// Seen is a claim of another machine.
type Seen struct {
	Entry
	// Looked is when this machine saw the object last, and Age for how long it had seen the same one
	// then: the claim was not renewed meanwhile. The time from a last look to the next boot, which
	// no clock can tell, does not count.
	Looked Instant
	Age    time.Duration
	// FirstAt is when Age began by its clock, for people.
	FirstAt time.Time
}

// Journal stores claims in the database of the project.
type Journal interface {
	// OwnClaims returns all claims of this machine.
	OwnClaims(ctx context.Context) ([]Own, error)
	// SaveOwnClaims stores claims durably. A row whose version is not the stored one stays as it is:
	// another process of this machine knows more. The result has the rows as they are stored now.
	SaveOwnClaims(ctx context.Context, claims []Own) ([]Own, error)
	// DropOwnClaims forgets the claims of issues, given their ids.
	DropOwnClaims(ctx context.Context, issueIDs []string) error
	// SeenClaims returns the claims of other machines as this one saw them last. SaveSeenClaims
	// replaces them all.
	SeenClaims(ctx context.Context) ([]Seen, error)
	SaveSeenClaims(ctx context.Context, all []Seen) error
	// Refusals returns the claims that the remote refused lately. SaveRefusals replaces them all.
	Refusals(ctx context.Context) ([]Refusal, error)
	SaveRefusals(ctx context.Context, all []Refusal) error
}

// Refusal is a claim that the remote refused although no other machine has it.
type Refusal struct {
	IssueID string
	Why     string
	At      Instant
}

// NotTaken are the issues that this machine did not get, by their ids.
type NotTaken struct {
	// Elsewhere are those that other machines have.
	Elsewhere map[string]Elsewhere
	// Refused are those whose claims the remote refused although nobody has them. The code of each
	// error is CodeRefused.
	Refused map[string]error
}

// Has reports whether this machine did not get an issue.
func (n NotTaken) Has(issueID string) bool {
	_, isElsewhere := n.Elsewhere[issueID]
	return isElsewhere || n.Refused[issueID] != nil
}

// Elsewhere is why an issue is not worked on here.
type Elsewhere struct {
	Holder string // such as "ann on buildhost-2"
	Status Status
	// Until is when the claim ends unless its holder renews it, by the clock of this machine; zero if
	// that is not known.
	Until time.Time
	// MayBeFree: the holder waited for a review when this machine looked last, a few minutes ago. If
	// the issue is to be worked on, Take looks again.
	MayBeFree bool
}

// String is the reason in words: "ann on buildhost-2 works on it, at least until 10:40".
func (e Elsewhere) String() string {
	if e.Status == Free {
		return e.Holder + " worked on it meanwhile"
	}
	does := "works on it"
	if e.Status == Watching {
		does = "waits for its review"
	}
	if e.Until.IsZero() {
		return e.Holder + " " + does
	}
	return fmt.Sprintf("%s %s, at least until %s", e.Holder, does, e.Until.Format("15:04"))
}

// Sentences are the reasons in words.
func Sentences(all map[string]Elsewhere) map[string]string {
	said := map[string]string{}
	for id, e := range all {
		said[id] = e.String()
	}
	return said
}

// Keep is an issue whose claim this machine keeps, with what the claim tells another machine that goes
// on with the issue if this one dies.
type Keep struct {
	Issue
	Status Status
	// HasWorker: a worker of this machine renews the claim.
	HasWorker bool
	// Branch, Commit and PullRequest are what was delivered last; empty for nothing.
	Branch, Commit, PullRequest string
	// Handled and Rounds are those of [Claim].
	Handled []string
	Rounds  int

	// needs is how long the claim has to hold without another renewal; 0 for its usual term.
	needs time.Duration
}

// Known is what this machine knows of claims without a request, by the ids of issues.
type Known struct {
	// Others are the issues that other machines have, as this one saw it last, also by their origins;
	// Lost are those of them that this machine had before.
	Others, Lost map[string]Elsewhere
	// Refused are the reasons of claims that the remote refused a few minutes ago, so that it is not
	// asked again yet.
	Refused map[string]string
}

// Known returns what this machine knows without a request.
func (m *Member) Known(ctx context.Context) (known Known, err error) {
	b, err := m.openAll(ctx)
	if err != nil {
		return known, err
	}
	known = Known{Others: map[string]Elsewhere{}, Lost: map[string]Elsewhere{}, Refused: map[string]string{}}
	refusals, err := m.recentRefusals(ctx)
	if err != nil {
		return known, err
	}
	for _, r := range refusals {
		known.Refused[r.IssueID] = r.Why
	}
	for _, s := range b.seen {
		c := m.read(s.Entry)
		if c.Origin == "" || !m.isCurrent(s) {
			continue
		}
		known.Others[c.Origin] = m.elsewhere(s)
		if c.Project == m.Project {
			known.Others[c.IssueID] = m.elsewhere(s)
		}
	}
	for id, own := range b.own {
		if own.LostTo != "" {
			known.Lost[id] = Elsewhere{Holder: own.LostTo, Status: Working}
		}
	}
	return known, nil
}

// recentRefusals are the claims that the remote refused a few minutes ago.
func (m *Member) recentRefusals(ctx context.Context) ([]Refusal, error) {
	all, err := m.Journal.Refusals(ctx)
	isOld := func(r Refusal) bool {
		age, isKnown := m.Clock().Sub(r.At)
		return !isKnown || age >= m.Terms.Short()
	}
	return slices.DeleteFunc(all, isOld), err
}

// noteRefusals stores which of the issues the remote has refused now, so that the next passes try others in
// their place.
func (m *Member) noteRefusals(ctx context.Context, issues []Issue, not NotTaken) error {
	before, err := m.recentRefusals(ctx)
	if err != nil {
		return err
	}
	isTried := func(r Refusal) bool {
		return slices.ContainsFunc(issues, func(i Issue) bool { return i.ID == r.IssueID })
	}
	next := slices.DeleteFunc(slices.Clone(before), isTried)
	for _, i := range issues {
		if why := not.Refused[i.ID]; why != nil {
			next = append(next, Refusal{IssueID: i.ID, Why: messageOf(why), At: m.Clock()})
		}
	}
	if len(next) == 0 && len(before) == 0 {
		return nil
	}
	return m.Journal.SaveRefusals(ctx, next)
}

// Take claims issues before their runs start, and returns those that it did not get. It makes no
// request for an issue whose claim holds for a while. Otherwise it makes one push for all, and a look if
// the remote refuses any of them, or if something is not known: the result of an earlier push, or
// whether a claim that has ended was renewed.
func (m *Member) Take(ctx context.Context, issues []Issue) (not NotTaken, err error) {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.openAll(ctx)
	if err != nil {
		return not, err
	}
	if slices.ContainsFunc(issues, b.isUnsure) {
		if err := b.look(ctx); err != nil {
			return not, err
		}
	}
	return b.take(ctx, issues, Working)
}

// TakeForReview is Take before this machine changes something that people see about issues that wait for their
// review, and for those of a machine that is not heard of any more. It always looks: only the machine
// that has the claim at this moment answers a review.
func (m *Member) TakeForReview(ctx context.Context, issues []Issue) (not NotTaken, err error) {
	if len(issues) == 0 {
		return not, nil
	}
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.openAll(ctx)
	if err != nil {
		return not, err
	}
	if err := b.look(ctx); err != nil {
		return not, err
	}
	return b.take(ctx, issues, Watching)
}

// takeRounds is how often a machine takes what it finds otherwise than it was.
const takeRounds = 3

// take claims issues that no other machine has, as far as the book says, and returns those that this
// machine did not get. A claim that is another one than the book says, and free, is taken as it is: before
// its first look this machine does not know what others have left.
func (b *book) take(ctx context.Context, issues []Issue, status Status) (not NotTaken, err error) {
	var wanted []Keep
	for _, i := range issues {
		if b.elsewhere(i) == nil && !b.holds(b.own[i.ID]) {
			wanted = append(wanted, Keep{Issue: i, Status: status})
		}
	}
	before := map[string]string{}
	for _, k := range wanted {
		before[k.ID] = b.objectOf(k.Issue)
	}
	isSame := func(k Keep) bool {
		return b.elsewhere(k.Issue) != nil || b.holds(b.own[k.ID]) || b.objectOf(k.Issue) == before[k.ID]
	}
	why := map[string]string{}
	areAllRefused := false
	for round := 0; round < takeRounds && len(wanted) > 0; round++ {
		var refused map[string]string
		refused, err = b.push(ctx, wanted)
		areAllRefused = isCode(err, CodeRefused)
		if err != nil && !areAllRefused {
			return not, err
		}
		if !areAllRefused && len(refused) == 0 {
			break
		}
		if err := b.look(ctx); err != nil {
			return not, err
		}
		maps.Copy(why, refused)
		wanted = slices.DeleteFunc(wanted, isSame)
		for _, k := range wanted {
			before[k.ID] = b.objectOf(k.Issue)
		}
	}
	not = NotTaken{Elsewhere: b.othersHave(issues), Refused: map[string]error{}}
	for _, i := range issues {
		switch {
		case not.Has(i.ID) || b.holds(b.own[i.ID]):
		case areAllRefused:
			not.Refused[i.ID] = err
		default:
			not.Refused[i.ID] = notTaken(i, why[i.ID])
		}
	}
	return not, b.noteRefusals(ctx, issues, not)
}

// Ended returns the claims of other machines that this one may take, as it saw them last: those that
// have ended, because their machines are not heard of any more, and those that are free. One that was
// released is among them only after a term. It makes no request.
func (m *Member) Ended(ctx context.Context) (ended []Claim, err error) {
	b, err := m.openAll(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range b.seen {
		c, err := s.Claim()
		if err == nil && c.Project == m.Project && m.hasEnded(s) {
			ended = append(ended, c)
		}
	}
	slices.SortFunc(ended, func(a, b Claim) int { return strings.Compare(a.IssueID, b.IssueID) })
	return ended, nil
}

// Look looks at the claims of all machines, so that this one learns of those that end.
func (m *Member) Look(ctx context.Context) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return err
	}
	return b.look(ctx)
}

// Held returns the claim of an issue that this machine has; false if it has none.
func (m *Member) Held(ctx context.Context, issueID string) (Claim, bool, error) {
	b, err := m.open(ctx)
	if err != nil {
		return Claim{}, false, err
	}
	own, isOwn := b.own[issueID]
	if !isOwn || own.LostTo != "" {
		return Claim{}, false, nil
	}
	c, err := Parse(own.Content)
	return c, err == nil, nil
}

// Own returns the claims of this machine, in the order of the ids of their issues.
func (m *Member) Own(ctx context.Context) (claims []Claim, err error) {
	b, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, own := range b.own {
		c, err := Parse(own.Content)
		if err == nil && own.LostTo == "" {
			claims = append(claims, c)
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int { return strings.Compare(a.IssueID, b.IssueID) })
	return claims, nil
}

// Settle makes the claims of this machine agree with its issues: it renews those that are due, and
// deletes those of issues that are not kept, or leaves them free for a while if they were released. It
// makes a push for each if there is anything to do, and a look if any of it is refused.
func (m *Member) Settle(ctx context.Context, keep []Keep) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	var due []Keep
	for _, k := range keep {
		kept[k.ID] = true
		own, isOwn := b.own[k.ID]
		if isOwn && !k.HasWorker && m.due(own, k) {
			due = append(due, k)
		}
	}
	var ended []Own
	var leaving []Keep
	for id, own := range b.own {
		switch {
		case kept[id]:
		case own.LostTo == "" && own.wasReleased():
			leaving = append(leaving, Keep{Issue: own.Issue, Status: Free})
		default:
			ended = append(ended, own)
		}
	}
	// A remote may refuse one of them, which must not keep it from the others.
	renewed := b.renew(ctx, due)
	left := b.leave(ctx, leaving)
	return errors.Join(renewed, left, b.delete(ctx, ended))
}

// Renew renews the claim of an issue if half its term is over, and returns how long its holder may
// work on without another renewal. The code of the error is CodeLost if another machine has the claim;
// another error says that the remote could not be asked, and the time is right all the same.
func (m *Member) Renew(ctx context.Context, k Keep) (left time.Duration, err error) {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return 0, err
	}
	if own := b.own[k.ID]; own.LostTo == "" && m.due(own, k) {
		err = b.renew(ctx, []Keep{k})
	}
	if gone := b.mustOwn(k.Issue); gone != nil {
		return 0, gone
	}
	return m.timeLeft(b.own[k.ID]), err
}

// Check returns an error if another machine has an issue, as this one saw it last. It makes no request.
func (m *Member) Check(ctx context.Context, i Issue) error {
	known, err := m.Known(ctx)
	if err != nil {
		return err
	}
	for _, list := range []map[string]Elsewhere{known.Others, known.Lost} {
		for _, name := range []string{i.ID, i.Origin} {
			if e, isElsewhere := list[name]; isElsewhere {
				return takenBy(i, e.Holder)
			}
		}
	}
	return nil
}

// OtherIssueOn returns the claim of another issue that says that commits were delivered to a branch, as
// this machine saw it last; false if there is none. It makes no request.
func (m *Member) OtherIssueOn(ctx context.Context, branch string, i Issue) (Claim, bool, error) {
	b, err := m.openAll(ctx)
	if err != nil {
		return Claim{}, false, err
	}
	key := b.key(i)
	for _, s := range b.seen {
		c, err := s.Claim()
		if err == nil && s.Key != key && c.Branch == branch {
			return c, true, nil
		}
	}
	for _, own := range b.own {
		c, err := Parse(own.Content)
		if err == nil && own.LostTo == "" && own.Key != key && c.Branch == branch {
			return c, true, nil
		}
	}
	return Claim{}, false, nil
}

// Confirm makes sure that this machine has the claim of an issue, before it changes something that
// people see: by a renewal if the claim has to say something new, otherwise by a look. The code of the
// error is CodeLost if another machine has it.
func (m *Member) Confirm(ctx context.Context, k Keep) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return err
	}
	own, isOwn := b.own[k.ID]
	if !isOwn || own.LostTo != "" || !m.due(own, k) {
		return b.checkOwn(ctx, k.Issue)
	}
	if err := b.renew(ctx, []Keep{k}); err != nil {
		return err
	}
	return b.mustOwn(k.Issue)
}

// Fence calls push with the change of the claim that has to be a part of its push, and stores the object
// of the claim that it returns. It comes when nothing but the push is left to do. limit is the most time
// that the push may take: first the claim is renewed if less of it is left, because a renewal in between
// would be another claim than the push expects. If push fails because the remote has another claim, it
// is called once more if that one is of this machine.
func (m *Member) Fence(
	ctx context.Context,
	k Keep,
	limit time.Duration,
	push func(Change) (object string, err error),
) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return err
	}
	if err := b.cover(ctx, k, limit); err != nil {
		return err
	}
	err = b.fence(ctx, k, push)
	if !IsLost(err) && !errors.Is(err, errOvertaken) {
		return err
	}
	if err := b.checkOwn(ctx, k.Issue); err != nil {
		return err
	}
	if err := b.cover(ctx, k, limit); err != nil {
		return err
	}
	return b.fence(ctx, k, push)
}
