package runner

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// encodedHost encodes every request and answer as JSON and decodes it again on its way to and from the host. All tests of this
// package use it: it proves that a run shares no memory with its host.
type encodedHost struct {
	t    *testing.T
	host host.Host
}

// fault is the part of an error that reaches another machine.
type fault struct {
	Code, Message, Hint string
	Canceled, TimedOut  bool
}

// recode encodes a value as JSON and decodes it again.
func recode[T any](t *testing.T, v T) (copied T) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &copied)
	}
	if err != nil {
		t.Errorf("%T does not encode: %v", v, err)
	}
	return copied
}

func (h *encodedHost) fault(err error) error {
	if err == nil {
		return nil
	}
	f := fault{Message: err.Error(), Canceled: errors.Is(err, context.Canceled), TimedOut: errors.Is(err, context.DeadlineExceeded)}
	var known *reconcile.Error
	if errors.As(err, &known) {
		f.Code, f.Message, f.Hint = known.Code, known.Message, known.Hint
	}
	f = recode(h.t, f)
	switch {
	case f.Canceled:
		return context.Canceled
	case f.TimedOut:
		return context.DeadlineExceeded
	case f.Code == "":
		return errors.New(f.Message)
	}
	return &reconcile.Error{Code: f.Code, Message: f.Message, Hint: f.Hint}
}

func through[Q, A any](ctx context.Context, h *encodedHost, call func(context.Context, Q) (A, error), q Q) (A, error) {
	answer, err := call(ctx, recode(h.t, q))
	return recode(h.t, answer), h.fault(err)
}

func (h *encodedHost) Prepare(ctx context.Context, r host.PrepareRequest) (host.PrepareAnswer, error) {
	return through(ctx, h, h.host.Prepare, r)
}

func (h *encodedHost) Open(ctx context.Context, r host.Run) error {
	return h.fault(h.host.Open(ctx, recode(h.t, r)))
}

func (h *encodedHost) Confirm(ctx context.Context, r host.ConfirmRequest) error {
	return h.fault(h.host.Confirm(ctx, recode(h.t, r)))
}

func (h *encodedHost) Login(ctx context.Context, r host.LoginRequest) (host.LoginAnswer, error) {
	return through(ctx, h, h.host.Login, r)
}

func (h *encodedHost) Clone(ctx context.Context, r host.CloneRequest) (host.CloneAnswer, error) {
	return through(ctx, h, h.host.Clone, r)
}

func (h *encodedHost) Deliver(ctx context.Context, r host.DeliverRequest) (host.DeliverAnswer, error) {
	return through(ctx, h, h.host.Deliver, r)
}

func (h *encodedHost) OpenPullRequest(ctx context.Context, r host.PullRequestRequest) (host.PullRequestAnswer, error) {
	return through(ctx, h, h.host.OpenPullRequest, r)
}

func (h *encodedHost) RunHook(ctx context.Context, r host.HookRequest) (host.HookAnswer, error) {
	return through(ctx, h, h.host.RunHook, r)
}

func (h *encodedHost) GuardGit(ctx context.Context, r host.GuardGitRequest) error {
	return h.fault(h.host.GuardGit(ctx, recode(h.t, r)))
}

func (h *encodedHost) RestoreGit(ctx context.Context, r host.Run) (host.GitRestored, error) {
	return through(ctx, h, h.host.RestoreGit, r)
}

func (h *encodedHost) Start(ctx context.Context, r host.StartRequest) (host.Process, error) {
	p, err := h.host.Start(ctx, recode(h.t, r))
	return p, h.fault(err)
}

func (h *encodedHost) Observe(ctx context.Context, r host.ObserveRequest) (host.ObserveAnswer, error) {
	return through(ctx, h, h.host.Observe, r)
}

func (h *encodedHost) List(ctx context.Context, r host.ListRequest) (host.ListAnswer, error) {
	return through(ctx, h, h.host.List, r)
}

func (h *encodedHost) Kill(ctx context.Context, r host.KillRequest) (host.KillAnswer, error) {
	return through(ctx, h, h.host.Kill, r)
}

func (h *encodedHost) Facts(ctx context.Context, r host.FactsRequest) (host.FactsAnswer, error) {
	return through(ctx, h, h.host.Facts, r)
}

func (h *encodedHost) Finish(ctx context.Context, r host.Run) error {
	return h.fault(h.host.Finish(ctx, recode(h.t, r)))
}

func (h *encodedHost) PrepareRemoval(ctx context.Context, r host.RemovalRequest) (host.RemovalAnswer, error) {
	return through(ctx, h, h.host.PrepareRemoval, r)
}

func (h *encodedHost) Remove(ctx context.Context, r host.Run) (host.RemoveAnswer, error) {
	return through(ctx, h, h.host.Remove, r)
}

func (h *encodedHost) Purge(ctx context.Context, r host.RootRequest) (host.PurgeAnswer, error) {
	return through(ctx, h, h.host.Purge, r)
}

func (h *encodedHost) Root(ctx context.Context, r host.RootRequest) (host.RootAnswer, error) {
	return through(ctx, h, h.host.Root, r)
}

// Every field of every request and answer survives JSON: none is unexported, a function, a channel or an interface.
func TestHostValuesEncode(t *testing.T) {
	port := reflect.TypeFor[host.Host]()
	var look func(name string, v reflect.Type)
	look = func(name string, v reflect.Type) {
		switch v.Kind() {
		case reflect.Func, reflect.Chan, reflect.Interface, reflect.UnsafePointer:
			t.Errorf("%s is a %s", name, v.Kind())
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(name, v.Elem())
		case reflect.Struct:
			if v.PkgPath() == "time" {
				return
			}
			for i := range v.NumField() {
				f := v.Field(i)
				if !f.IsExported() {
					t.Errorf("%s.%s is not exported", name, f.Name)
				}
				look(name+"."+f.Name, f.Type)
			}
		default: // a plain value
		}
	}
	for i := range port.NumMethod() {
		m := port.Method(i)
		look(m.Name+" request", m.Type.In(1))
		if answer := m.Type.Out(0); m.Type.NumOut() == 2 && m.Name != "Start" { // a process has streams
			look(m.Name+" answer", answer)
		}
	}
}
