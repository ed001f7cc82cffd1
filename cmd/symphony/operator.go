package main

import (
	"context"
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/takeover"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

func retryCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     orderUsage("retry"),
		UsageText: usageText("retry", "ISSUE..."),
		Description: severalHelpText("retry",
			"symphony retry ABC-7",
			"symphony retry --filter status=held",
		),
		Flags: severalFlags[pass.ResultJSON](
			fieldsFlag(),
			&cli.BoolFlag{
				Name:  "fresh",
				Usage: "its next run begins a new conversation with the agent, in the same workspace",
			},
			&cli.BoolFlag{
				Name:  "host-is-gone",
				Usage: "the host of its last run is gone for good: start it on another one, without the work there",
			},
			&cli.StringFlag{
				Name:  "model",
				Usage: "use the model `NAME` in the run that starts now",
			},
			&cli.BoolFlag{
				Name: "unverified",
				Usage: "hand the issue over although verify.command has not passed, or deliver commits that the " +
					"base has dropped; the comment says so, with your name",
			},
			&cli.BoolFlag{Name: "no-wait", Usage: "do not wait for the end of a delivery"},
		),
		Action: onIssues(w, retryOrder, func(c *cli.Context, p *wiring.Project, issue string, command operate.Retry) error {
			command.Issue = issue
			if c.Bool("unverified") {
				command.UnverifiedBy = operate.Account(p.Env)
			}
			return retryIssue(c, w, p, command)
		}),
	}
}

// orderUsage is what an order does, as the line of its command in symphony help.
func orderUsage(name string) string {
	o, _ := operate.OrderOf(name)
	return o.Does
}

// retryOrder reads the flags of retry.
func retryOrder(c *cli.Context) (operate.Retry, error) {
	command := operate.Retry{
		Fresh:    c.Bool("fresh"),
		HostGone: c.Bool("host-is-gone"),
		NoWait:   c.Bool("no-wait"),
	}
	var err error
	command.Model, err = modelFlag(c)
	return command, err
}

// modelFlag reads the flag --model.
func modelFlag(c *cli.Context) (string, error) {
	model := c.String("model")
	if c.IsSet("model") && !workflow.IsWord(model) {
		return "", exit.Usage("%s: --model: %q is not the name of a model", c.Command.Name, model)
	}
	return model, nil
}

// retryIssue lets an issue go on. If its agent needs words, a terminal asks for them.
func retryIssue(c *cli.Context, w *term.Env, p *wiring.Project, command operate.Retry) error {
	calls := operate.DeliveryCalls{
		Started: func(r operate.Result) { printPass(w, r.Pass) },
		Ended:   func(run reconcile.Run) { render.RunEnd(w, p, run) },
	}
	if w.JSON {
		calls = operate.DeliveryCalls{
			Started: func(r operate.Result) { w.PrintJSON(r.JSON()) },
		}
	}
	r, err := operate.RetryIssue(c.Context, p, command, calls)
	switch {
	case operate.NeedsWords(err) && w.OnTerminal() && !w.JSON:
		fmt.Fprintln(w.Stderr, "symphony: "+text.Visible(exit.From(err).Message))
		return tellIssue(c, w, p, operate.Tell{Issue: command.Issue})
	case r.Run != nil && r.Undelivered() != nil: // the end of the run says why
		return exit.Only(exit.Failed)
	case r.Run != nil || err == nil && r.IsDelivery:
		return err
	}
	return render.Applied(w, operate.Done{Result: r.Result, Document: r.JSON()}, err)
}

func pauseCommand(w *term.Env) *cli.Command {
	return verbCommand(w, reconcile.VerbPause, "start no new runs; current runs continue")
}

func resumeCommand(w *term.Env) *cli.Command {
	return verbCommand(
		w,
		reconcile.VerbResume,
		"start runs again, after a pause or after you have repaired a fault",
	)
}

// verbCommand returns a command about the project that stores a verb and runs the pass that
// applies it.
func verbCommand(w *term.Env, verb reconcile.Verb, usage string) *cli.Command {
	name := string(verb)
	return &cli.Command{
		Name:        name,
		Usage:       usage,
		UsageText:   usageText(name, "[WORKFLOW]"),
		Description: helpText(name, "symphony "+name, "symphony "+name+" --project all"),
		Flags: workflowFlags(jsonFlagsOf([]jsonDocument{
			{"", reflect.TypeFor[pass.ResultJSON]()},
			{severalName, reflect.TypeFor[operate.Several]()},
		}, fieldsFlag(), projectFlag())...),
		Action: onProjects(
			w,
			func(*cli.Context) operate.Change { return operate.Change{Verb: verb} },
			func(c *cli.Context, p *wiring.Project, command operate.Change) error {
				return render.Apply(c.Context, w, p, command)
			},
		),
	}
}

func runCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "start one issue now, and follow its run; or start several",
		UsageText: usageText("run", "ISSUE..."),
		Description: severalHelpText("run",
			"symphony run ABC-7",
			"symphony run ABC-7 ABC-8 --yes",
		),
		Flags: severalFlags[pass.ResultJSON](fieldsFlag(), &cli.StringFlag{
			Name:  "model",
			Usage: "use the model `NAME` in this run",
		}),
		Action: onIssues(w, func(c *cli.Context) (operate.Start, error) {
			model, err := modelFlag(c)
			return operate.Start{Model: model}, err
		}, func(c *cli.Context, p *wiring.Project, issue string, command operate.Start) error {
			command.Issue = issue
			return runIssue(c.Context, w, p, command)
		}),
	}
}

// runIssue starts an issue and follows its run until it ends. A signal ends this command, not
// the run.
func runIssue(ctx context.Context, w *term.Env, p *wiring.Project, command operate.Start) error {
	r, err := operate.StartIssue(ctx, p, command)
	if !w.JSON {
		printPass(w, r.Pass)
	}
	if err != nil {
		return err
	}
	if w.JSON {
		w.PrintJSON(r.JSON())
		return nil
	}
	for _, line := range r.Effect {
		fmt.Fprintln(w.Stderr, "symphony: "+text.Visible(line))
	}
	err = logs.FollowRun(ctx, w, p, r.RunID)
	if err != nil && ctx.Err() == nil {
		return err
	}
	run, err := pass.WaitForRun(ctx, p, r.RunID) // after a signal it says that the run continues
	if err != nil {
		return err
	}
	render.RunEnd(w, p, run)
	if err := pass.WaitSettled(ctx, p, run); err != nil {
		return err
	}
	if !run.Outcome.IsRegular() || run.Delivery.Code != "" {
		return exit.Only(exit.Failed)
	}
	return showResult(ctx, w, p, command, run)
}

// showResult prints how to go on with what the agent of a run has handed over, or what happens
// next if the issue is not done. If it needs help, the exit code says so. If the run has only delivered
// what an earlier one had left, the agent starts after it, as the user wanted.
func showResult(
	ctx context.Context,
	w *term.Env,
	p *wiring.Project,
	command operate.Start,
	run reconcile.Run,
) error {
	if h := run.Delivery.Handover; h.AsksHelp() {
		render.Sentences(w, []string{
			run.Identifier + " needs help: " + text.OneLine(h.Blocked),
			"symphony tell " + run.Identifier + " TEXT answers its agent",
		})
		return exit.Only(exit.NeedsHelp)
	}
	v, err := detail.Read(ctx, p, run.IssueID, detail.Options{Offline: true, Brief: true})
	if err != nil {
		return err
	}
	agentIsNext := run.Kind == reconcile.DeliveryRun && v.Why.Code == string(reconcile.Continuation)
	switch {
	case agentIsNext:
		return runIssue(ctx, w, p, command)
	case v.Review != nil:
		render.PrintReview(w, *v.Review)
	case v.Claim != nil:
		render.PrintUnfinished(w, v)
	}
	return nil
}

// printPass prints the pass of a command, if a pass took place.
func printPass(w *term.Env, r pass.Result) {
	if r.Holder == nil && r.Project != "" {
		render.Pass(w, r, r.Warnings, r.Errors)
	}
}

func stopCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     orderUsage("stop"),
		UsageText: usageText("stop", "ISSUE...") + "\n" + usageText("stop --all", "[WORKFLOW]"),
		Description: severalHelpText("stop",
			"symphony stop ABC-7",
			"symphony stop ABC-7 ABC-8 --after-run",
			"symphony stop --all --project all",
		),
		Flags: severalFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[operate.StopJSON]()},
				{"--after-run", reflect.TypeFor[pass.ResultJSON]()},
			},
			&cli.BoolFlag{Name: "after-run", Usage: "let its run end by itself, and start no further one"},
			&cli.BoolFlag{Name: "all", Usage: "pause the project and end every run, without holding an issue"},
			&cli.BoolFlag{Name: "no-wait", Usage: "do not wait for the end of the run"},
			fieldsFlag(),
		),
		Action: func(c *cli.Context) error { return stopAction(c, w) },
	}
}

