package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// answer is what happens to a push.
type answer int

const (
	arrives answer = iota // it is carried out, and the machine hears of it
	unheard               // it is carried out, and the connection breaks before the answer
	cut                   // the connection breaks before the push
	late                  // it is carried out, all others look, and half a term later the answer comes
	hangs                 // the machine gives it up, and it may be carried out at any time afterwards
	beside                // another process of the machine renews its claims just before
)

func (a answer) String() string {
	return [...]string{
		"", ", answer lost", ", connection lost", ", late answer", ", push hangs", ", beside another process",
	}[a]
}

var errLink = errors.New("the connection broke")

// world is a remote with a few machines, on which issues are worked on. It can be copied.
type world struct {
	now      time.Duration // since the start, the same for all
	remote   map[string]Entry
	objects  int // how many objects were pushed
	tokens   int // how many tokens were made
	machines []machine
	flying   []flight
	begun    map[string]time.Duration // when the push of a content began
	// released: a person deleted a claim, which lets another machine take it at once.
	released bool
}

// machine is the state of one machine.
type machine struct {
	boots    int
	booted   time.Duration
	own      map[string]Own
	seen     []Seen
	refused  []Refusal
	working  map[string]bool // on which issues workers are at work, by id
	watching map[string]bool // whose reviews it waits for
}

// flight is a push that hangs.
type flight struct {
	at         int // the machine
	change     Change
	isDelivery bool
}

func newWorld(machines int) *world {
	w := &world{remote: map[string]Entry{}, begun: map[string]time.Duration{}}
	for range machines {
		w.machines = append(w.machines, machine{
			own:      map[string]Own{},
			working:  map[string]bool{},
			watching: map[string]bool{},
		})
	}
	return w
}

func (w *world) clone() *world {
	next := *w
	next.remote = maps.Clone(w.remote)
	next.begun = maps.Clone(w.begun)
	next.flying = slices.Clone(w.flying)
	next.machines = slices.Clone(w.machines)
	for i := range next.machines {
		m := &next.machines[i]
		m.own = maps.Clone(m.own)
		m.seen = slices.Clone(m.seen)
		m.working = maps.Clone(m.working)
		m.watching = maps.Clone(m.watching)
	}
	return &next
}

var (
	theIssue     = Issue{ID: "id-1", Identifier: "WEB-1", Origin: "tracker.example id-1"}
	anotherIssue = Issue{ID: "id-2", Identifier: "WEB-2", Origin: "tracker.example id-2"}
	terms        = Terms{Term: 20 * time.Minute, Watch: 24 * time.Hour}
	start        = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
)

// pushLimit is how long the push of a delivery may take.
const pushLimit = 15 * time.Minute

// member is a machine of the world, whose next push fares as a says. The clocks that people read differ
// by hours, and by a day more after each boot.
func (w *world) member(at int, a answer) *Member {
	m := &w.machines[at]
	wrong := time.Duration(at)*3*time.Hour + time.Duration(m.boots)*24*time.Hour
	return &Member{
		Remote:  &link{w, at, a},
		Journal: &memory{m},
		Terms:   terms,
		Machine: nameOf(at),
		Project: "https://tracker.example web",
		Now:     func() time.Time { return start.Add(w.now + wrong) },
		Clock: func() Instant {
			return Instant{Boot: fmt.Sprint("boot-", m.boots), Since: w.now - m.booted}
		},
		NewToken: func() string {
			w.tokens++
			return fmt.Sprint("token-", w.tokens)
		},
	}
}

func nameOf(machine int) string { return fmt.Sprint("machine-", machine) }

// keyOf is the key of an issue in the remote.
func (*world) keyOf(i Issue) string { return Key(i.Origin) }

// holder names the machine that has the claim of a key; empty for none.
func (w *world) holder(key string) string {
	c, _ := Parse(w.remote[key].Content)
	return c.Machine
}

// isAtWork reports whether a machine works on an issue, and its claim allows it to.
func (w *world) isAtWork(at int, i Issue) bool {
	m := w.machines[at]
	own, isOwn := m.own[i.ID]
	return m.working[i.ID] && isOwn && own.LostTo == "" && w.member(at, arrives).timeLeft(own) > 0
}

