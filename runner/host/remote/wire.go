// Package remote implements the port runner/host over a stream, for a machine on which another
// symphony serves it.
//
// A Client is at the side of the worker, a Server at the side of the machine; it wraps another
// implementation of the port. The worker's calls and the answers to them are frames of a
// session, which outlives streams: each side keeps its frames until the other side
// acknowledges them. After a broken stream both name the last frame that they received, and go
// on with the next frame. So every frame arrives once and in order, and every call is carried
// out once. The output of a process is kept in files, and read by offsets.
//
//	Client ── hello ──► Server     who, for which run, and the last frame from there
//	       ◄─ welcome ─            the last frame from here, or why not
//	       ── frame ──►            a call, or the wish to end a call
//	       ◄── frame ──            the answer to a call, in any order
package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// protocol is the version of the messages: of their form, and of the names of calls.
const protocol = 3

const (
	maxLine = 16 << 20       // bytes of a message
	maxBody = maxLine - 1024 // bytes of a frame's body
	maxText = 8 << 10        // bytes of an error's text
)

// Incarnation identifies an attempt to give a run's work to a server, which refuses clients of
// other incarnations.
type Incarnation struct {
	RunID  string `json:"run_id"`
	Number int64  `json:"incarnation"` // grows with each incarnation
	// Secret is known to the worker and the server, so that no program of the run can take the
	// place of the worker.
	Secret string `json:"secret"`
}

// hello is the first message of a client.
type hello struct {
	Protocol int `json:"protocol"`
	Incarnation
	// Client is random. A server serves the newest client.
	Client   string `json:"client"`
	Received int64  `json:"received"` // the last frame of the server
}

// welcome is the first message of a server. With a fault it does not serve the client.
type welcome struct {
	Protocol int   `json:"protocol"`
	Received int64 `json:"received"` // the last frame of the client
	// LostAfter is Server.LostAfter.
	LostAfter time.Duration `json:"lost_after,omitempty"`
	Fault     *fault        `json:"fault,omitempty"`
}

// frame is every later message. Without a number it is a sign of life.
type frame struct {
	Number   int64           `json:"n,omitempty"`
	Received int64           `json:"received"` // the last frame of the other side
	Body     json.RawMessage `json:"body,omitempty"`
}

// request is a message of a client: a call, or the wish to end a call.
type request struct {
	Call   int64           `json:"call,omitempty"`
	Method string          `json:"method,omitempty"`
	With   json.RawMessage `json:"with,omitempty"`
	Cancel int64           `json:"cancel,omitempty"`
}

// answer is a message of a server.
type answer struct {
	Call   int64           `json:"call"`
	Result json.RawMessage `json:"result,omitempty"`
	Fault  *fault          `json:"fault,omitempty"`
}

// fault is the part of an error that reaches the other machine.
type fault struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Is names the sentinels that the error wraps.
	Is []string `json:"is,omitempty"`
}

// sentinels are errors that callers of the port look for.
var sentinels = map[string]error{
	"canceled":     context.Canceled,
	"timed_out":    context.DeadlineExceeded,
	"process_done": os.ErrProcessDone,
	"not_exist":    os.ErrNotExist,
	"closed":       os.ErrClosed,
	"not_started":  host.ErrNotStarted,
}

func newFault(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Message: err.Error()}
	if known, ok := errors.AsType[*reconcile.Error](host.WithCode(err)); ok {
		f.Code = known.Code
		f.Message = known.Message
		f.Hint = known.Hint
	}
	f.Is = text.Filter(
		slices.Sorted(maps.Keys(sentinels)),
		func(name string) bool { return errors.Is(err, sentinels[name]) },
	)
	return f
}

// err returns the error of a fault, nil for none. Its texts can be printed, whatever the other
// machine sent.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	e := &foreignError{message: printable(f.Message)}
	for _, name := range f.Is[:min(len(f.Is), len(sentinels))] {
		if sentinel := sentinels[name]; sentinel != nil {
			e.wrapped = append(e.wrapped, sentinel)
		}
	}
	if f.Code != "" {
		return &reconcile.Error{
			Code:    printable(f.Code),
			Message: e.message,
			Hint:    printable(f.Hint),
			Err:     e,
		}
	}
	return e
}

func printable(s string) string { return text.Visible(s[:min(len(s), maxText)]) }

// foreignError is an error of the other machine.
type foreignError struct {
	message string
	wrapped []error // sentinels
}

func (e *foreignError) Error() string   { return e.message }
func (e *foreignError) Unwrap() []error { return e.wrapped }

// writeLine writes a message.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// lines reads messages.
type lines struct{ scanner *bufio.Scanner }

func newLines(r io.Reader) lines {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return lines{s}
}

