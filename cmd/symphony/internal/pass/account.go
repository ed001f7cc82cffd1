package pass

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// passConfig is the configuration of a pass, to which that variable belongs. With a wrong one the workflow is given
// beside the error: it is good for all but starting something.
func readPassConfig(p *project.Project) (*workflow.Config, error) {
	cfg, err := p.Config()
	if err == nil {
		_, err = project.MaxAgents(p)
	}
	return cfg, err
}

var (
	_ reconcile.Accounts = (*project.PassAccount)(nil)
	_ runner.SlotSource  = (*project.PassAccount)(nil)
	_ runner.Account     = (*state.Account)(nil)
)
