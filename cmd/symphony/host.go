package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/hosted"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
)

// hostCommand is run on this machine by symphony on another machine, never by a person.
func hostCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "host",
		Hidden:    true,
		ArgsUsage: "serve|connect",
		Usage:     "serve a run of another machine (started by symphony there)",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "project"},
			&cli.StringFlag{Name: "run"},
			&cli.Int64Flag{Name: "incarnation"},
			&cli.DurationFlag{Name: "lost-after"},
			&cli.BoolFlag{Name: "detached"},
			&cli.BoolFlag{Name: "job"},
			&cli.BoolFlag{Name: "known"},
			&cli.BoolFlag{Name: "hello"},
			&cli.BoolFlag{Name: "begin"},
		},
		Action: func(c *cli.Context) error {
			run := hosted.Run{
				Project:     c.String("project"),
				ID:          c.String("run"),
				Incarnation: c.Int64("incarnation"),
				Known:       c.Bool("known"),
			}
			lostAfter := c.Duration("lost-after")
			switch {
			case c.Args().First() == "connect" && c.Bool("begin"):
				return hosted.Begin(c.Context, w.Environment(), run, w.Stdin)
			case c.Args().First() == "connect":
				return hosted.Connect(c.Context, w.Environment(), run, w.Stdin, os.Stdout, c.Bool("hello"))
			case c.Args().First() != "serve" || lostAfter <= 0:
				return exit.Usage("symphony host is started by symphony on another machine")
			case c.Bool("detached"):
				return hosted.ServeHere(c.Context, w.Environment(), w.Stderr, run, lostAfter)
			case c.Bool("job"):
				return hosted.ServeJob(c.Context, w.Environment(), w.Stderr, run, lostAfter)
			}
			err := hosted.Serve(c.Context, w.Environment(), w.Stdin, run, lostAfter)
			if _, nothing := errors.AsType[hosted.NothingStarted](err); nothing {
				fmt.Fprintln(w.Stderr, "symphony: "+text.Visible(err.Error()))
				return exit.Only(hosted.ExitNothingStarted)
			}
			return err
		},
	}
}
