package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state"
)

// logOptions say which log of a run, and how.
type logOptions struct {
	follow, raw bool
	// file is another log than the events: agent.stderr, worker.log, hooks.log.
	file string
}

func logsCommand(w *world) *cli.Command {
	return &cli.Command{
		Name: "logs", Usage: "what the agent of an issue did, in its newest run",
		UsageText: usageText("logs", "ISSUE [WORKFLOW]"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the run ends"},
			&cli.BoolFlag{Name: "raw", Usage: "print the events as they are stored, one JSON object per line"},
			&cli.StringFlag{Name: "run", Usage: "another run than the newest: its `ID`, see symphony ps --all"},
			&cli.BoolFlag{Name: "stderr", Usage: "the agent's stderr"},
			&cli.BoolFlag{Name: "worker", Usage: "the worker's own log"},
			&cli.BoolFlag{Name: "hooks", Usage: "the output of hooks"},
		),
		Action: func(c *cli.Context) error {
			args, positional, err := arguments(c, "ISSUE")
			if err != nil {
				return err
			}
			o := logOptions{follow: c.Bool("follow"), raw: c.Bool("raw")}
			for flag, file := range map[string]string{"stderr": "agent.stderr", "worker": "worker.log", "hooks": "hooks.log"} {
				if !c.Bool(flag) {
					continue
				}
				if o.file != "" || o.raw {
					return usageError("logs: one of --raw, --stderr, --worker, --hooks")
				}
				o.file = file
			}
			p, err := w.openProject(c, positional)
			if err != nil {
				return err
			}
			run, err := p.findRun(c.Context, args[0], c.String("run"))
			if err != nil {
				return err
			}
			if err := p.printLog(c.Context, run, o); err != nil {
				return err
			}
			return p.printEnd(c.Context, run, o)
		},
	}
}

// findRun names the newest run of an issue, or checks that the named run is one of it.
func (p *project) findRun(ctx context.Context, ref, runID string) (string, error) {
	db, err := openForReading(ctx, p)
	if err != nil {
		return "", err
	}
	defer db.Close()
	id, identifier, ok, err := db.FindIssue(ctx, ref)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", &reconcile.Error{Code: "issue_not_found", Message: ref + " has no run here", Hint: "symphony ps --all lists what there is"}
	}
	if runID != "" {
		run, err := db.Run(ctx, runID)
		if errors.Is(err, state.ErrNotFound) || err == nil && run.IssueID != id {
			return "", &reconcile.Error{Code: "run_not_found", Message: fmt.Sprintf("%s has no run %s", identifier, runID), Hint: "symphony ps --all lists the latest"}
		}
		return runID, err
	}
	runs, err := db.RunsOfIssue(ctx, id, 20)
	if err != nil {
		return "", err
	}
	for _, r := range runs {
		if r.Kind == reconcile.AgentRun {
			return r.ID, nil
		}
	}
	return "", &reconcile.Error{Code: "run_not_found", Message: identifier + " has had no run yet", Hint: "symphony ps --all says why it was skipped"}
}

// printLog prints a run's log, and with follow goes on until the run has ended.
func (p *project) printLog(ctx context.Context, runID string, o logOptions) error {
	db, err := openForReading(context.WithoutCancel(ctx), p) // a signal ends the following, not the reading
	if err != nil {
		return err
	}
	defer db.Close()
	dir := runner.RunDir(p.stateDir, runID)
	path := filepath.Join(dir, "events.jsonl")
	show := p.showEvent
	if o.raw {
		show = p.showRaw
	}
	if o.file != "" {
		path, show = filepath.Join(dir, o.file), p.showText
	}
	f := follower{path: path}
	defer f.close()
	if o.file == "" {
		if err := f.readPrevious(runner.PreviousEvents(path), show); err != nil {
			return err
		}
	}
	return p.followFile(ctx, db, runID, &f, o.follow, show)
}

// printEnd closes the events of a run that has ended with its outcome: one that never came to an agent has no events.
func (p *project) printEnd(ctx context.Context, runID string, o logOptions) error {
	if o.raw || o.file != "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // a signal has ended the following, and there is nothing to wait for here
	db, err := openForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	run, err := db.Run(ctx, runID)
	if err == nil && run.Outcome != "" {
		fmt.Fprintln(p.w.stdout, endLine(run))
	}
	return err
}

// followFile prints what is there, and while the run goes on what comes.
func (p *project) followFile(ctx context.Context, db *state.DB, runID string, f *follower, follow bool, show func([]byte)) error {
	for {
		run, err := db.Run(context.WithoutCancel(ctx), runID)
		if err != nil {
			return err
		}
		ended := run.Outcome != "" || p.dead(run)
		if err := f.read(show); err != nil {
			return err
		}
		if !follow || ended {
			f.showRest(show)
			return nil
		}
		if !sleep(ctx, waitStep) {
			return nil
		}
	}
}

// showLines shows whole lines and returns the unfinished last one.
func showLines(r io.Reader, show func([]byte)) (rest []byte, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		show(bytes.TrimSuffix(line, []byte("\n")))
	}
}

func (p *project) showText(line []byte) { fmt.Fprintln(p.w.stdout, visible(string(line))) }

// showRaw prints an event as it is stored, but that JSON's own escapes stand for what a terminal would obey.
func (p *project) showRaw(line []byte) {
	var b strings.Builder
	for _, r := range string(line) {
		if control(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	fmt.Fprintln(p.w.stdout, b.String())
}

// showEvent prints one event for a person.
func (p *project) showEvent(line []byte) {
	var e runner.EventLine
	if err := json.Unmarshal(line, &e); err != nil {
		p.showText(line)
		return
	}
	text, ok := humanize(e)
	if !ok {
		return
	}
	margin := e.At.Local().Format("15:04:05")
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(p.w.stdout, "%s  %s\n", margin, visible(strings.TrimSuffix(line, "\r")))
		margin = "        "
	}
}
