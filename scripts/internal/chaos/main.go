//go:build linux

// Chaos runs a project while processes are killed at random, and then judges what is left. Passes come from several
// processes, the tracker moves issues and fails, agents stream, hang, crash and leave processes behind, an operator gives
// commands, and a killer hits passes, workers and agents. The program, its database and its processes are real; Linear and
// the agent are stand-ins on this machine. With -codex the agent is real too, and the model is a stand-in.
//
// The seed decides the choices, not the scheduling: two runs of one seed are alike, not the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

type options struct {
	seconds int
	seed    uint64
	codex   string
	keep    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	if len(args) < 3 || args[0] != gateCommand {
		return chaos(ctx, args)
	}
	if err := gate(args[1], args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos gate:", err)
		return 1
	}
	return 0
}

func chaos(ctx context.Context, args []string) int {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	flags.IntVar(&o.seconds, "seconds", 60, "how long to kill; the passes and checks after it take up to two minutes")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "repeat the choices of this `SEED`")
	flags.StringVar(&o.codex, "codex", "", "use this `PROGRAM`, a real codex, on a mock model instead of the scripted agent")
	flags.BoolVar(&o.keep, "keep", false, "keep the temporary folder")
	if _ = flags.Parse(args); flags.NArg() > 0 || o.seconds < 1 { // ExitOnError: there is no error
		flags.Usage()
		return 2
	}
	fmt.Fprintf(os.Stderr, "chaos: seed %d\n", o.seed)
	c := newChecker(&scene{o: o})
	err := stage.Catch(func() {
		c.prepare(ctx)
		defer c.print(os.Stdout)
		stage.Must(c.storm(ctx, c))
		fmt.Fprintln(os.Stderr, "chaos: the killing is over; checking")
		// A time limit of its own, because an interrupted storm is judged, too.
		calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 110*time.Second)
		defer cancel()
		c.judge(calm)
	})
	if err = errors.Join(err, c.end()); err == nil && len(c.faults) > 0 {
		err = fmt.Errorf("%d of the figures that must be zero are not; repeat with -seed %d", len(c.faults), o.seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 1
	}
	return 0
}

// print writes the table of figures.
func (c *checker) print(out io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kills := 0
	for _, n := range c.kills {
		kills += n
	}
	for _, line := range [][2]string{
		{"seed", fmt.Sprint(c.o.seed)},
		{"passes", fmt.Sprintf("%s recorded, exit codes %s", c.passes, counts(c.exits))},
		{"runs", counts(c.outcomes)},
		{"agents", fmt.Sprint(c.agents)},
		{"kills", fmt.Sprintf("%d: %s", kills, counts(c.kills))},
		{"checked commands of the operator", fmt.Sprint(c.commands)},
		{"checked attempts, threads, samples", fmt.Sprintf("%d, %d, %d (%d unread)", c.attempts, c.threads, c.samples, c.unread)},
	} {
		fmt.Fprintf(out, "%-36s %s\n", line[0], line[1])
	}
	fmt.Fprintln(out, "\nmust be zero:")
	for _, name := range columns {
		fmt.Fprintf(out, "  %-34s %d\n", name, len(c.faults[name]))
		for n, text := range c.faults[name] {
			if n == 5 {
				fmt.Fprintf(out, "      and %d more\n", len(c.faults[name])-n)
				break
			}
			fmt.Fprintf(out, "      %s\n", strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      "))
		}
	}
}

func counts(of map[string]int) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		words = append(words, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(words, ", ")
}