// link is the way of a machine to the remote.
type link struct {
	w      *world
	at     int // the machine
	answer answer
}

func (l *link) Look(context.Context) ([]Entry, error) {
	if l.answer == cut {
		return nil, errLink
	}
	return slices.Collect(maps.Values(l.w.remote)), nil
}

func (l *link) Change(_ context.Context, changes []Change) (map[string]Changed, error) {
	for _, c := range changes {
		l.w.begun[c.New] = l.w.now
	}
	switch l.answer {
	case cut:
		return nil, errLink
	case hangs:
		for _, c := range changes {
			l.w.flying = append(l.w.flying, flight{at: l.at, change: c})
		}
		return nil, errLink
	case beside:
		l.w.renewBeside(l.at)
	case arrives, unheard, late:
	}
	results := map[string]Changed{}
	for _, c := range changes {
		results[c.Key] = l.w.change(c)
	}
	if l.answer == unheard {
		return nil, errLink
	}
	if l.answer == late {
		l.w.othersLook(l.at)
		l.w.now += terms.Term / 2
	}
	return results, nil
}

// othersLook lets all other machines try to get the issue.
func (w *world) othersLook(at int) {
	for other := range w.machines {
		if other != at {
			_ = w.take(other, arrives, theIssue)
		}
	}
}

// renewBeside lets another process of a machine renew its claims.
func (w *world) renewBeside(at int) {
	m := w.member(at, arrives)
	for _, own := range w.machines[at].own {
		_ = m.Settle(context.Background(), append(w.kept(at, true), Keep{Issue: own.Issue, Status: Working}))
	}
}

// kept are the issues that a machine needs. A worker renews the claims of those that are worked on,
// unless all is true.
func (w *world) kept(at int, all bool) (keep []Keep) {
	m := w.machines[at]
	for _, i := range []Issue{theIssue, anotherIssue} {
		switch {
		case m.working[i.ID]:
			keep = append(keep, Keep{Issue: i, Status: Working, HasWorker: !all})
		case m.watching[i.ID]:
			keep = append(keep, Keep{Issue: i, Status: Watching})
		}
	}
	return keep
}

// change is the compare-and-swap of the remote.
func (w *world) change(c Change) Changed {
	if w.remote[c.Key].Object != c.Old {
		return Changed{Refused: "stale info"}
	}
	if c.New == "" {
		delete(w.remote, c.Key)
		return Changed{}
	}
	w.objects++
	e := Entry{Key: c.Key, Object: fmt.Sprint("object-", w.objects), Content: c.New}
	w.remote[c.Key] = e
	return Changed{Object: e.Object}
}

// memory is the database of a machine.
type memory struct{ m *machine }

func (s *memory) OwnClaims(context.Context) ([]Own, error) {
	return slices.Collect(maps.Values(s.m.own)), nil
}

func (s *memory) SaveOwnClaims(_ context.Context, claims []Own) (stored []Own, err error) {
	for _, o := range claims {
		if s.m.own[o.ID].Version == o.Version {
			o.Version++
			s.m.own[o.ID] = o
		}
		if now, isThere := s.m.own[o.ID]; isThere {
			stored = append(stored, now)
		}
	}
	return stored, nil
}

func (s *memory) DropOwnClaims(_ context.Context, issueIDs []string) error {
	for _, id := range issueIDs {
		delete(s.m.own, id)
	}
	return nil
}

func (s *memory) SeenClaims(context.Context) ([]Seen, error) { return s.m.seen, nil }

func (s *memory) SaveSeenClaims(_ context.Context, all []Seen) error {
	s.m.seen = all
	return nil
}

func (s *memory) Refusals(context.Context) ([]Refusal, error) { return slices.Clone(s.m.refused), nil }

func (s *memory) SaveRefusals(_ context.Context, all []Refusal) error {
	s.m.refused = all
	return nil
}

