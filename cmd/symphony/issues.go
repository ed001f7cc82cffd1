package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/urfave/cli/v2"
)

func issuesCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "issues",
		Usage:     "list the issues of the tracker, or add one",
		UsageText: "symphony issues [flags] [WORKFLOW]\n   symphony issues new [flags] TITLE",
		Description: helpText(
			"issues",
			"symphony issues --state 'Human Review'",
			"symphony issues new 'Fix the footer' --label web",
		),
		Flags: workflowFlags(
			jsonFlagsOf(
				[]jsonDocument{
					{"", reflect.TypeFor[issuesJSON]()},
					{"new", reflect.TypeFor[reconcile.Issue]()},
				},
				&cli.StringSliceFlag{
					Name:        "state",
					Usage:       "the `NAME` of a state; may be repeated",
					DefaultText: "the active states",
				},
				&cli.StringFlag{Name: "body", Usage: "the `TEXT` of a new issue"},
				&cli.StringFlag{
					Name:    "body-file",
					Aliases: []string{"F"},
					Usage:   "the `FILE` with its text; - is stdin",
				},
				&cli.StringSliceFlag{
					Name:  "label",
					Usage: "its `LABEL`; may be repeated",
				},
			)...),
		Action: func(c *cli.Context) error {
			verb := c.Args().First()
			switch {
			case verb == "new":
				return issuesNew(c, w)
			case isWord(w, verb):
				return unexpected(c, verb)
			}
			if c.IsSet("body") || c.IsSet("body-file") || c.IsSet("label") {
				return exit.Usage("issues: --body, --body-file and --label work only with issues new")
			}
			return onProject(
				w,
				nil,
				func(c *cli.Context, p *wiring.Project, _ []string) error { return listIssues(c, w, p) },
			)(c)
		},
	}
}

// issueRow is an issue with the reason why a pass would skip it, nil if its record contains
// none.
type issueRow struct {
	reconcile.Issue
	Skip *reconcile.Skip `json:"skip"`
}

// issuesJSON is the output of issues --json.
type issuesJSON struct {
	Issues []issueRow `json:"issues"`
}

// listIssues prints the issues with the states of --state, or with the active states.
func listIssues(c *cli.Context, w *term.Env, p *wiring.Project) error {
	cfg, tracker, err := openTracker(p)
	if err != nil {
		return err
	}
	states := c.StringSlice("state")
	if len(states) == 0 {
		states = cfg.Policy.ActiveStates
	}
	issues, err := tracker.Candidates(c.Context, states)
	if err != nil {
		return err
	}
	if len(issues) == 0 || cfg.Tracker.Kind == "file" {
		// None, because a name in WORKFLOW.md is wrong? In a folder, which files are no issues?
		verified := wiring.VerifyNames(tracker, nil, cfg, p.Path, wiring.WarnOn(p.Env))
		_, err := verified.Candidates(c.Context, states)
		if err != nil && len(issues) == 0 {
			return err
		}
	}
	slices.SortStableFunc(issues, reconcile.CompareIssues)
	today, err := view.UsedToday(c.Context, p, cfg)
	if err != nil {
		return err
	}
	rows := issueRows(issues, recordSkips(cfg.Policy, issues, p.Env.Now(), today))
	switch {
	case w.JSON:
		w.PrintJSON(issuesJSON{rows})
	case len(rows) == 0:
		line := "symphony: no issue has the state " + strings.Join(states, " or ") + "; --state NAME lists those in another"
		named := slices.Concat(cfg.Policy.ActiveStates, cfg.Policy.TerminalStates, cfg.Tracker.NamedStates)
		meant := suggest.Misspelt(states[0], named)
		if meant != "" && !reconcile.SameState(meant, states[0]) {
			line += fmt.Sprintf("; did you mean %q?", meant)
		}
		fmt.Fprintln(w.Stderr, text.Visible(line))
	default:
		w.PrintTable("ISSUES", issueTable(rows))
	}
	return nil
}

