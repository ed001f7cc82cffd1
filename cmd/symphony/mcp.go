package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

func mcpCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "mcp",
		Usage:     "let a program such as Claude Code start agents",
		UsageText: usageText("mcp", "[WORKFLOW]"),
		Description: helpText(
			"mcp",
			"claude mcp add symphony -- symphony mcp",
			"codex mcp add symphony -- symphony mcp",
		),
		Flags: workflowFlags(
			&cli.DurationFlag{
				Name:        "call-timeout",
				Value:       agents.DefaultCallTimeout,
				DefaultText: text.Duration(agents.DefaultCallTimeout),
				Usage:       "a call fails after `TIME`",
			},
			&cli.DurationFlag{
				Name:        "approval-timeout",
				Value:       agents.DefaultApprovalTimeout,
				DefaultText: text.Duration(agents.DefaultApprovalTimeout),
				Usage:       "an undecided request is denied after `TIME`",
			},
			&cli.StringFlag{
				Name:  "decide-by",
				Value: "model",
				Usage: "who decides requests of agents: `NAME` is model or person",
			},
			&cli.DurationFlag{
				Name:        "idle-timeout",
				Value:       agents.DefaultIdleTimeout,
				DefaultText: text.Duration(agents.DefaultIdleTimeout),
				Usage:       "an agent ends after `TIME` without a call; 0: never",
			},
			&cli.BoolFlag{
				Name:  "events",
				Usage: "send codex/event notifications to any host",
			},
			&cli.BoolFlag{Name: "ephemeral", Usage: "end the agents of this server when it ends"},
			&cli.StringSliceFlag{
				Name:  "dir",
				Usage: "permit agents in `DIR`, too; may be repeated",
			},
			&cli.BoolFlag{
				Name:  "deliver",
				Usage: "permit deliver_changes to push to the origin of a worktree's repository",
			},
			&cli.BoolFlag{
				Name:  "allow-full-access",
				Usage: "permit conversations without a sandbox (danger-full-access)",
			},
		),
		Action: func(c *cli.Context) error {
			o, err := mcpOptions(c, w)
			if err != nil {
				return err
			}
			if w.FromTerminal() {
				w.Note(slog.LevelInfo, "an MCP host starts this command: symphony mcp --help shows how")
			}
			out, err := takeStdout()
			if err != nil {
				return err
			}
			w.Stdout = w.Stderr
			s, err := mcpserver.New(c.Context, w.Environment(), w.Stderr, o)
			if err != nil {
				return err
			}
			return s.Serve(c.Context, os.Stdin, out)
		},
	}
}

func mcpOptions(c *cli.Context, w *term.Env) (o mcpserver.Options, err error) {
	o = mcpserver.Options{
		CallTimeout:     c.Duration("call-timeout"),
		ApprovalTimeout: c.Duration("approval-timeout"),
		IdleTimeout:     c.Duration("idle-timeout"),
		Ephemeral:       c.Bool("ephemeral"),
		FullAccess:      c.Bool("allow-full-access"),
		Events:          c.Bool("events"),
		Deliver:         c.Bool("deliver"),
		Dirs:            c.StringSlice("dir"),
	}
	if o.CallTimeout <= 0 || o.ApprovalTimeout <= 0 || o.IdleTimeout < 0 {
		return o, exit.Usage(
			"mcp: --call-timeout and --approval-timeout must be more than 0, --idle-timeout at least 0",
		)
	}
	by := c.String("decide-by")
	switch by {
	case "model":
	case "person":
		o.ByPerson = true
	default:
		return o, exit.Usage("mcp: --decide-by takes model or person, not %q", by)
	}
	_, positional, err := arguments(w, c)
	if err != nil {
		return o, err
	}
	named := positional != "" || c.IsSet("workflow") || w.Getenv("SYMPHONY_WORKFLOW") != ""
	if named || wiring.FindWorkflow(w.Environment()) != "" {
		o.Project, err = openProject(w, c, positional)
	}
	if err == nil && named && o.Project.SourceErr != nil && !o.Project.HasState() { // its path is probably misspelt
		return o, o.Project.SourceErr
	}
	return o, err
}

// takeStdout returns the stdout of this process, and lets everything else that is printed
// there go to stderr: a host reads only messages of the protocol.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	os.Stdout = os.Stderr
	return os.NewFile(uintptr(fd), "stdout"), nil
}
