package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/command"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/slurm"
	"github.com/symphony-cron/symphony/runner/host/ssh"
	"github.com/symphony-cron/symphony/state"
)

// NewEngine returns what reaches a host of the project for a run, by the options of a workflow. The caller adds to the run what is
// known of it.
func NewEngine(p *Project, hostName string, options workflow.Worker) (engine.Engine, *engine.Run, error) {
	if !reconcile.IsEngine(hostName) {
		link, err := newLink(p, hostName)
		return link, link.Run, err
	}
	run := &engine.Run{Env: p.Environ(), Project: nameOnHosts(p.StateDir)}
	hosted := state.HostedDir("", p.Env.Home)
	var jobs engine.Jobs = slurm.Jobs{Run: run, Args: options.EngineArgs, Home: p.Env.Home, Hosted: hosted}
	if hostName == reconcile.CommandHost {
		jobs = command.Jobs{Run: run, Commands: commands(options), Home: p.Env.Home}
		run.Clear = jobs.Cancel
	}
	return &engine.JobLink{Run: run, Jobs: jobs, Host: hostName, Hosted: hosted}, run, nil
}

func commands(w workflow.Worker) command.Commands {
	return command.Commands{Start: w.Start, Connect: w.Connect, Status: w.Status, Stop: w.Stop, PassEnv: w.EnginePass}
}

func newLink(p *Project, hostName string) (ssh.Link, error) {
	to, err := sshname.Parse(hostName)
	return ssh.Link{Host: to, Run: &engine.Run{Env: p.Environ(), Project: nameOnHosts(p.StateDir)}}, err
}

// nameOnHosts names a project on hosts. The name differs from those of other projects and of other machines.
func nameOnHosts(stateDir string) string {
	machine, err := os.ReadFile("/etc/machine-id")
	if errors.Is(err, fs.ErrNotExist) || len(machine) == 0 {
		name, _ := os.Hostname() // a machine without a name has one project of each path
		machine = []byte(name)
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(machine)) + "\x00" + stateDir))
	return "project-" + hex.EncodeToString(sum[:8])
}

// ProgramForHosts is this program, which hosts run, too.
func ProgramForHosts() (engine.Program, error) {
	path, err := RunningProgram()
	if err != nil {
		return engine.Program{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return engine.Program{}, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	return engine.Program{Path: path, Sum: hex.EncodeToString(sum.Sum(nil)), Size: size}, err
}

// HostAnswer is what a host says about itself. Codex, its login and git are empty if a login shell of the account does not find them,
// Author if git does not know an author of commits there.
type HostAnswer struct {
	Codex, Login, Git, Author string
	Latency                   time.Duration // of the connection and the answer
}

// aboutHost prints the lines of HostAnswer.
const aboutHost = `v() { bash -lc "$1" 2>/dev/null </dev/null | tail -n 1; }
echo "codex $(v 'codex --version')"
echo "login $(bash -lc 'codex login status' 2>&1 </dev/null | tail -n 1)"
echo "git $(v 'git --version')"
echo "author $(v 'git var GIT_COMMITTER_IDENT')"`

// AskHost asks a host about itself. It changes nothing there. An engine answers only for itself: to see a machine, a job would have to run.
func AskHost(ctx context.Context, p *Project, hostName string) (a HostAnswer, err error) {
	began := time.Now()
	switch hostName {
	case reconcile.SlurmHost:
		_, err = slurm.Command(ctx, p.Environ(), "", "squeue", "--me", "--noheader")
		return HostAnswer{Latency: time.Since(began)}, err
	case reconcile.CommandHost:
		cfg, err := p.ConfigWithoutKey()
		if err == nil {
			err = commands(cfg.Worker).Probe(ctx, p.Environ())
		}
		return HostAnswer{Latency: time.Since(began)}, err
	}
	link, err := newLink(p, hostName)
	if err != nil {
		return a, err
	}
	lines, err := link.Ask(ctx, aboutHost)
	a.Latency = time.Since(began)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		switch value = strings.TrimSpace(value); name {
		case "codex":
			a.Codex = strings.TrimPrefix(value, "codex-cli ")
		case "login":
			a.Login = value
		case "git":
			a.Git = strings.TrimPrefix(value, "git version ")
		case "author":
			a.Author = value
		}
	}
	return a, err
}

// RefuseElsewhere returns an error if the workspace of an issue is on another machine, where a command does not reach it.
func RefuseElsewhere(ctx context.Context, db *state.DB, issueID, command string) error {
	run, _, err := db.Runs.Last(ctx, issueID)
	if err != nil || run.Host == "" {
		return err
	}
	hint := "log in there: ssh " + run.Host
	if reconcile.IsEngine(run.Host) {
		hint = "use the directory where the jobs of the engine have it"
	}
	return reconcile.NewError("workspace_elsewhere", fmt.Sprintf("%s works only on this machine, and the workspace of %s is %s",
		command, run.Identifier, run.WorkspaceWhere()), hint)
}
