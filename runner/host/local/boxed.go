package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/sandbox"
	"github.com/symphony-cron/symphony/runner/proc"
)

// codeNoSandbox is the code of an error that this machine can make no sandbox.
const codeNoSandbox = "sandbox_unavailable"

// boxed is a command in a sandbox of symphony: its process is bubblewrap.
type boxed struct {
	process
	env []string // of the command

	first    chan struct{}     // closed when inside is set, or will never be
	inside   reconcile.Process // the first process of the sandbox; zero if there is none
	reported chan struct{}     // closed when status is set
	status   sandbox.Status
}

var _ host.Process = (*boxed)(nil)

// startBoxed starts a command in its sandbox.
func (r *run) startBoxed(ctx context.Context, q host.StartRequest, lease *os.File) (host.Process, error) {
	report, written, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	var inside []string
	child, err := tree.StartReporting(lease, r.tree, written, func(fd int) (host.StartRequest, error) {
		reporting := *q.Box
		reporting.StatusFD = fd
		q.Box = &reporting
		boxed, err := r.boxedRequest(ctx, q)
		inside = boxed.Env
		return boxed, err
	})
	written.Close()
	if err != nil {
		report.Close()
		return nil, err
	}
	b := &boxed{
		process:  process{child},
		env:      inside,
		first:    make(chan struct{}),
		reported: make(chan struct{}),
	}
	go b.follow(report)
	<-b.first
	return b, nil
}

// boxedRequest returns the request to start bubblewrap for a command in a sandbox.
func (r *run) boxedRequest(ctx context.Context, q host.StartRequest) (host.StartRequest, error) {
	box, err := r.fill(ctx, q)
	if err != nil {
		return q, err
	}
	bubblewrap, err := box.Bubblewrap(q.Env)
	if err != nil {
		return q, noSandbox(err)
	}
	if err := putGitSettings(ctx, box.Home, q.Box.AccountHome, q.Env); err != nil {
		return q, fmt.Errorf("the settings of git for the agent: %w", err)
	}
	isScoped := r.machine.Scopes.AskLimits(ctx, q.Box.Limits) == nil
	if !isScoped {
		box.Processes = q.Box.Limits.Tasks
	}
	args, err := sandbox.Prepare(box)
	if err != nil {
		return q, noSandbox(err)
	}
	// The settings of git that it names are not there.
	env := slices.DeleteFunc(box.Environ(q.Env), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_CONFIG_GLOBAL=")
	})
	cmd := &exec.Cmd{Path: bubblewrap, Args: append([]string{bubblewrap}, args...), Env: env}
	if isScoped {
		if err := r.machine.Scopes.Limit(cmd, r.id, q.Box.Limits); err != nil {
			return q, err
		}
	}
	return host.StartRequest{Argv: cmd.Args, Dir: "/", Env: cmd.Env}, nil
}

// follow reads the report of bubblewrap to its end.
func (b *boxed) follow(report *os.File) {
	defer report.Close()
	known := sync.OnceFunc(func() { close(b.first) })
	status, _ := sandbox.ReadStatus(report, func(pid int) { // a report that breaks off tells what it tells
		entry, err := proc.Stat(pid)
		if err == nil {
			b.inside = entry.Process()
		}
		known()
	})
	b.status = status
	close(b.reported)
	known()
}

// noSandbox returns the error of a sandbox that this machine can't make.
func noSandbox(err error) error {
	cure := "symphony doctor tries the sandbox"
	refusal, is := errors.AsType[*sandbox.Refusal](err)
	if is {
		cure = refusal.Cure
	}
	return &reconcile.Error{
		Code:    codeNoSandbox,
		Message: "the agent gets no sandbox: " + err.Error() + ": " + cure,
		Hint:    cure,
		Err:     err,
	}
}

// SignalGroup implements host.Process. A signal to bubblewrap would end all at once, as SIGKILL
// does; the first process inside passes signals on to the command.
func (b *boxed) SignalGroup(sig unix.Signal) error {
	if sig == unix.SIGKILL || b.inside.PID == 0 {
		return b.process.SignalGroup(sig)
	}
	return proc.Signal(reconcile.Process{PID: b.inside.PID, Start: b.inside.Start}, sig)
}

// Environ implements host.Process. The first process inside can't be inspected, and has the
// variables of the command.
func (b *boxed) Environ(ctx context.Context) ([]string, error) {
	below, err := b.Descendants(ctx)
	below = slices.DeleteFunc(below, func(p reconcile.Process) bool { return p.PID == b.inside.PID })
	merged, mergeErr := mergeEnviron(b.env, below)
	return merged, errors.Join(err, mergeErr)
}

