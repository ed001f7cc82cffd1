// Package answers lets operators answer agents in the tracker: it writes an agent's requests
// as comments on its issue, takes the replies of operators as decisions, and edits the
// comments to show these. It also keeps one comment on each issue that is held, which says why.
// A pass calls it under the project lock.
//
// A comment is stored before it is made, and contains a marker, so that a pass that was killed
// in between makes no second comment. A reply is stored in the transaction of its decision, so
// that it decides once. Every step can be repeated.
package answers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// Exchange passes the requests of agents to operators in the tracker, and their replies back.
type Exchange struct {
	Tracker   *reconcile.TrackerAdapter
	DB        *state.DB
	Operators []string // whose replies decide; without them nothing is asked
	// ExplainHolds: comments say why issues are held, and why work can't be delivered.
	ExplainHolds bool
	Now          func() time.Time
	At           reconcile.Instant       // now
	Alive        func(runID string) bool // reports whether the worker of a run is alive
	// logs a reply that is ignored; nil leaves it to a later pass
	Ignore func(issue, reply string)
}

const (
	bound = 30 * time.Second // for the requests of a pass to the tracker
	// slack is how much earlier comments are read: trackers round the times of comments, some
	// to minutes.
	slack = 2 * time.Minute
	// searched is how much earlier the comment of a killed pass is looked for: the tracker's
	// clock may be behind.
	searched = time.Hour
)

// Pass reads the replies, edits the comments whose subject has changed or ended, and comments
// on new requests and holds. Without such a subject it asks the tracker nothing. A step that
// fails is left to the next pass.
func (d Exchange) Pass(ctx context.Context) (errs []error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	due, err := d.due(ctx)
	if err != nil {
		return []error{err}
	}
	asked := map[string][]*entry{} // by issue: the comments on requests that were made
	for _, e := range due {
		if e.Number > 0 && e.ID != "" {
			asked[e.IssueID] = append(asked[e.IssueID], e)
		}
	}
	for _, issue := range slices.Sorted(maps.Keys(asked)) {
		err := d.readReplies(ctx, asked[issue])
		if err != nil {
			errs = append(errs, exit.About("replies to requests of "+asked[issue][0].identifier, err))
		}
		if isOver(ctx, err) {
			return errs
		}
	}
	for _, e := range due {
		err := d.write(ctx, e)
		if err != nil {
			errs = append(errs, exit.About("symphony's comment on "+e.identifier, err))
		}
		if isOver(ctx, err) {
			return errs
		}
	}
	return errs
}

// isOver reports whether a pass can make no further request after an error: its time is over,
// or the tracker allows no more.
func isOver(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(reconcile.Limited))
}

// entry is a comment with its subject.
type entry struct {
	state.Comment
	identifier string            // of the issue
	request    reconcile.Request // without a number: the comment is not about a request
	body       string            // of the comment on a hold
	ended      bool              // of the hold
	changed    bool              // someone else changed the comment
	gone       bool              // the comment was deleted
	// a reply must name the request, because another request of the issue was shown shortly
	// before it, or later
	needsID bool
}

// recent is the time before a request in which another request makes a reply without an id
// ambiguous: its author may not have seen the newer request.
const recent = 24 * time.Hour

