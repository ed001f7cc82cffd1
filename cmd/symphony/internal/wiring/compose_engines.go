package wiring

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/command"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/host/slurm"
	"github.com/symphony-cron/symphony/runner/host/ssh"
	"github.com/symphony-cron/symphony/state"
)

// jobEngine is how symphony uses an engine that starts jobs.
type jobEngine struct {
	jobs  func(run *engine.Run, options workflow.Worker, home, hosted string) engine.Jobs
	probe func(context.Context, *Project) error // fails if the engine does not answer
	// sharesHome is set if the machines of the engine share this machine's home directory, and
	// so the workspaces.
	sharesHome bool
}

// jobEngines contains all workflow.Engines.
var jobEngines = map[string]jobEngine{
	workflow.EngineSlurm: {
		jobs: func(run *engine.Run, options workflow.Worker, home, hosted string) engine.Jobs {
			return slurm.Jobs{Run: run, Args: options.EngineArgs, Home: home, Hosted: hosted}
		},
		probe: func(ctx context.Context, p *Project) error {
			_, err := slurm.Command(ctx, p.Environ(), "", "squeue", "--me", "--noheader")
			return err
		},
		sharesHome: true,
	},
	workflow.EngineCommand: {
		jobs: func(run *engine.Run, options workflow.Worker, home, _ string) engine.Jobs {
			jobs := command.Jobs{Run: run, Commands: commands(options), Home: home}
			run.Clear = jobs.Cancel
			return jobs
		},
		probe: func(ctx context.Context, p *Project) error {
			cfg, err := p.ConfigWithoutKey()
			if err != nil {
				return err
			}
			return commands(cfg.Worker).Probe(ctx, p.Environ())
		},
	},
}

// engineOf returns the engine that starts jobs on a host; found is false if ssh reaches the
// host.
func engineOf(hostName string) (e jobEngine, found bool, err error) {
	e, found = jobEngines[hostName]
	if !found && workflow.IsEngine(hostName) {
		return e, false, reconcile.NewError(
			workflow.CodeInvalid,
			fmt.Sprintf("no engine for worker.engine.kind %q", hostName),
			"correct worker.engine.kind",
		)
	}
	return e, found, nil
}

// NewEngine returns the engine and the run by which symphony reaches a host of the project, by
// the options of a workflow. The caller adds to the run the known facts about it.
func NewEngine(
	ctx context.Context, p *Project, db *state.DB, hostName string, options workflow.Worker,
) (engine.Engine, *engine.Run, error) {
	by, isJob, err := engineOf(hostName)
	if err != nil {
		return nil, nil, err
	}
	name, err := nameOnHosts(ctx, p, db)
	if err != nil {
		return nil, nil, err
	}
	path, err := RunningProgram()
	if err != nil {
		return nil, nil, err
	}
	program, err := readProgram(path)
	if err != nil {
		return nil, nil, err
	}
	run := &engine.Run{Env: p.Environ(), Project: name, Program: program, ProgramFor: programFor}
	if !isJob {
		to, err := sshname.Parse(hostName)
		return ssh.Engine{Host: to, Run: run}, run, err
	}
	hosted := state.HostedDir("", p.Env.Home)
	return &engine.JobEngine{
		Run:    run,
		Jobs:   by.jobs(run, options, p.Env.Home, hosted),
		Host:   hostName,
		Hosted: hosted,
	}, run, nil
}

func commands(w workflow.Worker) command.Commands {
	return command.Commands{
		Start:   w.Start,
		Connect: w.Connect,
		Status:  w.Status,
		Stop:    w.Stop,
		PassEnv: w.EnginePass,
	}
}

// NameOnHostsKey is the key under which the first worker of the project stores its name on
// hosts.
const NameOnHostsKey = "name_on_hosts"

// nameOnHosts returns the name of the project on hosts, such as project-5d41402abc4b2a76: the
// stored name, or a new name that no other project on any machine uses.
func nameOnHosts(ctx context.Context, p *Project, db *state.DB) (string, error) {
	if db != nil { // nil for a project that did not run yet
		stored, found, err := db.Meta(ctx, NameOnHostsKey)
		if err != nil || found {
			return stored, err
		}
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if errors.Is(err, fs.ErrNotExist) || len(machine) == 0 {
		name, _ := os.Hostname() // if the machine has no name, only the path identifies the project
		machine = []byte(name)
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(machine)) + "\x00" + p.StateDir))
	return "project-" + hex.EncodeToString(sum[:8]), nil
}

// programFor is the program for another system, a file beside this program.
func programFor(system string) (engine.Program, error) {
	exe, err := os.Executable()
	if err != nil {
		return engine.Program{}, fmt.Errorf("own program: %w", err)
	}
	p, err := readProgram(filepath.Join(filepath.Dir(exe), "symphony-"+system))
	p.System = system
	return p, err
}