func stopAction(c *cli.Context, w *term.Env) error {
	name := c.Args().First()
	switch {
	case c.Bool("all") && c.IsSet("filter"):
		return exit.Usage("stop: --filter and --all cannot be combined")
	case c.Bool("all") && c.Bool("after-run"):
		return exit.Usage("stop: --all and --after-run cannot be combined; symphony pause only starts no new runs")
	case c.Bool("all") && name != "" && !wiring.Exists(w.Absolute(name)):
		return exit.Usage("stop: ISSUE and --all cannot be combined, and there is no workflow %q", name)
	case c.Bool("all"):
		return onProjects(
			w,
			func(c *cli.Context) operate.Stop { return operate.Stop{All: true, NoWait: c.Bool("no-wait")} },
			func(c *cli.Context, p *wiring.Project, command operate.Stop) error {
				return render.Stop(c.Context, w, p, command)
			},
		)(c)
	case name == "" && !c.IsSet("filter"):
		return exit.Usage("stop: ISSUE or --all is missing; symphony ps lists what runs")
	case c.Bool("after-run"):
		return onIssues(w, stopAfterRun, func(c *cli.Context, p *wiring.Project, name string, command operate.Stop) error {
			_, isAgent := agents.ProjectOf(c.Context, p, name)
			if isAgent {
				return exit.Usage("stop: %s is an agent: --after-run is only for issues", name)
			}
			return render.Apply(c.Context, w, p, command.About(name))
		})(c)
	}
	order := func(c *cli.Context) (operate.Stop, error) {
		return operate.Stop{NoWait: c.Bool("no-wait")}, nil
	}
	one := func(c *cli.Context, p *wiring.Project, name string, command operate.Stop) error {
		_, isAgent := agents.ProjectOf(c.Context, p, name)
		if !isAgent {
			command.Issue = name
			return render.Stop(c.Context, w, p, command)
		}
		if command.NoWait || w.JSON {
			return exit.Usage("stop: %s is an agent: --no-wait and --json are only for issues", name)
		}
		return stopAgent(c.Context, w, name)
	}
	return onIssues(w, order, one)(c)
}

// stopAfterRun is the order of stop --after-run, without its issue.
func stopAfterRun(*cli.Context) (operate.Stop, error) { return operate.Stop{AfterRun: true}, nil }

func doneCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "done",
		Usage:     orderUsage("done"),
		UsageText: usageText("done", "ISSUE..."),
		Description: severalHelpText("done",
			"symphony done ABC-7",
			"symphony done ABC-7 ABC-9",
		),
		Flags: severalFlags[pass.ResultJSON](fieldsFlag()),
		Action: onIssues(
			w,
			func(*cli.Context) (operate.Finish, error) { return operate.Finish{}, nil },
			func(c *cli.Context, p *wiring.Project, issue string, command operate.Finish) error {
				return render.Apply(c.Context, w, p, command.About(issue))
			},
		),
	}
}

// refuseFile refuses a text such as @review.md or -, with which other programs read a file or
// stdin.
func refuseFile(c *cli.Context, w *term.Env, words string) error {
	name := fileMeant(w, words)
	if words == "-" {
		name = "-"
	}
	if name == "" {
		return nil
	}
	message := "%s: %q would be the text itself: \"$(cat %s)\" is what the file contains"
	if flagOf(c.Command, "stdin") != nil {
		message += ", and --stdin takes any text"
	}
	return exit.Usage(message, c.Command.Name, words, name)
}

func takeoverCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "takeover",
		Usage:     "continue an issue yourself, in the agent's own terminal",
		UsageText: usageText("takeover", "ISSUE"),
		Description: helpText(
			"takeover",
			"symphony takeover ABC-7",
			"symphony takeover ABC-7 --yes --then retry",
		),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "yes", Usage: "do not ask before stopping a run"},
			&cli.StringFlag{
				Name:  "then",
				Usage: "do not ask at the end: `ACTION` is retry, which lets a run go on with the issue, or hold",
			},
		),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				then := c.String("then")
				if then != "" && then != "retry" && then != "hold" {
					return exit.Usage("takeover: --then must be retry or hold, not %q", then)
				}
				return takeover.Run(c.Context, w, p, takeover.Options{
					Issue: args[0],
					Stop:  c.Bool("yes"),
					Then:  then,
				})
			},
		),
	}
}
