package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestStateOfChecks(t *testing.T) {
	t.Parallel()
	for states, want := range map[string]string{
		"":                        "",
		"success":                 CheckSuccess,
		"skipped open":            CheckSuccess,
		"success pending":         CheckPending,
		"pending failure success": CheckFailure,
	} {
		var list []Check
		for _, state := range strings.Fields(states) {
			list = append(list, Check{State: state})
		}
		test.Equal(t, "state of "+states, StateOfChecks(list, false), want)
	}
	test.Equal(t, "success of a part", StateOfChecks([]Check{{State: CheckSuccess}}, true), CheckOpen)
}

// What is left out are the checks that need no attention; a list that lacks others says so.
func TestShortChecks(t *testing.T) {
	t.Parallel()
	var list []Check
	for i := range MaxChecks {
		list = append(list, Check{Name: fmt.Sprintf("b%03d", i), State: CheckSuccess})
	}
	list = append(list, Check{Name: "a", State: CheckFailure})
	short, cut := ShortChecks(list, false)
	test.Equal(t, "first of many", []any{len(short), short[0].Name, cut}, []any{MaxChecks, "a", false})
	for i := range list {
		list[i].State = CheckFailure
	}
	_, cut = ShortChecks(list, false)
	test.Equal(t, "failures are missing", cut, true)
}
