// Bench measures the budgets that the program has to keep and prints them beside their limits. Everything is real: the
// program built as it is released, its database, its processes; only Linear and the agent are our own, on loopback.
//
//	bench ─┬─► stopwatch ─► symphony tick ─► workers ─► scripted agents
//	       └─► bench linear (a Linear, a process of its own)
//
// It exits 1 where a budget is missed, and leaves nothing behind.
package main

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

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// bound is how long all of it may take.
const bound = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, bound)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	cancel()
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	pairs, runs int
	only        string
	symphony    string
	tags        string
	keep        bool
}

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	if len(args) == 1 && args[0] == stage.LinearCommand {
		return stage.ServeLinear("bench", in, out, errw)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.IntVar(&o.pairs, "n", 31, "pairs of a pass with nothing to do and the minimal program; at least 3")
	flags.IntVar(&o.runs, "runs", 5, "repetitions of each other measurement; at least 1")
	flags.StringVar(&o.only, "only", "", "comma-separated: idle, load, burst, stream, desk (default: all)")
	flags.StringVar(&o.symphony, "symphony", "", "measure this `PROGRAM` instead of building one")
	flags.StringVar(&o.tags, "tags", stage.ReleaseTags, "build `TAGS`; the default is a release's")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder and say where it is")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.pairs < 3 || o.runs < 1:
		fmt.Fprintln(errw, "bench: no arguments, -n at least 3, -runs at least 1")
		return 2
	}
	t, err := measure(ctx, o, errw)
	if t != nil {
		t.print(out)
	}
	switch {
	case err != nil:
		fmt.Fprintln(errw, "bench:", err)
		return 1
	case len(t.missed()) > 0:
		fmt.Fprintf(out, "\nmissed: %s\n", strings.Join(t.missed(), "; "))
		return 1
	}
	fmt.Fprintln(out, "\nall budgets are kept")
	return 0
}

// part is one of the measurements.
type part struct {
	name    string
	measure func(*bench) error
}

func parts() []part {
	return []part{{"idle", (*bench).idle}, {"load", (*bench).load}, {"burst", (*bench).burst}, {"stream", (*bench).stream}, {"desk", (*bench).desk}}
}

// chosen are the parts that -only names.
func (o options) chosen() ([]part, error) {
	if o.only == "" {
		return parts(), nil
	}
	var list []part
	for name := range strings.SplitSeq(o.only, ",") {
		before := len(list)
		for _, p := range parts() {
			if p.name == name {
				list = append(list, p)
			}
		}
		if len(list) == before {
			return nil, fmt.Errorf("-only: there is no %q", name)
		}
	}
	return list, nil
}

// measure takes all figures. The table holds those that were taken before an error.
func measure(ctx context.Context, o options, progress io.Writer) (t *table, err error) {
	list, err := o.chosen()
	if err != nil {
		return nil, err
	}
	b, err := begin(ctx, o, progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	for _, p := range list {
		fmt.Fprintf(progress, "bench: %s\n", p.name)
		if err := p.measure(b); err != nil {
			return &b.table, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return &b.table, nil
}
