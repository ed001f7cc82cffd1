//go:build linux

// Package bench measures what the program costs and compares it with the budgets of
// docs/architecture.md. A budget is a ratio to a small comparison program (scripts/internal/baseline)
// measured in the same run, a number of bytes or a count: absolute times differ too much
// between machines. A benchmark that is over budget fails.
//
// The program, its database and its processes are real. The tracker and the agent are
// stand-ins on this machine.
package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/state/statetest"
)

// ctx is canceled by Ctrl-C. The interrupted benchmark cleans up.
var ctx, _ = signal.NotifyContext(context.Background(), os.Interrupt)

// An error of a benchmark itself ends all of them.
var must = stage.Must

func get[T any](value T, err error) T { return stage.Get(value, err) }

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == stopwatchCommand {
		must(stopwatch(os.Args[2], os.Args[3:]))
		return
	}
	must(os.Chdir("../../.."))
	code := m.Run()
	must(os.RemoveAll(programs.dir))
	os.Exit(code)
}

// metric is a measured value. It has a budget unless that is infinite.
type metric struct {
	value  float64
	unit   string
	budget float64
}

// against compares the medians of a benchmark's values in seconds with those of the comparison
// program.
func against(ours, theirs []float64, unit string, budget float64) []metric {
	value := median(ours)
	baseline := median(theirs)
	return []metric{
		{value / baseline, "x-" + unit, budget},
		{1000 * value, "ms", math.Inf(1)},
		{1000 * baseline, "baseline-ms", math.Inf(1)},
	}
}

// report measures and reports.
func report(b *testing.B, measure func() []metric) {
	missed := func(m metric) bool { return m.value > m.budget }
	list := measure()
	b.ReportMetric(0, "ns/op")
	text := ""
	for _, m := range list {
		b.ReportMetric(m.value, m.unit)
		text += fmt.Sprintf("  %.4g %s", m.value, m.unit)
		if missed(m) {
			text += fmt.Sprintf(" (OVER BUDGET: %.4g)", m.budget)
		}
	}
	if slices.ContainsFunc(list, missed) {
		b.Error(text) // the testing package prints no metrics of a benchmark that fails
	}
}

