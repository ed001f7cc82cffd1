// Package contract checks that a tracker keeps the rules of reconcile.Tracker, by reading
// alone. The suite for adapters (tracker/trackertest) runs it against fakes.
//
// A change in a tracker during the check is no violation, as far as an issue's UpdatedAt shows
// it.
package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// UnknownID is the id of an issue that exists in no tracker.
const UnknownID = "00000000-0000-4000-8000-000000000000"

// Violation is a rule that a tracker does not keep.
type Violation struct {
	Rule    string `json:"rule"`    // the name of the rule
	Message string `json:"message"` // the observation, with the issue
	Why     string `json:"why"`     // the rule, and the harm without it
	// the error of a call that should have succeeded; nil for others
	Err error `json:"-"`
}

// Report is the result of a check.
type Report struct {
	Issues     int           // the number of candidates
	Longest    time.Duration // of the calls
	Violations []Violation   // as they were found; empty if the tracker keeps all
}

// Rule is a rule for trackers: its name, and the reason for it.
type Rule struct{ Name, Why string }

// The rules.
var (
	RuleReads = Rule{
		Name: "reads",
		Why: "every pass reads the candidates and the issues that it works on; " +
			"a failed read starts, stops and releases nothing",
	}
	RuleErrors = Rule{
		Name: "errors",
		Why:  "the code and the class of an error decide what a pass does and what people read",
	}
	RuleFields = Rule{
		Name: "fields",
		Why:  "an issue needs id, identifier, title and state, none empty",
	}
	RuleMalformed = Rule{
		Name: "malformed",
		Why: "a malformed record is never worked on; " +
			"asked for by its id, it fails the call or is returned as malformed",
	}
	RuleUnique = Rule{
		Name: "unique",
		Why:  "runs, workspaces and branches belong to one id and identifier; two issues must not share them",
	}
	RuleStates = Rule{
		Name: "states",
		Why:  "only issues in the given states may be returned: others would be started",
	}
	RuleCase = Rule{
		Name: "case",
		Why:  "names of states are compared without regard to case and outer blanks",
	}
	RuleOrder = Rule{
		Name: "order",
		Why: "two calls return the same issues in the same order, " +
			"so that issues of equal rank do not overtake each other",
	}
	RuleLabels = Rule{
		Name: "labels",
		Why:  "labels are in lower case, without blanks around them, and each only once",
	}
	RuleBlockers = Rule{
		Name: "blockers",
		Why: "a blocker needs an id or an identifier and is never the issue itself; " +
			"a blocker without a state counts as open",
	}
	RuleTimes = Rule{
		Name: "times",
		Why: "times are in UTC and not in the future, and no issue was updated before it was created: " +
			"they decide order and progress",
	}
	RuleByIDs = Rule{
		Name: "by-ids",
		Why:  "the same issue has the same values in both reads; one that is missing here is stopped and released",
	}
	RuleOnlyAsked = Rule{
		Name: "only-asked",
		Why:  "by id, only the issues that were asked for are returned, each under its own id",
	}
	RuleUnknownID = Rule{
		Name: "unknown-id",
		Why: "an id that does not exist is left out of the answer and is not an error: " +
			"otherwise one deleted issue fails every pass",
	}
	RuleNothing = Rule{
		Name: "nothing",
		Why:  "without states or ids there is nothing to read, and no error",
	}
	RuleFind = Rule{
		Name: "find",
		Why: "symphony run, hold and show find an issue by its identifier or id; " +
			"an unknown one is the error issue_not_found",
	}
	RuleComments = Rule{
		Name: "comments",
		Why:  "comments have an id and a time, and the newest comes first",
	}
	RuleSince = Rule{
		Name: "since",
		Why:  "only comments after the given time are returned: others would be given to the agent again",
	}
	RuleLastComment = Rule{
		Name: "last-comment",
		Why:  "last_comment_at is the time of the newest comment: a later comment ends a hold",
	}
)