// step is something that happens. It returns what is wrong with it, "" if nothing is.
type step struct {
	name string
	do   func(*world) string
}

// release is a person who deletes all claims, whatever their holders do.
var release = step{"a person deletes the claims", func(w *world) string {
	clear(w.remote)
	w.released = true
	return ""
}}

// releaseByCommand is a person who releases all claims with symphony machines.
var releaseByCommand = step{"a person releases the claims", func(w *world) string {
	for _, key := range slices.Sorted(maps.Keys(w.remote)) {
		_ = w.member(0, arrives).Release(context.Background(), w.remote[key])
	}
	w.released = true
	return ""
}}

// pass lets time pass.
func pass(name string, d time.Duration) step {
	return step{name + " passes", func(w *world) string { w.now += d; return "" }}
}

// land carries the push out that has hung for longest.
var land = step{"a hanging push arrives", func(w *world) string {
	if len(w.flying) == 0 {
		return ""
	}
	f := w.flying[0]
	w.flying = w.flying[1:]
	return w.arrive(f)
}}

// vanish is its other end.
var vanish = step{"a hanging push never arrives", func(w *world) string {
	if len(w.flying) > 0 {
		w.flying = w.flying[1:]
	}
	return ""
}}

// arrive carries a push out. It is wrong if it delivers although another machine has the claim.
func (w *world) arrive(f flight) string {
	holder := w.holder(f.change.Key)
	result := w.change(f.change)
	if f.isDelivery && result.Refused == "" && holder != nameOf(f.at) && !w.released {
		return nameOf(f.at) + " delivered although the claim is of " + cmp.Or(holder, "nobody")
	}
	return ""
}

// work are the steps of a machine that works on an issue, with pushes that fare in several ways.
func work(at int, i Issue, answers ...answer) (list []step) {
	name := fmt.Sprintf("machine %d ", at)
	for _, a := range answers {
		how := " " + i.Identifier + a.String()
		list = append(list,
			step{name + "takes" + how, func(w *world) string { return w.take(at, a, i) }},
			step{name + "renews" + how, func(w *world) string { return w.renew(at, a, i) }},
			step{name + "delivers" + how, func(w *world) string { return w.deliver(at, a, i) }},
		)
	}
	return append(list,
		step{name + "is booted", func(w *world) string {
			m := &w.machines[at]
			m.boots++
			m.booted = w.now
			clear(m.working)
			return ""
		}},
		step{name + "forgets " + i.Identifier, func(w *world) string {
			delete(w.machines[at].working, i.ID)
			delete(w.machines[at].watching, i.ID)
			_ = w.member(at, arrives).Settle(context.Background(), w.kept(at, false))
			return ""
		}},
	)
}

// review are the steps of a machine that hands an issue over, waits for its review and takes over what
// another one waited for.
func review(at int, i Issue, answers ...answer) (list []step) {
	name := fmt.Sprintf("machine %d ", at)
	for _, a := range answers {
		how := " " + i.Identifier + a.String()
		list = append(list,
			step{name + "hands over" + how, func(w *world) string { return w.handOver(at, a, i) }},
			step{name + "watches" + how, func(w *world) string { return w.watch(at, a, i) }},
			step{name + "frees" + how, func(w *world) string { return w.free(at, a, i) }},
			step{name + "ends its pass" + how, func(w *world) string { return w.endPass(at, a) }},
		)
	}
	return list
}

func (w *world) take(at int, a answer, issues ...Issue) string {
	not, err := w.member(at, a).Take(context.Background(), issues)
	if err != nil {
		return ""
	}
	for _, i := range issues {
		if not.Has(i.ID) {
			continue
		}
		w.machines[at].working[i.ID] = true
		if wrong := w.mustHold(at, a, i, "works on"); wrong != "" {
			return wrong
		}
	}
	return ""
}

// mustHold returns what is wrong if another machine has an issue that this one was given.
func (w *world) mustHold(at int, a answer, i Issue, does string) string {
	holder := w.holder(w.keyOf(i))
	if holder == nameOf(at) || w.released || a == late {
		return ""
	}
	return nameOf(at) + " " + does + " an issue of " + cmp.Or(holder, "nobody")
}

