package obstacle

import (
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/words"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Words are an obstacle in words.
type Words struct {
	Brief  string // the consequence, such as "nothing new starts"
	Detail string // why
	Text   string // both
	// Clause says in the row of an issue why that does not start.
	Clause string
	// End is since when, and how or when it ends; empty if that is not known.
	End string
	// Step is what to do, with commands and keys between backquotes; empty if there is nothing.
	Step string
}

// Full is the sentence with its end.
func (w Words) Full() string {
	if w.End == "" {
		return w.Text
	}
	return w.Text + " (" + w.End + ")"
}

// PlainStep is the step without backquotes.
func (w Words) PlainStep() string { return strings.ReplaceAll(w.Step, "`", "") }

// Words makes the sentence about the obstacle. Every view takes it from here.
func (o Obstacle) Words(now time.Time) Words {
	a := o.Args
	w := Words{
		Brief:  reconcile.NothingStarts,
		Detail: strings.TrimPrefix(a.Fault+": "+a.Message, ": "),
		End:    o.end(now),
		Step:   a.Hint,
	}
	if a.Message == "" {
		w.Detail = a.Fault
	}
	switch o.Code {
	case Unreadable:
		w.Brief = "the project can't be read"
	case NoSchedule:
		return o.noSchedule(now)
	case Workflow:
		w.Brief = "the workflow is invalid"
	case Blocked:
		w.Step = words.BlockHint(a.Fault, a.status)
	case DiskLow:
		w.Step = words.DiskLowHint
	case PassFailed:
		w.Brief = "the last pass failed"
	case PullsUnread:
		w.Brief = "the last look at " + a.Subject + "s failed"
	case Host:
		w.Brief = reconcile.NothingStartsOn(a.Subject)
	case Instead:
		w.Brief = a.Instead + " works in place of " + a.Subject
	case Budget:
		w.Step = "raise `agent.budget_per_day`, or start one issue with `symphony run`"
	case Paused:
		w.Brief = "paused"
		w.Detail = reconcile.NothingStarts + " until symphony resume"
	}
	w.Text = w.Brief + ": " + w.Detail
	w.Clause = w.Text
	switch {
	case o.Code == Paused:
		w.Clause = "the project is paused"
		w.Text = w.Clause + ": " + w.Detail
	case w.Brief == reconcile.NothingStarts:
		w.Clause = w.Detail
	}
	return w
}

// noSchedule makes the words of a project in which nothing runs passes.
func (o Obstacle) noSchedule(now time.Time) Words {
	tick := reconcile.CommandLine{Flags: o.Next.Flags, Verb: "tick"}
	w := Words{
		Brief:  "no schedule is active",
		Detail: "no new run starts, and nothing settles the runs that end",
		Step:   "`" + o.Next.String() + "` sets up a schedule; `" + tick.String() + "` runs one pass",
	}
	switch {
	case o.Args.FirstPass:
		w.Brief = "no pass has run yet"
	case o.Args.Since.IsZero(): // passes of workers and operators have run
		w.End = "no scheduled pass has run yet"
	default:
		w.End = "its last pass was " + text.Age(now, o.Args.Since) + " ago"
	}
	w.Text = w.Brief
	if w.End != "" {
		w.Text += "; " + w.End
	}
	w.Clause = w.Text
	return w
}

// end says since when the obstacle is there, and how or when it ends: "for 3m, next try in 2m".
func (o Obstacle) end(now time.Time) string {
	a := o.Args
	left := a.NextTry.Sub(now)
	var parts []string
	switch {
	case o.Code == PassFailed && !a.Since.IsZero():
		parts = []string{text.Age(now, a.Since) + " ago"}
	case o.Code == PullsUnread:
		parts = []string{"first " + text.Age(now, a.Since) + " ago"}
	case !a.Since.IsZero() && o.Until == nil:
		parts = []string{"for " + text.Age(now, a.Since)}
	}
	switch {
	case a.TestedBy != "":
		parts = append(parts, "the run of "+a.TestedBy+" tests whether it is over")
	case o.Until != nil && o.Until.After(now):
		parts = append(parts, "ends in "+text.Duration(o.Until.Sub(now)))
	case left > 0 && o.Verb == "resume":
		parts = append(parts, "next try in "+text.Duration(left)+", or now with symphony resume")
	case left > 0:
		parts = append(parts, "next try in "+text.Duration(left))
	}
	return strings.Join(parts, ", ")
}