// issueRows are the rows of issues, some of which a pass would skip.
func issueRows(issues []reconcile.Issue, skips []reconcile.Skip) []issueRow {
	rows := []issueRow{}
	for _, issue := range issues {
		row := issueRow{Issue: issue}
		// In JSON an empty list, also of an issue that could not be read completely.
		row.Labels = append([]string{}, issue.Labels...)
		row.BlockedBy = append([]reconcile.BlockerRef{}, issue.BlockedBy...)
		i := slices.IndexFunc(skips, func(s reconcile.Skip) bool { return s.IssueID == issue.ID })
		if i >= 0 {
			row.Skip = &skips[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func issueTable(rows []issueRow) term.Table {
	table := term.Table{
		Head:     []string{"ISSUE", "STATE", "PRIORITY", "TITLE", "LABELS", "BLOCKED BY", "NOT STARTED"},
		State:    1,
		Figures:  []int{2},
		Optional: []int{4, 5, 6},
		Shrink: []term.Shrink{
			{Column: 6, Cells: 40},
			{Column: 4, Cells: 16},
			{Column: 3, Cells: 40},
			{Column: 6, Cells: 24},
			{Column: 4, Cells: 8},
			{Column: 3, Cells: 24},
			{Column: 4},
			{Column: 6, Cells: 12},
			{Column: 3, Cells: 16},
		},
	}
	for _, row := range rows {
		priority := ""
		if row.Priority != nil && *row.Priority != 0 {
			priority = strconv.Itoa(*row.Priority)
		}
		why := ""
		if row.Skip != nil {
			why = row.Skip.Message
		}
		blockers := text.Map(
			row.BlockedBy,
			func(b reconcile.BlockerRef) string { return *cmp.Or(b.Identifier, b.ID, new("?")) },
		)
		table.Add(
			cmp.Or(row.Identifier, row.ID),
			row.State,
			priority,
			row.Title,
			strings.Join(row.Labels, ", "),
			strings.Join(blockers, ", "),
			why,
		)
	}
	return table
}

// recordSkips returns why a pass would not start issues, as far as their records and the day's
// budget tell.
func recordSkips(
	policy reconcile.Policy,
	issues []reconcile.Issue,
	now time.Time,
	today []reconcile.ModelUse,
) []reconcile.Skip {
	policy.MaxConcurrent = math.MaxInt
	policy.MaxByState = nil
	policy.MinFreeBytes = 0
	tracked := &reconcile.Tracked{Candidates: issues, Fetched: true}
	return reconcile.Compute(reconcile.Snapshot{
		Now:     now,
		Policy:  policy,
		Today:   today,
		Tracker: tracked,
	}).Skips
}

// maxBody bounds the text of a new issue that is read from a file or stdin, in bytes: a folder
// accepts no larger files.
const maxBody = 1 << 20

func issuesNew(c *cli.Context, w *term.Env) error {
	states := c.StringSlice("state")
	if len(states) > 1 {
		return exit.Usage("issues new: --state can be given once")
	}
	return onProject(
		w,
		[]string{"new", "TITLE"},
		func(c *cli.Context, p *wiring.Project, args []string) error {
			cfg, tracker, err := openTracker(p)
			if err != nil {
				return err
			}
			if tracker.Create == nil {
				return exit.Usage(
					"issues new: only a folder takes new issues; create it in %s: %s",
					tracker.Name,
					cfg.Tracker.Place,
				)
			}
			body, err := newBody(c, w)
			if err != nil {
				return err
			}
			n := reconcile.NewIssue{
				Title:  args[1],
				Body:   body,
				State:  strings.Join(states, ""),
				Labels: c.StringSlice("label"),
			}
			n.Taken = func(identifier string) (bool, error) { return wiring.KnowsIssue(c.Context, p, identifier) }
			issue, err := tracker.Create(c.Context, n)
			if err != nil {
				return err
			}
			if w.JSON {
				w.PrintJSON(issue)
				return nil
			}
			fmt.Fprintln(w.Stdout, text.Visible("created "+issue.Identifier+": "+placeOf(issue)))
			if lacks := cfg.Policy.MissingLabels(*issue); len(lacks) > 0 {
				w.Note(
					slog.LevelWarn,
					"no agent starts: it lacks a label of tracker.required_labels: "+strings.Join(lacks, ", "),
				)
			}
			if !cfg.Policy.Active(issue.State) {
				active := strings.Join(cfg.Policy.ActiveStates, ", ")
				w.Note(
					slog.LevelWarn,
					fmt.Sprintf(
						"no agent starts: %q is none of tracker.active_states: %s",
						issue.State,
						active,
					),
				)
			}
			return nil
		},
	)(c)
}

// newBody returns the text of a new issue: of --body, or of the file of --body-file.
func newBody(c *cli.Context, w *term.Env) (string, error) {
	body := c.String("body")
	file := c.String("body-file")
	if err := onlyOne(c, "body", "body-file"); err != nil {
		return "", err
	}
	if file == "" {
		return body, nil
	}
	from := w.Stdin
	name := "stdin"
	if file != "-" {
		opened, err := os.Open(w.Absolute(file))
		if err != nil {
			return "", exit.Usage("issues new: --body-file: %v", err)
		}
		defer opened.Close()
		from = opened
		name = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err != nil {
		return "", exit.Usage("issues new: %s: %v", name, err)
	}
	if len(data) > maxBody {
		return "", exit.Usage("issues new: %s: the text is longer than 1 MiB", name)
	}
	return string(data), nil
}

// isFile reports whether there is a file at the path, which is no directory.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// fileMeant returns the file that a text means: review.md, or @review.md as users of curl and gh api
// write it. It is empty if there is no file of that name, and for a word without a dot or a slash.
func fileMeant(w *term.Env, body string) string {
	name, isMarked := strings.CutPrefix(body, "@")
	isName := isMarked || strings.ContainsAny(name, "./")
	if !isName || !isFile(w.Absolute(name)) {
		return ""
	}
	return text.ShellQuote(name)
}

func openTracker(p *wiring.Project) (*workflow.Config, *reconcile.TrackerAdapter, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, nil, err
	}
	tracker, err := wiring.NewTracker(p, cfg, wiring.TrackerOptions{Warn: wiring.WarnOn(p.Env)})
	return cfg, tracker, err
}

// placeOf returns where a person finds an issue: its file in a folder, else its address.
func placeOf(issue *reconcile.Issue) string {
	if file := issue.File(); file != "" {
		return file
	}
	if issue.URL != nil {
		return *issue.URL
	}
	return "the tracker names no address of it"
}
