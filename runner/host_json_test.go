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

// encodedMachine and encodedRun encode requests and answers as JSON and decode them again on their way to and from the machine. All tests
// of this package use them: they prove that a run shares no memory with its machine.
type encodedMachine struct {
	host.Machine
	t *testing.T
}

type encodedRun struct {
	host.Run
	t *testing.T
}

func (m encodedMachine) Run(id string) host.Run { return encodedRun{m.Machine.Run(id), m.t} }

func (m encodedMachine) Facts(ctx context.Context, r host.FactsRequest) (host.FactsAnswer, error) {
	return through(ctx, m.t, m.Machine.Facts, r)
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

func passed(t *testing.T, err error) error {
	if err == nil {
		return nil
	}
	f := fault{Message: err.Error(), Canceled: errors.Is(err, context.Canceled), TimedOut: errors.Is(err, context.DeadlineExceeded)}
	var known *reconcile.Error
	if errors.As(err, &known) {
		f.Code, f.Message, f.Hint = known.Code, known.Message, known.Hint
	}
	f = recode(t, f)
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

func through[Q, A any](ctx context.Context, t *testing.T, call func(context.Context, Q) (A, error), q Q) (A, error) {
	answer, err := call(ctx, recode(t, q))
	return recode(t, answer), passed(t, err)
}

func (r encodedRun) Prepare(ctx context.Context, q host.PrepareRequest) (host.PrepareAnswer, error) {
	return through(ctx, r.t, r.Run.Prepare, q)
}

func (r encodedRun) Open(ctx context.Context) error { return passed(r.t, r.Run.Open(ctx)) }

func (r encodedRun) Confirm(ctx context.Context, q host.ConfirmRequest) error {
	return passed(r.t, r.Run.Confirm(ctx, recode(r.t, q)))
}

func (r encodedRun) Verify(ctx context.Context) error { return passed(r.t, r.Run.Verify(ctx)) }

func (r encodedRun) Login(ctx context.Context, q host.LoginRequest) (host.LoginAnswer, error) {
	return through(ctx, r.t, r.Run.Login, q)
}

func (r encodedRun) MakeHome(ctx context.Context, q host.HomeRequest) error {
	return passed(r.t, r.Run.MakeHome(ctx, recode(r.t, q)))
}

func (r encodedRun) Clone(ctx context.Context, q host.CloneRequest) (host.CloneAnswer, error) {
	return through(ctx, r.t, r.Run.Clone, q)
}

func (r encodedRun) Deliver(ctx context.Context, q host.DeliverRequest) (host.DeliverAnswer, error) {
	return through(ctx, r.t, r.Run.Deliver, q)
}

func (r encodedRun) RunHook(ctx context.Context, q host.HookRequest) (host.HookAnswer, error) {
	return through(ctx, r.t, r.Run.RunHook, q)
}

func (r encodedRun) GuardGit(ctx context.Context, q host.GuardGitRequest) error {
	return passed(r.t, r.Run.GuardGit(ctx, recode(r.t, q)))
}

func (r encodedRun) RestoreGit(ctx context.Context) (host.GitRestored, error) {
	answer, err := r.Run.RestoreGit(ctx)
	return recode(r.t, answer), passed(r.t, err)
}

func (r encodedRun) Start(ctx context.Context, q host.StartRequest) (host.Process, error) {
	p, err := r.Run.Start(ctx, recode(r.t, q))
	return p, passed(r.t, err)
}

func (r encodedRun) Observe(ctx context.Context) (host.ObserveAnswer, error) {
	answer, err := r.Run.Observe(ctx)
	return recode(r.t, answer), passed(r.t, err)
}

func (r encodedRun) Kill(ctx context.Context, q host.KillRequest) (host.LeftAnswer, error) {
	return through(ctx, r.t, r.Run.Kill, q)
}

func (r encodedRun) Finish(ctx context.Context) error { return passed(r.t, r.Run.Finish(ctx)) }

// Every field of every request and answer survives JSON: none is unexported, a function, a channel or an interface.
func TestHostValuesEncode(t *testing.T) {
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
	for _, port := range []reflect.Type{reflect.TypeFor[host.Machine](), reflect.TypeFor[host.Run]()} {
		for i := range port.NumMethod() {
			m := port.Method(i)
			if m.Name == "Run" || m.Name == "RunInTerminal" { // not values: a Run, and the streams of a terminal
				continue
			}
			if m.Type.NumIn() == 2 {
				look(m.Name+" request", m.Type.In(1))
			}
			if answer := m.Type.Out(0); m.Type.NumOut() == 2 && m.Name != "Start" { // a process has streams
				look(m.Name+" answer", answer)
			}
		}
	}
}
