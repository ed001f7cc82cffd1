package contract

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/symphony-cron/symphony/reconcile"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { t := now.Add(-d); return &t }

// memory is a tracker that keeps every rule, unless a test replaces one of its functions.
type memory struct {
	issues     []reconcile.Issue
	candidates func(states []string) ([]reconcile.Issue, error)
	byIDs      func(ids []string) (map[string]reconcile.Issue, error)
}

func (m *memory) Candidates(_ context.Context, states []string) ([]reconcile.Issue, error) {
	if m.candidates != nil {
		return m.candidates(states)
	}
	return m.inStates(states), nil
}

func (m *memory) inStates(states []string) (found []reconcile.Issue) {
	for _, i := range m.issues {
		if slices.ContainsFunc(
			states,
			func(s string) bool { return reconcile.NormalizeState(s) == reconcile.NormalizeState(i.State) },
		) {
			found = append(found, i)
		}
	}
	return found
}

func (m *memory) ByIDs(_ context.Context, ids []string) (map[string]reconcile.Issue, error) {
	if m.byIDs != nil {
		return m.byIDs(ids)
	}
	return m.known(ids), nil
}

func (m *memory) known(ids []string) map[string]reconcile.Issue {
	found := map[string]reconcile.Issue{}
	for _, i := range m.issues {
		if slices.Contains(ids, i.ID) {
			found[i.ID] = i
		}
	}
	return found
}

func missing() error { return &reconcile.Error{Code: "issue_not_found", Message: "none"} }

// keeping returns a tracker that keeps every rule.
func keeping() (*reconcile.TrackerAdapter, *memory) {
	m := &memory{issues: []reconcile.Issue{
		{
			ID:            "1",
			Identifier:    "A-1",
			Title:         "one",
			State:         "Todo",
			Labels:        []string{"x", "y"},
			CreatedAt:     ago(3 * time.Hour),
			UpdatedAt:     ago(time.Hour),
			LastCommentAt: ago(time.Hour),
		},
		{
			ID:         "2",
			Identifier: "A-2",
			Title:      "two",
			State:      "In Progress",
			CreatedAt:  ago(2 * time.Hour),
		},
		{ID: "3", Identifier: "A-3", Title: "three", State: "Done"},
	}}
	comments := []reconcile.Comment{{
		ID:        "c2",
		CreatedAt: *ago(time.Hour),
	}, {
		ID:        "c1",
		CreatedAt: *ago(2 * time.Hour),
	}}
	return &reconcile.TrackerAdapter{
		Tracker: m, Name: "Memory",
		Find: func(_ context.Context, ref string) (*reconcile.Issue, error) {
			for _, i := range m.issues {
				if i.ID == ref || i.Identifier == ref {
					return &i, nil
				}
			}
			return nil, missing()
		},
		Comments: func(_ context.Context, id string, since time.Time) (list []reconcile.Comment, err error) {
			for _, c := range comments {
				if id == "1" && c.CreatedAt.After(since) {
					list = append(list, c)
				}
			}
			return list, nil
		},
	}, m
}

var active = []string{"Todo", "In Progress"}

func TestTrackerThatKeepsTheRules(t *testing.T) {
	a, _ := keeping()
	r := Check(t.Context(), a, active, now)
	test.Equal(t, "number of violations, and issues", []any{len(r.Violations), r.Issues}, []any{0, 2})
	a.Find = nil
	a.Comments = nil // optional
	r = Check(t.Context(), a, nil, now)
	test.Equal(t, "violations and issues without states", []any{len(r.Violations), r.Issues}, []any{0, 0})
}

// A tracker without any issue may say so instead of leaving out an id that does not exist. With
// candidates that is wrong.
func TestEmptyTracker(t *testing.T) {
	a, m := keeping()
	m.byIDs = func(ids []string) (map[string]reconcile.Issue, error) {
		if len(ids) == 0 || ids[0] != UnknownID {
			return m.known(ids), nil
		}
		return nil, &reconcile.Error{Code: reconcile.CodeTrackerEmpty, Message: "no issue is left"}
	}
	r := Check(t.Context(), a, active, now)
	test.Equal(t, "the violations with candidates", len(r.Violations), 1)
	m.issues = nil
	r = Check(t.Context(), a, active, now)
	test.Equal(t, "the violations of an empty tracker", r.Violations, nil)
}

