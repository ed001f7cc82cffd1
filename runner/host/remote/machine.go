package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Machine is the machine of a client's server. It implements host.Machine. It knows only the
// run that the client named.
type Machine struct {
	*Client
	// Mirrors are the mirrors through which the run clones and delivers. Nil: no run does so.
	Mirrors host.Mirrors
}

// run is the run of a client. It implements host.Run.
type run Machine

var (
	_ host.Machine = Machine{}
	_ host.Run     = run{}
	_ host.Process = &process{}
)

func (m Machine) Run(string) host.Run { return run(m) }

func (m Machine) ReadAccount(ctx context.Context) (host.Account, error) {
	return ask[host.Account](ctx, m.Client, "ReadAccount", nothing{})
}

func (m Machine) Existing(ctx context.Context, list []string) ([]string, error) {
	return ask[[]string](ctx, m.Client, "Existing", list)
}

func (m Machine) Resolve(ctx context.Context, list []string) ([]string, error) {
	all, err := ask[[]string](ctx, m.Client, "Resolve", list)
	if err != nil {
		return nil, err
	}
	if len(all) != len(list) {
		return nil, errors.New("the machine has not resolved the paths")
	}
	return all, nil
}

func (m Machine) GitDirs(ctx context.Context, r host.GitDirsRequest) (host.GitDirs, error) {
	return ask[host.GitDirs](ctx, m.Client, "GitDirs", r)
}

func (m Machine) Launcher(ctx context.Context, r host.LaunchRequest) (host.Launcher, error) {
	return ask[host.Launcher](ctx, m.Client, "Launcher", r)
}

func (m Machine) Fingerprint(ctx context.Context, dir string) (string, error) {
	return ask[string](ctx, m.Client, "Fingerprint", dir)
}

func (m Machine) KeepEnd(ctx context.Context, dir string) (*host.WorkEnd, error) {
	return ask[*host.WorkEnd](ctx, m.Client, "KeepEnd", dir)
}

func (m Machine) FreeBytes(ctx context.Context, root string) (int64, error) {
	return ask[int64](ctx, m.Client, "FreeBytes", root)
}

func (m Machine) Workspaces(ctx context.Context, root string) ([]host.WorkspaceRecord, error) {
	return ask[[]host.WorkspaceRecord](ctx, m.Client, "Workspaces", root)
}

func (m Machine) Inspect(ctx context.Context, r host.WorkspaceRequest) (host.InspectAnswer, error) {
	return ask[host.InspectAnswer](ctx, m.Client, "Inspect", r)
}

func (m Machine) Diff(ctx context.Context, r host.WorkspaceRequest, w io.Writer) (found bool, err error) {
	diff, err := ask[diffResult](ctx, m.Client, "Diff", r)
	if err != nil {
		return diff.Found, err
	}
	if _, err := io.WriteString(w, diff.Text); err != nil {
		return diff.Found, err
	}
	if diff.Cut {
		return diff.Found, reconcile.NewError(
			"workspace_failed",
			fmt.Sprintf("these are the first %d MiB of the diff", maxDiff>>20),
			"see the rest there: git diff in "+r.Path,
		)
	}
	return diff.Found, nil
}

func (m Machine) Purge(ctx context.Context, t host.ProjectTrash) (host.PurgeAnswer, error) {
	return ask[host.PurgeAnswer](ctx, m.Client, "Purge", t)
}

func (r run) Prepare(ctx context.Context, q host.PrepareRequest) (host.PrepareAnswer, error) {
	return ask[host.PrepareAnswer](ctx, r.Client, "Prepare", q)
}

func (r run) Open(ctx context.Context) error { return tell(ctx, r.Client, "Open", nothing{}) }

func (r run) Confirm(ctx context.Context, q host.ConfirmRequest) error {
	return tell(ctx, r.Client, "Confirm", q)
}

func (r run) Discard(ctx context.Context) error { return tell(ctx, r.Client, "Discard", nothing{}) }

func (r run) Verify(ctx context.Context) error { return tell(ctx, r.Client, "Verify", nothing{}) }

func (r run) Login(ctx context.Context, q host.LoginRequest) (host.LoginAnswer, error) {
	return ask[host.LoginAnswer](ctx, r.Client, "Login", q)
}

func (r run) MakeHome(ctx context.Context, q host.HomeRequest) error {
	return tell(ctx, r.Client, "MakeHome", q)
}

func (r run) CheckOut(ctx context.Context, q host.CheckOutRequest) (host.CheckOutAnswer, error) {
	return ask[host.CheckOutAnswer](ctx, r.Client, "CheckOut", q)
}

func (r run) RunHook(ctx context.Context, q host.HookRequest) (host.HookAnswer, error) {
	return ask[host.HookAnswer](ctx, r.Client, "RunHook", q)
}

func (r run) GuardGit(ctx context.Context, q host.GuardGitRequest) error {
	return tell(ctx, r.Client, "GuardGit", q)
}

func (r run) RestoreGit(ctx context.Context) (host.GitRestored, error) {
	return ask[host.GitRestored](ctx, r.Client, "RestoreGit", nothing{})
}

// RunInTerminal implements host.Run. It refuses: a terminal needs a stream of its own.
func (run) RunInTerminal(
	context.Context,
	host.StartRequest,
	host.Stdio,
	func(context.Context),
) (int, error) {
	return 0, reconcile.NewError(
		"not_possible",
		"a command at the terminal can't run on another machine",
		"log in there",
	)
}

func (r run) Observe(ctx context.Context) (host.ObserveAnswer, error) {
	return ask[host.ObserveAnswer](ctx, r.Client, "Observe", nothing{})
}

func (r run) Kill(ctx context.Context, q host.KillRequest) (host.LeftAnswer, error) {
	return ask[host.LeftAnswer](ctx, r.Client, "Kill", q)
}

