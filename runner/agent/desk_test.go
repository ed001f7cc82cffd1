package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// inbox is a RequestStore in memory.
type inbox struct {
	mu       sync.Mutex
	requests []reconcile.Request
	full     error // of every write
	// decide answers a request after it was stored.
	decide func(r *reconcile.Request)
}

func (b *inbox) AddRequest(_ context.Context, r reconcile.Request) (reconcile.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full != nil {
		return r, b.full
	}
	r.Number = len(b.requests) + 1
	kept := r
	if b.decide != nil {
		b.decide(&kept)
	}
	b.requests = append(b.requests, kept)
	return r, nil
}

func (b *inbox) RequestByID(_ context.Context, _ string, number int) (reconcile.Request, error) {
	return b.get(number), nil
}

func (b *inbox) ResolveRequest(
	_ context.Context,
	now time.Time,
	_ string,
	number int,
	fate reconcile.RequestFate,
) (reconcile.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &b.requests[number-1]
	if fate == reconcile.RequestExpired && r.Decision != "" {
		decided := *r
		decided.Fate = reconcile.RequestAnswered
		return decided, nil
	}
	r.Fate = cmp.Or(r.Fate, fate)
	r.EndedAt = now
	return *r, nil
}

func (b *inbox) get(number int) reconcile.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[number-1]
}

func decides(how reconcile.RequestDecision, answer reconcile.RequestAnswer) func(*reconcile.Request) {
	return func(r *reconcile.Request) {
		r.Decision = how
		r.Answer = answer
	}
}

var install = Request{
	Kind:           RequestCommand,
	Summary:        "make install",
	Command:        "make install",
	OutsideSandbox: true,
}

// newDesk returns the desk of a run that is under way.
func newDesk(timeout time.Duration) (*Desk, *inbox, *bytes.Buffer) {
	box := &inbox{}
	log := &bytes.Buffer{}
	return &Desk{
		Store:    box,
		Timeout:  timeout,
		Redactor: NewRedactor([]string{testKey}),
		Log:      slog.New(slog.NewTextHandler(log, nil)),
		Now:      time.Now,
		Instant:  func() reconcile.Instant { return reconcile.Instant{Boot: "boot"} },
		Run: func() reconcile.Run {
			return reconcile.Run{
				ID:         "run-1",
				IssueID:    "id-1",
				Identifier: "ABC-1",
				Phase:      reconcile.StreamingTurn,
			}
		},
		Ending: make(chan struct{}),
		Gone:   make(chan struct{}),
	}, box, log
}

// A decision reaches the agent. The request counts as answered only once the answer was sent.
func TestDeskDecides(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(*reconcile.Request)
		want   Decision
	}{
		"approved": {decides(reconcile.DecideApprove, reconcile.RequestAnswer{}), Decision{
			Approve: true,
			By:      "operator",
		}},
		"for session": {decides(reconcile.DecideForSession, reconcile.RequestAnswer{}), Decision{
			Approve:    true,
			ForSession: true,
			By:         "operator",
		}},
		"denied": {decides(reconcile.DecideDeny, reconcile.RequestAnswer{Reason: "no"}), Decision{
			Reason: "no",
			By:     "operator",
		}},
		"answered": {
			decides(reconcile.DecideAnswer, reconcile.RequestAnswer{Answers: map[string][]string{"q": {"x"}}}),
			Decision{Answers: map[string][]string{"q": {"x"}}, By: "operator"},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			desk, box, _ := newDesk(time.Hour)
			box.decide = c.decide
			notified := 0
			desk.Notify = func(context.Context) { notified++ }
			ask := install
			ask.Questions = []Question{{ID: "q"}}
			got := desk.Decide(t.Context(), ask)
			sent := got.Sent
			got.Sent = nil
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: the agent gets %+v, want %+v", name, got, c.want)
			}
			test.Equal(t, name+": the request before the answer was sent", box.get(1).Fate, "")
			sent()
			if r := box.get(1); r.Fate != reconcile.RequestAnswered || !r.Outside ||
				r.Summary != "make install" ||
				notified != 1 {
				t.Errorf("%s: %d notifications, the request is %+v", name, notified, r)
			}
		})
	}
}

