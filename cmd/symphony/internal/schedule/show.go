package schedule

import (
	"context"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// Options are the flags of schedule.
type Options struct {
	System, Cron bool
	RunAs        string
}

// Show prints what install would write. What stands in the way of an install is said, but hides nothing.
func Show(ctx context.Context, p *project.Project, o Options) error {
	s, err := planSchedule(p, o)
	if err != nil {
		return err
	}
	if o.Cron {
		line, err := s.cronLine()
		if err != nil {
			return err
		}
		fmt.Fprintln(p.Env.Stdout, line)
	} else {
		for i, f := range s.units() {
			if i > 0 {
				fmt.Fprintln(p.Env.Stdout)
			}
			fmt.Fprintf(p.Env.Stdout, "## %s\n%s", f.path, f.text)
		}
	}
	s.warnInterval(o)
	if err := s.refused(ctx, o, 0); err != nil {
		known := exit.From(err)
		fmt.Fprintf(p.Env.Stderr, "symphony: warning: install would refuse: %s: %s\n  %s\n", known.Code, term.Visible(known.Message), term.Visible(known.Hint))
	}
	return nil
}