func (r run) Finish(ctx context.Context) error { return tell(ctx, r.Client, "Finish", nothing{}) }

func (r run) PrepareRemoval(ctx context.Context, q host.RemovalRequest) (host.RemovalAnswer, error) {
	return ask[host.RemovalAnswer](ctx, r.Client, "PrepareRemoval", q)
}

func (r run) Remove(ctx context.Context) (host.RemoveAnswer, error) {
	return ask[host.RemoveAnswer](ctx, r.Client, "Remove", nothing{})
}

// Start implements host.Run. A process whose start is answered too late is closed.
func (r run) Start(ctx context.Context, q host.StartRequest) (host.Process, error) {
	s, err := askLate[started](ctx, r.Client, "Start", q, func(a answer) {
		if s, err := decode[started](context.Background(), a); err == nil {
			_, _ = r.begin("Close", childCall{Child: s.Child}, nil)
		}
	})
	if err != nil {
		return nil, err
	}
	p := &process{client: r.Client, childCall: childCall{Child: s.Child}, process: s.Process}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.outputs = [2]*reader{{p: p, stream: 0}, {p: p, stream: 1}}
	return p, nil
}

// process is a process on the machine. It implements host.Process.
type process struct {
	client *Client
	childCall
	process reconcile.Process
	ctx     context.Context // of the streams; ends when the process is closed
	cancel  context.CancelFunc
	outputs [2]*reader // as child.outputs

	mu      sync.Mutex
	closing *call // nil before the first Close
	closed  *answer
}

// linkWait is how long calls without a context wait for a link. After that they are carried
// out as soon as there is a link.
const linkWait = 30 * time.Second

// urge carries out a call that goes on if it is not answered in time.
func (p *process) urge(method string, with any) error {
	w, err := p.client.begin(method, with, nil)
	if err != nil {
		return err
	}
	a, err := p.awaitUrged(w)
	if err != nil {
		return err
	}
	return a.Fault.err()
}

func (p *process) awaitUrged(w *call) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), linkWait)
	defer cancel()
	return p.client.await(ctx, w)
}

func (p *process) Process() reconcile.Process { return p.process }
func (p *process) Stdin() io.WriteCloser      { return stdin{p} }
func (p *process) Stdout() io.Reader          { return p.outputs[0] }
func (p *process) Stderr() io.Reader          { return p.outputs[1] }

func (p *process) Wait(ctx context.Context) error {
	return unlessClosed(tell(ctx, p.client, "Wait", p.childCall))
}

// unlessClosed returns nil for the error that the process was closed: it ended, and left
// nothing.
func unlessClosed(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *process) Descendants(ctx context.Context) ([]reconcile.Process, error) {
	list, err := ask[host.LeftAnswer](ctx, p.client, "Descendants", p.childCall)
	return list.Processes, unlessClosed(err)
}

func (p *process) Environ(ctx context.Context) ([]string, error) {
	env, err := ask[[]string](ctx, p.client, "Environ", p.childCall)
	return env, unlessClosed(err)
}

func (p *process) KillThread(ctx context.Context, threadID string) (host.LeftAnswer, error) {
	left, err := ask[host.LeftAnswer](ctx, p.client, "KillThread", childCall{
		Child:    p.Child,
		ThreadID: threadID,
	})
	return left, unlessClosed(err)
}

// SignalGroup implements host.Process. Without a link it fails after linkWait; the signal is
// sent as soon as there is a link.
func (p *process) SignalGroup(sig unix.Signal) error {
	return p.urge("SignalGroup", childCall{Child: p.Child, Signal: sig})
}

// Close implements host.Process. Without a link it fails after linkWait; the process is closed
// as soon as there is a link, and Close can be called again to learn how the process ended.
func (p *process) Close() (host.Exit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing == nil {
		closing, err := p.client.begin("Close", p.childCall, nil)
		if err != nil {
			return host.Exit{Code: -1}, err
		}
		p.closing = closing
	}
	if p.closed == nil {
		a, err := p.awaitUrged(p.closing)
		if err != nil {
			return host.Exit{Code: -1}, err
		}
		p.closed = &a
		p.cancel()
	}
	return decode[host.Exit](context.Background(), *p.closed)
}

// stdin writes the stdin of a process.
type stdin struct{ p *process }

func (s stdin) Write(data []byte) (n int, err error) {
	for n < len(data) {
		part := data[n:min(len(data), n+maxRead)]
		err := tell(s.p.ctx, s.p.client, "Write", childCall{Child: s.p.Child, Data: part})
		if err != nil {
			return n, s.p.closedError(err)
		}
		n += len(part)
	}
	return n, nil
}

func (s stdin) Close() error { return s.p.closedError(s.p.urge("CloseStdin", s.p.childCall)) }

// closedError returns the error of a stream of a process that was closed.
func (p *process) closedError(err error) error {
	if err != nil && p.ctx.Err() != nil || errors.Is(err, os.ErrProcessDone) {
		return os.ErrClosed
	}
	return err
}

// reader reads the output of a process.
type reader struct {
	p      *process
	stream int
	offset int64
}

func (r *reader) Read(buffer []byte) (int, error) {
	if len(buffer) == 0 {
		return 0, nil
	}
	q := childCall{Child: r.p.Child, Stream: r.stream, Offset: r.offset, Max: len(buffer)}
	result, err := ask[readResult](r.p.ctx, r.p.client, "Read", q)
	if err != nil {
		return 0, r.p.closedError(err)
	}
	if len(result.Data) == 0 {
		return 0, io.EOF
	}
	n := copy(buffer, result.Data) // a host may answer more than was asked for
	r.offset += int64(n)
	return n, nil
}
