package runner

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// encodedHost encodes the requests and answers of a run as JSON and decodes them again on their way to and from the host. All
// tests of this package use it: it proves that a run shares no memory with its host.
type encodedHost struct {
	host.Host
	t *testing.T
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
	return through(ctx, h, h.Host.Prepare, r)
}

func (h *encodedHost) Open(ctx context.Context, r host.Run) error {
	return h.fault(h.Host.Open(ctx, recode(h.t, r)))
}

func (h *encodedHost) Confirm(ctx context.Context, r host.ConfirmRequest) error {
	return h.fault(h.Host.Confirm(ctx, recode(h.t, r)))
}

func (h *encodedHost) Login(ctx context.Context, r host.LoginRequest) (host.LoginAnswer, error) {
	return through(ctx, h, h.Host.Login, r)
}

func (h *encodedHost) Clone(ctx context.Context, r host.CloneRequest) (host.CloneAnswer, error) {
	return through(ctx, h, h.Host.Clone, r)
}

func (h *encodedHost) Deliver(ctx context.Context, r host.DeliverRequest) (host.DeliverAnswer, error) {
	return through(ctx, h, h.Host.Deliver, r)
}

func (h *encodedHost) RunHook(ctx context.Context, r host.HookRequest) (host.HookAnswer, error) {
	return through(ctx, h, h.Host.RunHook, r)
}

func (h *encodedHost) GuardGit(ctx context.Context, r host.GuardGitRequest) error {
	return h.fault(h.Host.GuardGit(ctx, recode(h.t, r)))
}

func (h *encodedHost) RestoreGit(ctx context.Context, r host.Run) (host.GitRestored, error) {
	return through(ctx, h, h.Host.RestoreGit, r)
}

func (h *encodedHost) Start(ctx context.Context, r host.StartRequest) (host.Process, error) {
	p, err := h.Host.Start(ctx, recode(h.t, r))
	return p, h.fault(err)
}

func (h *encodedHost) Observe(ctx context.Context, r host.ObserveRequest) (host.ObserveAnswer, error) {
	return through(ctx, h, h.Host.Observe, r)
}

func (h *encodedHost) Kill(ctx context.Context, r host.KillRequest) (host.KillAnswer, error) {
	return through(ctx, h, h.Host.Kill, r)
}

func (h *encodedHost) Facts(ctx context.Context, r host.FactsRequest) (host.FactsAnswer, error) {
	return through(ctx, h, h.Host.Facts, r)
}

func (h *encodedHost) Finish(ctx context.Context, r host.Run) error {
	return h.fault(h.Host.Finish(ctx, recode(h.t, r)))
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
				test.Equal(t, name+"."+f.Name+" is exported", f.IsExported(), true)
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
