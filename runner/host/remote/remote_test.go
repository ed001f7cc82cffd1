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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// The tests of package runner use this package for every run, over links that break again and
// again.

var ours = Incarnation{"run-1", 7, "secret"}

// rig is a server with a client.
type rig struct {
	*Server
	client *Client
	links  atomic.Pointer[net.Conn] // the client's end of the newest
	slow   atomic.Bool              // new links are
	down   atomic.Bool              // there are no new links
	failed atomic.Int64             // links that were asked for meanwhile
}

// slowConn is a connection whose writes take time.
type slowConn struct{ net.Conn }

func (c slowConn) Write(b []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return c.Conn.Write(b)
}

func newRig(t *testing.T, m host.Machine) *rig {
	t.Helper()
	r := &rig{}
	r.Server = NewServer(m, ours)
	r.client = test.Must(Connect(t.Context(), r.dial, ours))
	t.Cleanup(func() {
		r.client.Close()
		test.OK(t, r.Close())
	})
	return r
}

func (r *rig) dial(context.Context) (io.ReadWriteCloser, error) {
	if r.down.Load() {
		r.failed.Add(1)
		return nil, errors.New("no link")
	}
	near, far := net.Pipe()
	go func() { _ = r.Serve(far) }()
	r.links.Store(&near)
	if r.slow.Load() {
		return slowConn{near}, nil
	}
	return near, nil
}

func (r *rig) breakLink() { _ = (*r.links.Load()).Close() }

// gate is a machine whose answer to Fingerprint waits for a value.
type gate struct {
	host.Machine
	calls  atomic.Int32
	begun  chan struct{}
	answer chan string
	ended  chan struct{} // by cancellation
}

func newGate() *gate {
	return &gate{
		Machine: local.Machine{},
		begun:   make(chan struct{}, 999),
		answer:  make(chan string),
		ended:   make(chan struct{}, 9),
	}
}

func (g *gate) Fingerprint(ctx context.Context, _ string) (string, error) {
	g.calls.Add(1)
	g.begun <- struct{}{}
	select {
	case text := <-g.answer:
		return text, nil
	case <-ctx.Done():
		g.ended <- struct{}{}
		return "", ctx.Err()
	}
}

// A client of a server that soon ends the run waits no longer than a tenth of that between two
// attempts to connect: 20 take 2 s here, and would take two minutes with the longest pause.
func TestSoonLost(t *testing.T) {
	r := &rig{}
	r.Server = NewServer(newGate(), ours)
	r.LostAfter = time.Second
	r.client = test.Must(Connect(t.Context(), r.dial, ours))
	t.Cleanup(func() {
		r.client.Close()
		test.OK(t, r.Close())
	})
	r.down.Store(true)
	r.breakLink()
	test.Until(t, "20 attempts", func() bool { return r.failed.Load() >= 20 })
}

// A call is carried out once, and answered once, although the link breaks before, during and
// after it.
func TestBrokenLink(t *testing.T) {
	g := newGate()
	r := newRig(t, g)
	for i := range 5 {
		got := make(chan string)
		go func() {
			text, err := Machine{Client: r.client}.Fingerprint(t.Context(), "/")
			got <- fmt.Sprint(text, err)
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
	test.Until(t, "the server to forget all answers but the last", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		list, _ := r.Server.client.session.after(0)
		return len(r.Server.client.calls) == 0 && len(list) <= 1
	})
}

// Many calls at once are each carried out once, although links with slow writes break all the
// time.
func TestBrokenSlowLink(t *testing.T) {
	g := newGate()
	close(g.answer)
	r := newRig(t, g)
	r.slow.Store(true)
	r.breakLink()
	const callers, each = 10, 15
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for range each {
				test.Must(Machine{Client: r.client}.Fingerprint(t.Context(), "/"))
			}
		})
	}
	for i := range callers * each {
		<-g.begun
		if i%5 == 0 {
			r.breakLink()
		}
	}
	calling.Wait()
	test.Equal(t, "calls carried out", int(g.calls.Load()), callers*each)
}

// A canceled call ends on the other side. If the link is down, it ends there as soon as there
// is a new link.
func TestCancel(t *testing.T) {
	for _, down := range []bool{false, true} {
		g := newGate()
		r := newRig(t, g)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-g.begun
			r.down.Store(down)
			if down {
				r.breakLink()
			}
			cancel(io.ErrUnexpectedEOF)
		}()
		_, err := Machine{Client: r.client}.Fingerprint(ctx, "/")
		test.ErrorIs(t, "the cause", err, io.ErrUnexpectedEOF)
		r.down.Store(false)
		<-g.ended
	}
}

// A process whose start is answered after its caller has gone is closed.
func TestLateStart(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	run := Machine{Client: r.client}.Run("run-1")
	test.OK(t, run.Open(t.Context()))
	r.down.Store(true)
	r.breakLink()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := run.Start(ctx, host.StartRequest{Argv: []string{"sleep", "3600"}, Dir: "/"})
	test.ErrorIs(t, "start", err, context.Canceled)
	r.down.Store(false)
	test.Until(t, "the process to be closed", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.children.mu.Lock()
		defer r.children.mu.Unlock()
		return r.children.last == 1 && len(r.children.all)+len(r.Server.client.calls) == 0
	})
}