func readProgram(path string) (engine.Program, error) {
	file, err := os.Open(path)
	if err != nil {
		return engine.Program{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return engine.Program{}, err
	}
	if !info.Mode().IsRegular() {
		return engine.Program{}, fmt.Errorf("%s is not a file", path)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	if err != nil {
		return engine.Program{}, fmt.Errorf("read %s: %w", path, err)
	}
	return engine.Program{Path: path, Sum: hex.EncodeToString(sum.Sum(nil)), Size: size}, nil
}

const (
	visitBound = 2 * time.Minute  // for a visit
	visitLost  = time.Minute      // after which the host ends a visit without a link
	leaveBound = 10 * time.Second // for the host to confirm the end of a visit
)

// Visit calls do with the machine of a run's workspace: this machine, or a host that ssh
// reaches. An operator's command uses it. Like a run, the visit gets an id and a directory on
// the host, which is deleted later. Workspaces that only jobs reach are refused.
func Visit(
	ctx context.Context,
	p *Project,
	db *state.DB,
	of reconcile.Run,
	command string,
	do func(context.Context, host.Machine) error,
) error {
	e, isJob, err := engineOf(of.Host)
	if err != nil {
		return err
	}
	if of.Host == "" || e.sharesHome {
		return do(ctx, ThisMachine())
	}
	if isJob {
		return elsewhereError(of, command)
	}
	by, run, err := NewEngine(ctx, p, db, of.Host, workflow.Worker{})
	if err != nil {
		return err
	}
	makeVisit(run, p.Env.Now())
	bounded, cancel := context.WithTimeout(ctx, visitBound)
	defer cancel()
	if err := by.Start(bounded); err != nil {
		return err
	}
	client, err := remote.Connect(bounded, by.Dial, run.Incarnation)
	if err != nil {
		return fmt.Errorf("%s: %w", of.Host, err)
	}
	defer client.Close()
	err = do(bounded, remote.Machine{Client: client})
	if err != nil {
		err = fmt.Errorf("%s: %w", of.Host, err)
	}
	leaving, end := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer end()
	_ = client.Release(leaving) // without it, the host ends the visit
	return err
}

// HostAnswer is the answer of a host about itself. A field is empty if a login shell of the
// account does not find the program.
type HostAnswer struct {
	Agent  string // the version of the default one, such as 0.104.0
	Login  string // what its login command prints: "Logged in using ChatGPT"
	Git    string // its version, such as 2.51.0
	Author string // of commits there; empty if git knows none
	// NoRoot is a directory that keeps worker.root from being made or written there; empty if
	// nothing does.
	NoRoot  string
	Latency time.Duration // of the connection and the answer
}

// aboutHost returns a script that prints the lines of HostAnswer.
func aboutHost(kind agent.Kind) string {
	return fmt.Sprintf(
		askAgent,
		text.ShellWord(kind.VersionCommand),
		text.ShellWord(kind.LoginCommand),
	) + askMachine
}

const askAgent = `v() { bash -lc "$1" 2>/dev/null </dev/null | tail -n 1; }
echo "agent $(v %s)"
echo "login $(bash -lc %s 2>&1 </dev/null | tail -n 1)"
`

const askMachine = `echo "git $(v 'git --version')"
echo "author $(v 'git var GIT_COMMITTER_IDENT')"
while [ ! -e "$root" ]; do root=$(dirname "$root"); done
[ -d "$root" ] && [ -w "$root" ] || echo "no_root $root"`

// rootAssignment sets the variable root in a shell of a host.
func rootAssignment(root string) string {
	if rest, found := strings.CutPrefix(root, "~/"); found {
		return `root="$HOME"/` + text.ShellWord(rest) + "\n"
	}
	return "root=" + text.ShellWord(root) + "\n"
}

// AskHost asks a host about itself. It changes nothing there. An engine answers only for
// itself: to see a machine, a job would have to run.
func AskHost(ctx context.Context, p *Project, hostName string) (HostAnswer, error) {
	began := time.Now()
	e, isJob, err := engineOf(hostName)
	if err != nil {
		return HostAnswer{}, err
	}
	if isJob {
		err := e.probe(ctx, p)
		return HostAnswer{Latency: time.Since(began)}, err
	}
	to, err := sshname.Parse(hostName)
	if err != nil {
		return HostAnswer{}, err
	}
	cfg, err := p.ConfigWithoutKey()
	if err != nil {
		return HostAnswer{}, err
	}
	by := ssh.Engine{
		Host: to,
		Run:  &engine.Run{Env: p.Environ(), ProgramFor: programFor},
	}
	lines, err := by.Ask(ctx, rootAssignment(cfg.Policy.RemoteRoot)+aboutHost(DefaultAgent()))
	a := answerOf(lines)
	a.Latency = time.Since(began)
	return a, err
}

// answerOf reads the lines of aboutHost, such as "git git version 2.51.0".
func answerOf(lines []string) HostAnswer {
	said := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, " ")
		said[name] = strings.TrimSpace(value)
	}
	words := strings.Fields(said["agent"]) // the last one is the version
	return HostAnswer{
		Agent:  strings.Join(words[max(0, len(words)-1):], ""),
		Git:    strings.TrimPrefix(said["git"], "git version "),
		Login:  said["login"],
		Author: said["author"],
		NoRoot: said["no_root"],
	}
}

// RefuseElsewhere returns an error if the workspace of an issue is on another machine, where a
// command does not reach it.
func RefuseElsewhere(ctx context.Context, db *state.DB, issueID, command string) error {
	run, _, err := db.Runs.Last(ctx, issueID)
	if err != nil || run.Host == "" {
		return err
	}
	return elsewhereError(run, command)
}

func elsewhereError(run reconcile.Run, command string) error {
	hint := "log in there: ssh " + run.Host
	if workflow.IsEngine(run.Host) {
		hint = "use the directory where the jobs of the engine have it"
	}
	return reconcile.NewError(
		reconcile.CodeIssueElsewhere,
		fmt.Sprintf("%s does not reach %s, where the workspace of %s is",
			command, run.WorkspaceWhere(), run.Identifier),
		hint,
	)
}

// makeVisit makes a run a visit of a host: it has an id and a secret of its own, and no
// worker. The host ends it after visitLost without a link.
func makeVisit(run *engine.Run, now time.Time) {
	run.LostAfter = visitLost
	run.Incarnation = remote.Incarnation{
		RunID:  NewRunID(now),
		Number: 1,
		Secret: rand.Text(),
	}
}