// unlessShort returns the first number, or with -short the second.
func unlessShort(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// BenchmarkIdle compares a pass with nothing to do with a program that opens the same database
// and makes the same request. It also counts the processes and requests after the end of a
// pass.
func BenchmarkIdle(b *testing.B) {
	p := newProject(b, 10)
	for range 3 { // the first passes create the database and verify the configuration
		p.quietTick()
	}
	p.takeRequests()
	p.quietTick()
	bodies := p.takeRequests()
	pause(time.Second)
	left := len(get(stage.Processes(p.Dir, ""))) + len(p.takeRequests())
	file := p.writeRequests(bodies)
	database := p.copyDatabase()
	pairs := unlessShort(60, 8)
	report(b, func() []metric {
		var passes, others samples
		for n := range 2 * pairs {
			// They alternate, and each is first every other time, so that the load of the
			// machine affects both equally.
			if (n%2 == 0) == (n/2%2 == 0) {
				passes = append(passes, p.quietTick())
			} else {
				others = append(others, p.baseline("requests", database, p.endpoint(), file))
			}
		}
		return append(against(passes.wall(), others.wall(), "wall", 2.6),
			metric{passes.peakMB(), "peak-MB", 29},
			metric{float64(len(bodies)), "requests", 1}, metric{float64(left), "left-over", 0})
	})
}

// BenchmarkLoop compares the CPU of a loop's pass with nothing to do, and of the wait for it
// of 30 s, with that of a pass by cron.
func BenchmarkLoop(b *testing.B) {
	p := newProject(b, 10)
	p.quietTick() // creates the database
	passes := unlessShort(100, 15)
	wait := time.Duration(unlessShort(30, 5)) * time.Second
	report(b, func() []metric {
		var byCron samples
		for range passes {
			byCron = append(byCron, p.quietTick())
		}
		end := p.startLoop(200 * time.Millisecond)
		defer end()
		p.awaitPasses(3) // the first one costs more
		began := processorSeconds([]int{p.loop})
		p.awaitPasses(passes)
		pass := (processorSeconds([]int{p.loop}) - began) / float64(passes)
		p.writeWorkflow(time.Hour)
		p.awaitPasses(1)
		pause(2 * time.Second)
		began = processorSeconds([]int{p.loop})
		pause(wait)
		waiting := (processorSeconds([]int{p.loop}) - began) * 30 / wait.Seconds()
		cron := median(byCron.cpu())
		return append(
			against([]float64{pass + waiting}, []float64{cron}, "CPU", 1.5),
			metric{1000 * waiting, "ms-of-waiting", math.Inf(1)},
		)
	})
}

// BenchmarkClaims compares a pass over claims and as many candidates, all of which have
// changed, with a program that fetches the same pages, decodes them with encoding/json and
// writes as many rows. The exponent describes the growth of the CPU time.
func BenchmarkClaims(b *testing.B) {
	few := unlessShort(1000, 500)
	many := unlessShort(10_000, 2000)
	report(b, func() []metric {
		small, _ := passesOver(b, few, unlessShort(5, 3))
		large, others := passesOver(b, many, unlessShort(3, 2))
		exponent := math.Log(median(large.cpu())/median(small.cpu())) / math.Log(float64(many)/float64(few))
		return append(against(large.cpu(), others.cpu(), "CPU", 2.8),
			metric{large.peakMB(), "peak-MB", 215}, metric{exponent, "exponent", 1.05})
	})
}

func passesOver(b *testing.B, count, passCount int) (passes, others samples) {
	p := newProject(b, 10)
	p.quietTick() // creates the database
	p.addClaims(count)
	database := p.copyDatabase()
	for version := range passCount {
		p.setIssues(count, version, "")
		p.takeRequests()
		passes = append(passes, p.quietTick())
		bodies := p.takeRequests()
		if len(bodies) < 2*count/pageSize {
			b.Fatalf(
				"%d requests: the pass did not read %d candidates and %d claims",
				len(bodies),
				count,
				count,
			)
		}
		others = append(others, p.baseline("requests", database, p.endpoint(), p.writeRequests(bodies)))
	}
	return passes, others
}

// addClaims writes a claim for each issue into the database of the project.
func (p *project) addClaims(count int) {
	db := get(sql.Open("sqlite", "file:"+p.Database()+"?mode=rw&_pragma=busy_timeout(5000)"))
	// As after passes: half of the claims wait for their next try, half are held by the
	// operator.
	now := time.Now()
	_, err := db.ExecContext(
		ctx,
		`
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO claims (issue_id, identifier, status, version, attempt, kind, due_at, error_code, error_message,
			hold_reason, hold_message, held_at, failures, issue, project, claimed_at, updated_at)
		SELECT printf('00000000-0000-4000-8000-%012d', n), 'ABC-' || n, iif(n % 2, 'retry', 'held'), 1, 1, 'backoff', ?, 'turn_failed',
			'the model said no', iif(n % 2, '', 'operator'), iif(n % 2, '', 'held by the operator'), iif(n % 2, NULL, ?), 1,
			json_object('ID', printf('00000000-0000-4000-8000-%012d', n)), ?, ?, ? FROM numbers`,
		count,
		now.Add(time.Hour).UnixMilli(),
		now.UnixMilli(),
		p.endpoint()+" demo",
		now.UnixMilli(),
		now.UnixMilli(),
	)
	must(errors.Join(err, db.Close()))
}

// BenchmarkCommands compares commands on 500 claims and 5,000 runs with a program that reads
// as many rows.
func BenchmarkCommands(b *testing.B) {
	p := newProject(b, 10)
	must(statetest.Large(ctx, p.StateDir, time.Now(), statetest.Large500))
	since := time.Now().Add(-30 * 24 * time.Hour).UnixMilli()
	for _, c := range []struct {
		command string
		queries []string
	}{
		{"ps", []string{`SELECT * FROM claims`, `SELECT * FROM runs WHERE settled = 0`}},
		{
			"show ABC-50",
			[]string{
				`SELECT * FROM claims WHERE identifier = 'ABC-50'`,
				`SELECT * FROM runs WHERE identifier = 'ABC-50' COLLATE NOCASE`,
			},
		},
		{
			"report --since 30d",
			[]string{fmt.Sprintf(`SELECT * FROM runs WHERE ended_at >= %d`, since), `SELECT * FROM claims`},
		},
	} {
		args := strings.Fields(c.command)
		b.Run(args[0], func(b *testing.B) {
			report(b, func() []metric {
				var commands, others samples
				for range unlessShort(9, 3) {
					commands = append(commands, p.symphony(args...))
					others = append(
						others,
						p.baseline(append([]string{"rows", p.Database()}, c.queries...)...),
					)
				}
				return against(commands.wall(), others.wall(), "wall", 4.2)
			})
		})
	}
}
