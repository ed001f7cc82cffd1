package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/hosts"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/urfave/cli/v2"
)

// MachinesJSON is the output of machines --json.
type MachinesJSON struct {
	Hosts  []hosts.Row      `json:"hosts"`
	Claims []claims.TeamRow `json:"claims"` // empty also without repository.claims
}

func machinesCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "machines",
		Usage:     "show the other machines, and which one works on which issue",
		UsageText: usageText("machines", "[WORKFLOW]"),
		Description: helpText(
			"machines",
			"symphony machines",
			"symphony machines --release ABC-7",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[MachinesJSON]()},
				{"--release", reflect.TypeFor[ReleasedJSON]()},
			},
			&cli.StringFlag{
				Name:  "release",
				Usage: "let any machine take the claim of `ISSUE`",
			},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
		)...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			switch {
			case c.IsSet("release"):
				return releaseClaim(c, w, p, c.String("release"))
			}
			return showMachines(c, w, p)
		}),
	}
}

// showMachines prints the hosts of a project, and the claims of its team. It fails if no host can
// take a run.
func showMachines(c *cli.Context, w *term.Env, p *wiring.Project) error {
	rows, err := hosts.Rows(c.Context, p)
	if err != nil {
		return err
	}
	claimed, err := claims.Rows(c.Context, p)
	isShared := err == nil
	if err != nil && exit.From(err).Code != wiring.CodeClaimsOff {
		if !w.JSON {
			printHosts(w, rows)
		}
		return err
	}
	switch {
	case w.JSON:
		w.PrintJSON(MachinesJSON{rows, append([]claims.TeamRow{}, claimed...)})
	case len(rows) == 0 && !isShared:
		fmt.Fprintln(w.Stderr, "symphony: agents work on this machine alone; see worker.ssh_hosts and repository.claims")
	default:
		printHosts(w, rows)
		w.PrintTable("CLAIMS", claimsTable(w, claimed))
	}
	if isShared && len(claimed) == 0 {
		fmt.Fprintln(w.Stderr, "symphony: the remote has no claims")
	}
	takesRuns := func(r hosts.Row) bool { return r.Message == "" }
	if len(rows) == 0 || slices.ContainsFunc(rows, takesRuns) {
		return nil
	}
	for _, r := range rows {
		if host, err := sshname.Parse(r.Name); err == nil && strings.Contains(r.Message, ": ssh: ") {
			fmt.Fprintln(w.Stderr, "symphony: "+host.Command()+" shows what is wrong")
		}
	}
	return exit.Only(exit.Failed)
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
