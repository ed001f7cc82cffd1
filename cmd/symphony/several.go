package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// severalUsage explains the arguments of commands that take several issues.
const severalUsage = `

You can name several issues, or choose them with --filter, which works as in symphony ps. The command then lists them and
asks once for your confirmation; without a terminal it needs --yes. If it fails for one issue, it continues with the others.
It prints a result for each issue, and exits 0 only if it has succeeded for all. The last argument may be a workflow, if it
is the path of a file and does not look like ABC-7. With -w FILE all arguments are issues.`

// severalName is the name of the document that commands print for several issues.
const severalName = "several issues"

// severalFlags returns the flags of a command about a single issue, which prints a T, or
// several.
func severalFlags[T any](more ...cli.Flag) []cli.Flag {
	return workflowFlags(
		jsonFlagsOf(
			[]jsonDocument{{"", reflect.TypeFor[T]()}, {severalName, reflect.TypeFor[operate.Several]()}},
			append(more,
				&cli.StringSliceFlag{
					Name:  "filter",
					Usage: "the issues with `KEY=VALUE`; keys: " + strings.Join(view.FilterKeys, ", "),
				},
				&cli.BoolFlag{Name: "yes", Usage: "do not ask"})...)...)
}

// takesSeveral reports whether a command line is about several issues, so that the command
// prints the document of several.
func takesSeveral(w *term.Env, c *cli.Context) bool {
	issues, _, _ := severalArguments(w, c)
	return flagOf(c.Command, "yes") != nil && flagOf(c.Command, "filter") != nil &&
		(c.IsSet("filter") || len(issues) > 1)
}

// severalArguments separates the issues from the workflow, which may come last: the first
// argument is an issue, except with --filter. Requests are followed by no workflow.
func severalArguments(w *term.Env, c *cli.Context) (issues []string, workflow string, err error) {
	issues = c.Args().Slice()
	if !strings.Contains(c.Command.UsageText, "REQUEST") && (len(issues) > 1 || c.IsSet("filter")) {
		issues, workflow = issuesAndWorkflow(w, issues)
	}
	for _, arg := range issues[min(len(issues), 1):] {
		if !c.IsSet("workflow") && isFile(w.Absolute(arg)) {
			return nil, "", exit.Usage(
				"%s: %q may be an issue or the file of that name: name the workflow with -w",
				c.Command.Name,
				arg,
			)
		}
	}
	return issues, workflow, nil
}

// isFile reports whether there is a file at the path, which is no directory.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// onIssues is the action of a command about an issue, or several. order makes the command,
// without an issue; one carries it out about a single issue.
func onIssues[C operate.Command](
	w *term.Env,
	order func(*cli.Context) (C, error),
	one func(c *cli.Context, p *wiring.Project, issue string, command C) error,
) cli.ActionFunc {
	return func(c *cli.Context) error {
		issues, workflow, err := severalArguments(w, c)
		several := takesSeveral(w, c)
		w.Verbose = c.Bool("verbose")
		if err != nil {
			return err
		}
		noun := "ISSUE"
		if strings.Contains(c.Command.UsageText, "REQUEST") {
			noun = "REQUEST"
		}
		switch {
		case len(issues) == 0 && !several:
			return exit.Usage("%s: %s is missing", c.Command.Name, noun)
		case len(issues) > 0 && c.IsSet("filter"):
			return exit.Usage("%s: %s and --filter cannot be combined", c.Command.Name, noun)
		case w.Verbose && (w.JSON || several):
			return exit.Usage("%s: -v and --json or several issues cannot be combined", c.Command.Name)
		}
		p, err := openProject(w, c, workflow)
		if err != nil {
			return err
		}
		command, err := order(c)
		if err != nil {
			return err
		}
		if several {
			return onSeveral(c, w, p, issues, command)
		}
		return one(c, p, issues[0], command)
	}
}

