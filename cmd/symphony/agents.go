package main

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// AgentsJSON is the output of ps --agents --json.
type AgentsJSON struct {
	Agents []agents.Row `json:"agents"`
}

// listAgents prints the agents that work without an issue.
func listAgents(c *cli.Context, w *term.Env) error {
	if c.NArg() > 0 {
		return unexpected(c, c.Args().First())
	}
	if err := alone(c, "agents", "n", allProjects, "filter", "sort", "limit", "q", "watch"); err != nil {
		return err
	}
	rows, err := agents.Rows(c.Context, w.Environment(), c.Bool("all"))
	if err != nil {
		return err
	}
	if w.JSON {
		w.PrintJSON(AgentsJSON{rows})
		return nil
	}
	if len(rows) == 0 {
		note := "symphony: there are no agents"
		if !c.Bool("all") {
			note += "; --all also lists those that have ended"
		}
		fmt.Fprintln(w.Stderr, note)
	}
	printAgents(w, rows)
	return nil
}

// printAgents prints a table of agents, and their open requests.
func printAgents(w *term.Env, rows []agents.Row) {
	t := term.Table{
		Head:    []string{"ID", "STATE", "AGE", "TOKENS", "NOW", "DIRECTORY"},
		State:   1,
		Figures: []int{3},
		Shrink:  []term.Shrink{{Column: 4, Cells: 16}, {Column: 5, Cells: 16}},
	}
	for _, r := range rows {
		now := r.Activity
		switch {
		case len(r.Requests) > 0:
			now = r.Requests[0].ID + " asks: " + r.Requests[0].Summary
		case r.State == agents.RowKept:
			now = "work that exists nowhere else: symphony diff " + r.ID
		case r.Error != "":
			now = r.Error
		}
		age := text.Age(w.Now(), r.StartedAt)
		tokens := text.Count(r.Tokens.Total)
		if w.Piped() {
			age = r.StartedAt.UTC().Format(time.RFC3339)
			tokens = fmt.Sprint(r.Tokens.Total)
		}
		t.Add(r.ID, r.State, age, tokens, now, r.Cwd)
	}
	w.PrintTable("AGENTS", t)
}

// stopAgent ends an agent and prints its outcome.
func stopAgent(ctx context.Context, w *term.Env, id string) error {
	ended, err := agents.Stop(ctx, w.Environment(), id)
	if ended.Outcome != "" {
		fmt.Fprintln(w.Stdout, text.Visible(id+" has ended: "+string(ended.Outcome)))
	}
	return err
}
