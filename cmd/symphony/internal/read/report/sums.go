package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// resultSums adds up results: all of them, and by project, agent or day.
type resultSums struct {
	by     string
	all    countedSum
	groups map[string]*countedSum
}

// countedSum is a sum that counts each issue once.
type countedSum struct {
	ResultSum
	known map[string]struct{} // the issues, with their projects
}

func (s *countedSum) add(issue string, seconds float64, spent view.Spent) {
	if s.known == nil {
		s.known = map[string]struct{}{}
	}
	s.known[issue] = struct{}{}
	s.Issues = len(s.known)
	s.Results++
	s.Seconds += seconds
	s.Spent = s.Joined(spent)
}

// add adds a result of a project.
func (s *resultSums) add(project string, use state.ResultUse, spent view.Spent) {
	issue := project + "\x00" + use.IssueID
	seconds := use.Runtime.Seconds()
	s.all.add(issue, seconds, spent)
	if s.by == "" {
		return
	}
	name := s.groupOf(project, use)
	group := s.groups[name]
	if group == nil {
		group = &countedSum{}
		s.groups[name] = group
	}
	group.add(issue, seconds, spent)
}

// groupOf is the name of the group of a result.
func (s *resultSums) groupOf(project string, use state.ResultUse) string {
	switch {
	case s.by == ByProject:
		return project
	case s.by == ByDay:
		return reconcile.DayOf(use.At)
	case use.Agent.Kind == "":
		return ""
	}
	return use.Agent.Kind + " of " + use.Agent.Home
}

// sorted returns the groups: the latest day first, or else the group that used most first.
func (s *resultSums) sorted() []ResultGroup {
	var list []ResultGroup
	for name, sum := range s.groups {
		list = append(list, ResultGroup{Name: name, ResultSum: sum.ResultSum})
	}
	slices.SortFunc(list, func(a, b ResultGroup) int {
		if s.by == ByDay {
			return strings.Compare(b.Name, a.Name)
		}
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			cmp.Compare(b.Seconds, a.Seconds),
			text.CompareNatural(a.Name, b.Name),
		)
	})
	return list
}
