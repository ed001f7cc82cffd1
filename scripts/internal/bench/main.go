// Bench measures what the program costs and prints it beside the budgets that it has to keep. Everything is real: the
// program built as it is released, its database, its processes; only Linear and the agent are our own, on loopback.
//
//	bench ─┬─► stopwatch ─► symphony tick ─► workers ─► scripted agents
//	       ├─► bench herd ──► symphony tick --loop, or another implementation
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
const bound = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
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
	json        string
	quick       bool
	plot        bool
	keep        bool
}

func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case stage.LinearCommand:
			return serveLinear(in, out, errw)
		case herdCommand:
			return serveHerd(in, out)
		case moveCommand:
			return moveIssue(ctx, args[1:], errw)
		}
	}
	o, code := parseOptions(args, errw)
	if code >= 0 {
		return code
	}
	began := time.Now()
	b, err := measure(ctx, o, errw)
	if b != nil {
		b.table.print(out)
		err = errors.Join(err, b.write(began, time.Since(began), err == nil))
		fmt.Fprintf(out, "\n%s in all\n", time.Since(began).Round(time.Second))
	}
	switch {
	case err != nil:
		fmt.Fprintln(errw, "bench:", err)
		return 1
	case len(b.table.missed()) > 0:
		fmt.Fprintf(out, "missed:\n  %s\n", strings.Join(b.table.missed(), "\n  "))
		return 1
	}
	fmt.Fprintln(out, b.table.summary())
	return 0
}

// parseOptions gives an exit code, or -1 to go on.
func parseOptions(args []string, errw io.Writer) (o options, code int) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errw)
	flags.IntVar(&o.pairs, "n", 84, "pairs of a pass with nothing to do and the minimal program; at least 3")
	flags.IntVar(&o.runs, "runs", 5, "repetitions of each other measurement; at least 1")
	flags.StringVar(&o.only, "only", "", "comma-separated: "+strings.Join(partNames(), ", ")+" (default: all)")
	flags.StringVar(&o.symphony, "symphony", "", "measure this `PROGRAM` instead of building one")
	flags.StringVar(&o.tags, "tags", stage.ReleaseTags, "build `TAGS`; the default is a release's")
	flags.StringVar(&o.json, "json", "", "write all values to this `FILE`")
	flags.BoolVar(&o.quick, "quick", false, "for CI: judge only ratios and counts, which a busy machine changes least")
	flags.BoolVar(&o.plot, "plot", false, "write docs/costs.md, docs/growth.svg and the README's table")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder and say where it is")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, 0
	case err != nil:
		return o, 2
	case flags.NArg() > 0 || o.pairs < 3 || o.runs < 1:
		fmt.Fprintln(errw, "bench: no arguments, -n at least 3, -runs at least 1")
		return o, 2
	case o.plot && (o.quick || o.only != ""):
		fmt.Fprintln(errw, "bench: -plot goes with all measurements, without -quick and -only")
		return o, 2
	}
	return o, -1
}

// part is one of the measurements.
type part struct {
	name    string
	measure func(*bench) error
	// quick ones are part of a quick run.
	quick bool
}

func parts() []part {
	return []part{
		{"idle", (*bench).idle, true},
		{"history", (*bench).history, false},
		{"growth", (*bench).growth, true},
		{"burst", (*bench).burst, false},
		{"follow", (*bench).follow, false},
		{"crowd", (*bench).crowd, false},
		{"decoder", (*bench).decoder, true},
		{"desk", (*bench).desk, false},
		{"size", (*bench).size, false},
		{"work", (*bench).work, false},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// chosen are the parts that the flags name.
func (o options) chosen() ([]part, error) {
	var list []part
	if o.only == "" {
		for _, p := range parts() {
			if p.quick || !o.quick {
				list = append(list, p)
			}
		}
		return list, nil
	}
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
func measure(ctx context.Context, o options, progress io.Writer) (b *bench, err error) {
	list, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if b, err = begin(ctx, o, progress); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	for _, p := range list {
		began := time.Now()
		if err := b.take(p); err != nil {
			return b, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(progress, "bench: %s: %s\n", p.name, time.Since(began).Round(100*time.Millisecond))
	}
	return b, nil
}

// quickTries: where a ratio is missed in a quick run something else may have been at work, and it is measured again.
const quickTries = 3

func (b *bench) take(p part) error {
	before := len(b.table.figures)
	for try := 1; ; try++ {
		if err := p.measure(b); err != nil {
			return err
		}
		if !b.o.quick || try == quickTries || !missedIn(b.table.figures[before:]) {
			return nil
		}
		fmt.Fprintf(b.progress, "bench: %s: a budget was missed, once more\n", p.name)
		b.table.figures = b.table.figures[:before]
	}
}