// A request expires unless it was decided before.
func TestDeskExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk, box, _ := newDesk(300 * time.Millisecond)
		if got := desk.Decide(t.Context(), install); !got.Expired || got.Approve ||
			box.get(1).Fate != reconcile.RequestExpired {
			t.Errorf("the agent gets %+v, the request is %+v", got, box.get(1))
		}
		desk, box, _ = newDesk(time.Nanosecond)
		box.decide = decides(reconcile.DecideApprove, reconcile.RequestAnswer{})
		got := desk.Decide(t.Context(), install)
		test.Equal(t, "approved and expired", []bool{got.Approve, got.Expired}, []bool{true, false})
	})
}

// A request that the agent no longer waits for is withdrawn, unless the run ends: then the
// request ends with the run.
func TestDeskWithdraws(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	for name, end := range map[string]func(*Desk){
		"the run goes on":  func(*Desk) {},
		"the run is ended": func(d *Desk) { d.Ending = closed },
		"the agent ended":  func(d *Desk) { d.Gone = closed },
		"a codex of several ended": func(d *Desk) {
			d.Gone = closed
			d.Run = func() reconcile.Run { return reconcile.Run{Kind: reconcile.FreeRun} }
		},
		"the run finishes": func(d *Desk) {
			d.Run = func() reconcile.Run { return reconcile.Run{Phase: reconcile.Finishing} }
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			desk, box, _ := newDesk(time.Hour)
			end(desk)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			desk.Decide(ctx, install)
			time.Sleep(2 * withdrawGrace)
			synctest.Wait()
			test.Equal(t, name+": the request is withdrawn", box.get(1).Fate == reconcile.RequestWithdrawn,
				name == "the run goes on" || name == "a codex of several ended")
		})
	}
}

// A request that can't be stored is declined.
func TestDeskWithoutAStore(t *testing.T) {
	desk, box, log := newDesk(time.Hour)
	box.full = errors.New("disk_full: no space left")
	if got := desk.Decide(t.Context(), install); got.Approve ||
		!strings.Contains(got.Reason, "no space left") ||
		!strings.Contains(log.String(), "no space left") {
		t.Errorf("the agent gets %+v, the log says %s", got, log)
	}
}

