package runner

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// linkedMachine is a machine at the other end of a link that breaks again and again. All tests
// of this package use it: they prove that a run shares no memory with its machine, and that
// nothing is lost or done twice when a link breaks. What needs a terminal is local.
type linkedMachine struct {
	host.Machine
	local host.Machine
	t     *testing.T
}

// linkedRun is a run on a linkedMachine.
type linkedRun struct {
	host.Run
	local host.Run
}

func newLinkedMachine(t *testing.T, m host.Machine) host.Machine {
	return linkedMachine{link(t, m, ""), m, t}
}

func (m linkedMachine) Run(id string) host.Run {
	shared := &onlyRun{Machine: m.local, run: m.local.Run(id)}
	return linkedRun{link(m.t, shared, id).Run(id), shared.run}
}

func (r linkedRun) RunInTerminal(
	ctx context.Context,
	q host.StartRequest,
	io host.Stdio,
	observe func(context.Context),
) (int, error) {
	return r.local.RunInTerminal(ctx, q, io, observe)
}

// Clone makes the clone with the environment of the worker, as on the machine of the worker.
func (r linkedRun) Clone(ctx context.Context, q host.CloneRequest) (host.CloneAnswer, error) {
	q.CheckoutEnv = q.Env
	return r.Run.Clone(ctx, q)
}

// onlyRun is a machine with one run.
type onlyRun struct {
	host.Machine
	run host.Run
}

func (m *onlyRun) Run(string) host.Run { return m.run }

// link serves a machine and returns a client of it.
func link(t *testing.T, m host.Machine, id string) host.Machine {
	t.Helper()
	server := remote.NewServer(m, remote.Incarnation{RunID: id, Number: 1})
	dial := func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		go func() { _ = server.Serve(far) }()
		breaking := &breakingConn{Conn: near}
		breaking.left.Store(4 + rand.Int64N(30))
		return breaking, nil
	}
	client := test.Must(remote.Connect(t.Context(), dial, remote.Incarnation{RunID: id, Number: 1}))
	t.Cleanup(func() {
		client.Close()
		test.OK(t, server.Close())
	})
	return remote.Machine{
		Client:  client,
		Mirrors: local.Mirrors{Dir: filepath.Join(t.TempDir(), "mirrors")},
	}
}

// breakingConn breaks after some reads and writes.
type breakingConn struct {
	net.Conn
	left atomic.Int64
}

func (c *breakingConn) Read(b []byte) (int, error) {
	c.use()
	return c.Conn.Read(b)
}

func (c *breakingConn) Write(b []byte) (int, error) {
	c.use()
	return c.Conn.Write(b)
}

func (c *breakingConn) use() {
	if c.left.Add(-1) == 0 {
		_ = c.Close()
	}
}