func (w *world) renew(at int, a answer, i Issue) string {
	if !w.machines[at].working[i.ID] {
		return ""
	}
	left, _ := w.member(at, a).Renew(context.Background(), Keep{Issue: i, Status: Working})
	if left == 0 {
		delete(w.machines[at].working, i.ID)
	}
	return ""
}

// deliver pushes a branch with the claim, which takes as long as a delivery may take. It is wrong if the
// claim was another machine's, and if a machine that is at work does not get its work delivered.
func (w *world) deliver(at int, a answer, i Issue) (wrong string) {
	if !w.machines[at].working[i.ID] {
		return ""
	}
	wasAtWork := w.isAtWork(at, i)
	m := w.member(at, a)
	if a == beside {
		m = w.member(at, arrives) // the other process comes beside the push alone
	}
	err := m.Fence(context.Background(), Keep{Issue: i, Status: Working}, pushLimit, func(c Change) (string, error) {
		w.begun[c.New] = w.now
		f := flight{at: at, change: c, isDelivery: true}
		switch a {
		case cut:
			return "", errLink
		case hangs:
			w.flying = append(w.flying, f)
			return "", errLink
		case late:
			w.othersLook(at)
			w.now += pushLimit
			w.othersLook(at)
		case beside:
			w.renewBeside(at)
			a = arrives // a second push is alone
		case arrives, unheard:
		}
		wrong = w.arrive(f)
		if w.remote[c.Key].Content != c.New {
			return "", takenBy(i, "")
		}
		if a == unheard {
			return "", errLink
		}
		return w.remote[c.Key].Object, nil
	})
	if IsLost(err) {
		delete(w.machines[at].working, i.ID)
	}
	if wrong == "" && IsLost(err) && wasAtWork && !w.released {
		return nameOf(at) + " was at work, and could not deliver: " + err.Error()
	}
	return wrong
}

// handOver is the end of the work on an issue, which waits for its review then.
func (w *world) handOver(at int, a answer, i Issue) string {
	m := w.machines[at]
	if m.working[i.ID] {
		delete(m.working, i.ID)
		m.watching[i.ID] = true
	}
	return w.endPass(at, a)
}

// free ends the work on an issue that is not finished, so that any machine may take it.
func (w *world) free(at int, a answer, i Issue) string {
	delete(w.machines[at].working, i.ID)
	delete(w.machines[at].watching, i.ID)
	keep := append(w.kept(at, false), Keep{Issue: i, Status: Free, Branch: "symphony/" + i.Identifier})
	_ = w.member(at, a).Settle(context.Background(), keep)
	return ""
}

// watch answers a review. Only the machine that has the claim may.
func (w *world) watch(at int, a answer, i Issue) string {
	not, err := w.member(at, a).TakeForReview(context.Background(), []Issue{i})
	if err != nil {
		return ""
	}
	if not.Has(i.ID) {
		delete(w.machines[at].watching, i.ID)
		return ""
	}
	if !w.machines[at].working[i.ID] {
		w.machines[at].watching[i.ID] = true
	}
	return w.mustHold(at, a, i, "watches")
}

// endPass gives up what the machine has lost, and renews the claims that no worker renews.
func (w *world) endPass(at int, a answer) string {
	m := w.member(at, a)
	known, _ := m.Known(context.Background())
	for id := range known.Lost {
		delete(w.machines[at].working, id)
		delete(w.machines[at].watching, id)
	}
	_ = m.Settle(context.Background(), w.kept(at, false))
	return ""
}

