package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/urfave/cli/v2"
)

// workerCommand is the detached process that owns a run. Only a pass starts it.
func workerCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:   "worker",
		Hidden: true,
		Usage:  "carry out one run (started by a pass)",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "run"},
			&cli.StringFlag{Name: "state-dir"},
			&cli.StringFlag{Name: "workflow"},
			&cli.StringFlag{Name: "slot"},
			&cli.StringFlag{Name: "model"},
			&cli.BoolFlag{Name: "end"},
		},
		Action: func(c *cli.Context) error {
			return worker.Run(c.Context, w.Environment(), w.Stderr, worker.Options{
				ID:       c.String("run"),
				StateDir: c.String("state-dir"),
				Workflow: c.String("workflow"),
				Slot:     c.String("slot"),
				Model:    c.String("model"),
				End:      c.Bool("end"),
			})
		},
	}
}
