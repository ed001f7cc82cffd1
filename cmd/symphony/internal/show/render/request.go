package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// printRequests prints open requests. It cuts nothing at the terminal's edge, because the
// operator approves exactly the text that is shown.
func printRequests(w *term.Env, now time.Time, rows []view.RequestRow) {
	if !w.Piped() && len(rows) > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range rows {
		if w.Piped() {
			printRequestRecord(w, r)
			continue
		}
		head := fmt.Sprintf("  %s  %s", text.Visible(r.ID), strings.ReplaceAll(string(r.Kind), "_", " "))
		if r.Outside {
			head += ", " + w.Red(runsOutside)
		}
		asked := text.Age(now, r.AskedAt)
		left := text.Duration(r.ExpiresAt.Sub(now))
		head += fmt.Sprintf(", asked %s ago, %s left", asked, left)
		fmt.Fprintln(w.Stdout, w.Yellow(head))
		Request(w, r.Request)
		fmt.Fprintln(w.Stdout, w.Dim("  "+text.Visible(r.HowToAnswer())))
	}
}

// printNeedsHelp prints the words of agents that can't go on without a person, with the command
// that answers each, as printRequests does.
func printNeedsHelp(w *term.Env, s selected) {
	head := w.Bold("NEEDS HELP")
	for _, v := range s.confined {
		for _, r := range v.NeedsHelp {
			if head != "" {
				fmt.Fprintln(w.Stdout, head)
				head = ""
			}
			asked := fmt.Sprintf("  %s  %s, for %s", r.Identifier, r.Title, text.Age(v.GeneratedAt, r.HeldAt))
			fmt.Fprintln(w.Stdout, w.Yellow(text.Visible(asked)))
			words, _ := r.Brief()
			eachLine("agent", words, func(label, line string) {
				fmt.Fprintln(w.Stdout, hang(w, fmt.Sprintf("  %-12s ", label), line))
			})
			answer := reconcile.CommandLine{Verb: "tell", Name: r.Identifier, Rest: "TEXT"}
			if s.projects {
				answer.Flags = "-w " + text.ShellQuote(v.Project.WorkflowPath)
			}
			fmt.Fprintln(w.Stdout, w.Dim("  "+text.Visible(answer.String())))
		}
	}
}

const runsOutside = "runs outside the sandbox"

// printRequestRecord prints an open request for a program.
func printRequestRecord(w *term.Env, r view.RequestRow) {
	outside := "-"
	if r.Outside {
		outside = runsOutside
	}
	asked := text.Rfc3339(r.AskedAt)
	expires := text.Rfc3339(r.ExpiresAt)
	var t term.Table
	t.Add(r.ID, asked, expires, string(r.Kind), outside, r.Summary, r.HowToAnswer(), r.Title)
	w.PrintTable("REQUEST", t)
}

// RequestHead prints the id and the kind of a request, and whether its command runs outside
// the sandbox.
func RequestHead(w *term.Env, r reconcile.Request) {
	fmt.Fprintln(w.Stdout, w.Bold(text.Visible(r.ID()+"  "+strings.ReplaceAll(string(r.Kind), "_", " "))))
	if r.Outside {
		fmt.Fprintln(w.Stdout, "  "+w.Red(runsOutside))
	}
}

// Request prints everything that is stored of a request.
func Request(w *term.Env, r reconcile.Request) {
	out := func(label, value string) {
		eachLine(label, value, func(label, line string) {
			fmt.Fprintf(w.Stdout, "  %-12s %s\n", label, line)
		})
	}
	// wrapped on a terminal, unlike the text to approve, which is never changed
	prose := func(label, value string) {
		eachLine(label, value, func(label, line string) {
			fmt.Fprintln(w.Stdout, hang(w, fmt.Sprintf("  %-12s ", label), line))
		})
	}
	d := r.Detail
	if view.AsksMore(r) {
		prose("asks", r.Summary)
	}
	out("command", d.Command)
	out("directory", d.Cwd)
	prose("reason", d.Reason)
	out("below", d.GrantRoot)
	out("permissions", string(d.Permissions))
	out("asked by", d.Server)
	for _, c := range d.Changes {
		out(c.Kind, c.Path)
		out("", c.Diff)
	}
	for _, q := range d.Questions {
		prose(strings.ToLower(text.Visible(q.Header)), q.Text)
		for i, o := range q.Options {
			prose("", strings.TrimSuffix(fmt.Sprintf("%d) %s: %s", i+1, o.Label, o.Description), ": "))
		}
	}
	if d.Cut > 0 {
		missing := fmt.Sprintf("%d more bytes were not stored; the run's log may have them", d.Cut)
		fmt.Fprintln(w.Stdout, "  "+w.Red(missing))
	}
}

// eachLine calls do for each line of a value, with its control characters as text. The first
// line has the label. An empty value has no line.
func eachLine(label, value string, do func(label, line string)) {
	if value == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(value, "\n"), "\n") {
		do(label, text.Visible(line))
		label = ""
	}
}