// wrong is what is wrong with the world as it is.
func (w *world) wrong() string {
	for _, i := range []Issue{theIssue, anotherIssue} {
		if wrong := w.wrongWith(i); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (w *world) wrongWith(i Issue) string {
	var atWork []string
	for at, m := range w.machines {
		own := m.own[i.ID]
		if own.LostTo == nameOf(at) && !w.released {
			return own.LostTo + " lost the claim to itself"
		}
		if age, isKnown := w.member(at, arrives).Clock().Sub(own.Renewed); isKnown && own.Content != "" &&
			age < w.now-w.begun[own.Content] {
			return nameOf(at) + " takes its claim for younger than it is"
		}
		if w.isAtWork(at, i) {
			atWork = append(atWork, nameOf(at))
		}
	}
	if len(atWork) > 1 && !w.released {
		return strings.Join(atWork, " and ") + " work on " + i.Identifier + " at once"
	}
	return ""
}

// isStuck reports whether a machine that is alone from now on never gets an issue.
func (w *world) isStuck(at int, i Issue) bool {
	alone := w.clone()
	for range 4 {
		not, err := alone.member(at, arrives).Take(context.Background(), []Issue{i})
		if err == nil && !not.Has(i.ID) {
			return false
		}
		if own, isOwn := alone.machines[at].own[i.ID]; isOwn && own.LostTo != "" {
			_ = alone.endPass(at, arrives)
		}
		alone.now += terms.Watch + 2*Grace(terms.Watch)
	}
	return true
}

// isTouched reports whether there is anything of an issue: otherwise each machine gets it.
func (w *world) isTouched(i Issue) bool {
	key := w.keyOf(i)
	isOfIssue := func(f flight) bool { return f.change.Key == key }
	if w.remote[key].Object != "" || slices.ContainsFunc(w.flying, isOfIssue) {
		return true
	}
	hasIssue := func(m machine) bool {
		_, isOwn := m.own[i.ID]
		return isOwn || slices.ContainsFunc(m.seen, func(s Seen) bool { return s.Key == key })
	}
	return slices.ContainsFunc(w.machines, hasIssue)
}

// fingerprint is the same for worlds in which the same can happen: names of objects and tokens are
// replaced by their order, moments by their age.
func (w *world) fingerprint() string {
	var b strings.Builder
	age := func(m machine, i Instant) string {
		if i.Boot != fmt.Sprint("boot-", m.boots) {
			return "unknown"
		}
		return fmt.Sprint(min(w.now-m.booted-i.Since, 2*terms.Watch))
	}
	for _, key := range slices.Sorted(maps.Keys(w.remote)) {
		e := w.remote[key]
		fmt.Fprint(&b, key, " ", e.Object, " ", tokenOf(e.Content), ";")
	}
	for _, f := range w.flying {
		fmt.Fprint(&b, " flying ", f.change.Key, " ", f.change.Old, " ", tokenOf(f.change.New), " ", f.isDelivery)
	}
	for _, m := range w.machines {
		fmt.Fprint(&b, " | ", m.working, m.watching, " ")
		for _, id := range slices.Sorted(maps.Keys(m.own)) {
			o := m.own[id]
			fmt.Fprint(&b, " own ", id, " ", o.Object, " ", tokenOf(o.Content), " ", o.LostTo, " ", age(m, o.Renewed))
			for _, t := range o.Tried {
				fmt.Fprint(&b, " tried ", tokenOf(t.Content), " ", age(m, t.At))
			}
		}
		for _, s := range m.seen {
			fmt.Fprint(&b, " seen ", s.Object, " ", s.Age, " ", age(m, s.Looked))
		}
	}
	fmt.Fprint(&b, " ", w.released)
	return numbered(b.String())
}

// tokenOf is the token, the machine and the status of a content, with its term.
func tokenOf(content string) string {
	c, err := Parse(content)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(c.Token, " ", c.Machine, " ", c.Status, " ", c.Term())
}

// numbered replaces the numbers of objects and tokens by the order in which they appear.
func numbered(s string) string {
	numbers := map[string]string{}
	words := strings.Fields(s)
	for i, word := range words {
		at := strings.Index(word, "token-")
		if at < 0 {
			at = strings.Index(word, "object-")
		}
		if at < 0 {
			continue
		}
		if numbers[word[at:]] == "" {
			numbers[word[at:]] = fmt.Sprint(word[at:at+3], len(numbers))
		}
		words[i] = word[:at] + numbers[word[at:]]
	}
	return strings.Join(words, " ")
}