// Check reads the issues in the given states, and everything else that a pass and its commands
// read, and returns the violations. It changes nothing. now is the current time.
func Check(ctx context.Context, t *reconcile.TrackerAdapter, states []string, now time.Time) Report {
	c := &check{ctx: ctx, t: t, states: states, now: now}
	issues, ok := c.candidates(states)
	if !ok {
		return c.Report
	}
	c.Issues = len(issues)
	c.records(issues)
	c.again(issues)
	before := len(c.Violations)
	c.byIDs(issues)
	if len(c.Violations) == before { // else Find would show the same again
		c.find(issues)
	}
	c.comments(issues)
	return c.Report
}

type check struct {
	Report
	ctx    context.Context
	t      *reconcile.TrackerAdapter
	states []string
	now    time.Time
	full   map[string]reconcile.Issue // the answer of ByIDs for the candidates
}

// violated adds a violation.
func (c *check) violated(rule Rule, format string, args ...any) {
	c.Violations = append(c.Violations, Violation{
		Rule:    rule.Name,
		Message: fmt.Sprintf(format, args...),
		Why:     rule.Why,
	})
}

// call makes a call. It returns false if the call failed, which is a violation.
func (c *check) call(rule Rule, what string, call func() error) bool {
	began := time.Now()
	err := call()
	c.Longest = max(c.Longest, time.Since(began))
	if err != nil {
		c.Violations = append(c.Violations, Violation{
			Rule:    rule.Name,
			Message: what + ": " + err.Error(),
			Why:     rule.Why,
			Err:     err,
		})
		c.classified(what, err)
		return false
	}
	return true
}

// classified checks the error of a call.
func (c *check) classified(what string, err error) {
	known, ok := errors.AsType[*reconcile.Error](err)
	switch {
	case !ok || known.Code == "":
		c.violated(RuleErrors, "%s: the error has no code: %s", what, err)
	case reconcile.ClassOf(err) == "" && known.Code != "issue_not_found":
		c.violated(RuleErrors, "%s: the error %s has no class", what, known.Code)
	case strings.Contains(known.Message, "\n"):
		c.violated(RuleErrors, "%s: the message of %s has more than one line", what, known.Code)
	}
}

// candidates reads the candidates. ok is false if the call failed.
func (c *check) candidates(states []string) (issues []reconcile.Issue, ok bool) {
	ok = c.call(RuleReads, fmt.Sprintf("the issues in the states %q", states), func() (err error) {
		issues, err = c.t.Candidates(c.ctx, states)
		return err
	})
	return issues, ok
}

// records checks each record, and the records together.
func (c *check) records(issues []reconcile.Issue) {
	ids := map[string]bool{}
	identifiers := map[string]string{}
	for _, i := range issues {
		name := called(i)
		other, twice := identifiers[i.Identifier]
		switch {
		case ids[i.ID] && i.ID != "":
			c.violated(RuleUnique, "two issues have the id %q", i.ID)
		case twice && i.Identifier != "":
			c.violated(RuleUnique, "the issues %q and %q have the same identifier %q", other, i.ID, i.Identifier)
		}
		ids[i.ID] = true
		identifiers[i.Identifier] = i.ID
		if i.Malformed != "" {
			if strings.Contains(i.Malformed, name) {
				c.violated(RuleMalformed, "%s", i.Malformed)
			} else {
				c.violated(RuleMalformed, "%s (issue %s)", i.Malformed, name)
			}
			continue
		}
		c.record(name, i)
		isAsked := func(s string) bool { return reconcile.SameState(s, i.State) }
		if i.StateMeant == "" && !slices.ContainsFunc(c.states, isAsked) {
			c.violated(RuleStates, "%s has the state %q, which was not asked for", name, i.State)
		}
	}
}

// latest is how far a time may be ahead of this machine's clock, whose time zone may differ
// from the zone of a date without a time zone.
const latest = 24 * time.Hour