// A stored request contains no secret, has a limited size, and shows the whole command.
func TestDeskStores(t *testing.T) {
	desk, _, _ := newDesk(time.Hour)
	long := strings.Repeat("ä", maxRequest)
	q, err := desk.newQuestion(Request{
		Kind:        RequestFileChange,
		Summary:     "add " + testKey,
		Reason:      testKey,
		Cwd:         testKey,
		GrantRoot:   testKey,
		Server:      testKey,
		Permissions: []byte(`{"a":"` + testKey + `"}`),
		Questions: []Question{{
			ID:      testKey,
			Text:    testKey,
			Header:  testKey,
			Options: []Option{{Label: testKey, Description: testKey}},
		}},
		Changes: []FileChange{{
			Path: testKey,
			Kind: "add",
			Diff: testKey,
		}, {
			Path: "big",
			Kind: "add",
			Diff: long,
		}, {
			Path: "last",
			Kind: "add",
			Diff: "x",
		}},
	})
	test.OK(t, err)
	test.Lacks(t, "the request", fmt.Sprintf("%+v %s", q.Request, q.Detail.Permissions), testKey)
	size := 0
	for _, c := range q.Detail.Changes {
		size += len(c.Diff)
		if !utf8.ValidString(c.Diff) {
			t.Errorf("the diff of %s was cut inside a character", c.Path)
		}
	}
	if size > maxRequest || q.Detail.Cut < len(long)-maxRequest || len(q.Detail.Changes) != 2 {
		t.Errorf("%d bytes of diffs are kept, %d cut, of %d files", size, q.Detail.Cut, len(q.Detail.Changes))
	}
	desk.Redactor.Add([]string{"12345678"})
	q = test.Must(desk.newQuestion(Request{
		Kind:        RequestPermissions,
		Permissions: []byte(`{"port":12345678}`),
	}))
	test.Equal(t, "permissions", string(q.Detail.Permissions), `"{\"port\":[redacted]}"`)
	for _, c := range []struct{ summary, command, want string }{
		{"make  install", "make  install", "make  install"},
		{"make install …", "make install\n --all", "make install\n --all"},
		{"make install", "make\tinstall", "make\tinstall"},
		{"network access to example.org (https): curl", "curl", "network access to example.org (https): curl"},
		{"network access to example.org (https): curl a…", "curl a\nb", "network access to example.org " +
			"(https): curl a…\ncurl a\nb"},
	} {
		q := test.Must(desk.newQuestion(Request{
			Kind:    RequestCommand,
			Summary: c.summary,
			Command: c.command,
		}))
		test.Equal(
			t,
			c.summary+": summary and command",
			[]any{q.Summary, q.Detail.Command},
			[]any{c.want, c.command},
		)
	}
	// What must not be cut is declined if it is too long.
	for _, ask := range []Request{
		{Kind: RequestCommand, Summary: "ä…", Command: long},
		{Kind: RequestQuestion, Questions: []Question{{ID: "q", Text: long}}},
		{Kind: RequestPermissions, Permissions: []byte(`"` + long + `"`)},
	} {
		test.Contains(
			t,
			string(ask.Kind)+": the reason",
			desk.Decide(t.Context(), ask).Reason,
			"more than an operator would read",
		)
	}
}

// The agent gets answers with its own ids and labels, which are stored without secrets.
func TestDeskAnswersAsAsked(t *testing.T) {
	desk, box, _ := newDesk(time.Hour)
	box.decide = func(r *reconcile.Request) {
		q := r.Detail.Questions[0]
		r.Decision = reconcile.DecideAnswer
		r.Answer.Answers = map[string][]string{
			q.ID:    {q.Options[1].Label, "other"},
			"plain": {"word"},
		}
	}
	got := desk.Decide(t.Context(), Request{Kind: RequestQuestion, Questions: []Question{
		{
			ID:      "use " + testKey,
			Options: []Option{{Label: "no"}, {Label: "with " + testKey}},
		}, {ID: "plain"},
	}})
	test.Equal(t, "answers", got.Answers, map[string][]string{
		"use " + testKey: {"with " + testKey, "other"},
		"plain":          {"word"},
	})
}

// Only the worker that asked can read a secret answer.
func TestSealedAnswer(t *testing.T) {
	desk, box, _ := newDesk(time.Hour)
	secret := Request{
		Kind:      RequestQuestion,
		Questions: []Question{{ID: "q", Text: "Word?", Secret: true}},
	}
	answers := map[string][]string{"q": {"hunter2"}}
	box.decide = func(r *reconcile.Request) {
		sealed := test.Must(SealAnswers(r.Detail.SealKey, answers))
		test.Lacks(t, "the sealed answer", string(sealed), "hunter2")
		r.Decision = reconcile.DecideAnswer
		r.Answer = reconcile.RequestAnswer{Sealed: sealed}
	}
	test.Equal(t, "answers", desk.Decide(t.Context(), secret).Answers, answers)
	other := test.Must(desk.newQuestion(secret))
	if got, err := other.answers(box.get(1).Answer); err == nil {
		t.Errorf("another request's key reads %v", got)
	}
	box.decide = decides(reconcile.DecideAnswer, reconcile.RequestAnswer{Sealed: []byte("broken")})
	got := desk.Decide(t.Context(), secret)
	test.Equal(
		t,
		"number of answers, and whether there is a reason",
		[]any{len(got.Answers), got.Reason != ""},
		[]any{0, true},
	)
	test.Equal(
		t,
		"anything is accepted as a key",
		test.Err(SealAnswers([]byte("no key"), answers)) == nil,
		false,
	)
}
