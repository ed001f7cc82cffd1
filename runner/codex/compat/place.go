package compat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// place is the folder of one check, where the programs that it starts work. By its tree file they are all known.
type place struct {
	dir  string
	tree *os.File
}

// makePlace makes the folder anew. What a check that died has left in it is ended and removed first.
func makePlace(ctx context.Context, dir string) (*place, error) {
	p := &place{dir: dir}
	if _, err := os.Lstat(dir); err == nil {
		if err := p.end(ctx); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("folder of codex's check: %w", err)
		}
	}
	crash.At("compat.place.before")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of codex's check: %w", err)
	}
	crash.At("compat.place.made")
	for _, sub := range []string{p.work(), p.out()} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("folder of codex's check: %w", err), p.remove())
		}
	}
	tree, err := proc.OpenTree(p.treePath())
	if err != nil {
		return nil, errors.Join(err, p.remove())
	}
	p.tree = tree
	return p, nil
}

func (p *place) treePath() string { return filepath.Join(p.dir, "tree") }

// work is where commands run, out where they are told to print.
func (p *place) work() string    { return filepath.Join(p.dir, "work") }
func (p *place) out() string     { return filepath.Join(p.dir, "out") }
func (p *place) printed() string { return filepath.Join(p.out(), "schema") }

// enough is more than a schema's largest file, in bytes.
const enough = 4 << 20

// room reports that a command could not have printed a schema for want of space: it is not the command's fault then.
func (p *place) room() error {
	path := filepath.Join(p.dir, "room")
	err := os.WriteFile(path, make([]byte, enough), 0o600)
	if removeErr := os.Remove(path); err == nil {
		err = removeErr
	}
	if err != nil {
		return fmt.Errorf("folder of codex's check: %w", err)
	}
	return nil
}

// The time that the programs of a check have to end when they are told to, and until they must be gone.
const (
	endGrace = 200 * time.Millisecond
	endBound = 4 * time.Second
)

// end ends all that was started here, whatever it made of itself.
func (p *place) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBound)
	defer cancel()
	left, err := proc.KillTree(ctx, proc.Owner{Tree: p.treePath()}, endGrace)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("process %d (%s) does not end", left[0].PID, left[0].Name)
	}
	if err != nil {
		return fmt.Errorf("ending the check of codex: %w", err)
	}
	return nil
}

// remove ends what still runs and takes the folder away.
func (p *place) remove() error {
	err := p.end(context.Background())
	if p.tree != nil {
		err = errors.Join(err, p.tree.Close())
	}
	crash.At("compat.place.ended")
	// A program may have taken its own folders' permissions away.
	walkErr := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	err = errors.Join(err, walkErr, os.RemoveAll(p.dir))
	crash.At("compat.place.removed")
	return err
}

// said is how a command ended and what it said.
type said struct {
	out, err string
	status   string // of the shell; "" for success
	notFound bool
	late     bool // it had to be ended
}

// because is the reason why a command printed nothing of use: its own words, or else why what it printed is of none.
func (s said) because(err error) string {
	for line := range strings.Lines(s.err) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "WARNING:") && s.status != "" {
			return shortened(line, longestReason)
		}
	}
	if s.status != "" {
		return "it ended with " + s.status
	}
	return err.Error()
}

// longestReason is where words of a command's are cut, in characters.
const longestReason = 300

// print has the command print its schema. Older versions don't know --experimental, and print all they have.
func (p *place) print(ctx context.Context, o Options) (said, error) {
	const plain = `generate-json-schema --out "$` + outVar + `"`
	s, err := p.shell(ctx, o, asking(o.Command, plain+" --experimental"))
	if err != nil || s.status == "" || s.notFound || !strings.Contains(s.err, "--experimental") {
		return s, err
	}
	return p.shell(ctx, o, asking(o.Command, plain))
}

// mostOutput is what is kept of what a command says.
const mostOutput = 64 << 10

// shell runs a script as a worker runs codex.command, but in the check's own folder and without any input, and ends
// what it has left. An error is one of this machine; how the script fared stands in said.
func (p *place) shell(ctx context.Context, o Options, script string) (s said, err error) {
	own := []string{outVar + "=" + p.printed(), "TMPDIR=" + p.work()}
	if o.Home != "" {
		own = append(own, "CODEX_HOME="+o.Home)
	}
	crash.At("compat.shell.before")
	child, err := proc.Exec{
		Argv: []string{"bash", "-lc", proc.ShellIn(p.work(), proc.ShellUnset(o.Secrets, script))},
		Env:  slices.Concat(proc.Scrub(o.Env, slices.Concat(o.Secrets, crash.Variables(), names(own))...), own),
		Dir:  p.work(), Tree: p.tree,
	}.Start()
	if err != nil {
		return said{}, &codex.Error{Code: CodeNotFound, Message: "starting bash for codex.command: " + err.Error()}
	}
	crash.At("compat.shell.started")
	out, errs := keep(child.Stdout), keep(child.Stderr)
	waitErr := child.Wait(ctx)
	if waitErr != nil {
		s.status, s.err, s.late = "no answer", waitErr.Error(), true
	}
	// What it has left ends too, in its group and beyond; who hides from that is not listened to any longer.
	if err := child.KillGroup(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return s, errors.Join(err, closeOf(child))
	}
	if err := p.end(ctx); err != nil {
		return s, errors.Join(err, closeOf(child))
	}
	deadline := time.Now().Add(endGrace)
	if err := errors.Join(child.Stdout.SetReadDeadline(deadline), child.Stderr.SetReadDeadline(deadline)); err != nil {
		return s, errors.Join(err, closeOf(child))
	}
	s.out = <-out
	if text := <-errs; s.err == "" {
		s.err = text
	}
	state, err := child.Close()
	if err != nil {
		return s, fmt.Errorf("check of codex: %w", err)
	}
	if s.status == "" && !state.Success() {
		s.status = state.String()
		s.notFound = state.ExitCode() == 127 || state.ExitCode() == 126
	}
	return s, nil
}

func closeOf(child *proc.Child) error {
	_, err := child.Close()
	return err
}

func names(env []string) []string {
	out := make([]string, len(env))
	for i, kv := range env {
		out[i], _, _ = strings.Cut(kv, "=")
	}
	return out
}

// keep reads a stream to its end and gives its beginning.
func keep(f *os.File) <-chan string {
	out := make(chan string, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(f, mostOutput))
		if err == nil {
			_, err = io.Copy(io.Discard, f)
		}
		_ = err // a stream that breaks off has ended, too
		out <- string(text)
	}()
	return out
}

// mostSchema bounds a file of the schema: codex's largest has a third of a megabyte.
const mostSchema = 16 << 20

// readFile reads one file of what was printed: a plain one, of a size that can be. A link leads elsewhere.
func readFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Base(path), Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no plain file", filepath.Base(path))
	case info.Size() > mostSchema:
		return nil, fmt.Errorf("%s has %d bytes, more than a schema has", filepath.Base(path), info.Size())
	}
	return io.ReadAll(io.LimitReader(f, mostSchema))
}
