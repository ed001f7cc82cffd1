package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// inspectPrefix begins the names of the directories that Inspect creates. The id of its process follows.
const inspectPrefix = ".symphony-doctor-"

// Inspection is an agent that was started to be asked about itself, as a worker starts one, in a workspace of its own. Close
// must be called.
type Inspection struct {
	Session agent.Session
	// Server is what codex reported about itself.
	Server agent.Server
	// Cwd is the workspace, Elsewhere a directory that no agent can write, Policy the sandbox policy of a turn.
	Cwd, Elsewhere string
	Policy         json.RawMessage

	dir     string
	host    host.Host
	child   host.Process
	stderr  *agent.TailFile
	drained chan struct{} // closed when stderr is read to its end
}

// InspectionFolder creates a private directory below parent for a trial of codex. The caller removes it.
func InspectionFolder(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, inspectPrefix+strconv.Itoa(os.Getpid())+"-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("a folder to try codex in: %w", err)
	}
	return dir, nil
}

// Inspect starts codex.command in a workspace below parent, which must exist. env replaces the environment of a worker.
// Codex writes to its home as in a run.
//
// Errors: codex_not_found if there is no bash; those of agent.Session.Initialize, with the last line of stderr.
func (c Config) Inspect(ctx context.Context, env []string, parent, version string) (_ *Inspection, err error) {
	dir, err := InspectionFolder(parent)
	if err != nil {
		return nil, err
	}
	i := &Inspection{dir: dir, host: &local.Host{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	space, err := i.createFolders()
	if err != nil {
		return nil, fmt.Errorf("a folder to try codex in: %w", err)
	}
	if i.Policy, err = c.sandboxPolicy(ctx, i.host, space); err != nil {
		return nil, err
	}
	if i.stderr, err = agent.OpenTailFile(filepath.Join(i.dir, "stderr"), stderrLimit, agent.NewRedactor(c.SecretValues)); err != nil {
		return nil, fmt.Errorf("a folder to try codex in: %w", err)
	}
	i.child, err = i.host.Start(ctx, host.StartRequest{
		Argv: []string{"bash", "-lc", proc.ShellIn(space.Path, proc.ShellUnset(c.withheld(env), c.Command))},
		Env:  c.inspectEnv(env, space), Dir: space.Path,
	})
	if err != nil {
		return nil, noShell(err)
	}
	i.drained = make(chan struct{})
	go func() {
		defer close(i.drained)
		_, _ = io.Copy(i.stderr, i.child.Stderr())
	}()
	i.Session = c.StartAgent(agent.Streams{Stdin: i.child.Stdin(), Stdout: i.child.Stdout()}, agent.Options{
		ClientVersion: version, ReadTimeout: c.ReadTimeout, InitializeTimeout: c.InitializeTimeout,
	})
	if i.Server, err = i.Session.Initialize(ctx); err != nil {
		return nil, i.explain(err)
	}
	return i, nil
}

// createFolders creates the folders of a workspace, and one that no agent can write.
func (i *Inspection) createFolders() (host.Workspace, error) {
	w := host.Workspace{
		Path: filepath.Join(i.dir, "workspace"), TmpDir: filepath.Join(i.dir, "tmp"), CacheDir: filepath.Join(i.dir, "cache"),
	}
	i.Cwd, i.Elsewhere = w.Path, filepath.Join(i.dir, "elsewhere")
	for _, d := range []string{w.Path, w.TmpDir, w.CacheDir, i.Elsewhere} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return w, err
		}
	}
	return w, nil
}

// Environ returns the environment of hooks, without the variables of a run, if env is that of a pass.
func (c Config) Environ(env []string) []string {
	return cleanEnv(env, c.Secrets, c.SecretValues, c.codexHome())
}

// inspectEnv returns the environment of an agent without a run.
func (c Config) inspectEnv(env []string, w host.Workspace) []string {
	own := []string{"TMPDIR=" + w.TmpDir, "XDG_CACHE_HOME=" + w.CacheDir, proc.RunMark + "=" + inspectionID(filepath.Dir(w.Path))}
	return cleanEnv(env, c.withheld(env), c.SecretValues, append(own, c.codexHome()...))
}

// inspectionID marks the processes of an inspection: the name of its folder takes the place of a run's id.
func inspectionID(dir string) string { return filepath.Base(dir) }

// lastWordsKept is how much of an agent's stderr is looked at for its last line.
const lastWordsKept = 4 << 10

// explain adds the last line of the agent's stderr to the error of a start. Mostly it is the reason: command not found.
func (i *Inspection) explain(err error) error {
	var failed *agent.Error
	if errors.As(err, &failed) && failed.Code == agent.CodePortExit {
		// The message depends on which of its pipes broke first.
		ctx, cancel := context.WithTimeout(context.Background(), stdinBound)
		defer cancel()
		if i.child.Wait(ctx) == nil {
			err = &agent.Error{Code: agent.CodePortExit, Message: "codex.command ended before it answered"}
		}
	}
	select {
	case <-i.drained:
	case <-time.After(outputBound): // another process still holds its stderr
	}
	if words := agent.LastWords(i.stderr.Tail(lastWordsKept)); words != "" {
		return fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// Close ends the agent and all processes that it left, and removes the folder.
func (i *Inspection) Close() error {
	var errs []error
	if i.Session != nil {
		errs = append(errs, i.Session.Close())
	}
	if i.child != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stdinBound)
		if i.child.Wait(ctx) != nil { // mostly it ends when its stdin does
			_ = i.child.SignalGroup(unix.SIGTERM)
		}
		cancel()
		if err := i.child.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		_, err := i.child.Close()
		// MCP servers, and what a login profile starts, have left the group.
		id := inspectionID(i.dir)
		answer, killErr := i.host.Kill(context.Background(), host.KillRequest{Owned: host.Owned{Run: host.Run{ID: id}}})
		errs = append(errs, err, killErr, host.Leftover(id, answer.Left))
	}
	if i.stderr != nil {
		errs = append(errs, i.stderr.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(i.dir))...)
}
