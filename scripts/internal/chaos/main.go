//go:build linux

// Chaos runs a project under deliberate destruction and judges what is left. Passes come from several processes, the
// tracker moves issues and fails, agents stream, hang, crash and leave processes behind, and a killer hits passes,
// workers and agents at random. Everything is real: the program as it is released, its database, its processes; only
// Linear and the agent are our own, on loopback. With -codex the agent is real too, and the model is our own.
//
//	chaos ─┬─► symphony tick, tick --loop, hold, retry … ─► workers ─► chaos gate ─► agents
//	       ├─► chaos linear (a Linear, a process of its own)
//	       └─► killer, and a checker that reads SQL, /proc and the gate's journal
//
// The seed decides what is chosen, not how the machine schedules it: two runs of one seed are alike, not the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	seconds  int
	seed     uint64
	symphony string
	tags     string
	keep     bool
	codex    string
}

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	if len(args) == 1 && args[0] == stage.LinearCommand {
		return stage.ServeLinear("chaos", in, out, errw)
	}
	if len(args) > 0 && args[0] == gateCommand {
		return gate(args[1:], errw)
	}
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.IntVar(&o.seconds, "seconds", 60, "how long to destroy; what follows takes less than two minutes")
	flags.Uint64Var(&o.seed, "seed", 0, "repeat the choices of this `SEED`; 0: a new one")
	flags.StringVar(&o.symphony, "symphony", "", "use this `PROGRAM` instead of building one")
	flags.StringVar(&o.tags, "tags", stage.ReleaseTags, "build `TAGS`; the default is a release's")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder and say where it is")
	flags.StringVar(&o.codex, "codex", "", "the real codex, this `PROGRAM`, on a mock model in the place of the scripted agent")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.seconds < 1:
		fmt.Fprintln(errw, "chaos: no arguments, -seconds at least 1")
		return 2
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	fmt.Fprintf(errw, "chaos: seed %d\n", o.seed)
	r, err := destroy(ctx, o, errw)
	if r != nil {
		r.print(out)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errw, "chaos:", err)
		return 1
	case r.faulty():
		fmt.Fprintf(out, "\nfailed; again with -seed %d\n", o.seed)
		return 1
	}
	fmt.Fprintln(out, "\nnothing lost, nothing doubled, nothing left")
	return 0
}

// destroy does all of it. The report is nil where it did not begin.
func destroy(ctx context.Context, o options, progress io.Writer) (r *report, err error) {
	s, err := begin(ctx, o, progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	c := newChecker(s)
	if err := s.storm(ctx, c); err != nil {
		return c.report(), err
	}
	fmt.Fprintln(progress, "chaos: the storm is over; waiting for calm")
	// Its own bound: an interrupted storm is judged too.
	calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), calmBound)
	defer cancel()
	return c.report(), c.aftermath(calm)
}