// onSeveral carries out a command about several issues, once the operator saw which.
func onSeveral(
	c *cli.Context,
	w *term.Env,
	p *wiring.Project,
	issues []string,
	command operate.Command,
) error {
	screen := *w
	screen.Stdout = w.Stderr // stdout is for the results
	targets, err := chooseTargets(c, &screen, p, issues, command)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		fmt.Fprintln(w.Stderr, "symphony: no issue matches the filter; nothing was changed")
	} else if !c.Bool("yes") {
		question := fmt.Sprintf("%s: %d in all, as listed? [y]es, [N]o: ", c.Command.Name, len(targets))
		yes, err := term.Confirm(c.Context, w, question)
		if err != nil || !yes {
			return err
		}
	}
	results := operate.Each(c.Context, targets, command, func(r operate.TargetResult) {
		for _, line := range r.Lines {
			if !w.JSON {
				fmt.Fprintln(w.Stdout, text.Visible(line))
			}
		}
		if e := r.Error; e != nil && !w.JSON {
			w.PrintError(e)
		}
	})
	if w.JSON {
		w.PrintJSON(operate.Several{Results: results})
	}
	return operate.ExitCode(results)
}

// chooseTargets prints the issues, or requests in full, that the command line names or its
// filter keeps, and returns each once. A target that can't be found is left to the command,
// which reports it.
func chooseTargets(
	c *cli.Context, w *term.Env, p *wiring.Project, refs []string, command operate.Command,
) ([]operate.Target, error) {
	selection, err := view.NewSelection(c.StringSlice("filter"), "", 0)
	if err != nil {
		return nil, err
	}
	all, err := view.Read(c.Context, p, view.Options{All: len(refs) > 0 || selection.Needs()})
	if err != nil && c.IsSet("filter") { // without a filter the names of the command line are enough
		return nil, err
	}
	confined, rows, _ := selection.Select([]view.Overview{all})
	decision, decides := command.(operate.Decision)
	if len(refs) == 0 {
		refs = text.Map(rows, func(r view.Row) string { return r.Identifier })
		if decides {
			refs = requestsFor(decision, confined[0].Requests)
		}
	}
	asks := !c.Bool("yes") && !w.Piped()
	var targets []operate.Target
	table := term.Table{Head: []string{"ISSUE", "STATUS", "TITLE"}, State: 1}
	for _, ref := range refs {
		row := text.First(
			rows,
			func(r view.Row) bool { return strings.EqualFold(ref, r.Identifier) || ref == r.IssueID },
		)
		t := operate.Target{Project: p, Name: cmp.Or(row.Identifier, ref)}
		owner, isAgent := agents.ProjectOf(c.Context, p, ref)
		if isAgent && !decides {
			return nil, exit.Usage("%s: %s is an agent: name it alone", c.Command.Name, ref)
		}
		var request *reconcile.Request
		if decides {
			t.Project = owner
			found, err := requests.Named(c.Context, owner, ref, decision.How)
			if err == nil {
				request = &found
				t.Name = found.ID()
			}
		}
		sameName := func(other operate.Target) bool { return strings.EqualFold(other.Name, t.Name) }
		if slices.ContainsFunc(targets, sameName) {
			continue
		}
		targets = append(targets, t)
		table.Add(t.Name, row.Status.Label(), row.Title)
		if request != nil && asks {
			render.RequestHead(w, *request)
			render.Request(w, *request)
		}
	}
	if !decides && asks {
		w.PrintTable("ISSUES", table)
	}
	return targets, nil
}

// requestsFor returns the ids of the open requests that a decision can answer: a question can
// be denied, but not approved.
func requestsFor(d operate.Decision, open []view.RequestRow) []string {
	answerable := text.Filter(open, func(r view.RequestRow) bool {
		return d.How == reconcile.DecideDeny || r.Kind != reconcile.QuestionRequest
	})
	return text.Map(answerable, func(r view.RequestRow) string { return r.ID })
}
