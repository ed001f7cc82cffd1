package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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

// severalName is the name of the document that commands print for several issues or projects.
const severalName = "several issues"

// severalFlags returns the flags of a command about a single issue, which prints a T, or
// several.
func severalFlags[T any](more ...cli.Flag) []cli.Flag {
	return severalFlagsOf([]jsonDocument{{"", reflect.TypeFor[T]()}}, more...)
}

// severalFlagsOf is severalFlags for a command that prints different documents.
func severalFlagsOf(documents []jsonDocument, more ...cli.Flag) []cli.Flag {
	return workflowFlags(
		jsonFlagsOf(
			append(documents, jsonDocument{severalName, reflect.TypeFor[operate.Several]()}),
			append(more,
				&cli.StringSliceFlag{
					Name:  "filter",
					Usage: "all issues with `KEY=VALUE`, as in symphony ps",
				},
				projectFlag(),
				&cli.BoolFlag{Name: "yes", Usage: "do not ask"})...)...)
}

// onProjects is the action of a command about projects: about the project that openProject
// finds, or about several.
func onProjects[C operate.Command](
	w *term.Env,
	order func(*cli.Context) C,
	one func(c *cli.Context, p *wiring.Project, command C) error,
) cli.ActionFunc {
	return func(c *cli.Context) error {
		w.Verbose = c.Bool("verbose")
		_, positional, err := arguments(w, c)
		if err != nil {
			return err
		}
		several := namesSeveral(c)
		if err := onlyOne(c, "verbose", "json"); err != nil {
			return err
		}
		projects, err := chosenProjects(w, c, positional)
		if err != nil {
			return err
		}
		command := order(c)
		if !several {
			return one(c, projects[0].Project, command)
		}
		var targets []operate.Target
		for _, p := range projects {
			if p.SourceErr != nil && len(wiring.LivingRuns(p.Project)) == 0 {
				w.Note(slog.LevelWarn, p.Name+": left out: "+exit.From(p.SourceErr).Message)
				continue
			}
			targets = append(targets, operate.Target{Project: p.Project, Of: p.Name})
		}
		return carryOut(c, w, targets, command)
	}
}

// onIssues is the action of a command about an issue, or several. order makes the command,
// without an issue; one carries it out about a single issue.
func onIssues[C operate.Command](
	w *term.Env,
	order func(*cli.Context) (C, error),
	one func(c *cli.Context, p *wiring.Project, issue string, command C) error,
) cli.ActionFunc {
	return func(c *cli.Context) error {
		issues := c.Args().Slice()
		several := namesSeveral(c) || c.IsSet("filter") || len(issues) > 1
		w.Verbose = c.Bool("verbose")
		noun := "ISSUE"
		if takesRequest(c.Command) {
			noun = "REQUEST"
		}
		switch {
		case len(issues) == 0 && namesSeveral(c) && !c.IsSet("filter"):
			return exit.Usage("%s: with several projects --filter chooses the issues", c.Command.Name)
		case len(issues) == 0 && !several && noun == "REQUEST":
			return requestMissing(w, c)
		case len(issues) == 0 && !several:
			return argumentMissing(c, noun)
		case len(issues) > 0 && c.IsSet("filter"):
			return exit.Usage("%s: %s and --filter cannot be combined", c.Command.Name, noun)
		}
		if err := onlyOne(c, "verbose", "json"); err != nil {
			return err
		}
		projects, err := chosenProjects(w, c, "")
		if err != nil {
			return err
		}
		if len(projects) == 1 && several && projects[0].SourceErr != nil && !projects[0].HasState() {
			return projects[0].SourceErr // once, and not for each issue
		}
		command, err := order(c)
		if err != nil {
			return err
		}
		var own [][]string
		if len(issues) > 0 {
			own, err = inProjects(c, w, projects, issues)
			if err != nil {
				return err
			}
		}
		if len(issues) == 1 && !w.JSON || !several {
			at := slices.IndexFunc(own, func(refs []string) bool { return len(refs) > 0 })
			return one(c, projects[at].Project, issues[0], command)
		}
		return onSeveral(c, w, projects, own, command)
	}
}

// inProjects distributes issues, or requests, over the projects that have them. With several
// projects each must be in exactly one.
func inProjects(c *cli.Context, w *term.Env, projects []view.Named, refs []string) ([][]string, error) {
	own := make([][]string, len(projects))
	if len(projects) == 1 && !namesSeveral(c) {
		own[0] = refs
		return own, nil
	}
	for _, ref := range refs {
		at, err := projectOf(c, w, projects, ref)
		if err != nil {
			return nil, err
		}
		own[at] = append(own[at], ref)
	}
	return own, nil
}

