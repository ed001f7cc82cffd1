package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// pendingRow is what an agent asks of a person.
type pendingRow struct {
	ID         string `json:"id"`
	Identifier string `json:"issue_identifier"`
	RunID      string `json:"run_id"`
	Kind       string `json:"kind"`
	Summary    string `json:"summary"`
	// Options are the labels that --choice counts, of the first question; Questions are all of them.
	Options   []string      `json:"options"`
	Questions []questionRow `json:"questions"`
	Outside   bool          `json:"outside_sandbox"`
	AskedAt   time.Time     `json:"asked_at"`
	ExpiresAt time.Time     `json:"expires_at"`

	request reconcile.Request
}

type questionRow struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	// Other: text beside the options is welcome.
	Other  bool `json:"other"`
	Secret bool `json:"secret"`
}

// newPendingRow gives the time that is left by the clock that counts.
func newPendingRow(r reconcile.Request, now time.Time, at reconcile.Instant) pendingRow {
	expires := now.Add(r.Left(now, at))
	if expires.Sub(r.ExpiresAt).Abs() < time.Second {
		expires = r.ExpiresAt // no clock was stepped
	}
	row := pendingRow{
		ID: r.ID(), Identifier: r.Identifier, RunID: r.RunID, Kind: string(r.Kind), Summary: r.Summary, Options: []string{},
		Questions: []questionRow{}, Outside: r.Outside, AskedAt: r.AskedAt.UTC(), ExpiresAt: expires.UTC().Truncate(time.Millisecond),
		request: r,
	}
	for i, q := range r.Detail.Questions {
		labels := []string{}
		for _, o := range q.Options {
			labels = append(labels, o.Label)
		}
		if i == 0 {
			row.Options = labels
		}
		row.Questions = append(row.Questions, questionRow{Question: q.Text, Options: labels, Other: q.Other || len(labels) == 0, Secret: q.Secret})
	}
	return row
}

// instant is now on the clock that neither a suspend nor a stepped wall clock moves.
func instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}

// requests adds what is asked, and of the runs that they wait for it. What a dead worker asked has ended with it.
func (v *view) requests(ctx context.Context, p *project.Project, db *state.DB, only chosenIssues) error {
	open, err := openRequests(ctx, p, db)
	if err != nil || len(open) == 0 {
		return err
	}
	at, err := instant()
	if err != nil {
		return err
	}
	for _, r := range open {
		if !only.has(r.IssueID) {
			continue
		}
		v.Requests = append(v.Requests, newPendingRow(r, v.GeneratedAt, at))
		for i := range v.Running {
			if v.Running[i].RunID == r.RunID {
				v.Running[i].WaitsFor = append(v.Running[i].WaitsFor, r.ID())
			}
		}
	}
	return nil
}

// openRequests are those that somebody still waits for.
func openRequests(ctx context.Context, p *project.Project, db *state.DB) ([]reconcile.Request, error) {
	all, err := db.OpenRequests(ctx)
	open := all[:0]
	for _, r := range all {
		if project.Alive(p.StateDir, r.RunID) {
			open = append(open, r)
		}
	}
	return open, err
}

// printRequests comes first in ps: somebody waits.
func printRequests(w *term.Env, v view) {
	if len(v.Requests) == 0 {
		return
	}
	if w.Width > 0 {
		fmt.Fprintln(w.Stdout, w.Bold("REQUESTS"))
	}
	for _, r := range v.Requests {
		outside := "-"
		if r.Outside {
			outside = "runs outside the sandbox"
		}
		if w.Width == 0 {
			cells := []string{"request", r.ID, term.Rfc3339(r.AskedAt), term.Rfc3339(r.ExpiresAt), r.Kind, outside, r.Summary, howToAnswer(r.request)}
			for i := range cells {
				cells[i] = term.Visible(cells[i])
			}
			fmt.Fprintln(w.Stdout, strings.Join(cells, "\t"))
			continue
		}
		printRequest(w, v.GeneratedAt, r)
	}
}

// printRequest is never cut at the terminal's edge: a person is to say yes to exactly what stands there.
func printRequest(w *term.Env, now time.Time, r pendingRow) {
	head := fmt.Sprintf("  %s  %s", r.ID, strings.ReplaceAll(r.Kind, "_", " "))
	if r.Outside {
		head += ", " + w.Red("runs outside the sandbox")
	}
	head += fmt.Sprintf(", asked %s ago, %s left", term.Age(now, r.AskedAt), term.Duration(r.ExpiresAt.Sub(now)))
	fmt.Fprintln(w.Stdout, w.Yellow(head))
	if len(r.request.Detail.Questions) == 0 {
		fmt.Fprintln(w.Stdout, "         "+term.Visible(r.Summary))
	}
	for _, c := range r.request.Detail.Changes {
		for _, line := range strings.Split(strings.TrimRight(c.Kind+" "+c.Path+"\n"+c.Diff, "\n"), "\n") {
			fmt.Fprintln(w.Stdout, "           "+term.Visible(line))
		}
	}
	if cut := r.request.Detail.Cut; cut > 0 {
		fmt.Fprintln(w.Stdout, "         "+w.Red(notKept(cut)))
	}
	for _, q := range r.request.Detail.Questions {
		fmt.Fprintln(w.Stdout, "         "+term.Visible(q.Text)+term.Visible(numbered(q)))
	}
	fmt.Fprintln(w.Stdout, w.Dim("         "+term.Visible(howToAnswer(r.request))))
}

// numbered are the options of a question in one line.
func numbered(q reconcile.RequestQuestion) string {
	var b strings.Builder
	for i, o := range q.Options {
		fmt.Fprintf(&b, "  %d) %s", i+1, o.Label)
	}
	return b.String()
}

// howToAnswer is the command that answers a request.
func howToAnswer(r reconcile.Request) string {
	if r.Kind != reconcile.QuestionRequest {
		return "symphony approve " + r.ID() + " | symphony deny " + r.ID()
	}
	text := "symphony answer " + r.ID()
	for _, q := range r.Detail.Questions {
		if len(q.Options) == 0 {
			return text + strings.Repeat(` "TEXT"`, len(r.Detail.Questions))
		}
	}
	return text + strings.Repeat(" --choice N", len(r.Detail.Questions))
}