// A server refuses clients of another run, another incarnation or another version.
func TestRefused(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	refused := func(what string, err error) {
		t.Helper()
		var known *reconcile.Error
		test.Equal(t, what, errors.As(err, &known) && known.Code == CodeRefused, true)
	}
	for what, of := range map[string]Incarnation{
		"another run":          {"run-2", 7, "secret"},
		"an older incarnation": {"run-1", 6, "secret"},
		"a newer one":          {"run-1", 8, "secret"},
		"another secret":       {"run-1", 7, "another"},
		"no secret":            {"run-1", 7, ""},
	} {
		_, err := Connect(t.Context(), r.dial, of)
		refused(what, err)
	}
	// the client that is connected goes on
	test.OK(t, Machine{Client: r.client}.Run("").Open(t.Context()))
	test.Equal(t, "another version is refused", r.refuse(hello{
		Protocol:    protocol + 1,
		Incarnation: ours,
	}) != "", true)
	test.OK(t, r.Close())
	_, err := Connect(t.Context(), r.dial, ours)
	test.Equal(t, "a client after the end, whose outcome is not known", err != nil && !Ends(err), true)
}

// A newer client of the same incarnation takes the place of an older one, whose calls end
// first.
func TestNewerClient(t *testing.T) {
	g := newGate()
	r := newRig(t, g)
	older := make(chan error)
	go func() {
		_, err := Machine{Client: r.client}.Fingerprint(t.Context(), "/")
		older <- err
	}()
	<-g.begun
	newer := test.Must(Connect(t.Context(), r.dial, ours))
	defer newer.Close()
	test.Equal(t, "calls of the older client that ended first", len(g.ended), 1)
	go func() { <-g.begun; g.answer <- "for the newer one" }()
	test.Equal(
		t,
		"answer",
		test.Must(Machine{Client: newer}.Fingerprint(t.Context(), "/")),
		"for the newer one",
	)
	var known *reconcile.Error
	test.Equal(
		t,
		"the older client is refused",
		errors.As(<-older, &known) && known.Code == CodeRefused,
		true,
	)
	test.Equal(t, "silence while a client is connected", r.Silent(), 0)
}

