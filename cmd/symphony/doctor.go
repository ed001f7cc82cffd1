package main

import (
	"cmp"
	"context"
	"os/user"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/urfave/cli/v2"
)

func doctorCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "check all that a run needs, each with what to do about it",
		UsageText: usageText("doctor", "[WORKFLOW]"),
		Description: `Each check is one line: + it is well, ! it works but you should know, x it does not work.
What depends on the environment is checked twice, as you call it and as cron would: with
HOME, USER, LOGNAME, SHELL and PATH=/usr/bin:/bin, the environment file, and what bash -lc
adds to it. Nothing is changed; codex is started, and its sandbox is tried, in a folder that
is removed.

Exit code 0: nothing fails; 1: something does; 3: WORKFLOW.md, or the key, is not right.

Example:

    symphony doctor -w ~/web-shop/WORKFLOW.md
    symphony doctor --json | jq '.[] | select(.status == "fail")'`,
		Flags: workflowFlags(&cli.BoolFlag{Name: "json", Usage: "print JSON"}),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			_, positional, err := arguments(c)
			if err != nil {
				return err
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			return newDoctor(c.Context, p, c.String("state-dir")).examine(c.Context)
		},
	}
}

// doctor looks at one project from two places: as it was called, and as a schedule would run it.
type doctor struct {
	w                *term.Env
	called, schedule *place
	patience         time.Duration // latePatience
}

func newDoctor(ctx context.Context, p *project.Project, stateFlag string) *doctor {
	d := &doctor{w: p.Env, patience: latePatience}
	d.called = newPlace(d, asCalled, p)
	// The schedule names workflow and state directory as flags, so those hold there too. A variable does not, unless what is
	// installed carries it.
	stateDir, vars := carriedBySchedule(ctx, p)
	w := underSchedule(p.Env, vars)
	d.schedule = newPlace(d, asSchedule, project.New(w, p.Path, cmp.Or(stateFlag, stateDir)))
	return d
}

// underSchedule is the world as cron shows it to what it starts, with the variables that its line sets.
func underSchedule(w *term.Env, vars []string) *term.Env {
	name := cmp.Or(w.Getenv("LOGNAME"), w.Getenv("USER"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	bare := *w
	bare.Environ = append([]string{
		"HOME=" + w.Home, "USER=" + name, "LOGNAME=" + name, "SHELL=" + cmp.Or(w.Getenv("SHELL"), "/bin/sh"), "PATH=/usr/bin:/bin",
	}, vars...)
	return &bare
}