// next decodes the next message. The error is io.EOF at the end.
func (l lines) next(v any) error {
	if !l.scanner.Scan() {
		if err := l.scanner.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	return json.Unmarshal(l.scanner.Bytes(), v)
}

// diffResult is a diff, as text.
type diffResult struct {
	Found bool   `json:"found"`
	Text  string `json:"text"`
	Cut   bool   `json:"cut"` // it is only the beginning
}

// methods are the calls of the port by name. Client and server call them by the names of the
// methods of host.Machine, host.Run and host.Process.
func methods(m host.Machine, run host.Run, c *children) map[string]method {
	all := map[string]method{
		"ReadAccount": methodOf(withoutParameters(m.ReadAccount)),
		"Existing":    methodOf(m.Existing),
		"Resolve":     methodOf(m.Resolve),
		"GitDirs":     methodOf(m.GitDirs),
		"Launcher":    methodOf(m.Launcher),
		"Fingerprint": methodOf(m.Fingerprint),
		"KeepEnd":     methodOf(m.KeepEnd),
		"FreeBytes":   methodOf(m.FreeBytes),
		"Workspaces":  methodOf(m.Workspaces),
		"Purge":       methodOf(m.Purge),
		"Inspect":     methodOf(m.Inspect),
		"Diff": methodOf(func(ctx context.Context, r host.WorkspaceRequest) (diffResult, error) {
			var text limitedText
			found, err := m.Diff(ctx, r, &text)
			if text.cut {
				found = true
				err = nil
			}
			return diffResult{found, text.String(), text.cut}, err
		}),

		"Prepare":        methodOf(run.Prepare),
		"Open":           methodOf(withoutBoth(run.Open)),
		"Confirm":        methodOf(withoutResult(run.Confirm)),
		"Discard":        methodOf(withoutBoth(run.Discard)),
		"Verify":         methodOf(withoutBoth(run.Verify)),
		"Login":          methodOf(run.Login),
		"MakeHome":       methodOf(withoutResult(run.MakeHome)),
		"CheckOut":       methodOf(run.CheckOut),
		"RunHook":        methodOf(run.RunHook),
		"GuardGit":       methodOf(withoutResult(run.GuardGit)),
		"Kill":           methodOf(run.Kill),
		"RestoreGit":     methodOf(withoutParameters(run.RestoreGit)),
		"Observe":        methodOf(withoutParameters(run.Observe)),
		"Finish":         methodOf(withoutBoth(run.Finish)),
		"PrepareRemoval": methodOf(run.PrepareRemoval),
		"Remove":         methodOf(withoutParameters(run.Remove)),
		"Start": methodOf(func(ctx context.Context, r host.StartRequest) (started, error) {
			return c.start(ctx, run, r)
		}),
	}
	maps.Copy(all, c.methods())
	if steps, serves := run.(host.RepositorySteps); serves {
		maps.Copy(all, map[string]method{
			"ReadTips":        methodOf(steps.ReadTips),
			"AddToBundle":     methodOf(withoutResult(steps.AddToBundle)),
			"CloneBundle":     methodOf(withoutResult(steps.CloneBundle)),
			"FetchBundle":     methodOf(steps.FetchBundle),
			"MakePack":        methodOf(steps.MakePack),
			"ReadPack":        methodOf(steps.ReadPack),
			"RecordDelivered": methodOf(withoutResult(steps.RecordDelivered)),
		})
	}
	return all
}

// methods are the calls about processes.
func (c *children) methods() map[string]method {
	return map[string]method{
		"Write": ofChild(c, func(ctx context.Context, p *child, w childCall) (nothing, error) {
			// a process that does not read would block the call for ever
			defer context.AfterFunc(ctx, func() { _ = p.Stdin().Close() })()
			_, err := p.Stdin().Write(w.Data)
			return nothing{}, err
		}),
		"CloseStdin": ofChild(c, func(_ context.Context, p *child, _ childCall) (nothing, error) {
			return nothing{}, p.Stdin().Close()
		}),
		"Read": ofChild(c, func(ctx context.Context, p *child, r childCall) (readResult, error) {
			if r.Stream < 0 || r.Stream >= len(p.outputs) {
				return readResult{}, fmt.Errorf("a process has no stream %d", r.Stream)
			}
			data, err := p.outputs[r.Stream].next(ctx, r.Offset, r.Max)
			return readResult{data}, err
		}),
		"Wait": ofChild(c, func(ctx context.Context, p *child, _ childCall) (nothing, error) {
			return nothing{}, p.Wait(ctx)
		}),
		"Descendants": ofChild(c, func(ctx context.Context, p *child, _ childCall) (host.LeftAnswer, error) {
			list, err := p.Descendants(ctx)
			return host.LeftAnswer{Processes: list}, err
		}),
		"Environ": ofChild(c, func(ctx context.Context, p *child, _ childCall) ([]string, error) {
			return p.Environ(ctx)
		}),
		"KillThread": ofChild(c, func(ctx context.Context, p *child, t childCall) (host.LeftAnswer, error) {
			return p.KillThread(ctx, t.ThreadID)
		}),
		"SignalGroup": ofChild(c, func(_ context.Context, p *child, s childCall) (nothing, error) {
			return nothing{}, p.SignalGroup(s.Signal)
		}),
		"Close": methodOf(func(_ context.Context, r childCall) (host.Exit, error) {
			return c.closeChild(r.Child)
		}),
	}
}

// ofChild returns a method about a process that was not closed.
func ofChild[A any](c *children, f func(context.Context, *child, childCall) (A, error)) method {
	return methodOf(func(ctx context.Context, q childCall) (result A, err error) {
		p, err := c.find(q.Child)
		if err != nil {
			return result, err
		}
		return f(ctx, p, q)
	})
}

// limitedText keeps the first maxDiff bytes. Then writing fails.
type limitedText struct {
	strings.Builder
	cut bool
}

const maxDiff = maxLine / 8

func (t *limitedText) Write(p []byte) (int, error) {
	if rest := maxDiff - t.Len(); rest < len(p) {
		t.Builder.Write(p[:rest])
		t.cut = true
		return 0, fmt.Errorf("more than %d MiB", maxDiff>>20)
	}
	return t.Builder.Write(p)
}
