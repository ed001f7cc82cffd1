package reconcile

import (
	"strings"
	"testing"
	"time"
)

// Only a label that one of the operators has set, and that is still the same label, counts.
func TestLabelsOfOperators(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	kim := LabelSet{Label: "wide", By: "Kim Poe", ByIDs: []string{"kim", "id:5"}, At: at}
	for name, c := range map[string]struct {
		change    func(*LabelSet)
		operators []string
		why       string
	}{
		"an operator":              {nil, []string{"ann", "kim"}, ""},
		"by id":                    {nil, []string{"id:5"}, ""},
		"in capitals":              {nil, []string{"@KIM"}, ""},
		"another":                  {nil, []string{"ann"}, "Kim Poe, who is not in tracker.operators"},
		"a name that users choose": {nil, []string{"Kim Poe"}, "who is not in tracker.operators"},
		"no operators":             {nil, nil, "who is not in tracker.operators"},
		"symphony's key":           {func(l *LabelSet) { l.Own = true }, []string{"kim"}, "symphony's key"},
		"a program": {
			func(l *LabelSet) { l.ByIDs = nil },
			[]string{"kim"},
			"who is not in tracker.operators",
		},
		"nobody": {
			func(l *LabelSet) { l.By = ""; l.ByIDs = nil },
			[]string{"kim", ""},
			"does not say",
		},
		"at an unknown time": {func(l *LabelSet) { l.At = time.Time{} }, []string{"kim"}, "does not say"},
		"renamed before":     {func(l *LabelSet) { l.ChangedAt = at.Add(-time.Second) }, []string{"kim"}, ""},
		"renamed later": {
			func(l *LabelSet) { l.ChangedAt = at.Add(time.Second) },
			[]string{"kim"},
			"was changed after Kim Poe",
		},
		"renamed in the same second": {
			func(l *LabelSet) { l.ChangedAt = at },
			[]string{"kim"},
			"was changed after Kim Poe",
		},
	} {
		set := kim
		if c.change != nil {
			c.change(&set)
		}
		got := set.NotByOperator(c.operators)
		if (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
}
