package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// Files of issues have the minute in which they were made: the numbers say the rest.
func TestIssuesOfAMinute(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	issue := func(name string) Issue { return Issue{Identifier: name, CreatedAt: &at} }
	list := []Issue{issue("TASK-10"), issue("TASK-2.1"), issue("TASK-1"), issue("TASK-2")}
	slices.SortFunc(list, CompareIssues)
	names := text.Map(list, func(i Issue) string { return i.Identifier })
	test.Equal(t, "order", names, []string{"TASK-1", "TASK-2", "TASK-2.1", "TASK-10"})
}