// subjects returns every subject that has a comment or is due to get one: open requests, then
// the issues that are held or whose work can't be delivered.
func (d Exchange) subjects(ctx context.Context) (all []*entry, err error) {
	add := func(key, issueID string, e entry) {
		e.Key = key
		e.IssueID = issueID
		e.Number = e.request.Number
		all = append(all, &e)
	}
	if len(d.Operators) > 0 {
		open, err := d.DB.Views.OpenRequests(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range open {
			if d.Alive(r.RunID) {
				add(r.Attention().Key, r.IssueID, entry{identifier: r.Identifier, request: r})
			}
		}
	}
	if d.ExplainHolds {
		claims, err := d.DB.Store.Stuck(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range claims {
			if body := holdBody(c); body != "" {
				add(holdKey(c), c.IssueID, entry{identifier: c.Identifier, body: body})
			}
		}
	}
	return all, nil
}

// due returns the comments that are to be made or may have to be changed: on requests by their
// number, then on holds.
func (d Exchange) due(ctx context.Context) ([]*entry, error) {
	all, err := d.subjects(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := d.DB.Store.Comments(ctx, text.Map(all, func(e *entry) string { return e.Key }))
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if c, known := stored[e.Key]; known {
			e.Comment = c
			e.Done = c.Done && c.Number > 0 // an issue may be held again
			delete(stored, e.Key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) { // of requests and holds that ended
		e := &entry{Comment: stored[key]}
		if e.Number == 0 {
			e.identifier = e.IssueID
			e.body = noHoldBody
			e.ended = true
			all = append(all, e)
			continue
		}
		e.request, err = d.DB.RequestByID(ctx, e.IssueID, e.Number)
		if errors.Is(err, state.ErrNotFound) {
			e.Done = true
			err = d.DB.Store.SaveComment(ctx, e.Comment)
		}
		if err != nil {
			return nil, err
		}
		e.identifier = e.request.Identifier
		all = append(all, e)
	}
	all = slices.DeleteFunc(all, func(e *entry) bool { return e.Done })
	for _, e := range all {
		if e.Number > 0 {
			numbers, err := d.DB.Store.AskedSince(ctx, e.IssueID, e.request.AskedAt.Add(-recent))
			if err != nil {
				return nil, err
			}
			e.needsID = slices.ContainsFunc(numbers, func(n int) bool { return n != e.Number })
		}
	}
	return all, nil
}

// readReplies takes the decisions from the comments on an issue that are newer than symphony's
// comments on its open requests.
func (d Exchange) readReplies(ctx context.Context, asked []*entry) error {
	if !slices.ContainsFunc(asked, func(e *entry) bool { return answerable(e.request) }) {
		return nil
	}
	since := slices.MinFunc(asked, func(a, b *entry) int { return a.At.Compare(b.At) }).At
	list, err := d.Tracker.Comments(ctx, asked[0].IssueID, since.Add(-slack))
	if err != nil {
		return err
	}
	slices.Reverse(list) // the oldest first
	notByPeople, err := d.DB.Journal.Created(ctx, idsOf(list))
	if err != nil {
		return err
	}
	for _, e := range asked {
		e.compare(list)
	}
	for i, c := range list {
		addressed := slices.DeleteFunc(slices.Clone(asked), func(e *entry) bool {
			return !after(list, i, e) || slices.Contains(e.Seen, c.ID)
		})
		if len(addressed) == 0 || notByPeople[c.ID] || reconcile.Marked(c.Body) {
			continue
		}
		if err := d.takeReply(ctx, c, addressed); err != nil {
			return err
		}
	}
	return nil
}

// compare notes whether symphony's comment still shows the text that symphony wrote. An agent
// or a person may change or delete it: then replies may be about something else. A pass that
// was killed may have written the present text.
func (e *entry) compare(list []reconcile.Comment) {
	at := slices.IndexFunc(list, func(c reconcile.Comment) bool { return c.ID == e.ID })
	e.gone = at < 0
	if e.gone {
		return
	}
	shown := hashOf(list[at].Body)
	e.changed = shown != e.Shown && shown != hashOf(e.text())
}

// text is the comment on a request, as it is now.
func (e *entry) text() string { return requestBody(e.request, e.Problem, e.needsID) }

// marker is the last line of the comment, by which symphony knows it.
func (e *entry) marker() string {
	if e.Number == 0 {
		return holdMarker
	}
	return marker(e.request)
}

func idsOf(list []reconcile.Comment) []string {
	return text.Map(list, func(c reconcile.Comment) string { return c.ID })
}

// answerable reports whether a reply can decide a request: it is open, or a question whose
// answer the next run gets.
func answerable(r reconcile.Request) bool {
	return r.Open() ||
		r.Fate == reconcile.RequestRunEnded && r.Decision == "" && r.Kind == reconcile.QuestionRequest
}

// after reports whether the ith comment was made after symphony's. The order decides, because
// times may be rounded; if there is no comment of symphony any more, the time.
func after(list []reconcile.Comment, i int, e *entry) bool {
	at := slices.IndexFunc(list, func(c reconcile.Comment) bool { return c.ID == e.ID })
	if at >= 0 {
		return i > at
	}
	return list[i].CreatedAt.After(e.At)
}

// takeReply stores the decision of a reply, unless it is none, or not by an operator.
// addressed are the requests that were asked before the reply. Each of them records that the
// reply was looked at, so that this is done once.
func (d Exchange) takeReply(ctx context.Context, c reconcile.Comment, addressed []*entry) error {
	identifier := addressed[0].identifier
	shown := slices.DeleteFunc(slices.Clone(addressed), func(e *entry) bool { return e.gone })
	ignored := d.whyIgnored(c, shown)
	if ignored != "" {
		if d.Ignore == nil {
			return nil
		}
		d.Ignore(identifier, fmt.Sprintf("a comment of %q, %s", c.Author, ignored))
		return d.noteReply(ctx, c, addressed)
	}
	target, problem, err := d.obey(ctx, c, shown)
	if err != nil {
		return err
	}
	for _, e := range addressed {
		if problem != "" && e.Problem == "" && (target == nil || target == e) {
			e.Problem = "The reply of " + span(c.Author) + " decided nothing: " + problem + "."
		}
	}
	return d.noteReply(ctx, c, addressed)
}

// whyIgnored returns why a comment decides nothing, whatever it says, as the end of a sentence:
// "who is not in tracker.operators", for example. It is empty for a reply of an operator.
func (d Exchange) whyIgnored(c reconcile.Comment, shown []*entry) string {
	switch {
	case d.operatorOf(c) == "":
		return "who is not in tracker.operators"
	case c.Own:
		return "with whose key agents comment, too"
	case len(shown) == 0:
		return "because symphony's comment was deleted: decide by symphony approve, deny or answer"
	}
	return ""
}

// operatorOf is the operator who wrote a comment, as tracker.operators names them; empty for
// another author.
func (d Exchange) operatorOf(c reconcile.Comment) string {
	return text.First(d.Operators, func(name string) bool { return reconcile.SameUser(name, c.AuthorIDs...) })
}

// obey decides the request that a reply is about. problem is why it decided nothing. target is
// nil if it is not known which request is meant.
func (d Exchange) obey(
	ctx context.Context,
	c reconcile.Comment,
	shown []*entry,
) (target *entry, problem string, err error) {
	isChanged := func(e *entry) bool { return e.changed }
	switch {
	case c.Edited:
		problem = "an edited comment does not count, because another person may have changed it: write a new one"
		return nil, problem, nil
	case slices.ContainsFunc(shown, isChanged):
		problem = "this comment was changed, and now shows again what the agent asks for: write a new answer"
		return nil, problem, nil
	}
	said := readReply(c.Body, shown[0].identifier)
	target, problem = choose(shown, said)
	if problem != "" {
		return nil, problem, nil
	}
	by := fmt.Sprintf("%s (%s)", c.Author, d.operatorOf(c))
	problem, err = d.decide(ctx, target, said.text, by, c.ID)
	return target, problem, err
}

// noteReply records for each of the requests that a reply was looked at.
func (d Exchange) noteReply(ctx context.Context, c reconcile.Comment, addressed []*entry) error {
	for _, e := range addressed {
		e.Seen = append(e.Seen, c.ID)
		if err := d.DB.Store.SaveComment(ctx, e.Comment); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the request that a reply is about, or why that is not clear. Requests that
// have just ended count: the operator may have meant them.
func choose(shown []*entry, said reply) (target *entry, problem string) {
	if said.number > 0 {
		at := slices.IndexFunc(shown, func(e *entry) bool { return e.Number == said.number })
		if at < 0 {
			return nil, fmt.Sprintf("there is no open request %d", said.number)
		}
		return shown[at], ""
	}
	if len(shown) > 1 || shown[0].needsID {
		ids := text.Map(shown, func(e *entry) string { return span(e.request.ID()) })
		return nil, "it does not say which of the requests of the last day it is about: " +
			"write the id before the answer (" + strings.Join(ids, ", ") + ")"
	}
	return shown[0], ""
}

// decide stores the decision of a reply, unless the request ended meanwhile. problem is the
// reason why the reply does not count.
func (d Exchange) decide(
	ctx context.Context,
	e *entry,
	said, by, replyID string,
) (problem string, err error) {
	if !answerable(e.request) {
		return "", nil // the comment shows how it ended
	}
	r, err := decided(e.request, said)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is for the operator
	}
	r.Answer.By = by
	r.Answer.Reply = replyID
	is, err := d.DB.Operator.DecideRequest(ctx, d.Now(), d.At, r, !d.Alive(r.RunID))
	known, ok := errors.AsType[*reconcile.Error](err)
	if ok && known.Code == "request_ended" || errors.Is(err, state.ErrNotFound) {
		return "", nil // its worker is about to record that
	}
	if err != nil {
		return "", err
	}
	e.request = is
	return "", nil
}

// write makes the comment, or changes its text if that is out of date. The comment of a pass
// that was killed is changed in any case, because an agent may have imitated it.
func (d Exchange) write(ctx context.Context, e *entry) error {
	body := e.body
	ended := e.ended
	if e.Number > 0 {
		body = e.text()
		ended = verdict(e.request) != ""
	}
	if e.Text == hashOf(body) && !ended && !e.changed {
		return nil
	}
	err := d.show(ctx, e, body, ended)
	isHold := e.Number == 0
	switch {
	case errors.Is(err, reconcile.ErrGone) && isHold:
		e.ID = "" // somebody deleted it: the next reason gets a new one
		err = nil
	case errors.Is(err, reconcile.ErrGone):
		e.Done = true
		return d.DB.Store.SaveComment(ctx, e.Comment)
	case err != nil && (!isHold || !isRefused(err)):
		return err
	}
	// A tracker that refuses to explain a hold is asked again when there is another reason.
	e.Text = hashOf(body)
	e.Done = ended
	return errors.Join(err, d.DB.Store.SaveComment(ctx, e.Comment))
}

// isRefused reports whether the tracker would refuse the same comment again: the key may not
// comment, for example. Or another machine of the team has the issue.
func isRefused(err error) bool {
	return errors.Is(err, reconcile.ErrRejected) || transport.RefusedKey(err) || team.IsLost(err)
}

// show sets the text of the comment. It first stores that the comment will be made, so that
// the next pass looks for the comment if this pass is killed.
func (d Exchange) show(ctx context.Context, e *entry, body string, ended bool) error {
	tried := !e.At.IsZero()
	if !tried {
		e.At = d.Now()
		if err := d.DB.Store.SaveComment(ctx, e.Comment); err != nil {
			return err
		}
	} else if e.ID == "" {
		if err := d.find(ctx, e, body); err != nil {
			return err
		}
	}
	if e.ID == "" {
		if ended { // there is nothing to say any more
			return nil
		}
		made, err := d.Tracker.Post(ctx, e.IssueID, body)
		if err != nil {
			return err
		}
		e.ID = made.ID
		e.At = made.CreatedAt
		e.Shown = hashOf(made.Body)
		return nil
	}
	if !e.changed && e.Text == hashOf(body) {
		return nil
	}
	shown, err := d.Tracker.Edit(ctx, e.IssueID, e.ID, body)
	e.Shown = hashOf(shown)
	return err
}

// find looks for the comment of a pass that was killed. Someone may have changed it since.
func (d Exchange) find(ctx context.Context, e *entry, body string) error {
	list, err := d.Tracker.Comments(ctx, e.IssueID, e.At.Add(-searched))
	if err != nil {
		return err
	}
	at, err := d.indexOfMade(ctx, list, e.marker(), body)
	if err != nil || at < 0 {
		return err
	}
	made := list[at]
	e.ID = made.ID
	e.At = made.CreatedAt
	hasNewer := at > 0
	if hasNewer && hashOf(made.Body) != hashOf(body) {
		e.Seen = idsOf(list)
		e.Problem = "The replies to an earlier text of this comment decided nothing: write a new answer."
	}
	return nil
}

// indexOfMade returns the index of the comment that symphony made about a subject, -1 if there
// is none. The marker of the subject tells it, or, where a tracker lost the marker, the first
// line of its text.
func (d Exchange) indexOfMade(
	ctx context.Context,
	list []reconcile.Comment,
	marker, body string,
) (int, error) {
	first, _, _ := strings.Cut(body, "\n")
	for i, c := range list {
		said := strings.TrimSpace(c.Body)
		isMeant := strings.HasSuffix(said, marker) || strings.HasPrefix(said, first+"\n")
		if !isMeant {
			continue
		}
		isOurs, err := d.Tracker.Wrote(ctx, c)
		if err != nil {
			return -1, err
		}
		if !isOurs {
			continue
		}
		created, err := d.DB.Journal.Created(ctx, []string{c.ID})
		if err != nil {
			return -1, err
		}
		isOther := created[c.ID] // by an agent, or another comment of symphony
		if !isOther {
			return i, nil
		}
	}
	return -1, nil
}
