package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/hosts"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/urfave/cli/v2"
)

// HostsJSON is the output of hosts --json.
type HostsJSON struct {
	Hosts []hosts.Row `json:"hosts"`
}

func hostsCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "hosts",
		Usage:       "show whether the other machines on which agents work answer, and have free slots",
		UsageText:   usageText("hosts", "[WORKFLOW]"),
		Description: helpText("hosts", "symphony hosts"),
		Flags:       workflowFlags(jsonFlags[HostsJSON]()...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			rows, err := hosts.Rows(c.Context, p)
			if err != nil {
				return err
			}
			if w.JSON {
				w.PrintJSON(HostsJSON{rows})
			} else {
				printHosts(w, rows)
			}
			takesRuns := func(r hosts.Row) bool { return r.Message == "" }
			switch {
			case len(rows) == 0:
				fmt.Fprintln(w.Stderr, "symphony: agents work on this machine: the workflow names no other one, "+
					"which worker.ssh_hosts does (docs/hosts.md)")
				return nil
			case slices.ContainsFunc(rows, takesRuns):
				return nil
			}
			for _, r := range rows {
				if host, err := sshname.Parse(r.Name); err == nil && strings.Contains(r.Message, ": ssh: ") {
					fmt.Fprintln(w.Stderr, "symphony: "+host.Command()+" shows what is wrong")
				}
			}
			return exit.Only(exit.Failed)
		}),
	}
}

// printHosts prints a table of hosts.
func printHosts(w *term.Env, rows []hosts.Row) {
	t := term.Table{
		Head:    []string{"HOST", "STATE", "AGENTS", "CODEX", "ANSWERS", "REASON"},
		State:   1,
		Figures: []int{2, 4},
		Shrink:  []term.Shrink{{Column: 5, Cells: 16}},
	}
	for _, r := range rows {
		agents := strconv.Itoa(r.Runs)
		if r.Slots > 0 {
			agents += "/" + strconv.Itoa(r.Slots)
		}
		answers := fmt.Sprintf("%d ms", r.LatencyMS)
		if r.State == hosts.Unreachable {
			answers = "" // it did not
		}
		t.Add(r.Name, r.State, agents, r.Codex, answers, r.Message)
	}
	w.PrintTable("HOSTS", t)
}
