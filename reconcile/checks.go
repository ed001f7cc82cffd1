package reconcile

import (
	"cmp"
	"slices"
	"strings"
)

// StateOfChecks returns the state of checks together: failure if any failed, or else pending if
// any has not ended, or else success; empty if there are none. cut: there are more, so that
// success is not known.
func StateOfChecks(list []Check, cut bool) string {
	if len(list) == 0 {
		return ""
	}
	for _, state := range []string{CheckFailure, CheckPending} {
		if slices.ContainsFunc(list, func(c Check) bool { return c.State == state }) {
			return state
		}
	}
	if cut {
		return CheckOpen
	}
	return CheckSuccess
}

// ShortChecks returns at most MaxChecks checks, sorted by their names, and whether any check is
// missing that did not succeed. cut: some are missing already.
func ShortChecks(list []Check, cut bool) ([]Check, bool) {
	if len(list) > MaxChecks {
		slices.SortStableFunc(list, func(a, b Check) int { return cmp.Compare(urgency(a), urgency(b)) })
		cut = cut || urgency(list[MaxChecks]) < leastUrgent
		list = list[:MaxChecks]
	}
	slices.SortStableFunc(list, func(a, b Check) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Job, b.Job))
	})
	return list, cut
}

const leastUrgent = 3

// urgency is the place of a check in a list that is cut: the failed ones come first.
func urgency(c Check) int {
	switch c.State {
	case CheckFailure:
		return 0
	case CheckPending:
		return 1
	case CheckOpen:
		return 2
	}
	return leastUrgent
}
