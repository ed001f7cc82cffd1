package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

func serveCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "serve a web page and an API of your projects",
		UsageText: usageText("serve", "[WORKFLOW...]"),
		Description: helpText(
			"serve",
			"symphony serve --project all",
		),
		Flags: workflowFlags(append(serverFlags(fmt.Sprintf("server.port, else %d", web.DefaultPort)),
			projectFlag(),
		)...),
		Action: func(c *cli.Context) error { return serveAction(c, w) },
	}
}

// serverFlags are the flags of the HTTP server, which serve and tick --loop have.
func serverFlags(port string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{
			Name:        "port",
			Usage:       "serve the page and the API at port `N`; 0: any free one",
			DefaultText: port,
		},
		&cli.StringFlag{
			Name:        "listen",
			Usage:       "listen at `ADDRESS`: HOST, HOST:PORT or unix:PATH",
			DefaultText: "server.host, else 127.0.0.1",
		},
		&cli.StringSliceFlag{
			Name:  "allow-host",
			Usage: "accept the host `NAME`, such as that of a proxy; may be repeated",
		},
		&cli.StringFlag{
			Name:  "token-file",
			Usage: "take the server's token from `FILE` in ~/.config/symphony",
		},
	}
}

func serveAction(c *cli.Context, w *term.Env) error {
	for _, arg := range c.Args().Slice() {
		if isWord(w, arg) {
			return unexpected(c, arg)
		}
	}
	projects, err := servedProjects(w, c)
	if err != nil {
		return err
	}
	o, err := newServerOptions(c, w, projects)
	if err != nil {
		return err
	}
	s, err := web.New(c.Context, w.Environment(), o)
	if err != nil {
		return err
	}
	if w.StdoutIsFile && !o.OwnToken {
		w.Note(
			slog.LevelWarn,
			"the link is not printed into a file, which agents could read: use --token-file",
		)
	}
	printLine := func(line string) { fmt.Fprintln(w.Stdout, line) }
	s.Announce(printLine, !w.Journal && !w.StdoutIsFile)
	return s.Serve(c.Context)
}

// newServerOptions reads the flags of the server, and its address in a workflow.
func newServerOptions(c *cli.Context, w *term.Env, projects []*wiring.Project) (o web.Options, err error) {
	o = web.Options{
		Hosts: c.StringSlice("allow-host"),
		Token: web.NewToken(),
	}
	o.Places = text.Map(projects, func(p *wiring.Project) web.Place {
		return web.Place{
			Workflow: p.Path,
			StateDir: p.StateDir,
		}
	})
	o.Listen, o.Port, err = serverAddress(c, serverOf(projects))
	if err != nil {
		return o, err
	}
	if !c.IsSet("token-file") {
		return o, nil
	}
	o.OwnToken = true
	file := w.Absolute(c.String("token-file"))
	if !wiring.Exists(file) {
		const message = "%s: --token-file: %s does not exist: openssl rand -hex 32 prints a token for a file in %s"
		return o, exit.Usage(message, c.Command.Name, file, wiring.TokenDir(w.Environment()))
	}
	if err := checkTokenPlace(w, c.Command.Name, file); err != nil {
		return o, err
	}
	o.Token, err = web.ReadToken(file)
	return o, err
}

// serverAddress is the address at which the server listens, and its port. Flags win over the
// workflow: with --listen 127.0.0.1:8080, server.port has no effect. A port of -1 stands for
// the port of the address, else for the default.
func serverAddress(c *cli.Context, server workflow.Server) (address string, port int, err error) {
	command := c.Command.Name
	address = cmp.Or(c.String("listen"), server.Host)
	_, listenPort, _ := net.SplitHostPort(c.String("listen")) // empty if there is none
	if !c.IsSet("port") {
		if listenPort != "" {
			return address, -1, nil
		}
		return address, server.Port, nil
	}
	if strings.HasPrefix(address, "unix:") {
		return "", 0, exit.Usage("%s: --port cannot be combined with a socket", command)
	}
	if listenPort != "" {
		return "", 0, exit.Usage("%s: --listen %s and --port name two ports", command, address)
	}
	port = c.Int("port")
	if port < 0 || port > 65535 {
		return "", 0, exit.Usage("%s: --port must be a number from 0 to 65535, not %d", command, port)
	}
	return address, port, nil
}

// checkTokenPlace refuses the file with the token of a command in a directory that agents can
// read: whoever knows the token decides what agents may do. The directory of this command's
// XDG_CONFIG_HOME is such a directory unless passes run with the same variable.
func checkTokenPlace(w *term.Env, command, file string) error {
	hidden := wiring.TokenDir(w.Environment())
	dir, err := paths.Find(hidden)
	if err != nil {
		return fmt.Errorf("find %s: %w", hidden, err)
	}
	token, err := paths.Find(file)
	if err == nil && token.Inside(dir) {
		return nil
	}
	return reconcile.NewError(
		"token_readable",
		command+": agents can read "+file+", and with its token decide what they ask for",
		fmt.Sprintf(
			"keep it where they can't: mkdir -p %s; mv %s %[1]s/web-token",
			text.ShellQuote(hidden),
			text.ShellQuote(file),
		),
	)
}

// serverOf is the section server of the first workflow that sets server.port, else of the
// first valid workflow. Without a valid workflow the port is -1.
func serverOf(projects []*wiring.Project) workflow.Server {
	var valid []workflow.Server
	for _, p := range projects {
		cfg, err := p.ConfigWithoutKey()
		if err != nil { // the server shows the contents of the state directory
			continue
		}
		if cfg.Server.Port >= 0 {
			return cfg.Server
		}
		valid = append(valid, cfg.Server)
	}
	if len(valid) == 0 {
		return workflow.Server{Port: -1}
	}
	return valid[0]
}

// newLoopServer returns a function that serves the page beside the passes of a loop: nil unless
// a flag or the workflow asks for it. If the address of the workflow can't be used, that is a
// warning, because passes do not need the server.
func newLoopServer(c *cli.Context, w *term.Env, projects []*wiring.Project) (func(context.Context), error) {
	asked := c.IsSet("port") || c.IsSet("listen")
	if !asked && serverOf(projects).Port < 0 {
		return nil, nil
	}
	o, err := newServerOptions(c, w, projects)
	if err != nil {
		return nil, err
	}
	s, err := web.New(c.Context, w.Environment(), o)
	if err != nil && !asked {
		return func(context.Context) { w.Note(slog.LevelWarn, "server.port: "+err.Error()) }, nil
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		s.Announce(
			func(line string) { w.Note(slog.LevelInfo, line) },
			!w.Journal && w.Log == nil && !w.StderrIsFile,
		)
		if err := s.Serve(ctx); err != nil {
			w.Note(slog.LevelWarn, err.Error())
		}
	}, nil
}

// servedProjects opens the projects that the command line names. There are none for --project
// all, because the server finds the projects of the account itself.
func servedProjects(w *term.Env, c *cli.Context) ([]*wiring.Project, error) {
	if c.IsSet(allProjects) {
		return nil, checkAllProjects(c, strings.Join(c.Args().Slice(), " "))
	}
	projects, err := openProjects(w, c)
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		if p.SourceErr != nil && !p.HasState() {
			return nil, p.SourceErr
		}
	}
	return projects, nil
}
