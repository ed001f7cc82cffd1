package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// startup measures what of a pass with nothing to do a clock does not show: system calls, and what runs before main.
func (s *project) startup(minimal []string) error {
	pass := []string{s.b.symphony, "tick", "--workflow", s.Workflow, "--state-dir", s.StateDir}
	for _, program := range []struct {
		name string
		argv []string
	}{{"", pass}, {" of the minimal program", minimal}} {
		if err := s.systemCalls(program.name, program.argv); err != nil {
			return err
		}
		if err := s.inits(program.name, program.argv); err != nil {
			return err
		}
	}
	return nil
}

// noStrace says why system calls can't be counted here: a container may have strace and forbid it.
func (b *bench) noStrace() string {
	if _, err := exec.LookPath("strace"); err != nil {
		return "there is no strace"
	}
	if text, err := exec.CommandContext(b.ctx, "strace", "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		return "strace does not work here: " + firstLine(string(text))
	}
	return ""
}

// systemCalls counts them by strace.
func (s *project) systemCalls(whose string, argv []string) error {
	if why := s.b.noStrace(); why != "" {
		s.b.table.unmeasured(figure{Name: "system calls" + whose}, why)
		return nil
	}
	var all, syncs []float64
	var top string
	for range s.b.o.runs {
		file := filepath.Join(s.Dir, "strace")
		if _, err := s.b.watch.time(s.b.ctx, job{Argv: append([]string{"strace", "-f", "-c", "-o", file}, argv...), Env: s.Env, Dir: s.Dir}); err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		calls := straceCounts(string(data))
		sum := 0.0
		for _, n := range calls {
			sum += float64(n)
		}
		if sum == 0 {
			return fmt.Errorf("strace counted nothing: %s", data)
		}
		all, syncs, top = append(all, sum), append(syncs, float64(calls["fsync"]+calls["fdatasync"])), largest(calls, 5)
	}
	s.b.table.add(figure{Name: "system calls" + whose, Values: all, Note: top})
	s.b.table.add(figure{Name: "fsyncs" + whose, Values: syncs})
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// straceCounts reads the table of strace -c: the calls are its fourth column, the name is the last.
func straceCounts(text string) map[string]int {
	calls := map[string]int{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(fields[3]); err == nil { // else a heading
			calls[fields[len(fields)-1]] += n
		}
	}
	return calls
}

// largest names those with the most.
func largest(counts map[string]int, n int) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	words := make([]string, 0, n)
	for _, name := range names[:min(n, len(names))] {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}

// inits asks the runtime what the packages do before main.
func (s *project) inits(whose string, argv []string) error {
	var sums []float64
	var worst initTrace
	for range s.b.o.runs {
		got, err := s.b.watch.time(s.b.ctx, job{Argv: argv, Env: append(slices.Clone(s.Env), "GODEBUG=inittrace=1"), Dir: s.Dir})
		if err != nil {
			return err
		}
		list := initTraces(got.Stderr)
		if len(list) == 0 {
			return fmt.Errorf("the runtime told of no init: %s", got.Stderr)
		}
		sum := 0.0
		for _, i := range list {
			sum += i.clock
			if i.clock > worst.clock {
				worst = i
			}
		}
		sums = append(sums, sum)
	}
	s.b.table.add(figure{Name: "init of packages before main" + whose, Unit: "ms", Values: sums, Note: fmt.Sprintf("the largest: %s, %.2f ms", worst.pkg, worst.clock)})
	return nil
}

// initTrace is a line "init PACKAGE @0.25 ms, 0.01 ms clock, 80 bytes, 1 allocs".
type initTrace struct {
	pkg   string
	clock float64
}

func initTraces(text string) []initTrace {
	var list []initTrace
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[0] != "init" {
			continue
		}
		if clock, err := strconv.ParseFloat(fields[4], 64); err == nil {
			list = append(list, initTrace{fields[1], clock})
		}
	}
	return list
}
