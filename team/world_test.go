package team

import (
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
)

func (a answer) String() string {
	return [...]string{"", ", answer lost", ", connection lost", ", late answer"}[a]
}

var errLink = errors.New("the connection broke")

// world is a remote with a few machines, on which one issue is worked on. It can be copied.
type world struct {
	now      time.Duration // since the start, the same for all
	remote   map[string]Entry
	objects  int // how many objects were pushed
	tokens   int // how many tokens were made
	machines []machine
	// released: a person deleted the claim, which lets another machine take it at once.
	released bool
}

// machine is the state of one machine.
type machine struct {
	boots   int
	booted  time.Duration
	own     map[string]Own
	seen    []Seen
	working bool // a worker is at work on the issue
}

func newWorld(machines int) *world {
	w := &world{remote: map[string]Entry{}}
	for range machines {
		w.machines = append(w.machines, machine{own: map[string]Own{}})
	}
	return w
}

func (w *world) clone() *world {
	next := *w
	next.remote = maps.Clone(w.remote)
	next.machines = slices.Clone(w.machines)
	for i := range next.machines {
		next.machines[i].own = maps.Clone(w.machines[i].own)
		next.machines[i].seen = slices.Clone(w.machines[i].seen)
	}
	return &next
}

var (
	theIssue = Issue{ID: "id-1", Identifier: "WEB-1"}
	terms    = Terms{Term: 20 * time.Minute, Watch: 24 * time.Hour}
	start    = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
)

// member is a machine of the world, whose next push fares as a says. The clocks of machines that
// people read differ by hours.
func (w *world) member(at int, a answer) *Member {
	m := &w.machines[at]
	return &Member{
		Remote:  &link{w, at, a},
		Journal: &memory{m},
		Terms:   terms,
		Machine: fmt.Sprintf("machine-%d", at),
		Project: "https://tracker.example web",
		Now:     func() time.Time { return start.Add(w.now + time.Duration(at)*3*time.Hour) },
		Clock: func() Instant {
			return Instant{Boot: fmt.Sprint("boot-", m.boots), Since: w.now - m.booted}
		},
		NewToken: func() string {
			w.tokens++
			return fmt.Sprint("token-", w.tokens)
		},
	}
}

// isAtWork reports whether a machine works on the issue, and its claim allows it to.
func (w *world) isAtWork(at int) bool {
	m := w.machines[at]
	own, isOwn := m.own[theIssue.ID]
	return m.working && isOwn && own.LostTo == "" && w.member(at, arrives).left(own) > 0
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
	if l.answer == cut {
		return nil, errLink
	}
	results := map[string]Changed{}
	for _, c := range changes {
		results[c.Key] = l.w.change(c)
	}
	if l.answer == unheard {
		return nil, errLink
	}
	if l.answer == late {
		l.w.beLate(l.at)
	}
	return results, nil
}