// record checks the record of an issue.
func (c *check) record(name string, i reconcile.Issue) {
	for _, f := range []struct{ name, value string }{
		{"id", i.ID},
		{"identifier", i.Identifier},
		{"title", i.Title},
		{"state", i.State},
	} {
		if strings.TrimSpace(f.value) == "" {
			c.violated(RuleFields, "%s has no %s", name, f.name)
		}
	}
	seen := map[string]bool{}
	for _, l := range i.Labels {
		if l != strings.ToLower(strings.TrimSpace(l)) || l == "" || seen[l] {
			c.violated(RuleLabels, "%s has the label %q among %q", name, l, i.Labels)
		}
		seen[l] = true
	}
	for _, b := range i.BlockedBy {
		id := text.OrEmpty(b.ID)
		identifier := text.OrEmpty(b.Identifier)
		switch {
		case id == "" && identifier == "":
			c.violated(RuleBlockers, "%s has a blocker without id and identifier", name)
		case id != "" && id == i.ID, identifier != "" && identifier == i.Identifier:
			c.violated(RuleBlockers, "%s is blocked by itself", name)
		}
	}
	for _, at := range []struct {
		name string
		time *time.Time
	}{
		{"created_at", i.CreatedAt},
		{"updated_at", i.UpdatedAt},
		{"last_comment_at", i.LastCommentAt},
	} {
		switch {
		case at.time == nil:
		case at.time.After(c.now.Add(latest)):
			c.violated(RuleTimes, "%s: %s is in the future: %s", name, at.name, at.time.Format(time.RFC3339))
		case at.time.Location() != time.UTC:
			c.violated(RuleTimes, "%s: %s is not in UTC: %s", name, at.name, at.time.Format(time.RFC3339))
		}
	}
	if i.CreatedAt != nil && i.UpdatedAt != nil && i.UpdatedAt.Before(*i.CreatedAt) {
		c.violated(RuleTimes, "%s: updated_at %s is before created_at %s", name,
			i.UpdatedAt.Format(time.RFC3339), i.CreatedAt.Format(time.RFC3339))
	}
}

// again reads the candidates twice more: with the same states, and with the states in upper
// case and with blanks.
func (c *check) again(first []reconcile.Issue) {
	second, ok := c.candidates(c.states)
	if !ok {
		return
	}
	a := common(first, second)
	b := common(second, first)
	if !slices.Equal(a, b) {
		c.violated(RuleOrder, "the first call returned %s, the second %s", listed(a), listed(b))
	}
	shouted := text.Map(c.states, func(s string) string { return " " + strings.ToUpper(s) + " " })
	other, ok := c.candidates(shouted)
	if !ok {
		return
	}
	for _, i := range second {
		if !slices.ContainsFunc(other, func(o reconcile.Issue) bool { return o.ID == i.ID }) {
			const message = "%s in state %q was not returned for the states %q"
			c.violated(RuleCase, message, called(i), i.State, shouted)
			break
		}
	}
	if none, ok := c.candidates(nil); ok && len(none) > 0 {
		c.violated(RuleNothing, "without states there were %d issues", len(none))
	}
}

// common returns the ids of the issues that are in both lists and have not changed between
// them.
func common(in, and []reconcile.Issue) []string {
	return idsOf(text.Filter(in, func(i reconcile.Issue) bool {
		isSame := func(o reconcile.Issue) bool { return o.ID == i.ID && unchanged(i, o) }
		return slices.ContainsFunc(and, isSame)
	}))
}

