package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// ReleasedJSON is the output of machines --release with --json.
type ReleasedJSON struct {
	Claims   []claims.TeamRow `json:"claims"` // the one that was released
	Released bool             `json:"released"`
}

// claimsTable has a row for each claim. Ages are by the clock of the holder, the end by the clock of
// this machine.
func claimsTable(w *term.Env, rows []claims.TeamRow) term.Table {
	t := term.Table{
		Head:   []string{"ISSUE", "STATUS", "MACHINE", "ACCOUNT", "AGE", "RENEWED", "TERM", "UNTIL"},
		State:  1,
		Shrink: []term.Shrink{{Column: 5, Cells: 0}, {Column: 3, Cells: 0}, {Column: 6, Cells: 0}},
	}
	for _, r := range rows {
		colour := term.ColourRuns
		switch {
		case r.IsFree():
			colour = term.ColourWaits
		case r.Ended, r.Status == claims.Unreadable:
			colour = term.ColourStuck
		case r.Status != "working":
			colour = term.ColourWaits
		}
		machine := r.Machine
		if r.Ours && !w.Piped() {
			machine += " (this one)"
		}
		termText := ""
		if r.TermMS > 0 {
			termText = term.LastedText(w, time.Duration(r.TermMS)*time.Millisecond)
		}
		t.AddIn(colour, r.Name(), r.Status, machine, r.Account, agoOf(w, r.Since, ""), agoOf(w, r.RenewedAt, " ago"),
			termText, untilText(w, r))
	}
	return t
}

// agoOf is how long ago a time was, in a pipe the time; empty for none.
func agoOf(w *term.Env, at *time.Time, ago string) string {
	switch {
	case at == nil:
		return ""
	case w.Piped():
		return text.Rfc3339(*at)
	}
	return text.Age(w.Now(), *at) + ago
}

// untilText is when a claim ends unless its holder renews it.
func untilText(w *term.Env, r claims.TeamRow) string {
	switch {
	case w.Piped():
		return text.Rfc3339(r.Until)
	case r.IsFree():
		return ""
	case r.Ended:
		return "ended"
	}
	return "in " + text.Duration(r.Until.Sub(w.Now()))
}

// releaseClaim releases the claim of an issue, once the operator has agreed to what happens then.
func releaseClaim(c *cli.Context, w *term.Env, p *wiring.Project, ref string) (err error) {
	if err := p.Nested(); err != nil {
		return err
	}
	t, err := wiring.OpenTeam(c.Context, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close(c.Context)) }()
	rows, err := claims.RowsOf(c.Context, t)
	if err != nil {
		return err
	}
	row, err := claims.Find(rows, ref, t.Project)
	if err != nil {
		return err
	}
	out := w.Stdout
	if w.JSON {
		out = w.Stderr
	}
	for _, line := range row.Effect(w.Now()) {
		fmt.Fprintln(out, text.Visible(line))
	}
	if !c.Bool("yes") {
		question := "Release the claim of " + text.Visible(row.Name()) + "? [y]es, [N]o: "
		if err := term.Confirm(c.Context, w, question); err != nil {
			return err
		}
	}
	if err := row.Release(c.Context, t); err != nil {
		return err
	}
	if w.JSON {
		w.PrintJSON(ReleasedJSON{Claims: []claims.TeamRow{row}, Released: true})
		return nil
	}
	released := fmt.Sprintf("released the claim of %s, which %s had", row.Name(), row.Holder())
	switch {
	case row.Status == claims.Unreadable:
		released = "deleted " + row.Key
	case row.IsFree():
		released = "deleted the claim of " + row.Name()
	}
	fmt.Fprintln(w.Stdout, text.Visible(strings.TrimSpace(released)))
	return nil
}
