package wiring

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// A name that is added to a workflow whose names were checked before is checked, too.
func TestNamesAreCheckedAgain(t *testing.T) {
	names := reconcile.TrackerNames{States: []string{"Todo"}, Operators: []string{"ann"}}
	stamp := func(change func(*workflow.Config)) string {
		cfg := &workflow.Config{}
		change(cfg)
		return (&verified{cfg: cfg}).stampOf(names)
	}
	before := stamp(func(*workflow.Config) {})
	for name, change := range map[string]func(*workflow.Config){
		"a state that the workflow names": func(cfg *workflow.Config) {
			cfg.Tracker.NamedStates = []string{"Todo"}
		},
	} {
		test.Equal(t, name+" changes nothing", stamp(change) == before, false)
	}
}