// reportBound is how long Close waits for the end of the report: the kernel ends the sandbox
// with bubblewrap.
const reportBound = 5 * time.Second

// Close implements host.Process.
func (b *boxed) Close() (host.Exit, error) {
	exit, err := b.process.Close()
	if err != nil {
		return exit, err
	}
	select {
	case <-b.reported:
		failed := b.status.Exited && b.status.Code == sandbox.ExitInitFailed
		exit.NoSandbox = failed || !b.status.Exited && exit.Code == 1
	case <-time.After(reportBound):
	}
	return exit, nil
}

// fill adds to the sandbox of a command what its workspace and its variables need, and what no
// agent may see: the directories of symphony, and those in which other agents write.
func (r *run) fill(ctx context.Context, q host.StartRequest) (sandbox.Box, error) {
	box := q.Box.Box
	box.Command = q.Argv
	states := []string{r.machine.StateDir, r.machine.AccountDir}
	var roots []string
	if r.machine.Projects != nil {
		others, otherRoots := r.machine.Projects(ctx)
		states = append(states, others...)
		roots = otherRoots
	}
	if r.space != nil {
		roots = append(roots, r.space.Root)
		box.Shared = r.mirrors()
	}
	box.Private = realDirs(states)
	if q.Box.AccountHome != "" {
		box.Secret = append(slices.Clone(box.Secret), q.Box.AccountHome)
	}
	box.Agents = realDirs(roots)
	path := host.Variable(q.Env, "PATH")
	programs := programFiles(q.Box.Programs, path)
	dirs, err := sandbox.ProgramDirs(path, q.Box.AccountHome, programs...)
	if err != nil {
		return box, fmt.Errorf("find the programs of the agent: %w", err)
	}
	for _, file := range certificateFiles(q.Env) {
		isShown := func(dir string) bool { return paths.Inside(paths.Real(dir), paths.Real(file)) }
		if !slices.ContainsFunc(box.Writable, isShown) {
			dirs = append(dirs, file)
		}
	}
	hidden := slices.Concat(box.Private, box.Agents, []string{box.Workspace, box.Home, box.Temp, box.Cache})
	for _, dir := range dirs {
		isHidden := func(own string) bool { return own != "" && paths.Inside(own, paths.Real(dir)) }
		if !slices.ContainsFunc(hidden, isHidden) {
			box.Readable = append(box.Readable, dir)
		}
	}
	return box, nil
}

// mirrors returns the directories from which the clone in the workspace borrows objects, as
// symphony has recorded it: an agent could write other names into its clone.
func (r *run) mirrors() []string {
	origin := r.space.Origin()
	if origin.URL == "" {
		return nil
	}
	main := r.mirror(host.Repository{URL: origin.URL}, nil).Path()
	if !exists(main) {
		return nil
	}
	return []string{main}
}

// realDirs returns the existing directories of a list without links, each once.
func realDirs(list []string) []string {
	var dirs []string
	for _, dir := range list {
		if dir != "" && exists(dir) {
			dirs = append(dirs, paths.Real(dir))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// programFiles returns the paths of programs that are found. A program that is missing is
// missed inside, too, where the shell says so.
func programFiles(programs []string, path string) []string {
	var found []string
	for _, name := range programs {
		if filepath.IsAbs(name) {
			if exists(name) {
				found = append(found, name)
			}
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			file, err := exec.LookPath(filepath.Join(dir, name))
			if err == nil && filepath.IsAbs(file) {
				found = append(found, file)
				break
			}
		}
	}
	return found
}

// gitSettings is the name of git's settings in a home.
const gitSettings = ".gitconfig"

// certificateFiles returns the files with certificates that an environment names.
func certificateFiles(env []string) []string {
	var files []string
	for _, name := range host.CertificateVars {
		file := host.Variable(env, name)
		if !filepath.IsAbs(file) {
			continue
		}
		info, err := os.Stat(file)
		if err == nil && info.Mode().IsRegular() {
			files = append(files, filepath.Clean(file))
		}
	}
	return files
}

// putGitSettings writes what commits of an agent need of the operator's git into its home: who
// the author is, and how files of Git LFS are stored. env is the environment of the agent,
// accountHome the operator's home. Agents write in their home, so that nothing there is
// followed.
func putGitSettings(ctx context.Context, home, accountHome string, env []string) error {
	outside := append(slices.Clone(env), "HOME="+accountHome) // the last counts
	settings := git.SettingsOfAgents(ctx, outside)
	dir, err := paths.OpenHome(home)
	if err != nil {
		return err
	}
	defer dir.Close()
	return paths.WriteBeneath(dir, gitSettings, []byte(settings))
}
