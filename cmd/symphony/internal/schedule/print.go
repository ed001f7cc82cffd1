package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// PrintStatus is for a person on a terminal, in a pipe one fact a line.
func PrintStatus(ctx context.Context, p *project.Project) error {
	out, err := readScheduleStatus(ctx, p)
	if err != nil {
		return err
	}
	if p.Env.JSON {
		p.Env.PrintJSON(out)
		return nil
	}
	now := p.Env.Now()
	printFact(p.Env, "schedule", aliveWord(p.Env, out, now))
	if len(out.Timers) == 0 && out.Cron == nil {
		printFact(p.Env, "installed", "nothing by symphony schedule install")
	}
	for _, t := range out.Timers {
		timerFacts(p.Env, t, now)
	}
	if c := out.Cron; c != nil {
		printFact(p.Env, "cron", term.Visible(c.Line))
		if c.Daemon != nil {
			printFact(p.Env, "daemon", map[bool]string{true: "runs", false: "does not run"}[*c.Daemon])
		}
	}
	if out.Loop {
		printFact(p.Env, "loop", "symphony tick --loop is running")
	}
	lastPassFact(p.Env, out.LastPass, now)
	for _, text := range out.Problems {
		printFact(p.Env, "problem", p.Env.Yellow(term.Visible(text)))
	}
	return nil
}

// aliveWord says whether passes come by themselves.
func aliveWord(w *term.Env, out Status, now time.Time) string {
	first := out.begins(now)
	switch {
	case out.Alive:
		return w.Green("alive")
	case first != nil && w.Width > 0:
		return w.Green("its first pass comes in " + term.Duration(first.Sub(now)))
	case first != nil:
		return "its first pass comes at " + term.Rfc3339(*first)
	}
	return w.Yellow("not alive: nothing new is started until somebody runs symphony tick")
}

func timerFacts(w *term.Env, t timerJSON, now time.Time) {
	yes := func(word string, is bool) string {
		if is {
			return word
		}
		return "not " + word
	}
	printFact(w, "timer", fmt.Sprintf("%s (%s, as %s): %s, %s", t.Unit, t.Manager, t.RunAs, yes("enabled", t.Enabled), yes("active", t.Active)))
	switch {
	case t.Next != nil && w.Width > 0:
		printFact(w, "next", "in "+term.Duration(t.Next.Sub(now)))
	case t.Next != nil:
		printFact(w, "next", term.Rfc3339(*t.Next))
	case t.Active:
		printFact(w, "next", "after the pass that is at work")
	}
	if t.Last != nil {
		printFact(w, "last", term.AgoText(w, now, *t.Last)+", "+t.Result)
	}
	if t.KillMode != "" {
		printFact(w, "workers", map[bool]string{true: "live on", false: "would end with their pass, unless they get scopes"}[t.KillMode == "process"]+" (KillMode="+t.KillMode+")")
	}
	if t.Manager == "user" {
		printFact(w, "linger", map[bool]string{true: "yes", false: "no"}[t.Lingers])
	}
}

func lastPassFact(w *term.Env, last *project.LastPassRow, now time.Time) {
	if last == nil {
		printFact(w, "last pass", "none yet")
		return
	}
	result := "without an error"
	if len(last.Errors) > 0 {
		result = w.Red(term.Visible(last.Errors[0].Code + ": " + last.Errors[0].Message))
	}
	printFact(w, "last pass", fmt.Sprintf("%s, by %s, %s, %s", term.AgoText(w, now, last.StartedAt), last.Trigger, term.Duration(time.Duration(last.DurationMS)*time.Millisecond), result))
}

// fact is one line of what there is to know.
func printFact(w *term.Env, name, text string) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, text)
		return
	}
	fmt.Fprintf(w.Stdout, "%-10s %s\n", name, text)
}
