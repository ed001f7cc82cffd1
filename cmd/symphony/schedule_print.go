package main

import (
	"context"
	"fmt"
	"time"
)

// printScheduleStatus is for a person on a terminal, in a pipe one fact a line.
func (p *project) printScheduleStatus(ctx context.Context) error {
	out, err := p.scheduleStatus(ctx)
	if err != nil {
		return err
	}
	if p.w.json {
		p.w.printJSON(out)
		return nil
	}
	now := p.w.now()
	p.w.fact("schedule", p.w.aliveWord(out, now))
	if len(out.Timers) == 0 && out.Cron == nil {
		p.w.fact("installed", "nothing by symphony schedule install")
	}
	for _, t := range out.Timers {
		p.w.timerFacts(t, now)
	}
	if c := out.Cron; c != nil {
		p.w.fact("cron", visible(c.Line))
		if c.Daemon != nil {
			p.w.fact("daemon", map[bool]string{true: "runs", false: "does not run"}[*c.Daemon])
		}
	}
	if out.Loop {
		p.w.fact("loop", "symphony tick --loop is running")
	}
	p.w.lastPassFact(out.LastPass, now)
	for _, text := range out.Problems {
		p.w.fact("problem", p.w.yellow(visible(text)))
	}
	return nil
}

// aliveWord says whether passes come by themselves.
func (w *world) aliveWord(out scheduleJSON, now time.Time) string {
	first := out.begins(now)
	switch {
	case out.Alive:
		return w.green("alive")
	case first != nil && w.width > 0:
		return w.green("its first pass comes in " + duration(first.Sub(now)))
	case first != nil:
		return "its first pass comes at " + rfc3339(*first)
	}
	return w.yellow("not alive: nothing new is started until somebody runs symphony tick")
}

func (w *world) timerFacts(t timerJSON, now time.Time) {
	yes := func(word string, is bool) string {
		if is {
			return word
		}
		return "not " + word
	}
	w.fact("timer", fmt.Sprintf("%s (%s, as %s): %s, %s", t.Unit, t.Manager, t.RunAs, yes("enabled", t.Enabled), yes("active", t.Active)))
	switch {
	case t.Next != nil && w.width > 0:
		w.fact("next", "in "+duration(t.Next.Sub(now)))
	case t.Next != nil:
		w.fact("next", rfc3339(*t.Next))
	case t.Active:
		w.fact("next", "after the pass that is at work")
	}
	if t.Last != nil {
		w.fact("last", w.ago(now, *t.Last)+", "+t.Result)
	}
	if t.KillMode != "" {
		w.fact("workers", map[bool]string{true: "live on", false: "would end with their pass, unless they get scopes"}[t.KillMode == "process"]+" (KillMode="+t.KillMode+")")
	}
	if t.Manager == "user" {
		w.fact("linger", map[bool]string{true: "yes", false: "no"}[t.Lingers])
	}
}

func (w *world) lastPassFact(last *lastPassRow, now time.Time) {
	if last == nil {
		w.fact("last pass", "none yet")
		return
	}
	result := "without an error"
	if len(last.Errors) > 0 {
		result = w.red(visible(last.Errors[0].Code + ": " + last.Errors[0].Message))
	}
	w.fact("last pass", fmt.Sprintf("%s, by %s, %s, %s", w.ago(now, last.StartedAt), last.Trigger, duration(time.Duration(last.DurationMS)*time.Millisecond), result))
}

// fact is one line of what there is to know.
func (w *world) fact(name, text string) {
	if w.width == 0 {
		fmt.Fprintf(w.stdout, "%s\t%s\n", name, text)
		return
	}
	fmt.Fprintf(w.stdout, "%-10s %s\n", name, text)
}