// byIDs reads the candidates by their ids, and ids that do not exist.
func (c *check) byIDs(issues []reconcile.Issue) {
	asked := idsOf(text.Filter(issues, usable))
	read := func(rule Rule, what string, ids []string) (found map[string]reconcile.Issue, ok bool) {
		ok = c.call(rule, what, func() (err error) {
			found, err = c.t.ByIDs(c.ctx, ids)
			if len(issues) == 0 && isEmpty(err) {
				return nil // a folder without any issue, perhaps because it is not mounted
			}
			return err
		})
		for id, i := range found {
			if !slices.Contains(ids, id) || i.ID != id {
				c.violated(RuleOnlyAsked, "%s: the answer contains %s under the id %q", what, called(i), id)
			}
		}
		return found, ok
	}
	found, ok := read(RuleReads, "all candidates by their ids", asked)
	for _, i := range issues {
		if ok && i.Malformed == "" {
			c.same(i, found)
		}
	}
	c.full = found
	if !ok {
		return
	}
	if len(asked) > 0 {
		mixed, ok := read(
			RuleUnknownID,
			"a candidate, twice, and an id that does not exist",
			[]string{UnknownID, asked[0], asked[0]},
		)
		if _, there := mixed[asked[0]]; ok && !there && found[asked[0]].ID != "" {
			c.violated(
				RuleUnknownID,
				"%q is missing if it is asked for together with an id that does not exist",
				asked[0],
			)
		}
		if !ok {
			return
		}
	}
	none, ok := read(RuleUnknownID, "an id that does not exist", []string{UnknownID})
	if ok && len(none) > 0 && none[UnknownID].Malformed == "" {
		c.violated(RuleUnknownID, "for an id that does not exist there were %d issues", len(none))
	}
	read(RuleNothing, "no ids", nil)
}

// isEmpty reports whether an error says that the tracker contains no issue.
func isEmpty(err error) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return ok && known.Code == reconcile.CodeTrackerEmpty
}

// same compares a candidate with the answer of ByIDs.
func (c *check) same(i reconcile.Issue, found map[string]reconcile.Issue) {
	again, there := found[i.ID]
	if !there {
		c.violated(RuleByIDs, "%s is missing by its id", called(i))
		return
	}
	if !unchanged(i, again) {
		return
	}
	i.LastCommentAt = nil
	again.LastCommentAt = nil // not every tracker reads it with the candidates
	a := reflect.ValueOf(i)
	b := reflect.ValueOf(again)
	for n := range a.NumField() {
		tag, _, _ := strings.Cut(a.Type().Field(n).Tag.Get("json"), ",")
		if tag == "-" || tag == "native_ref" { // not every tracker reads them with the candidates
			continue
		}
		x := a.Field(n).Interface()
		y := b.Field(n).Interface()
		if !reflect.DeepEqual(x, y) && !bothEmpty(a.Field(n), b.Field(n)) {
			const message = "%s: %s is %s among the candidates and %s by its id"
			c.violated(RuleByIDs, message, called(i), tag, shown(x), shown(y))
		}
	}
}

// bothEmpty reports whether two lists are empty, even if only one of them is nil.
func bothEmpty(a, b reflect.Value) bool {
	return a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0
}

// find looks for a candidate by its names, and for an issue that does not exist.
func (c *check) find(issues []reconcile.Issue) {
	if c.t.Find == nil {
		return
	}
	at := slices.IndexFunc(issues, usable)
	if at >= 0 {
		c.findBy(issues[at].Identifier, issues[at])
		c.findBy(issues[at].ID, issues[at])
	}
	found, err := c.t.Find(c.ctx, UnknownID)
	known, _ := errors.AsType[*reconcile.Error](err)
	switch {
	case err == nil && found == nil:
		c.violated(RuleFind, "an unknown identifier led to no issue and no error")
	case err == nil:
		c.violated(RuleFind, "an unknown identifier led to %s", called(*found))
	case known == nil || known.Code != "issue_not_found":
		c.violated(RuleFind, "an unknown identifier gave another error: %s", err)
	}
}

