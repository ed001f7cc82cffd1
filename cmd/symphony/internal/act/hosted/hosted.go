// Package hosted serves runs of another machine here, by the hidden commands symphony host
// serve and symphony host connect. The worker of such a run, and symphony's database, are on
// the other machine.
package hosted

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/daemon"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/host/ssh"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// Run names an incarnation of a run of another machine. Project is a name of its project,
// which is unique on this machine.
type Run struct {
	Project, ID string
	Incarnation int64
	Known       bool // the worker was served before
}

// place returns where the daemon of a run is.
func place(w *environ.Env, r Run) (daemon.Place, error) {
	if r.Project == "" || r.Project != filepath.Base(r.Project) || strings.HasPrefix(r.Project, ".") ||
		r.Incarnation < 1 {
		return daemon.Place{}, exit.Usage("symphony host is started by symphony on another machine")
	}
	base, _ := w.Lookup("XDG_STATE_HOME")
	return daemon.NewPlace(filepath.Join(state.HostedDir(base, w.Home), r.Project), r.ID)
}

// ofSSH are variables by which bash takes a command for a child of sshd, and reads .bashrc,
// which may print something.
var ofSSH = []string{"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH2_CLIENT"}

const readyBound = 30 * time.Second // for the start of a daemon

const maxSecret = 1 << 10 // bytes

// Serve makes sure that a daemon serves the run. It reads the secret of the incarnation from
// in.
func Serve(ctx context.Context, w *environ.Env, in io.Reader, r Run, lostAfter time.Duration) error {
	secret, err := io.ReadAll(io.LimitReader(in, maxSecret))
	if err != nil {
		return fmt.Errorf("read the secret of the run: %w", err)
	}
	p, err := place(w, r)
	if err != nil {
		return err
	}
	status, err := p.Status()
	if err != nil {
		return fmt.Errorf("look for the daemon of run %s: %w", r.ID, err)
	}
	if r.Known && status.Incarnation == 0 {
		return remote.Refused("this machine knows nothing of run " + r.ID)
	}
	err = launch(ctx, w, p, secret, r, lostAfter)
	if err != nil {
		return nothingStarted(p, err)
	}
	return nil
}

// launch starts the daemon of a run, unless there is one.
func launch(ctx context.Context, w *environ.Env, p daemon.Place, secret []byte, r Run, lostAfter time.Duration) error {
	exe, err := wiring.RunningProgram()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(
		filepath.Join(host.RunDir(p.StateDir, r.ID), "daemon.log"),
		os.O_CREATE|os.O_APPEND|os.O_RDWR,
		0o600,
	)
	if err != nil {
		return err
	}
	defer log.Close()
	scopes := &proc.ScopeManager{Env: w.Environ}
	if err := scopes.Ask(ctx); err != nil {
		return err
	}
	incarnation := strconv.FormatInt(r.Incarnation, 10)
	return daemon.Launch(ctx, p, r.Incarnation, proc.Spawn{
		Exe: exe,
		Argv: []string{
			"symphony", "host", "serve",
			"--detached",
			"--project", r.Project,
			"--run", r.ID,
			"--incarnation", incarnation,
			"--lost-after", lostAfter.String(),
		},
		Env:    host.Scrub(w.Environ, ofSSH...),
		Log:    log,
		Secret: secret,
		Wait:   readyBound,
		Scope:  scopes.Scope(r.ID+"-"+incarnation, "run "+r.ID),
	})
}

// NothingStarted is the error of a failed start on a machine that never had a daemon of the
// run.
type NothingStarted struct{ error }

// ExitNothingStarted is the exit code of that error.
const ExitNothingStarted = ssh.NothingStarted

// nothingStarted is the error of a failed start: err, or a NothingStarted if the machine never
// had a daemon of the run.
func nothingStarted(p daemon.Place, err error) error {
	status, statusErr := p.Status()
	if statusErr != nil || status.Incarnation > 0 {
		return err
	}
	return NothingStarted{err}
}

