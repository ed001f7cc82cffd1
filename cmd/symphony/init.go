package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/linear"
	"github.com/urfave/cli/v2"
)

func initCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "write a WORKFLOW.md and its environment file; asks for what no flag says",
		UsageText: usageText("init", "[WORKFLOW]"),
		Description: `On a terminal it asks for the Linear key, checks it at once, lists the projects, and proposes
the rest. Without a terminal it needs --project, --repository, and a key: by --key-file, in the
environment file, or in LINEAR_API_KEY. The key is stored in the environment file, mode 0600.
It never overwrites anything, and writes nothing unless all is right.

Examples of --example:
  branch         a branch for each issue, pushed after each run (the default)
  pull-request   the same, and gh opens a pull request
  worktree       a git worktree of a local repository for each issue; nothing is pushed
  review         the agent reads the branch of an issue and comments; it can write nothing

Example:

    symphony init
    pass show linear | symphony init --key-file - --project https://linear.app/acme/project/web-shop-1a2b3c4d5e6f \
      --repository git@github.com:acme/web-shop.git --example pull-request`,
		Flags: workflowFlags(
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`; the same as --workflow"},
			&cli.StringFlag{Name: "example", Usage: "`NAME` of a ready workflow: " + strings.Join(exampleNames, ", "), DefaultText: exampleNames[0]},
			&cli.StringFlag{Name: "key-file", Usage: "read the Linear key from `FILE`, - is stdin"},
			&cli.StringFlag{Name: "project", Usage: "address (`URL`) or slug id of the Linear project"},
			&cli.StringFlag{Name: "repository", Usage: "`URL` of the git repository; with --example worktree the directory of a local one"},
			&cli.StringFlag{Name: "active-states", Usage: "work is done in these `STATES`, with commas between", DefaultText: "proposed from the project's team"},
			&cli.StringFlag{Name: "review-state", Usage: "the `STATE` in which the agent hands an issue over", DefaultText: "proposed from the project's team"},
			&cli.StringFlag{Name: "label", Usage: "only issues with this `LABEL` are worked on", DefaultText: defaultLabel},
			&cli.StringFlag{Name: "root", Usage: "the `DIRECTORY` of workspaces", DefaultText: "~/symphony/PROJECT"},
			&cli.StringFlag{Name: "endpoint", Usage: "the tracker's API at another `URL`", DefaultText: linear.DefaultEndpoint},
			&cli.BoolFlag{Name: "json", Usage: "print JSON; asks nothing"},
		),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			_, positional, err := arguments(c)
			if err != nil {
				return err
			}
			s, err := newStarter(w, c, positional)
			if err != nil {
				return err
			}
			return s.run(c.Context)
		},
	}
}

const defaultLabel = "symphony"

// starter is one init: what was given, what was asked, and what will be written.
type starter struct {
	w       *term.Env
	p       *project.Project // of the workflow that is not there yet
	options initOptions
	asking  bool // there is a person to ask
	key     string
	account *linear.Account
	// projects are those that the key sees.
	projects linear.Projects
	project  linear.Project
	answers  answers
}

// initOptions are the flags, empty where they were not given.
type initOptions struct {
	keyFile, project, repository, active, review, root string
	// place are the flags that later commands need to find workflow and state.
	place string
}

func newStarter(w *term.Env, c *cli.Context, positional string) (*starter, error) {
	if output := c.String("output"); output != "" {
		if positional != "" || c.IsSet("workflow") {
			return nil, exit.Usage("init: the workflow is named twice, by --output and otherwise")
		}
		positional = output
	}
	p, err := openProject(w, c, positional)
	if err != nil {
		return nil, err
	}
	s := &starter{
		w: w, p: p, asking: w.OnTerminal() && !w.JSON,
		options: initOptions{
			keyFile: c.String("key-file"), project: c.String("project"), repository: c.String("repository"),
			active: c.String("active-states"), review: c.String("review-state"), root: c.String("root"),
		},
		answers: answers{
			Example: cmp.Or(c.String("example"), exampleNames[0]), Endpoint: c.String("endpoint"),
			Labels: []string{strings.TrimSpace(cmp.Or(c.String("label"), defaultLabel))},
		},
	}
	if p.Path != w.Absolute("WORKFLOW.md") {
		s.options.place = " -w " + term.ShellQuote(p.Path)
	}
	if dir := c.String("state-dir"); dir != "" {
		s.options.place += " --state-dir " + term.ShellQuote(p.StateDir)
	}
	return s, s.refuse()
}

// refuse looks at all that can be known to be wrong before anybody is asked anything.
func (s *starter) refuse() error {
	if err := knownExample(s.answers.Example); err != nil {
		return err
	}
	if err := s.p.Nested(); err != nil {
		return err
	}
	if err := s.free(); err != nil {
		return err
	}
	if s.asking {
		return nil
	}
	var missing []string
	if s.options.project == "" {
		missing = append(missing, "--project")
	}
	if s.options.repository == "" {
		missing = append(missing, "--repository")
	}
	if s.options.keyFile == "" && s.knownKey() == "" {
		missing = append(missing, "--key-file")
	}
	if len(missing) > 0 {
		return exit.Usage("init: without a terminal to ask on it needs %s", strings.Join(missing, ", "))
	}
	return nil
}

func (s *starter) run(ctx context.Context) error {
	steps := []func(context.Context) error{s.findKey, s.findProject, s.findStates, s.findRepository, s.findRoot}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	text, err := s.render()
	if err != nil {
		return err
	}
	if err := s.write(text); err != nil {
		return err
	}
	s.report()
	return nil
}

// report says what was written, what is still to be done in Linear, and the next commands.
func (s *starter) report() {
	w, next := s.w, s.next()
	if w.JSON {
		w.PrintJSON(initJSON{s.p.Path, s.p.EnvPath(), s.project.SlugID, s.answers.Root, s.project.HasLabel, next})
		return
	}
	fmt.Fprintf(w.Stdout, "%s, for the project %s\n", term.Visible(s.p.Path), term.Visible(s.project.Name))
	fmt.Fprintf(w.Stdout, "%s, with the key\n\n", term.Visible(s.p.EnvPath()))
	label := term.Visible(s.answers.Labels[0])
	if s.project.HasLabel {
		fmt.Fprintf(w.Stdout, "Set the label %q on an issue in Linear, then:\n\n", label)
	} else {
		fmt.Fprintf(w.Stdout, "Make the label %q in Linear, set it on an issue, then:\n\n", label)
	}
	for _, command := range next {
		fmt.Fprintln(w.Stdout, "  "+command)
	}
}

type initJSON struct {
	Workflow    string   `json:"workflow"`
	EnvFile     string   `json:"environment_file"`
	Project     string   `json:"project_slug"`
	Root        string   `json:"workspace_root"`
	LabelExists bool     `json:"label_exists"`
	Next        []string `json:"next"`
}

// next are the commands that lead from here to a scheduled system.
func (s *starter) next() []string {
	issue := cmp.Or(s.project.Team, "ABC") + "-1"
	place := s.options.place
	return []string{"symphony doctor" + place, "symphony run " + issue + place, "symphony schedule install" + place}
}

// ask puts one question; an empty answer is the proposal.
func (s *starter) ask(ctx context.Context, what, proposal string) (string, error) {
	prompt := what
	if proposal != "" {
		prompt += " [" + term.Visible(proposal) + "]"
	}
	line, err := term.AskLine(ctx, s.w, prompt+": ", false)
	return cmp.Or(strings.TrimSpace(line), proposal), err
}

// say tells the person at the terminal what was wrong with an answer.
func (s *starter) say(err error) { fmt.Fprintln(s.w.Stderr, term.Visible(exit.From(err).Message)) }
