package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// The tests of package runner use this package for every run, over links that break again and again.

// rig is a server with a client.
type rig struct {
	*Server
	client *Client
	dir    string
	links  atomic.Pointer[net.Conn] // the client's end of the newest
}

func newRig(t *testing.T, m host.Machine) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	r.Server = NewServer(m, "run-1", 7, r.dir)
	r.client = test.Must(Connect(t.Context(), r.dial, "run-1", 7))
	t.Cleanup(func() {
		r.client.Close()
		test.OK(t, r.Close())
	})
	return r
}

func (r *rig) dial(context.Context) (io.ReadWriteCloser, error) {
	near, far := net.Pipe()
	go func() { _ = r.Serve(far) }()
	r.links.Store(&near)
	return near, nil
}

func (r *rig) breakLink() { _ = (*r.links.Load()).Close() }

// gate is a machine whose answer to Facts waits for a value.
type gate struct {
	host.Machine
	calls  atomic.Int32
	begun  chan struct{}
	answer chan string
}

func newGate() *gate {
	return &gate{Machine: local.Machine{}, begun: make(chan struct{}, 9), answer: make(chan string)}
}

func (g *gate) Facts(ctx context.Context, _ host.FactsRequest) (host.FactsAnswer, error) {
	g.calls.Add(1)
	g.begun <- struct{}{}
	select {
	case text := <-g.answer:
		return host.FactsAnswer{Fingerprint: text}, nil
	case <-ctx.Done():
		return host.FactsAnswer{}, ctx.Err()
	}
}

// A call is carried out once, and answered once, although the link breaks before, during and after it.
func TestBrokenLink(t *testing.T) {
	g := newGate()
	r := newRig(t, g)
	for i := range 5 {
		got := make(chan string)
		go func() {
			facts, err := Machine{r.client}.Facts(t.Context(), host.FactsRequest{})
			got <- fmt.Sprint(facts.Fingerprint, err)
		}()
		if i%2 == 0 {
			r.breakLink()
		}
		<-g.begun
		r.breakLink()
		g.answer <- fmt.Sprint("answer ", i)
		r.breakLink()
		test.Equal(t, "answer", <-got, fmt.Sprintf("answer %d<nil>", i))
	}
	test.Equal(t, "calls carried out", int(g.calls.Load()), 5)
	test.Until(t, "the server to forget the answers", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.calls) == 0
	})
}

// A canceled call ends on the other side first.
func TestCancel(t *testing.T) {
	g := newGate()
	r := newRig(t, g)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-g.begun; cancel(io.ErrUnexpectedEOF) }()
	_, err := Machine{r.client}.Facts(ctx, host.FactsRequest{})
	test.ErrorIs(t, "the cause", err, io.ErrUnexpectedEOF)
}

// A server refuses clients of another run, another incarnation or another version, and all after its end.
func TestRefused(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	refused := func(what string, err error) {
		t.Helper()
		var known *reconcile.Error
		test.Equal(t, what, errors.As(err, &known) && known.Code == CodeRefused, true)
	}
	_, err := Connect(t.Context(), r.dial, "run-2", 7)
	refused("another run", err)
	for _, incarnation := range []int64{6, 8} {
		_, err = Connect(t.Context(), r.dial, "run-1", incarnation)
		refused("another incarnation", err)
	}
	test.OK(t, Machine{r.client}.Run("").Open(t.Context())) // the client that is connected goes on
	refused("another version", r.refuse(hello{Protocol: protocol + 1, RunID: "run-1", Incarnation: 7}))
	test.OK(t, r.Close())
	refused("a call after the end", Machine{r.client}.Run("").Verify(t.Context()))
	_, err = Connect(t.Context(), r.dial, "run-1", 7)
	refused("a client after the end", err)
}

// A newer client of the same incarnation takes the place of an older one.
func TestNewerClient(t *testing.T) {
	r := newRig(t, local.Machine{})
	older := *r.links.Load()
	newer := test.Must(Connect(t.Context(), r.dial, "run-1", 7))
	defer newer.Close()
	test.Until(t, "the older link to end", func() bool {
		_, err := older.Write([]byte("{}\n"))
		return err != nil
	})
	test.Equal(t, "silence while a client is connected", r.Silent() < silence, true)
}