// ServeHere is the daemon that Serve starts. It logs to stderr.
func ServeHere(ctx context.Context, w *environ.Env, stderr io.Writer, r Run, lostAfter time.Duration) error {
	ready, err := proc.TakeOver()
	if err != nil {
		return exit.Usage("symphony host serve --detached is started by symphony host serve: %v", err)
	}
	err = serve(ctx, w, stderr, r, service{
		lostAfter: lostAfter,
		take:      func(daemon.Place) ([]byte, error) { return ready.Secret, nil },
		ready:     ready.Taken,
	})
	if err != nil {
		_ = ready.Refuse(err.Error()) // it may be waiting for this
	}
	return err
}

// ServeJob is the daemon as a job of an engine, which waits for the secret of the run.
func ServeJob(ctx context.Context, w *environ.Env, stderr io.Writer, r Run, lostAfter time.Duration) error {
	return serve(ctx, w, stderr, r, service{
		lostAfter: lostAfter,
		take:      func(p daemon.Place) ([]byte, error) { return p.AwaitSecret(ctx, lostAfter) },
		ready:     func() error { return nil },
	})
}

// service is what differs between daemons.
type service struct {
	lostAfter time.Duration
	take      func(daemon.Place) ([]byte, error) // returns the secret of the run
	ready     func() error                       // is called when workers can connect
}

// serve is a daemon. It logs to stderr.
func serve(ctx context.Context, w *environ.Env, stderr io.Writer, r Run, s service) error {
	redacted := agent.Writer{W: stderr, Redactor: agent.NewRedactor(nil)}
	log := slog.New(slog.NewTextHandler(redacted, nil)).With(slog.String("run_id", r.ID))
	p, secret, err := prepare(w, r, s.take)
	if err != nil {
		log.Error("the run is not served", "error", err)
		return err
	}
	_ = proc.ShowAs("symphony") // as in a worker
	stopReaping := worker.Supervise(ctx, log)
	defer stopReaping()
	err = daemon.Serve(ctx, wiring.NewServedMachine(w, p.StateDir), p, daemon.Options{
		Incarnation: remote.Incarnation{RunID: r.ID, Number: r.Incarnation, Secret: string(secret)},
		LostAfter:   s.lostAfter,
		Ready:       s.ready,
		Log:         log,
		Now:         w.Now,
	})
	if err != nil {
		log.Error("the daemon has failed", "error", err)
	}
	return err
}

// prepare hides this process, because the worker sends it secrets, and takes the secret of the
// run.
func prepare(
	w *environ.Env,
	r Run,
	take func(daemon.Place) ([]byte, error),
) (p daemon.Place, secret []byte, err error) {
	p, err = place(w, r)
	if err != nil {
		return p, nil, err
	}
	err = proc.NonDumpable()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return p, nil, err
	}
	secret, err = take(p)
	return p, secret, err
}

// Connect connects a pair of streams to the daemon of the run. hello: it prints engine.Hello
// first.
func Connect(ctx context.Context, w *environ.Env, r Run, in io.Reader, out io.Writer, hello bool) error {
	p, err := place(w, r)
	if err != nil {
		return err
	}
	if hello {
		if _, err := fmt.Fprintln(out, engine.Hello); err != nil {
			return err
		}
	}
	return daemon.Connect(ctx, p, r.Incarnation, in, out)
}

// Begin gives the daemon of a job the secret of its run, a line of in.
func Begin(ctx context.Context, w *environ.Env, r Run, in io.Reader) error {
	// the end of in may never come
	secret, err := bufio.NewReader(io.LimitReader(in, maxSecret)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("secret of the run: %w", err)
	}
	p, err := place(w, r)
	if err != nil {
		return err
	}
	return daemon.Begin(ctx, p, r.Incarnation, []byte(strings.TrimSpace(secret)))
}