// Each rule is the only one that is violated by what breaks it.
func TestViolations(t *testing.T) {
	failed := &reconcile.Error{
		Code:    "memory_failed",
		Message: "gone",
		Class:   reconcile.ClassTracker,
	}
	for name, c := range map[string]struct {
		rules string
		broke func(a *reconcile.TrackerAdapter, m *memory)
	}{
		"no answer": {RuleReads.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func([]string) ([]reconcile.Issue, error) { return nil, failed }
		}},
		"an error without code": {RuleReads.Name + " " + RuleErrors.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func([]string) ([]reconcile.Issue, error) { return nil, errors.New("gone") }
		}},
		"no title": {RuleFields.Name, func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[0].Title = " " }},
		"malformed": {RuleMalformed.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func(states []string) ([]reconcile.Issue, error) {
				list := m.inStates(states)
				if len(states) > 0 {
					list = append(list, reconcile.Issue{
						ID:         "4",
						Identifier: "4",
						Malformed:  "title is missing",
					})
				}
				return list, nil
			}
		}},
		"an identifier twice": {
			RuleUnique.Name,
			func(a *reconcile.TrackerAdapter, m *memory) { m.issues[1].Identifier = "A-1" },
		},
		"another state": {RuleStates.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func(states []string) ([]reconcile.Issue, error) {
				if len(states) == 0 {
					return nil, nil
				}
				return m.issues, nil
			}
		}},
		"exact states": {RuleCase.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func(states []string) ([]reconcile.Issue, error) {
				return slices.DeleteFunc(
					m.inStates(states),
					func(i reconcile.Issue) bool { return !slices.Contains(states, i.State) },
				), nil
			}
		}},
		"another order": {RuleOrder.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			calls := 0
			m.candidates = func(states []string) ([]reconcile.Issue, error) {
				list := m.inStates(states)
				calls++
				if calls == 2 {
					slices.Reverse(list)
				}
				return list, nil
			}
		}},
		"issues without states": {RuleNothing.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.candidates = func(states []string) ([]reconcile.Issue, error) {
				if len(states) == 0 {
					states = active
				}
				return m.inStates(states), nil
			}
		}},
		"labels": {
			RuleLabels.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[0].Labels = []string{"Bug"} },
		},
		"blocked by itself": {RuleBlockers.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.issues[0].BlockedBy = []reconcile.BlockerRef{{ID: &m.issues[0].ID}}
		}},
		"a blocker of nothing": {
			RuleBlockers.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[0].BlockedBy = []reconcile.BlockerRef{{}} },
		},
		"no identifier, and a blocker with an id alone": {
			RuleFields.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) {
				m.issues[1].Identifier = ""
				m.issues[1].BlockedBy = []reconcile.BlockerRef{{ID: &m.issues[2].ID}}
			},
		},
		"the future": {
			RuleTimes.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[1].UpdatedAt = ago(-48 * time.Hour) },
		},
		"updated before": {
			RuleTimes.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[1].UpdatedAt = ago(5 * time.Hour) },
		},
		"another time zone": {RuleTimes.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			local := now.Add(-time.Hour).In(time.FixedZone("x", 3600))
			m.issues[1].UpdatedAt = &local
		}},
		"missing by id": {RuleByIDs.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.byIDs = func(ids []string) (map[string]reconcile.Issue, error) {
				found := m.known(ids)
				delete(found, "2")
				return found, nil
			}
		}},
		"another value by id": {RuleByIDs.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.byIDs = func(ids []string) (map[string]reconcile.Issue, error) {
				found := m.known(ids)
				if i, there := found["1"]; there {
					i.Labels = []string{"x"}
					found["1"] = i
				}
				return found, nil
			}
		}},
		"more than was asked for": {RuleOnlyAsked.Name, func(_ *reconcile.TrackerAdapter, m *memory) {
			m.byIDs = func(ids []string) (map[string]reconcile.Issue, error) {
				found := m.known(ids)
				if len(ids) == 2 {
					maps.Copy(found, m.known([]string{"3"}))
				}
				return found, nil
			}
		}},
		"no answer by id": {RuleReads.Name, func(a *reconcile.TrackerAdapter, m *memory) {
			m.byIDs = func([]string) (map[string]reconcile.Issue, error) { return nil, failed }
			a.Find = func(context.Context, string) (*reconcile.Issue, error) { return nil, failed }
		}},
		"no comments": {RuleReads.Name, func(a *reconcile.TrackerAdapter, _ *memory) {
			a.Comments = func(context.Context, string, time.Time) ([]reconcile.Comment, error) { return nil, failed }
		}},
		"an unknown id is an error": {RuleUnknownID.Name, func(a *reconcile.TrackerAdapter, m *memory) {
			a.Find = func(context.Context, string) (*reconcile.Issue, error) { return nil, failed }
			m.byIDs = func(ids []string) (map[string]reconcile.Issue, error) {
				if slices.Contains(ids, UnknownID) {
					return nil, failed
				}
				return m.known(ids), nil
			}
		}},
		"find": {RuleFind.Name, func(a *reconcile.TrackerAdapter, m *memory) {
			a.Find = func(context.Context, string) (*reconcile.Issue, error) { return nil, failed }
		}},
		"find returns nothing": {RuleFind.Name, func(a *reconcile.TrackerAdapter, _ *memory) {
			a.Find = func(context.Context, string) (*reconcile.Issue, error) { return nil, nil } //nolint:nilnil // the fault
		}},
		"find returns another issue": {RuleFind.Name, func(a *reconcile.TrackerAdapter, _ *memory) {
			a.Find = func(context.Context, string) (*reconcile.Issue, error) { return &reconcile.Issue{ID: "9"}, nil }
		}},
		"old comments": {RuleSince.Name, func(a *reconcile.TrackerAdapter, _ *memory) {
			all := a.Comments
			a.Comments = func(ctx context.Context, id string, _ time.Time) ([]reconcile.Comment, error) {
				return all(ctx, id, time.Time{})
			}
		}},
		"the oldest comment first": {RuleComments.Name, func(a *reconcile.TrackerAdapter, _ *memory) {
			right := a.Comments
			a.Comments = func(ctx context.Context, id string, since time.Time) ([]reconcile.Comment, error) {
				list, err := right(ctx, id, since)
				slices.Reverse(list)
				return list, err
			}
		}},
		"the time of an older comment": {
			RuleLastComment.Name,
			func(_ *reconcile.TrackerAdapter, m *memory) { m.issues[0].LastCommentAt = ago(2 * time.Hour) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, m := keeping()
			c.broke(a, m)
			r := Check(t.Context(), a, active, now)
			if len(r.Violations) == 0 {
				t.Fatal("no violation")
			}
			seen := []string{}
			errs := 0
			for _, v := range r.Violations {
				if v.Err != nil {
					errs++
				}
				seen = append(seen, v.Rule)
				if v.Message == "" || v.Why == "" {
					t.Errorf("unexplained: %+v", v)
				}
				test.Equal(t, v.Rule+" is expected", slices.Contains(strings.Fields(c.rules), v.Rule), true)
			}
			if errs > 1 && c.rules != RuleFind.Name {
				t.Errorf("the same error %d times", errs)
			}
			for _, rule := range strings.Fields(c.rules) {
				test.Equal(t, rule+" is reported", slices.Contains(seen, rule), true)
			}
		})
	}
}

// An issue that changes during the check violates nothing.
func TestChangesMeanwhile(t *testing.T) {
	a, m := keeping()
	calls := 0
	m.candidates = func(states []string) ([]reconcile.Issue, error) {
		calls++
		list := m.inStates(states)
		if calls == 2 && len(list) == 2 {
			slices.Reverse(list)
		}
		for n := range list {
			list[n].UpdatedAt = ago(time.Hour - time.Duration(calls))
		}
		return list, nil
	}
	m.issues[1].UpdatedAt = ago(time.Hour)
	test.Equal(t, "number of violations", len(Check(t.Context(), a, active, now).Violations), 0)
}
