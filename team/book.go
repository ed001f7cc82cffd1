package team

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// book is what the database of this machine says of claims during one operation of a Member.
type book struct {
	*Member
	own map[string]Own // by the id of the issue
	// seen are the claims of other machines, by key. There may be a thousand, which a worker that looks
	// every few seconds whether its claim is due does not need: nil until readSeen.
	seen map[string]Seen
}

// open reads the claims of this machine.
func (m *Member) open(ctx context.Context) (*book, error) {
	b := &book{Member: m}
	if err := b.readOwn(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// openAll also reads the claims of other machines.
func (m *Member) openAll(ctx context.Context) (*book, error) {
	b, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	return b, b.readSeen(ctx)
}

// readSeen reads the claims of other machines, unless that was done.
func (b *book) readSeen(ctx context.Context) error {
	if b.seen != nil {
		return nil
	}
	all, err := b.Journal.SeenClaims(ctx)
	if err != nil {
		return err
	}
	b.seen = map[string]Seen{}
	for _, s := range all {
		b.seen[s.Key] = s
	}
	return nil
}

func (b *book) readOwn(ctx context.Context) error {
	own, err := b.Journal.OwnClaims(ctx)
	if err != nil {
		return err
	}
	b.own = map[string]Own{}
	for _, o := range own {
		b.own[o.ID] = o
	}
	return nil
}

// save stores claims of this machine, and reads them back.
func (b *book) save(ctx context.Context, claims []Own) error {
	if len(claims) == 0 {
		return nil
	}
	stored, err := b.Journal.SaveOwnClaims(ctx, claims)
	if err != nil {
		return err
	}
	for _, o := range claims { // another process may have dropped it
		delete(b.own, o.ID)
	}
	for _, o := range stored {
		b.own[o.ID] = o
	}
	return nil
}

// drop forgets claims of this machine.
func (b *book) drop(ctx context.Context, issueIDs []string) error {
	if len(issueIDs) == 0 {
		return nil
	}
	for _, id := range issueIDs {
		delete(b.own, id)
	}
	return b.Journal.DropOwnClaims(ctx, issueIDs)
}

// key is the key of the claim of an issue.
func (b *book) key(i Issue) string {
	if own, isOwn := b.own[i.ID]; isOwn {
		return own.Key
	}
	for _, s := range b.seen {
		c := b.read(s.Entry)
		if i.Origin == "" && c.IssueID == i.ID && c.Project == b.Project {
			return s.Key
		}
	}
	return Key(cmp.Or(i.Origin, b.local(i)))
}

// objectOf is the claim of an issue in the remote, as far as the book says; empty for none.
func (b *book) objectOf(i Issue) string {
	if own, isOwn := b.own[i.ID]; isOwn {
		return own.Object
	}
	return b.seen[b.key(i)].Object
}

// isUnsure reports whether only a look tells who has the claim of an issue: if the result of a push is
// not known, the claim of this machine has ended, or that of another one has or may be free by now.
func (b *book) isUnsure(i Issue) bool {
	own, isOwn := b.own[i.ID]
	if isOwn {
		return own.LostTo == "" && (len(own.Tried) > 0 || !b.holds(own))
	}
	seen, isSeen := b.seen[b.key(i)]
	return isSeen && (!b.isCurrent(seen) || b.mayBeFree(seen))
}

// elsewhere returns who has an issue instead of this machine; nil for nobody.
func (b *book) elsewhere(i Issue) *Elsewhere {
	own, isOwn := b.own[i.ID]
	if isOwn && own.LostTo == "" {
		return nil
	}
	seen, isSeen := b.seen[b.key(i)]
	if isSeen && b.isCurrent(seen) {
		e := b.Member.elsewhere(seen)
		return &e
	}
	if isOwn {
		return &Elsewhere{Holder: own.LostTo, Status: b.read(seen.Entry).Status}
	}
	return nil
}

// othersHave returns which of the issues other machines have, by id.
func (b *book) othersHave(issues []Issue) map[string]Elsewhere {
	have := map[string]Elsewhere{}
	for _, i := range issues {
		if e := b.elsewhere(i); e != nil {
			have[i.ID] = *e
		}
	}
	return have
}

// push creates, replaces and takes claims, and returns the reasons of those that were refused, by the id
// of the issue. Each content is stored before the push, its result after it.
func (b *book) push(ctx context.Context, list []Keep) (refused map[string]string, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	tried, err := b.try(ctx, list)
	if err != nil {
		return nil, err
	}
	crash.At("team.tried")
	var changes []Change
	for _, k := range list {
		if change, isStored := tried[k.ID]; isStored {
			changes = append(changes, change)
		}
	}
	results, err := b.Remote.Change(ctx, changes)
	if err != nil {
		return nil, err
	}
	crash.At("team.pushed")
	refused = map[string]string{}
	var done []Own
	for _, k := range list {
		change, isStored := tried[k.ID]
		result, isKnown := results[change.Key]
		switch {
		case !isStored:
			refused[k.ID] = errOvertaken.Error()
		case !isKnown:
			refused[k.ID] = "it did not say why"
		case result.Refused != "":
			refused[k.ID] = result.Refused
		default:
			done = append(done, b.own[k.ID].pushed(change.New, result.Object))
		}
	}
	return refused, b.save(ctx, done)
}

// errOvertaken is why a claim is not pushed.
var errOvertaken = errors.New("another process of this machine changes the claim")

// maxTried is how many contents a row keeps whose pushes have no known results. An older one that is on
// its way still would be taken for the claim of another machine.
const maxTried = 10

// try stores new contents, and returns the changes that push them, by the ids of the issues. A content
// that was not stored, because another process of this machine was faster, must not be pushed.
func (b *book) try(ctx context.Context, list []Keep) (map[string]Change, error) {
	at := b.Clock()
	var trying []Own
	changes := map[string]Change{}
	for _, k := range list {
		own, isOwn := b.own[k.ID]
		old := own.Object
		before, _ := Parse(own.Content)
		if !isOwn {
			own = Own{Issue: k.Issue, Key: b.key(k.Issue)}
			ended := b.seen[own.Key] // the claim of another machine; empty for none
			old = ended.Object
			before = b.inherited(ended)
		}
		content := b.claimOf(before, k).Content()
		trying = append(trying, own.trying(content, at))
		changes[k.ID] = Change{Key: own.Key, Old: old, New: content}
	}
	if err := b.save(ctx, trying); err != nil {
		return nil, err
	}
	for id, change := range changes {
		if b.own[id].triedAt(change.New) < 0 {
			delete(changes, id)
		}
	}
	return changes, nil
}

// trying is the claim before the push of a content.
func (o Own) trying(content string, at Instant) Own {
	tried := append(slices.Clone(o.Tried), Try{Content: content, At: at})
	o.Tried = tried[max(0, len(tried)-maxTried):]
	return o
}

// triedAt is the place of a content among those that were tried; -1 if it is not there.
func (o Own) triedAt(content string) int {
	return slices.IndexFunc(o.Tried, func(t Try) bool { return t.Content == content })
}

// pushed is the claim after the push of a content that was tried.
func (o Own) pushed(content, object string) Own {
	o.Renewed = o.Tried[o.triedAt(content)].At
	o.Content = content
	o.Object = object
	o.Tried = nil
	return o
}

// renew renews claims of this machine that are due. A claim that the remote refuses is lost, unless a
// look finds that it is still of this machine; then it is renewed with what the look found. If the
// result of an earlier push is not known, the look comes first: as long as the remote can't be reached,
// nothing new is tried.
func (b *book) renew(ctx context.Context, list []Keep) error {
	isUnknown := func(k Keep) bool { return len(b.own[k.ID].Tried) > 0 }
	isOver := func(k Keep) bool {
		own, isOwn := b.own[k.ID]
		return !isOwn || !b.due(own, k)
	}
	if slices.ContainsFunc(list, isUnknown) {
		if err := b.look(ctx); err != nil {
			return err
		}
	}
	list = slices.DeleteFunc(slices.Clone(list), isOver)
	refused, err := b.push(ctx, list)
	if err != nil || len(refused) == 0 {
		return err
	}
	if err := b.look(ctx); err != nil {
		return err
	}
	isOther := func(k Keep) bool { return refused[k.ID] == "" || isOver(k) }
	again := slices.DeleteFunc(slices.Clone(list), isOther)
	refused, err = b.push(ctx, again)
	if err != nil || len(refused) == 0 {
		return err
	}
	isRefused := func(k Keep) bool { return refused[k.ID] != "" }
	first := again[slices.IndexFunc(again, isRefused)]
	return notTaken(first.Issue, refused[first.ID])
}

// delete deletes claims, and forgets those that are gone or lost. One that the remote refuses to delete
// stays in the book, for the next time.
func (b *book) delete(ctx context.Context, list []Own) error {
	isUnsure := func(o Own) bool { return o.LostTo == "" && o.Object == "" && len(o.Tried) > 0 }
	if slices.ContainsFunc(list, isUnsure) {
		if err := b.look(ctx); err != nil {
			return err
		}
	}
	at := b.Clock()
	var changes []Change
	var ending []Own
	issueOf := map[string]string{}
	var gone []string
	for _, old := range list {
		own, isOwn := b.own[old.ID]
		switch {
		case !isOwn:
		case own.LostTo != "" || own.Object == "":
			gone = append(gone, own.ID)
		default:
			issueOf[own.Key] = own.ID
			changes = append(changes, Change{Key: own.Key, Old: own.Object})
			ending = append(ending, own.trying("", at))
		}
	}
	if err := b.drop(ctx, gone); err != nil || len(changes) == 0 {
		return err
	}
	// stored first: after an answer that was lost, the claim does not count as one that holds
	if err := b.save(ctx, ending); err != nil {
		return err
	}
	results, err := b.Remote.Change(ctx, changes)
	if err != nil {
		return err
	}
	gone = nil
	for key, result := range results {
		if result.Refused == "" {
			gone = append(gone, issueOf[key])
		}
	}
	if err := b.drop(ctx, gone); err != nil || len(gone) == len(changes) {
		return err
	}
	return b.look(ctx) // the next time deletes what it finds
}

// leave makes claims free, and forgets them. They are claims like those of other machines then: any
// machine may take them, and one of them deletes them later.
func (b *book) leave(ctx context.Context, list []Keep) error {
	if len(list) == 0 {
		return nil
	}
	if err := b.renew(ctx, list); err != nil {
		return err
	}
	var left []string
	for _, k := range list {
		own, isOwn := b.own[k.ID]
		if isOwn && !b.due(own, k) {
			left = append(left, k.ID)
		}
	}
	if err := b.drop(ctx, left); err != nil {
		return err
	}
	return b.look(ctx)
}

// checkOwn looks whether this machine still has the claim of an issue.
func (b *book) checkOwn(ctx context.Context, i Issue) error {
	if err := b.look(ctx); err != nil {
		return err
	}
	if e := b.elsewhere(i); e != nil {
		return takenBy(i, e.Holder)
	}
	if _, isOwn := b.own[i.ID]; !isOwn {
		return takenBy(i, unknownHolder)
	}
	return nil
}

// mustOwn returns an error unless this machine has the claim of an issue, as far as the book says.
func (b *book) mustOwn(i Issue) error {
	own, isOwn := b.own[i.ID]
	if isOwn && own.LostTo == "" {
		return nil
	}
	return takenBy(i, own.LostTo)
}

// cover makes sure that a claim of this machine holds for a time without another renewal.
func (b *book) cover(ctx context.Context, k Keep, needs time.Duration) error {
	if err := b.mustOwn(k.Issue); err != nil {
		return err
	}
	covering := Keep{Issue: k.Issue, Status: k.Status, needs: needs}
	if err := b.renew(ctx, []Keep{covering}); err != nil {
		return err
	}
	return b.mustOwn(k.Issue)
}

// fence makes one push with the change of a claim.
func (b *book) fence(ctx context.Context, k Keep, push func(Change) (string, error)) error {
	tried, err := b.try(ctx, []Keep{k})
	if err != nil {
		return err
	}
	change, isStored := tried[k.ID]
	if !isStored {
		return errOvertaken
	}
	object, err := push(change)
	if err != nil {
		return err
	}
	crash.At("team.delivered")
	return b.save(ctx, []Own{b.own[k.ID].pushed(change.New, object)})
}

// look reads all claims of the remote, and brings the book up to date.
func (b *book) look(ctx context.Context) error {
	before := b.own
	entries, err := b.Remote.Look(ctx)
	if err != nil {
		return err
	}
	at := b.Clock()
	// another process of this machine may have pushed in between
	if err := b.readOwn(ctx); err != nil {
		return err
	}
	found := map[string]Entry{}
	for _, e := range entries {
		found[e.Key] = e
	}
	var changed []Own
	var gone []string
	for id, own := range b.own {
		isSame := reflect.DeepEqual(before[id], own)
		e, isThere := found[own.Key]
		switch {
		case isThere && own.wrote(e.Content): // also one that was lost, if a push arrived after its term
			if next := own.found(e); !reflect.DeepEqual(next, own) {
				changed = append(changed, next)
			}
		case own.LostTo != "":
		case !isSame:
		case own.triedAt("") >= 0: // it was deleted from here
			gone = append(gone, id)
		case isThere && own.Content == "": // this machine never had it
			gone = append(gone, id)
		case isThere && own.isReleased(e): // a renewal takes it again
			if own.Object != e.Object {
				own.Object = e.Object
				own.Renewed = Instant{}
				changed = append(changed, own)
			}
		case isThere:
			own.LostTo = b.read(e).Holder()
			changed = append(changed, own)
		case own.Content != "" && b.timeLeft(own) == 0 && !own.waitsForReview():
			own.LostTo = unknownHolder // another machine may have taken and ended it
			changed = append(changed, own)
		case own.Object != "": // a person has deleted it; a renewal creates it again
			own.Object = ""
			changed = append(changed, own)
		}
	}
	if err := b.save(ctx, changed); err != nil {
		return err
	}
	if err := b.drop(ctx, gone); err != nil {
		return err
	}
	return b.see(ctx, entries, at)
}

// see stores the claims of other machines.
func (b *book) see(ctx context.Context, entries []Entry, at Instant) error {
	if err := b.readSeen(ctx); err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, own := range b.own {
		if own.LostTo == "" {
			ours[own.Key] = true
		}
	}
	seen := map[string]Seen{}
	var all []Seen
	for _, e := range entries {
		if ours[e.Key] {
			continue
		}
		s := b.sighted(e, at)
		seen[e.Key] = s
		all = append(all, s)
	}
	b.seen = seen
	return b.Journal.SaveSeenClaims(ctx, all)
}

// sighted is a claim of another machine that a look found at a time. As long as the object stays the
// same, the time between two looks of one boot adds to its age.
func (b *book) sighted(e Entry, at Instant) Seen {
	s, isKnown := b.seen[e.Key]
	if !isKnown || s.Object != e.Object {
		return Seen{Entry: e, Looked: at, FirstAt: b.Now()}
	}
	if s.Looked.Boot != at.Boot {
		s.Looked = at
		s.FirstAt = b.Now().Add(-s.Age)
		return s
	}
	since, isLater := at.Sub(s.Looked)
	if isLater { // otherwise another process has looked meanwhile
		s.Looked = at
		s.Age += since
	}
	return s
}

// wrote reports whether this machine may have written a content.
func (o Own) wrote(content string) bool {
	return content != "" && (content == o.Content || o.triedAt(content) >= 0)
}

// isReleased reports whether an entry is what a person has made of a claim of this machine.
func (o Own) isReleased(e Entry) bool {
	c, err := e.Claim()
	if err != nil || c.Status != Free || c.Released == "" {
		return false
	}
	isOurs := func(content string) bool {
		own, err := Parse(content)
		return err == nil && own.Token == c.Released
	}
	isOurTry := func(t Try) bool { return isOurs(t.Content) }
	return isOurs(o.Content) || slices.ContainsFunc(o.Tried, isOurTry)
}

// wasReleased reports whether this machine took the claim after a person had released it.
func (o Own) wasReleased() bool {
	isIn := func(content string) bool {
		c, err := Parse(content)
		return err == nil && c.WasReleased
	}
	isTried := func(t Try) bool { return isIn(t.Content) }
	return isIn(o.Content) || slices.ContainsFunc(o.Tried, isTried)
}

// waitsForReview reports whether the claim is one of an issue that was handed over. No agent works on
// it, so that a claim that was deleted can be created again, however long ago that was.
func (o Own) waitsForReview() bool {
	c, err := Parse(o.Content)
	return err == nil && c.Status == Watching
}

// found is the claim after a look that found it in the remote. A push whose content is not there may
// still be on its way, so that its content is not forgotten.
func (o Own) found(e Entry) Own {
	o.Object = e.Object
	o.LostTo = ""
	if e.Content == o.Content {
		return o
	}
	at := o.triedAt(e.Content)
	o.Content = e.Content
	o.Renewed = o.Tried[at].At
	o.Tried = slices.Delete(slices.Clone(o.Tried), at, at+1)
	if len(o.Tried) == 0 {
		o.Tried = nil
	}
	return o
}

// CodeLost is the code of an error if another machine has the claim of an issue.
const CodeLost = "claim_lost"

// CodeRefused is the code of an error if the remote takes no claims.
const CodeRefused = "claims_refused"

// unknownHolder stands for the holder of a claim that is not there any more.
const unknownHolder = "another machine"

// takenBy is the error of a step for an issue that another machine has.
func takenBy(i Issue, holder string) error {
	if holder == "" {
		holder = unknownHolder
	}
	return reconcile.NewError(
		CodeLost,
		holder+" has the claim of "+i.Identifier+" now",
		"symphony machines lists who works on what",
	)
}

// IsLost reports whether an error says that another machine has a claim.
func IsLost(err error) bool {
	return isCode(err, CodeLost)
}

func isCode(err error, code string) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return ok && known.Code == code
}

// messageOf is an error in words, without its code.
func messageOf(err error) string {
	known, ok := errors.AsType[*reconcile.Error](err)
	if !ok {
		return err.Error()
	}
	return known.Message
}

// notTaken is the error of a claim that nobody has, and that the remote refused all the same.
func notTaken(i Issue, why string) error {
	return reconcile.NewError(
		CodeRefused,
		"the remote did not take the claim of "+i.Identifier+": "+why,
		"symphony doctor tries a claim; repository.claims: {branch: symphony-claims} keeps them on a branch",
	)
}

// longest is the longest term that the claim of another machine can have here: nobody can keep an
// issue for ever.
const longest = 30 * 24 * time.Hour