// projectOf returns the index of the only project that has a record of an issue, or an open
// request.
func projectOf(c *cli.Context, w *term.Env, projects []view.Named, ref string) (int, error) {
	var has []int
	missing := reconcile.NewError(
		"issue_not_found",
		"none of these projects has "+ref,
		"symphony ps --all --project all lists what they have",
	)
	if takesRequest(c.Command) {
		has = projectsWith(w, projects, func(p *wiring.Project) (bool, error) { return hasAsked(c.Context, p, ref) })
	}
	isIssue := strings.Contains(c.Command.UsageText, "ISSUE")
	if len(has) == 0 && isIssue {
		has = projectsWith(w, projects, func(p *wiring.Project) (bool, error) { return wiring.KnowsIssue(c.Context, p, ref) })
	}
	switch {
	case len(has) == 1:
		return has[0], nil
	case len(has) > 1:
		names := text.Map(has, func(at int) string {
			return projects[at].Name + " (-w " + text.ShellQuote(projects[at].Path) + ")"
		})
		return 0, exit.Usage("%s: %s is in %s: name one of them", c.Command.Name, ref, strings.Join(names, " and in "))
	case !isIssue:
		missing.Code = "request_not_found"
	}
	return 0, missing
}

// projectsWith returns the indexes of the projects that have something. A project that can't be
// read is left out.
func projectsWith(
	w *term.Env, projects []view.Named, has func(*wiring.Project) (bool, error),
) (indexes []int) {
	for i, p := range projects {
		found, err := has(p.Project)
		if err != nil {
			w.Note(slog.LevelWarn, p.Name+": left out: "+exit.From(err).Message)
		}
		if found {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// takesRequest reports whether a command is about requests, as approve is; tell is about issues, too.
func takesRequest(c *cli.Command) bool { return strings.Contains(c.UsageText, "REQUEST") }

// hasAsked reports whether a running agent of a project waits for an answer to a request, such as
// ABC-7.3, or to any request of an issue, such as ABC-7.
func hasAsked(ctx context.Context, p *wiring.Project, ref string) (bool, error) {
	if !p.HasState() {
		return false, nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return false, err
	}
	defer db.Close()
	_, name, err := wiring.IssueName(ctx, db, ref)
	if err != nil {
		return false, err
	}
	open, err := view.OpenRequests(ctx, p, db)
	return slices.ContainsFunc(open, func(r reconcile.Request) bool {
		return strings.EqualFold(r.ID(), ref) || strings.EqualFold(r.Identifier, name)
	}), err
}

// onSeveral carries out a command about several issues, once the operator saw which. own are the
// issues of each project that the command line names; nil if a filter chooses them.
func onSeveral(
	c *cli.Context,
	w *term.Env,
	projects []view.Named,
	own [][]string,
	command operate.Command,
) error {
	agreed := c.Bool("yes") || len(slices.Concat(own...)) == 1
	screen := *w
	screen.Stdout = w.Stderr // stdout is for the results
	chosen := choice{
		c:       c,
		w:       &screen,
		command: command,
		several: namesSeveral(c),
		agreed:  agreed,
		asks:    !agreed && !w.Piped(),
		table:   term.Table{Head: []string{"ISSUE", "STATUS", "TITLE"}, State: 1},
	}
	if chosen.several {
		chosen.table.Head = append(chosen.table.Head, "PROJECT")
	}
	for i, p := range projects {
		var refs []string
		if own != nil {
			refs = own[i]
		}
		if own != nil && len(refs) == 0 {
			continue
		}
		if err := chosen.add(p, refs); err != nil {
			return err
		}
	}
	_, decides := command.(operate.Decision)
	if !decides && chosen.asks {
		screen.PrintTable("ISSUES", chosen.table)
	}
	switch {
	case len(chosen.targets) == 0 && decides:
		fmt.Fprintln(w.Stderr, "symphony: no open request matches the filter")
	case len(chosen.targets) == 0:
		fmt.Fprintln(w.Stderr, "symphony: no issue matches the filter")
	case !agreed:
		question := fmt.Sprintf("%s: %d in all, as listed? [y]es, [N]o: ", c.Command.Name, len(chosen.targets))
		if err := term.Confirm(c.Context, w, question); err != nil {
			return err
		}
	}
	return carryOut(c, w, chosen.targets, command)
}

// carryOut carries out a command about several issues or projects, and prints the result of
// each: with the name of its project, if there are several.
func carryOut(c *cli.Context, w *term.Env, targets []operate.Target, command operate.Command) error {
	results := operate.Each(c.Context, targets, command, func(r operate.TargetResult) {
		if w.JSON {
			return
		}
		before := ""
		if namesSeveral(c) {
			before = r.Project + ": "
		}
		for _, line := range r.Lines {
			fmt.Fprintln(w.Stdout, text.Visible(before+line))
		}
		if r.Error != nil {
			named := *r.Error
			named.Message = before + named.Message
			w.PrintError(&named)
		}
	})
	if w.JSON {
		w.PrintJSON(operate.Several{Results: results})
	}
	return operate.ExitCode(results)
}

// choice are the issues, or requests, that a command line names or its filter keeps.
type choice struct {
	c       *cli.Context
	w       *term.Env
	command operate.Command
	several bool // projects
	agreed  bool // the operator needs no question
	asks    bool // the operator is asked whether these are right
	targets []operate.Target
	table   term.Table
}

// add adds the issues or requests of a project that the command line names or its filter
// keeps, each once, and prints requests in full. With --yes, a target that can't be found is left
// to the command, which reports it.
func (o *choice) add(p view.Named, refs []string) error {
	selection, err := view.NewSelection(o.c.StringSlice("filter"), "", 0)
	if err != nil {
		return err
	}
	all, err := view.Read(o.c.Context, p.Project, view.Options{
		All:  len(refs) > 0 || selection.Needs(),
		Name: p.Name,
	})
	if err != nil && o.several {
		o.w.Note(slog.LevelWarn, p.Name+": left out: "+exit.From(err).Message)
		return nil
	}
	if err != nil && o.c.IsSet("filter") { // without a filter the names of the command line are enough
		return err
	}
	confined, rows, _ := selection.Select([]view.Overview{all})
	decision, decides := o.command.(operate.Decision)
	if len(refs) == 0 {
		refs = text.Map(rows, func(r view.Row) string { return r.Identifier })
		if decides {
			refs = requestsFor(decision, confined[0].Requests)
		}
	}
	for _, ref := range refs {
		if err := o.addTarget(p, ref, rows); err != nil {
			return err
		}
	}
	return nil
}

// addTarget adds an issue or a request, of which rows may have the status.
func (o *choice) addTarget(p view.Named, ref string, rows []view.Row) error {
	decision, decides := o.command.(operate.Decision)
	if decides {
		return o.addRequest(p, ref, decision)
	}
	_, isAgent := agents.ProjectOf(o.c.Context, p.Project, ref)
	if isAgent {
		return exit.Usage("%s: %s is an agent: name it alone", o.c.Command.Name, ref)
	}
	isRef := func(r view.Row) bool { return strings.EqualFold(ref, r.Identifier) || ref == r.IssueID }
	row := text.First(rows, isRef)
	title := row.Title
	if row.Identifier == "" && !o.agreed {
		issue, err := wiring.FetchIssue(o.c.Context, p.Project, ref)
		if err != nil {
			return exit.About(o.c.Command.Name+": nothing was changed", err)
		}
		title = issue.Title
	}
	o.addOnce(operate.Target{
		Project: p.Project,
		Of:      p.Name,
		Name:    cmp.Or(row.Identifier, ref),
	}, row.Status.Label(), title)
	return nil
}

// addRequest adds a request, and prints it in full if the operator is asked.
func (o *choice) addRequest(p view.Named, ref string, decision operate.Decision) error {
	owner, _ := agents.ProjectOf(o.c.Context, p.Project, ref)
	found, err := requests.Named(o.c.Context, owner, ref, decision.How)
	if err != nil && !o.agreed {
		return exit.About(o.c.Command.Name+": nothing was decided", err)
	}
	if err != nil {
		o.addOnce(operate.Target{Project: owner, Of: p.Name, Name: ref}, "", "")
		return nil //nolint:nilerr // the command reports it
	}
	isNew := o.addOnce(operate.Target{Project: owner, Of: p.Name, Name: found.ID()}, "", "")
	if isNew && o.asks {
		render.RequestHead(o.w, found)
		render.Request(o.w, found)
	}
	return nil
}

// addOnce adds a target, with its status and title for the table. It returns false if the
// target is there already.
func (o *choice) addOnce(target operate.Target, status, title string) bool {
	isSame := func(other operate.Target) bool {
		return other.Project.StateDir == target.Project.StateDir && strings.EqualFold(other.Name, target.Name)
	}
	if slices.ContainsFunc(o.targets, isSame) {
		return false
	}
	o.targets = append(o.targets, target)
	cells := []string{target.Name, status, title}
	if o.several {
		cells = append(cells, target.Of)
	}
	o.table.Add(cells...)
	return true
}

// requestsFor returns the ids of the open requests that a decision can answer: a question can
// be denied, but not approved.
func requestsFor(d operate.Decision, open []view.RequestRow) []string {
	answerable := text.Filter(open, func(r view.RequestRow) bool {
		return d.How == reconcile.DecideDeny || r.Kind != reconcile.QuestionRequest
	})
	return text.Map(answerable, func(r view.RequestRow) string { return r.ID })
}