// findBy looks for an issue by one of its names.
func (c *check) findBy(name string, i reconcile.Issue) {
	var found *reconcile.Issue
	ok := c.call(RuleFind, "find "+name, func() (err error) {
		found, err = c.t.Find(c.ctx, name)
		return err
	})
	switch {
	case !ok:
	case found == nil:
		c.violated(RuleFind, "%q led to no issue and no error instead of %s", name, called(i))
	case found.ID != i.ID:
		c.violated(RuleFind, "%q led to %s instead of %s", name, called(*found), called(i))
	}
}

// comments checks the comments of the candidate with the newest comment, or of the first
// candidate.
func (c *check) comments(issues []reconcile.Issue) {
	issues = text.Filter(issues, usable)
	if c.t.Comments == nil || len(issues) == 0 {
		return
	}
	newest := slices.MaxFunc(
		issues,
		func(a, b reconcile.Issue) int { return c.commented(a).Compare(c.commented(b)) },
	)
	list, ok := c.commentsSince(newest, time.Time{})
	if !ok || len(list) == 0 {
		if ok && !c.commented(newest).IsZero() {
			c.violated(RuleLastComment, "%s has a last_comment_at, and no comment", called(newest))
		}
		return
	}
	ids := map[string]bool{}
	for n, m := range list {
		if m.ID == "" || m.CreatedAt.IsZero() || ids[m.ID] {
			c.violated(
				RuleComments,
				"%s: comment %d has the id %q and the time %s",
				called(newest),
				n+1,
				m.ID,
				m.CreatedAt,
			)
		}
		ids[m.ID] = true
	}
	newestFirst := func(a, b reconcile.Comment) int { return b.CreatedAt.Compare(a.CreatedAt) }
	if !slices.IsSortedFunc(list, newestFirst) {
		c.violated(RuleComments, "%s: the newest comment is not the first", called(newest))
	}
	last := slices.MaxFunc(list, func(a, b reconcile.Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if at := c.commented(newest); !at.IsZero() && at.Before(last.CreatedAt.Truncate(time.Second)) {
		c.violated(RuleLastComment, "%s: last_comment_at is %s, and a comment was made at %s", called(newest),
			at.Format(time.RFC3339), last.CreatedAt.Format(time.RFC3339))
	}
	known := func(m reconcile.Comment) bool { return ids[m.ID] }
	if later, ok := c.commentsSince(newest, last.CreatedAt); ok && slices.ContainsFunc(later, known) {
		c.violated(
			RuleSince,
			"%s: a comment of %s is returned as one after it",
			called(newest),
			last.CreatedAt.Format(time.RFC3339Nano),
		)
	}
}

func (c *check) commentsSince(i reconcile.Issue, since time.Time) (list []reconcile.Comment, ok bool) {
	ok = c.call(RuleReads, "the comments of "+called(i), func() (err error) {
		list, err = c.t.Comments(c.ctx, i.ID, since)
		return err
	})
	return list, ok
}

// commented returns the time of the newest comment by ByIDs; zero if there is none, or if the
// tracker does not read it with the issue.
func (c *check) commented(i reconcile.Issue) time.Time {
	return text.OrEmpty(c.full[i.ID].LastCommentAt)
}

func idsOf(issues []reconcile.Issue) []string {
	return text.Map(issues, func(i reconcile.Issue) string { return i.ID })
}

// usable reports whether a record is an issue that can be asked for by its id.
func usable(i reconcile.Issue) bool { return i.Malformed == "" && i.ID != "" }

// unchanged reports whether two records may be compared.
func unchanged(a, b reconcile.Issue) bool {
	return a.UpdatedAt == nil || b.UpdatedAt == nil || a.UpdatedAt.Equal(*b.UpdatedAt)
}

// called names an issue.
func called(i reconcile.Issue) string {
	return cmp.Or(i.Identifier, i.ID, "an issue without id")
}

func listed(ids []string) string { return "[" + strings.Join(ids, " ") + "]" }

// shown prints a value of an issue, null for an absent value.
func shown(v any) string {
	const longest = 80
	return text.Short(string(text.JSON(v)), longest)
}