// A peer that does not read delays no call and no end.
func TestPeerDoesNotRead(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go func() { // a server that welcomes its client, and then reads nothing
		test.OK(t, newLines(far).next(&hello{}))
		test.OK(t, writeLine(far, welcome{Protocol: protocol}))
	}()
	c := test.Must(
		Connect(t.Context(), func(context.Context) (io.ReadWriteCloser, error) { return near, nil }, ours),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 200 {
		_, err := c.begin("Fingerprint", "/", nil)
		test.OK(t, err)
	}
	w := test.Must(c.begin("Fingerprint", "/", nil))
	_, err := c.await(ctx, w)
	test.ErrorIs(t, "a call", err, context.DeadlineExceeded)
	c.Close()

	s := NewServer(local.Machine{}, ours)
	near, far = net.Pipe()
	go func() { _ = s.Serve(far) }()
	test.OK(t, writeLine(near, hello{Protocol: protocol, Incarnation: ours, Client: "c"}))
	test.OK(t, newLines(near).next(&welcome{}))
	for i := range 3 {
		body := test.Must(json.Marshal(request{
			Call:   int64(i + 1),
			Method: "Fingerprint",
			With:   []byte(`"/"`),
		}))
		test.OK(t, writeLine(near, frame{Number: int64(i + 1), Body: body}))
	}
	test.OK(t, s.Close())
}

// What is too long or out of bounds fails alone.
func TestBounds(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	m := Machine{Client: r.client}
	_, err := m.Fingerprint(t.Context(), strings.Repeat("x", maxLine))
	test.Equal(t, "a long request is refused", err != nil, true)
	test.OK(t, m.Run("").Open(t.Context()))
	p := test.Must(m.Run("").Start(t.Context(), host.StartRequest{Argv: []string{"cat"}, Dir: "/"}))
	for _, c := range []childCall{{Max: -1}, {
		Offset: -1,
		Max:    1,
	}, {
		Offset: 1,
		Max:    1,
	}, {
		Stream: 2,
		Max:    1,
	}} {
		c.Child = p.(*process).Child
		test.Equal(t, "a wrong read is refused", tell(t.Context(), r.client, "Read", c) != nil, true)
	}
	n, err := p.Stdout().Read(nil)
	test.Equal(t, "a read into nothing", []any{n, err}, []any{0, nil})
	test.Must(p.Close())
	_, err = p.Stdin().Write([]byte("x"))
	test.ErrorIs(t, "write after Close", err, fs.ErrClosed)
	test.OK(t, p.Wait(t.Context()))
	r.methods["Long"] = func(context.Context, json.RawMessage) (any, error) { return strings.Repeat("x", maxLine), nil }
	test.Equal(t, "a long answer is refused", tell(t.Context(), r.client, "Long", nothing{}) != nil, true)
	test.OK(t, tell(t.Context(), r.client, "Open", nothing{})) // the link is as good as before
}

// The streams of a process go through files, which end with the process.
func TestStreams(t *testing.T) {
	r := newRig(t, local.Machine{StateDir: stateDir(t, "run-1")})
	run := Machine{Client: r.client}.Run("run-1")
	test.OK(t, run.Open(t.Context()))
	const script = `read line; echo "got $line" >&2; head -c 3000000 /dev/zero | tr '\0' x; exec cat`
	p := test.Must(run.Start(t.Context(), host.StartRequest{
		Argv: []string{"sh", "-c", script},
		Dir:  "/",
		Env:  os.Environ(),
	}))
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
	test.Equal(
		t,
		"stdout",
		string(got[:3_000_000]) == strings.Repeat("x", 3_000_000) && string(got[3_000_000:]) == data,
		true,
	)
	test.Equal(t, "stderr", string(test.Must(io.ReadAll(p.Stderr()))), "got something\n")
	test.Equal(t, "rest of stdout", len(test.Must(io.ReadAll(p.Stdout()))), 0)
	test.OK(t, p.Wait(t.Context()))
	exit := test.Must(p.Close())
	test.Equal(t, "exit", exit.Code, 0)
	test.Equal(t, "exit, again", test.Must(p.Close()), exit)
	_, err := p.Stdout().Read(got)
	test.ErrorIs(t, "read after Close", err, fs.ErrClosed)
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
	run := Machine{Client: r.client}.Run("run-1")
	test.OK(t, run.Open(t.Context()))
	p := test.Must(run.Start(t.Context(), host.StartRequest{
		Argv: []string{"sleep", "3600"},
		Dir:  "/",
	}))
	test.OK(t, r.Close())
	_, err := os.Stat(fmt.Sprintf("/proc/%d", p.Process().PID))
	test.ErrorIs(t, "the process", err, fs.ErrNotExist)
}

// Errors keep their code, hint and kind.
func TestFaults(t *testing.T) {
	for _, err := range []error{
		&reconcile.Error{
			Code:    "c",
			Message: "m",
			Hint:    "h",
		}, errors.New("plain"), context.Canceled, os.ErrProcessDone,
		fmt.Errorf("bash: %w", host.ErrNotStarted), &reconcile.Error{
			Code:    "c",
			Message: "m",
			Err:     fs.ErrNotExist,
		},
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
	const first = `{"protocol":1,"run_id":"run-1","incarnation":7,"secret":"secret","client":"c"}` + "\n"
	f.Add([]byte(first + `{"n":1,"body":{"call":1,"method":"Wait","with":{"child":1}}}` + "\n"))
	f.Add([]byte(first + `{"n":1,"body":{"call":1,"method":"Read","with":{"child":1,"max":-1}}}` + "\n" +
		`{"n":2,"received":1,"body":{"cancel":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := NewServer(local.Machine{}, ours)
		s.methods = s.children.methods() // others change the machine
		kept := newOutput()
		kept.copy(strings.NewReader("some words"))
		s.children.all[1] = &child{
			Process: nowhere{},
			outputs: [2]*output{kept, newOutput()},
		}
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		go func() { _, _ = near.Write(sent); _ = near.Close() }()
		_ = s.Serve(far)
		test.OK(t, s.Close())
	})
}

func FuzzClient(f *testing.F) {
	f.Add([]byte(`{"protocol":1}` + "\n" + `{"n":1,"body":{"call":1,"result":"x"}}` + "\n"))
	f.Add([]byte(`{"protocol":1}` + "\n" +
		`{"n":1,"received":1,"body":{"call":1,"fault":{"message":"\u001b[2J","is":["canceled"]}}}` + "\n{}\n"))
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
		}, ours)
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = Machine{Client: c}.Fingerprint(t.Context(), "/")
	})
}

// nowhere is a process that does nothing.
type nowhere struct{ anyProcess }

// the name of an embedded interface may not be that of one of its methods
type anyProcess = host.Process

func (nowhere) Wait(context.Context) error                                      { return nil }
func (nowhere) Stdin() io.WriteCloser                                           { return discard{io.Discard} }
func (nowhere) Descendants(context.Context) ([]reconcile.Process, error)        { return nil, nil }
func (nowhere) Environ(context.Context) ([]string, error)                       { return nil, nil }
func (nowhere) SignalGroup(unix.Signal) error                                   { return nil }
func (nowhere) KillThread(context.Context, string) (l host.LeftAnswer, e error) { return l, e }
func (nowhere) Close() (e host.Exit, err error)                                 { return e, nil }

type discard struct{ io.Writer }

func (discard) Close() error { return nil }
