package codextest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Main is a program that serves as a codex: "app-server [flags]" or "--version". It gives the exit status. CODEX_HOME names the home where the
// flag does not.
func Main(args []string, in io.Reader, out, errw io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Fprintln(out, "codex-cli "+Version)
		return 0
	case len(args) == 0 || args[0] != "app-server":
		fmt.Fprintln(errw, "usage: app-server [--home DIR] [--pace DURATION] [--fault NAME[=TEXT]]… | --version")
		return 2
	}
	o, err := parseFlags(args[1:], errw)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// Registered, a signal no longer ends the process; deaf, Serve does not
	// look at ctx either.
	o.OnDeaf = func() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) }
	return Serve(ctx, in, out, errw, o)
}

func parseFlags(args []string, errw io.Writer) (ServeOptions, error) {
	o := ServeOptions{Home: os.Getenv("CODEX_HOME")}
	flags := flag.NewFlagSet("app-server", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.StringVar(&o.Home, "home", o.Home, "folder for threads; must exist")
	flags.DurationVar(&o.Pace, "pace", 0, "wait before each directive")
	flags.DurationVar(&o.DeafFor, "deaf-for", 10*time.Minute, "how long a deaf server outlives its client")
	flags.Func("fault", "silent-initialize, initialize-error=TEXT, thread-error=TEXT, sandbox=TEXT, no-exec, logged-out, version=TEXT or exit", o.Faults.set)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errw, "app-server takes no %q\n", flags.Arg(0))
		return o, errors.New("too many arguments")
	}
	return o, nil
}

// set reads one fault.
func (f *Faults) set(text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch name {
	case "silent-initialize":
		f.SilentInitialize = true
	case "initialize-error":
		f.InitializeError = value
	case "thread-error":
		f.ThreadError = value
	case "sandbox":
		f.Sandbox = value
	case "no-exec":
		f.NoExec = true
	case "logged-out":
		f.LoggedOut = true
	case "version":
		f.Version = value
	case "exit":
		f.Exit = true
	default:
		return fmt.Errorf("unknown fault %q", name)
	}
	return nil
}
