package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

var csvHead = []string{
	"issue", "status", "from_state", "to_state", "at", "runs", "failed_runs", "seconds_running", "input_tokens", "cached_input_tokens",
	"output_tokens", "reasoning_output_tokens", "total_tokens", "estimated_cost", "currency", "links", "message",
}

// writeCSV prints a line for each issue that was let go, and for each other one that runs, waits, is held or had runs.
func (f *facts) writeCSV(out io.Writer) error {
	c := csv.NewWriter(out)
	lines := [][]string{csvHead}
	done := map[string]bool{}
	for _, r := range f.HandedOver {
		lines = append(lines, f.releaseLine("handed_over", r))
		done[r.IssueID] = true
	}
	for _, r := range f.LetGo {
		lines = append(lines, f.releaseLine("let_go", r))
		done[r.IssueID] = true
	}
	lines = append(lines, f.otherLines(done)...)
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

func (f *facts) releaseLine(status string, r releasedRow) []string {
	var links []string
	for _, l := range r.Links {
		links = append(links, l.URL)
	}
	to := ""
	if r.To != nil {
		to = *r.To
	}
	line := []string{cell(r.Identifier), status, cell(r.From), cell(to), term.Rfc3339(r.At), strconv.Itoa(r.Runs), "", seconds(r.Seconds)}
	return append(append(line, usedCells(r.Tokens, r.Cost)...), cell(strings.Join(links, " ")), cell(r.Title))
}

// otherLines are of issues whose claim stands, or that had runs. One that was handed over and is claimed again has a line
// of its own.
func (f *facts) otherLines(done map[string]bool) [][]string {
	used := map[string]issueRow{}
	for _, r := range f.Issues {
		used[r.IssueID] = r
	}
	var lines [][]string
	add := func(id, identifier, status string, at time.Time, message string) {
		u := used[id]
		failed := strconv.Itoa(u.Failed)
		if done[id] {
			u, failed = issueRow{}, "" // they stand in the line of what was handed over
		}
		done[id] = true
		line := []string{cell(identifier), status, "", "", term.Rfc3339(at), strconv.Itoa(u.Runs), failed, seconds(u.Seconds)}
		lines = append(lines, append(append(line, usedCells(u.Tokens, u.Cost)...), "", cell(message)))
	}
	for _, r := range f.Running {
		add(r.IssueID, r.Identifier, "running", r.StartedAt, "")
	}
	for _, r := range f.Held {
		add(r.IssueID, r.Identifier, "held", r.HeldAt, r.Reason+": "+r.Message)
	}
	for _, r := range f.Waiting {
		add(r.IssueID, r.Identifier, "waiting", r.DueAt, orEmpty(r.Error))
	}
	for _, r := range f.Failed {
		if !done[r.IssueID] {
			add(r.IssueID, r.Identifier, "failed", r.At, orEmpty(r.Error))
		}
	}
	for _, r := range f.Issues {
		if !done[r.IssueID] {
			add(r.IssueID, r.Identifier, "ended", f.Until, "")
		}
	}
	return lines
}

func usedCells(t tokensRow, m *money) []string {
	line := make([]string, 0, 7)
	for _, n := range []int64{t.Input, t.Cached, t.Output, t.Reasoning, t.Total} {
		line = append(line, strconv.FormatInt(n, 10))
	}
	if m == nil {
		return append(line, "", "")
	}
	return append(line, fmt.Sprintf("%.4f", float64(m.Amount)), m.Currency)
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 0, 64) }

// cell keeps a text of others' from being a formula where the file is opened in a spreadsheet, or a new line of it.
func cell(s string) string {
	s = term.Visible(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
