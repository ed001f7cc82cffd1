//go:build linux

// Bench measures what the program costs and compares it with the budgets of docs/costs.md. A budget is a ratio to a small
// comparison program (scripts/internal/baseline) measured in the same run, a number of bytes or a count: absolute times
// differ too much between machines.
//
// The program, its database and its processes are real. The tracker and the agent are stand-ins on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	code := run(ctx, os.Args[1:])
	cancel()
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	var err error
	switch {
	case len(args) == 1 && args[0] == trackerCommand:
		err = serveTracker(os.Stdin, os.Stdout)
	case len(args) > 1 && args[0] == stopwatchCommand:
		err = stopwatch(args[1:])
	default:
		return bench(ctx, args)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// suite is what all measurements share.
type suite struct {
	ctx      context.Context
	dir      string
	symphony string
	// agent is a copy of the program: run from one file, agents would share memory with the workers that are measured.
	agent    string
	baseline string
	tracker  string // its address
	projects []*project
	rows     []row
	quick    bool
	only     string
}

func bench(ctx context.Context, args []string) int {
	s := &suite{ctx: ctx}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&s.quick, "quick", false, "for CI: smaller loads and fewer repetitions, half a minute; a missed budget is measured again")
	flags.StringVar(&s.only, "only", "", "only the measurements whose name contains this `TEXT`: idle, claims, burst, workers, commands")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil || flags.NArg() > 0:
		return 2
	}
	err := stage.Catch(s.measure)
	printRows(os.Stdout, s.rows)
	if err == nil && missed(s.rows) {
		err = errors.New("a budget was missed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func (s *suite) measure() {
	defer s.startTracker()()
	s.dir = get(os.MkdirTemp("", "symphony-bench-"))
	defer s.close()
	fmt.Fprintln(os.Stderr, "bench: building")
	s.build()
	for _, part := range []struct {
		name    string
		measure func(*suite) []row
	}{{"idle", idle}, {"claims", manyClaims}, {"burst", burst}, {"workers", crowd}, {"commands", desk}} {
		if !strings.Contains(part.name, s.only) {
			continue
		}
		began := time.Now()
		more := part.measure(s)
		for try := 1; s.quick && try < 3 && missed(more); try++ {
			more = part.measure(s) // on a busy machine another process may have disturbed it
		}
		s.rows = append(s.rows, more...)
		fmt.Fprintf(os.Stderr, "bench: %s: %s\n", part.name, time.Since(began).Round(100*time.Millisecond))
	}
}

// Errors end all measurements.
var must = stage.Must

func get[T any](value T, err error) T { return stage.Get(value, err) }

func (s *suite) build() {
	s.symphony, s.agent, s.baseline = filepath.Join(s.dir, "symphony"), filepath.Join(s.dir, "agent"), filepath.Join(s.dir, "baseline")
	must(stage.Build(s.ctx, s.symphony))
	must(os.WriteFile(s.agent, get(os.ReadFile(s.symphony)), 0o700)) //nolint:gosec // a program
	cmd := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", s.baseline, "./scripts/internal/baseline")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	must(cmd.Run())
}

// close ends what the projects still run and removes the folder.
func (s *suite) close() {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(context.WithoutCancel(s.ctx), time.Minute)
	defer cancel()
	for _, p := range s.projects {
		p.stop()
	}
	must(os.RemoveAll(s.dir))
}

// row is a measured value with its budget.
type row struct {
	measure       string
	value, budget float64
	unit          string // "×" of a ratio, empty of a count
	note          string
	// skipped says why there is no value.
	skipped string
}

func (r row) missed() bool { return r.skipped == "" && r.value > r.budget }

func missed(rows []row) bool {
	for _, r := range rows {
		if r.missed() {
			return true
		}
	}
	return false
}

func printRows(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tVALUE\tBUDGET\t\t")
	for _, r := range rows {
		value, verdict, note := number(r.value)+r.unit, "ok", r.note
		switch {
		case r.skipped != "":
			value, verdict, note = "-", "not measured", r.skipped
		case r.missed():
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.measure, value, number(r.budget)+r.unit, verdict, note)
	}
	_ = w.Flush() // a reader that is gone needs no table
}

// number prints two digits after the point only where they say something.
func number(v float64) string {
	if v == float64(int(v)) {
		return fmt.Sprint(int(v))
	}
	return fmt.Sprintf("%.2f", v)
}