// beLate lets half a term pass between a push of a machine and its answer. The others look before.
func (w *world) beLate(at int) {
	for other := range w.machines {
		if other != at {
			_ = w.take(other, arrives)
		}
	}
	w.now += terms.Term / 2
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
		stored = append(stored, s.m.own[o.ID])
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

// release is a person who deletes the claim, whatever its holder does.
var release = step{"a person deletes the claim", func(w *world) string {
	clear(w.remote)
	w.released = true
	return ""
}}

// steps are everything that can happen next to the world without a person.
func (w *world) steps() []step {
	ctx := context.Background()
	list := []step{
		{"a quarter of a term passes", func(w *world) string { w.now += terms.Term / 4; return "" }},
		{"a term passes", func(w *world) string { w.now += terms.Term; return "" }},
	}
	for at := range w.machines {
		name := fmt.Sprintf("machine %d ", at)
		list = append(list, step{name + "is booted", func(w *world) string {
			m := &w.machines[at]
			m.boots++
			m.booted = w.now
			m.working = false
			return ""
		}})
		list = append(list, step{name + "forgets the issue", func(w *world) string {
			w.machines[at].working = false
			_ = w.member(at, arrives).Settle(ctx, nil)
			return ""
		}})
		for _, a := range []answer{arrives, unheard, cut, late} {
			list = append(list,
				step{name + "takes the issue" + a.String(), func(w *world) string { return w.take(at, a) }},
				step{name + "renews" + a.String(), func(w *world) string { return w.renew(at, a) }},
				step{name + "delivers" + a.String(), func(w *world) string { return w.deliver(at, a) }},
			)
		}
	}
	return list
}

// step is something that happens. It returns what is wrong with it, "" if nothing is.
type step struct {
	name string
	do   func(*world) string
}

func (w *world) take(at int, a answer) string {
	elsewhere, err := w.member(at, a).Take(context.Background(), []Issue{theIssue})
	if err == nil && len(elsewhere) == 0 {
		w.machines[at].working = true
	}
	return ""
}

func (w *world) renew(at int, a answer) string {
	if !w.machines[at].working {
		return ""
	}
	left, _ := w.member(at, a).Renew(context.Background(), Keep{Issue: theIssue, Status: Working})
	if left == 0 {
		w.machines[at].working = false
	}
	return ""
}

// deliver pushes a branch with the claim. It is wrong if the claim was another machine's.
func (w *world) deliver(at int, a answer) (wrong string) {
	if !w.machines[at].working {
		return ""
	}
	m := w.member(at, a)
	err := m.Fence(context.Background(), Keep{Issue: theIssue, Status: Working}, func(c Change) (string, error) {
		if a == cut {
			return "", errLink
		}
		holder := m.read(w.remote[c.Key]).Machine
		result := w.change(c)
		if result.Refused != "" {
			return "", lost(theIssue, "")
		}
		if holder != m.Machine && !w.released {
			wrong = m.Machine + " delivered although " + holder + " has the claim"
		}
		if a == unheard {
			return "", errLink
		}
		if a == late {
			w.beLate(at)
		}
		return result.Object, nil
	})
	if IsLost(err) {
		w.machines[at].working = false
	}
	return wrong
}

// wrong is what is wrong with the world as it is.
func (w *world) wrong() string {
	var atWork []string
	for at, m := range w.machines {
		if m.own[theIssue.ID].LostTo == w.member(at, arrives).Machine {
			return m.own[theIssue.ID].LostTo + " lost the claim to itself"
		}
		if w.isAtWork(at) {
			atWork = append(atWork, fmt.Sprint("machine-", at))
		}
	}
	if len(atWork) > 1 && !w.released {
		return strings.Join(atWork, " and ") + " work on the issue at once"
	}
	return ""
}

// isStuck reports whether a machine that is alone from now on never gets the issue.
func (w *world) isStuck(at int) bool {
	alone := w.clone()
	for range 4 {
		elsewhere, err := alone.member(at, arrives).Take(context.Background(), []Issue{theIssue})
		if err == nil && len(elsewhere) == 0 {
			return false
		}
		if own, isOwn := alone.machines[at].own[theIssue.ID]; isOwn && own.LostTo != "" {
			_ = alone.member(at, arrives).Settle(context.Background(), nil) // its pass ends the run
		}
		alone.now += terms.Term + 2*Grace(terms.Term)
	}
	return true
}

// fingerprint is the same for worlds in which the same can happen: names of objects and tokens are
// replaced by their order, moments by their age.
func (w *world) fingerprint() string {
	var b strings.Builder
	age := func(m machine, i Instant) string {
		if i.Boot != fmt.Sprint("boot-", m.boots) {
			return "unknown"
		}
		return fmt.Sprint(min(w.now-m.booted-i.Since, 2*terms.Term))
	}
	for _, e := range w.remote {
		fmt.Fprint(&b, e.Object, " ", tokenOf(e.Content), ";")
	}
	for _, m := range w.machines {
		fmt.Fprint(&b, "|", m.working)
		for _, o := range m.own {
			fmt.Fprint(&b, " own ", o.Object, " ", tokenOf(o.Content), " ", o.LostTo, " ", age(m, o.Renewed))
			for _, t := range o.Tried {
				fmt.Fprint(&b, " tried ", tokenOf(t))
			}
			if len(o.Tried) > 0 {
				fmt.Fprint(&b, " ", age(m, o.TriedAt))
			}
		}
		for _, s := range m.seen {
			fmt.Fprint(&b, " seen ", s.Object, " ", age(m, s.First))
		}
	}
	fmt.Fprint(&b, w.released)
	return numbered(b.String())
}

// tokenOf is the token and the machine of a content.
func tokenOf(content string) string {
	c, err := Parse(content)
	if err != nil {
		return "none"
	}
	return c.Token + " " + c.Machine
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
