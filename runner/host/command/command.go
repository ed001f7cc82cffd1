// Package command starts the daemons of runs as jobs of any engine, by four shell commands of
// the workflow.
package command

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/engine"
)

// Commands are shell commands about the job of a run. The variables that begin with SYMPHONY_
// have its facts, see Jobs.shell.
type Commands struct {
	// Start submits a job that runs symphony $SYMPHONY_SERVE, and does not wait for it.
	Start string
	// Connect runs symphony $SYMPHONY_CONNECT where the job runs, with its own stdin and
	// stdout.
	Connect string
	// Status prints a line with a state of engine.JobState, and why: "pending no free node".
	Status string
	// Stop ends the job and removes the engine's data about it.
	Stop string
	// PassEnv are names of variables that the commands get, beside passed.
	PassEnv []string
}

// Jobs are the jobs of an engine. It is an engine.Jobs.
type Jobs struct {
	*engine.Run
	Commands
	Home string // the home directory
}

var _ engine.Jobs = Jobs{}

// passed are the variables that the commands get in any case.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR"}

// Submit runs the command start.
func (j Jobs) Submit(ctx context.Context, words []string) error {
	_, err := j.run(ctx, "start", j.Start, "SYMPHONY_SERVE="+strings.Join(words, " "))
	return err
}

// Find runs the command status.
func (j Jobs) Find(ctx context.Context) (engine.Job, error) {
	out, err := j.run(ctx, "status", j.Status)
	if err != nil {
		return engine.Job{}, err
	}
	found, err := parse(out)
	return found, explain(err, "status")
}

// parse reads the line that the command status prints. No line is an unknown state.
func parse(out string) (engine.Job, error) {
	word, why, _ := strings.Cut(strings.TrimSpace(out), " ")
	state := engine.JobState(word)
	switch {
	case word == "":
		return engine.Job{State: engine.JobUnknown}, nil
	case strings.Contains(why, "\n") || !slices.Contains(states, state):
		return engine.Job{}, reconcile.NewError(
			engine.CodeUnusable,
			fmt.Sprintf("it has printed %.200q, not a line that begins with %s",
				out, "pending, never, running, ended or unknown"),
			"",
		)
	}
	return engine.Job{State: state, Why: text.Visible(strings.TrimSpace(why))}, nil
}

var states = []engine.JobState{
	engine.JobPending,
	engine.JobNever,
	engine.JobRunning,
	engine.JobEnded,
	engine.JobUnknown,
}

// Connect returns the command connect.
func (j Jobs) Connect(_ engine.Job, words []string) (*exec.Cmd, error) {
	return j.shell(j.Commands.Connect, "SYMPHONY_CONNECT="+strings.Join(words, " "))
}

// Cancel runs the command stop.
func (j Jobs) Cancel(ctx context.Context) error {
	_, err := j.run(ctx, "stop", j.Stop)
	return err
}

func (j Jobs) run(ctx context.Context, name, script string, facts ...string) (string, error) {
	cmd, err := j.shell(script, facts...)
	if err != nil {
		return "", err
	}
	out, err := engine.Output(ctx, cmd, "")
	return out, explain(err, name)
}

// shell returns a shell that runs a command of the engine, with the facts of the run in
// variables.
func (j Jobs) shell(script string, facts ...string) (*exec.Cmd, error) {
	program, err := j.Program.Copy(j.Home)
	if err != nil {
		return nil, err
	}
	facts = append(
		facts,
		"SYMPHONY_JOB="+j.JobName(),
		"SYMPHONY_RUN="+j.Incarnation.RunID,
		"SYMPHONY_PROGRAM="+program,
	)
	return j.Commands.shell(j.Env, script, facts)
}

func (c Commands) shell(env []string, script string, facts []string) (*exec.Cmd, error) {
	cmd, err := engine.Command(env, slices.Concat(passed, c.PassEnv), "sh", "-c", script)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, facts...)
	return cmd, nil
}

// Probe asks for the state of a job that does not exist. It fails if the command status does.
func (c Commands) Probe(ctx context.Context, env []string) error {
	cmd, err := c.shell(env, c.Status, []string{"SYMPHONY_JOB=symphony-none", "SYMPHONY_RUN=none"})
	if err != nil {
		return err
	}
	out, err := engine.Output(ctx, cmd, "")
	if err != nil {
		return explain(err, "status")
	}
	_, err = parse(out)
	return explain(err, "status")
}

func explain(err error, name string) error {
	return engine.Explain(
		err,
		"command: worker.engine."+name+": ",
		"correct what it names; then symphony resume",
	)
}