// The streams of a process go through files, which end with the process.
func TestStreams(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	run := Machine{r.client}.Run("run-1")
	test.OK(t, run.Open(t.Context()))
	const script = `read line; echo "got $line" >&2; head -c 3000000 /dev/zero | tr '\0' x; exec cat`
	p := test.Must(run.Start(t.Context(), host.StartRequest{Argv: []string{"sh", "-c", script}, Dir: "/", Env: os.Environ()}))
	test.Must(io.WriteString(p.Stdin(), "something\n"))
	data := strings.Repeat("0123456789", 100_000)
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(p.Stdin(), data)
		written <- errors.Join(err, p.Stdin().Close())
	}()
	got := make([]byte, 3_000_000+len(data))
	for n := 0; n < len(got); {
		k, err := p.Stdout().Read(got[n:])
		test.OK(t, err)
		n += k
		r.breakLink()
	}
	test.OK(t, <-written)
	test.Equal(t, "stdout", string(got[:3_000_000]) == strings.Repeat("x", 3_000_000) && string(got[3_000_000:]) == data, true)
	test.Equal(t, "stderr", string(test.Must(io.ReadAll(p.Stderr()))), "got something\n")
	test.Equal(t, "rest of stdout", len(test.Must(io.ReadAll(p.Stdout()))), 0)
	test.OK(t, p.Wait(t.Context()))
	exit := test.Must(p.Close())
	test.Equal(t, "exit", exit.Code, 0)
	test.Equal(t, "exit, again", test.Must(p.Close()), exit)
	_, err := p.Stdout().Read(got)
	test.ErrorIs(t, "read after Close", err, fs.ErrClosed)
	test.Equal(t, "files left", len(test.Must(os.ReadDir(r.dir))), 0)
	test.OK(t, run.Finish(t.Context()))
}

// stateDir returns a state directory with the directory of a run.
func stateDir(t *testing.T, runID string) string {
	dir := t.TempDir()
	test.OK(t, os.MkdirAll(host.RunDir(dir, runID), 0o700))
	return dir
}

// The end of a server ends its processes.
func TestServerEnds(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	run := Machine{r.client}.Run("run-1")
	test.OK(t, run.Open(t.Context()))
	p := test.Must(run.Start(t.Context(), host.StartRequest{Argv: []string{"sleep", "3600"}, Dir: "/"}))
	test.OK(t, r.Close())
	_, err := os.Stat(fmt.Sprintf("/proc/%d", p.Process().PID))
	test.ErrorIs(t, "the process", err, fs.ErrNotExist)
}

// Errors keep their code, hint and kind.
func TestFaults(t *testing.T) {
	for _, err := range []error{
		&reconcile.Error{Code: "c", Message: "m", Hint: "h"}, errors.New("plain"), context.Canceled, os.ErrProcessDone,
		fmt.Errorf("bash: %w", host.ErrNotStarted), &reconcile.Error{Code: "c", Message: "m", Err: fs.ErrNotExist},
	} {
		var f *fault
		test.OK(t, json.Unmarshal(test.Must(json.Marshal(newFault(err))), &f))
		test.Equal(t, "error", f.err().Error(), err.Error())
		for name, sentinel := range sentinels {
			test.Equal(t, name, errors.Is(f.err(), sentinel), errors.Is(err, sentinel))
		}
	}
}

// Neither side is harmed by what the other one sends.
func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"run_id":"run-1","incarnation":7}` + "\n" + `{"call":1,"method":"Wait","with":{"child":1}}` + "\n"))
	f.Add([]byte(`{"protocol":1,"run_id":"run-1","incarnation":7}` + "\n" + `{"call":1,"method":"Read","with":{"stream":9}}` + "\n{\"forget\":1}\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := NewServer(local.Machine{}, "run-1", 7, t.TempDir())
		s.methods = s.children.methods() // others change the machine
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		go func() { _, _ = near.Write(sent); _ = near.Close() }()
		_ = s.Serve(far)
		test.OK(t, s.Close())
	})
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"protocol":1}` + "\n" + `{"call":1,"result":{"Fingerprint":"x"}}` + "\n"))
	f.Add([]byte(`{"protocol":1}` + "\n" + `{"call":1,"fault":{"message":"\u001b[2J","is":"eof"}}` + "\n{\"call\":9}\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		dialed := false
		c, err := Connect(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
			if dialed {
				return nil, reconcile.NewError(CodeRefused, "once", "")
			}
			dialed = true
			near, far := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			go func() { _, _ = far.Write(sent); _ = far.Close() }()
			return near, nil
		}, "run-1", 7)
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = Machine{c}.Facts(t.Context(), host.FactsRequest{})
	})
}
