package reconcile

import (
	"slices"
	"time"
)

// LabelSet is a label of an issue, with who put it there last.
type LabelSet struct {
	Label string // in lower case, as in Issue.Labels
	By    string // who set it, for people: a name or a login; empty if the tracker does not say
	// the user's possible names in tracker.operators, as in Comment.AuthorIDs; none for
	// programs
	ByIDs []string
	Own   bool      // it was set with symphony's key, which agents use, too
	At    time.Time // when it was set, by the tracker's clock
	// ChangedAt is when the label itself was last changed, for instance renamed, by the same
	// clock. It is zero if it is as it was made.
	ChangedAt time.Time
}

// NotByOperator returns why a label does not count as set by an operator, such as `kim, who is
// not in tracker.operators, has set it`. It is empty if the label counts. An agent can rename
// a label that an operator set, so a label that was changed later does not count. Nor does a
// label that was changed in the second in which it was set: GitHub's times are whole seconds.
func (l LabelSet) NotByOperator(operators []string) string {
	switch {
	case l.Own:
		return "it was set with symphony's key, which agents use, too"
	case l.By == "" || l.At.IsZero():
		return "the tracker does not say who has set it: take it off the issue and set it again"
	case !l.ChangedAt.IsZero() && !l.ChangedAt.Before(l.At):
		return "the label was changed after " + l.By + " had set it, perhaps renamed: take it off the " +
			"issue and set it again"
	}
	isOperator := func(name string) bool { return SameUser(name, l.ByIDs...) }
	if !slices.ContainsFunc(operators, isOperator) {
		return l.By + ", who is not in tracker.operators, has set it"
	}
	return ""
}
