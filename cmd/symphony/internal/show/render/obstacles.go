package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// printObstacles prints why a project starts no runs, with the project's name if named is set.
func printObstacles(w *term.Env, v view.Overview, named bool) {
	now := v.GeneratedAt
	name := ""
	if named {
		name = v.Project.Name + ": "
	}
	line := func(label, colour, format string, args ...any) {
		said := name + text.Visible(fmt.Sprintf(format, args...))
		for l := range strings.SplitSeq(hang(w, fmt.Sprintf("%-9s", label), said), "\n") {
			fmt.Fprintln(w.Stdout, w.Paint(colour, l))
		}
	}
	if e := v.Error; e != nil {
		line("ERROR", term.ColourStuck, "%s: %s", e.Code, e.Message)
		if e.Hint != "" {
			fmt.Fprintln(w.Stdout, hang(w, "         ", text.Visible(e.Hint)))
		}
	}
	if b := v.ProjectBlock; b != nil {
		line("BLOCKED", term.ColourStuck, "%s", blockText(w, now, *b))
		if hint := words.BlockHint(b.Reason, b.Status); hint != "" {
			fmt.Fprintln(w.Stdout, hang(w, "         ", strings.ReplaceAll(hint, "`", "")))
		}
	}
	for _, a := range v.Accounts {
		if a.Blocked != nil && a.Instead != nil {
			line("INSTEAD", term.ColourWaits, "%s works in place of %s: %s", *a.Instead, a.Name, blockText(w, now, *a.Blocked))
		}
	}
	for _, h := range v.Hosts {
		if !h.Usable() {
			line("HOST", term.ColourWaits, "%s is %s: %s", h.Name, h.State, h.Message)
		}
	}
	if v.Disk != nil {
		line("DISK", term.ColourStuck, "%s: no run starts", v.Disk.Message)
		fmt.Fprintln(w.Stdout, hang(w, "         ", strings.ReplaceAll(words.DiskLowHint, "`", "")))
	}
	if b := v.Budget; b != nil && b.Reached {
		line("BUDGET", term.ColourWaits, "%s, in %s", *b.Message, text.Duration(b.Until.Sub(now)))
		next := "raise agent.budget_per_day, or start one issue with symphony run"
		fmt.Fprintln(w.Stdout, hang(w, "         ", next))
	}
	if v.LowUntil != nil {
		line("LOW", term.ColourWaits,
			"less than a tenth of the tracker's allowance is left: no new run starts for another %s",
			text.Duration(v.LowUntil.Sub(now)))
	}
	if v.Paused {
		line("PAUSED", term.ColourWaits, "no new run starts; symphony resume ends the pause")
	}
	for _, e := range v.LookErrors {
		if !v.PassFailedSo(e.Code, e.Message) {
			line("ERROR", term.ColourStuck, "the last look at %ss %s", v.PullWords().Name,
				lookErrorText(w, now, e.LookError))
		}
	}
	if v.LastPass == nil {
		return
	}
	for _, e := range v.LastPass.Errors {
		if v.ProjectBlock == nil || v.ProjectBlock.Reason != e.Code {
			line("ERROR", term.ColourStuck, "%s: %s (last pass)", e.Code, e.Message)
			if e.Hint != "" {
				fmt.Fprintln(w.Stdout, hang(w, "         ", text.Visible(e.Hint)))
			}
		}
	}
}

// blockText explains why the project is stopped, and until when.
func blockText(w *term.Env, now time.Time, b wiring.BlockedRow) string {
	if b.Until != nil {
		until := b.Until.In(w.Now().Location())
		layout := "15:04"
		if until.Sub(now) >= 24*time.Hour {
			layout = "2 Jan 15:04"
		}
		return fmt.Sprintf("account limit used up until %s, in %s (%s)",
			until.Format(layout), text.Duration(until.Sub(now)), b.Reason)
	}
	line := fmt.Sprintf("%s: %s (for %s", b.Reason, b.Message, text.Age(now, b.Since))
	if b.NextTry.After(now) {
		line += ", next try in " + text.Duration(b.NextTry.Sub(now))
	}
	return line + ")"
}
