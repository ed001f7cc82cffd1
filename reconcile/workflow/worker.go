package workflow

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/sshname"
)

// Worker is the engine that starts runs on other machines, and its options.
type Worker struct {
	Engine     string
	EngineArgs []string
	// Start, Connect, Status and Stop are the commands of the engine command, which get the
	// variables of EnginePass.
	Start, Connect, Status, Stop string
	EnginePass                   []string
}

// The kinds of engines. Kinds that start agents as jobs are in Engines, too.
const (
	engineSSH     = "ssh"
	EngineSlurm   = "slurm"
	EngineCommand = "command"
)

// Engines are the kinds of engines that start agents as jobs: each counts as a single host,
// whichever machine it chooses.
func Engines() []string { return []string{EngineSlurm, EngineCommand} }

// IsEngine reports whether a host is such an engine, and no machine that ssh reaches.
func IsEngine(host string) bool { return slices.Contains(Engines(), host) }

// engine completes the machines on which agents work: an engine that starts jobs counts as a
// machine, whichever machine it chooses.
func (r *reader) engine(field) {
	kind := r.cfg.Worker.Engine
	if !IsEngine(kind) {
		return
	}
	if len(r.cfg.Policy.Hosts) > 0 {
		r.invalid(
			r.field("worker.ssh_hosts"),
			"not together with worker.engine.kind "+kind,
			"remove one of them",
		)
	}
	r.cfg.Policy.Hosts = []string{kind}
}

// engineCommand checks a command of an engine.
func (r *reader) engineCommand(f field) {
	if f.node == nil || strings.TrimSpace(f.node.Value) == "" {
		r.invalid(f, "missing", "write the command; docs/hosts.md has examples for several engines")
	}
}

// enginePass checks the variables that these commands get.
func (r *reader) enginePass(f field) {
	for i, name := range r.cfg.Worker.EnginePass {
		switch {
		case name == "": // it was reported
		case !variableName(name):
			r.invalid(
				r.item(f, i),
				strconv.Quote(name)+" is not the name of a variable",
				"write the name of a variable, without $",
			)
		case strings.HasPrefix(name, "SYMPHONY_"), slices.Contains(r.cfg.SecretVars, name):
			r.invalid(
				r.item(f, i),
				name+" is symphony's own variable, or contains a secret that no job needs",
				"remove it",
			)
		}
	}
}

// ownArgs are options of sbatch that symphony gives itself, or that would make another job of
// it.
var ownArgs = []string{
	"array", "chdir", "clusters", "error", "job-name", "no-requeue", "output", "parsable", "requeue",
	"signal", "test-only", "wait", "wrap",
}

// engineArgs checks the options of sbatch.
func (r *reader) engineArgs(f field) {
	for i, arg := range r.cfg.Worker.EngineArgs {
		name, long := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		isShort := func(own string) bool { return strings.HasPrefix(own, name) } // sbatch completes names
		switch {
		case arg == "": // it was reported
		case !long || name == "":
			r.invalid(
				r.item(f, i),
				strconv.Quote(arg)+" is not a long option",
				"write it as --name or --name=value",
			)
		case slices.ContainsFunc(ownArgs, isShort):
			r.invalid(r.item(f, i), "--"+name+" would change the job that symphony submits", "remove it")
		}
	}
}

// hosts checks the names of the machines on which agents work.
func (r *reader) hosts(f field) {
	for i, name := range r.cfg.Policy.Hosts {
		f := r.item(f, i)
		_, err := sshname.Parse(name)
		switch {
		case name == "": // it was reported
		case IsEngine(name):
			r.invalid(
				f,
				strconv.Quote(name)+" is the name of an engine",
				"give the machine another alias, or write user@"+name,
			)
		case err != nil:
			r.invalid(f, err.Error(), "write an alias of ssh's configuration, or user@host:port; an "+
				"IPv6 address with a port in brackets")
		case slices.Contains(r.cfg.Policy.Hosts[:i], name):
			r.invalid(f, name+" is named twice", "keep one of them")
		}
	}
}

// remoteRoot completes the directory of the workspaces on the hosts.
func (r *reader) remoteRoot(f field) {
	root := &r.cfg.Policy.RemoteRoot
	if len(r.cfg.Policy.Hosts) == 0 {
		return // without effect
	}
	if *root == "" {
		*root = "~/symphony_workspaces"
		if local := r.field("workspace.root").node; local != nil {
			*root = r.cfg.Workspace.Root
			if text := strings.TrimSpace(local.Value); local.Kind == yaml.ScalarNode && inHome(text) {
				*root = text
			}
		}
	}
	if !inHome(*root) && !filepath.IsAbs(*root) {
		r.invalid(f, "not an absolute path", "begin it with / or ~/")
	}
}

func inHome(path string) bool { return strings.HasPrefix(path, "~/") && len(path) > 2 }

// checkMachines refuses settings that do not work on other machines yet, and warns about
// settings without effect.
func (r *reader) checkMachines() {
	c := r.cfg
	if len(c.Policy.Hosts) == 0 {
		for _, key := range []string{
			"worker.max_concurrent_agents_per_host",
			"worker.root",
			"worker.lost_after_ms",
		} {
			r.warnKey(
				key,
				"no effect without worker.ssh_hosts or worker.engine.kind "+strings.Join(Engines(), " or "),
			)
		}
		return
	}
	r.warnKey("workspace.min_free_bytes", "no effect with agents on other machines")
	if len(c.Agent.others()) > 0 {
		return // it is refused there
	}
	const unbuilt = "not built yet for agents on other machines"
	if len(c.Session.Homes) > 0 {
		r.fail(
			CodeUnsupportedKey,
			r.field(keyHome),
			unbuilt,
			homeOfHosts,
		)
	}
	if c.Session.Inherit {
		r.fail(CodeUnsupportedKey, r.field(keyInherit), unbuilt, "remove the key")
	}
	if c.Repository.Submodules {
		r.fail(
			CodeUnsupportedKey,
			r.field("repository.submodules"),
			unbuilt,
			"fetch them in hooks.after_create",
		)
	}
}
