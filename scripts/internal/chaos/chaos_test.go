//go:build linux

// Package chaos runs a project while processes are killed at random, and then checks what is
// left. Several processes run passes, the tracker moves issues and fails, agents commit,
// stream, hang, crash and leave processes behind, the remote repository refuses, hangs and
// answers wrongly, other people change its branches, review and merge its pull requests, symphony
// merges those that are approved, checks fail, GitHub fails, an operator runs commands, and a
// killer hits passes, workers, agents and git. The program, its database and its processes are
// real, and so is git; Linear, GitHub and the agent are fakes. With -codex the agent is real, too,
// and the model is a mock. With -hosts the agents work on two hosts, and the links to them are
// cut. With -merges there are many issues, whose pull requests are approved at once. With -machines
// several machines share a remote and have claims there: they die, sleep, and lose their links, people
// delete claims, and the remote refuses them for a while.
//
// The seed determines the choices but not the scheduling: two runs with the same seed are
// similar but not identical.
package chaos

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
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

var (
	seconds = flag.Int(
		"seconds",
		0,
		"how long to kill; the passes and checks after it take up to three minutes; 0: not at all",
	)
	seed = flag.Uint64(
		"seed",
		uint64(time.Now().UnixNano())%1_000_000,
		"repeat the choices of this `SEED`",
	)
	codex = flag.String(
		"codex",
		"",
		"use this `PROGRAM`, a real codex, on a mock model instead of the scripted agent",
	)
	hosts    = flag.Bool("hosts", false, "agents work on two hosts, and links to them are cut")
	merges   = flag.Bool("merges", false, "many issues, whose pull requests are approved at once and merged during the storm")
	keep     = flag.Bool("keep", false, "keep the temporary folder")
	machines = flag.Int("machines", 1, "how many machines work on the project")
	claimsIn = flag.String(
		"claims",
		"",
		"with -machines: where the claims are, references or branch; by default as the seed says",
	)
	remoteWay = flag.String(
		"remote",
		"",
		"with -machines: how the remote is reached, by git (its daemon), ssh (a real sshd) or gitea (a real one); "+
			"by default git or ssh, as the seed says",
	)
)

// TestMain runs the test binary as the gate if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == gateCommand {
		// it returns only with an error
		fmt.Fprintln(os.Stderr, "chaos gate:", gate(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestChaos(t *testing.T) {
	if *seconds < 1 {
		t.Skip("scripts/chaos runs it")
	}
	if info, err := os.Stat(*codex); *codex != "" && (err != nil || !info.Mode().IsRegular()) {
		t.Fatalf("-codex %s: no such program", *codex)
	}
	if *merges && (*codex != "" || *hosts) {
		t.Fatal("-merges: its agents are scripted, and work here")
	}
	if !slices.Contains([]string{"", "references", "branch"}, *claimsIn) ||
		!slices.Contains([]string{"", overGit, overSSH, overGitea}, *remoteWay) {
		t.Fatal("-claims or -remote: no such way")
	}
	if *codex != "" && *hosts {
		t.Fatal("-codex and -hosts: the home of codex is that of the hosts")
	}
	t.Chdir("../../..") // the flags' paths and scripts/build are relative to the root
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(os.Stderr, "chaos: seed %d\n", *seed)
	if *machines > 1 {
		if err := teamChaos(ctx, os.Stdout); err != nil {
			t.Error(err)
		}
		return
	}
	c := newChecker(&scene{})
	err := stage.Catch(func() {
		c.prepare(ctx)
		defer c.print(os.Stdout)
		stage.Must(c.storm(ctx, c))
		fmt.Fprintln(os.Stderr, "chaos: killing has ended; checking")
		// It has its own time limit, because an interrupted storm is checked, too.
		calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Minute)
		defer cancel()
		c.judge(calm)
	})
	if err = errors.Join(err, c.end()); err == nil && len(c.faults) > 0 {
		err = fmt.Errorf("%d figures that must be zero are not; repeat with -seed %d", len(c.faults), *seed)
	}
	if err != nil {
		t.Error(err)
	}
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
		{"seed", fmt.Sprint(*seed)},
		{"passes", fmt.Sprintf("%s recorded, exit codes %s", c.passes, counts(c.exits))},
		{"runs", counts(c.outcomes)},
		{"agents", fmt.Sprint(c.agents)},
		{"kills", fmt.Sprintf("%d: %s", kills, counts(c.kills))},
		{"commits of agents, delivered", fmt.Sprintf("%d, %d", c.commits, c.delivered)},
		{"issues handed over after the storm", fmt.Sprintf("%d of %d", c.handedOver, len(c.tracker.Issues()))},
		{"pull requests", counts(c.forge.states())},
		{
			"merges, in the storm, by the forge",
			fmt.Sprintf("%d, %d, %d", c.merged, c.stormMerges, c.byForge),
		},
		{
			"merges with their base, of foreigners",
			fmt.Sprintf("%d, %d", c.forge.updated(), c.foreignMerges),
		},
		{
			"returns of issues, answers, judged at the end",
			fmt.Sprintf("%d, %d, %d", c.returns, c.answered, c.judgedAtEnd),
		},
		{"checked commands of the operator", fmt.Sprint(c.commands)},
		{
			"checked attempts, threads, samples",
			fmt.Sprintf("%d, %d, %d (%d unread)", c.attempts, c.threads, c.samples, c.unread),
		},
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
	words := test.Map(
		slices.Sorted(maps.Keys(of)),
		func(name string) string { return fmt.Sprintf("%s %d", name, of[name]) },
	)
	return strings.Join(words, ", ")
}
