package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// inbox is where agents ask in these tests: what the database would hold of it.
type inbox struct {
	mu       sync.Mutex
	requests []reconcile.Request
	// refuse is asked at every write; an error is what the database would say. decide is called after a request was
	// stored, and answers it.
	refuse func(doing string) error
	decide func(r *reconcile.Request)
}

func (b *inbox) AddRequest(_ context.Context, r reconcile.Request) (reconcile.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse("add"); err != nil {
			return r, err
		}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[number-1], nil
}

func (b *inbox) ResolveRequest(_ context.Context, now time.Time, _ string, number int, fate reconcile.RequestFate) (reconcile.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse != nil {
		if err := b.refuse("resolve"); err != nil {
			return reconcile.Request{}, err
		}
	}
	r := &b.requests[number-1]
	switch {
	case fate == reconcile.RequestExpired && r.Decision != "":
		is := *r
		is.Fate = reconcile.RequestAnswered // as good as
		return is, nil
	case r.Fate == "":
		r.Fate, r.EndedAt = fate, now
	}
	return *r, nil
}

func (b *inbox) get(number int) reconcile.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[number-1]
}

// waitFate waits until something is written down of a request.
func (b *inbox) waitFate(t *testing.T, number int, want reconcile.RequestFate) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		there := len(b.requests) >= number && b.requests[number-1].Fate == want
		b.mu.Unlock()
		if there {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("request %d has not become %q", number, want)
		}
	}
}

func decides(how reconcile.RequestDecision, answer reconcile.RequestAnswer) func(*reconcile.Request) {
	return func(r *reconcile.Request) { r.Decision, r.Answer = how, answer }
}

// asking is an attempt whose agent is in a turn.
type asking struct {
	*attempt
	inbox *inbox
	log   *lockedWriter
	end   context.CancelFunc // the run is to end
	die   func() error       // the agent ends
}

func newAsking(t *testing.T, timeout time.Duration) *asking {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	agentEnd, ours := io.Pipe()
	session := codex.New(agent.Streams{Stdin: nopCloser{io.Discard}, Stdout: agentEnd}, agent.Options{})
	t.Cleanup(func() {
		must(t, session.Close())
		must(t, ours.Close())
		<-session.Done()
	})
	log, box := &lockedWriter{}, &inbox{}
	w := &Worker{
		Config: Config{AnswerTimeout: timeout}, Requests: box, Now: time.Now, Redactor: agent.NewRedactor([]string{testKey}), Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	run := reconcile.Run{ID: "run-1", IssueID: "id-1", Identifier: "ABC-1", Phase: reconcile.StreamingTurn}
	a := &attempt{
		job: w.newJob(run, func(error) {}), ending: ctx.Done(),
		agent: &agentProcess{session: session, ready: make(chan struct{})},
	}
	close(a.agent.ready)
	t.Cleanup(end)
	return &asking{attempt: a, inbox: box, log: log, end: end, die: ours.Close}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

var command = agent.Request{Kind: agent.RequestCommand, Summary: "make install", Command: "make install", OutsideSandbox: true}

// sent is what the agent is told of a request, and has been told.
func (a *asking) sent(t *testing.T) agent.Decision {
	t.Helper()
	d := a.askPerson(t.Context(), command)
	if d.Sent != nil {
		d.Sent()
		d.Sent = nil
	}
	return d
}

// What a person decides reaches the agent, and that it did is written down, but not before.
func TestAskPerson(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(*reconcile.Request)
		want   agent.Decision
	}{
		"approved":    {decides(reconcile.DecideApprove, reconcile.RequestAnswer{}), agent.Decision{Approve: true, By: "operator"}},
		"for session": {decides(reconcile.DecideForSession, reconcile.RequestAnswer{}), agent.Decision{Approve: true, ForSession: true, By: "operator"}},
		"denied":      {decides(reconcile.DecideDeny, reconcile.RequestAnswer{Reason: "no"}), agent.Decision{Reason: "no", By: "operator"}},
		"answered": {
			decides(reconcile.DecideAnswer, reconcile.RequestAnswer{Answers: map[string][]string{"q": {"x"}}}),
			agent.Decision{Answers: map[string][]string{"q": {"x"}}, By: "operator"},
		},
	} {
		a := newAsking(t, time.Hour)
		a.inbox.decide = c.decide
		told := 0
		a.Attend = func(context.Context) { told++ }
		began := time.Now()
		got := a.askPerson(t.Context(), command)
		sent := got.Sent
		if got.Sent = nil; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: the agent is told %+v, want %+v", name, got, c.want)
		}
		if fate := a.inbox.get(1).Fate; fate != "" {
			t.Errorf("%s: the request is %s before the agent was told", name, fate)
		}
		sent()
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
		if r := a.inbox.get(1); r.Fate != reconcile.RequestAnswered || !r.Outside || r.Summary != "make install" {
			t.Errorf("%s: the request is %+v", name, r)
		}
		if told != 1 {
			t.Errorf("%s: attended to %d times", name, told)
		}
	}
}

// Nobody decides: the time is over. Somebody does in the last moment: that counts.
func TestAskExpires(t *testing.T) {
	a := newAsking(t, 300*time.Millisecond)
	if got := a.askPerson(t.Context(), command); !got.Expired || got.Approve || a.inbox.get(1).Fate != reconcile.RequestExpired {
		t.Errorf("the agent is told %+v, the request is %+v", got, a.inbox.get(1))
	}
	late := newAsking(t, time.Nanosecond)
	late.inbox.decide = decides(reconcile.DecideApprove, reconcile.RequestAnswer{})
	if got := late.sent(t); !got.Approve || got.Expired || late.inbox.get(1).Fate != reconcile.RequestAnswered {
		t.Errorf("the agent is told %+v, the request is %+v", got, late.inbox.get(1))
	}
}

// A request that the agent takes back is withdrawn, unless its run ends: then it is to have ended with that.
func TestAskWithdrawn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dying := map[string]*asking{}
	for name, end := range map[string]func(*asking){
		"is stopped": func(a *asking) { a.end() },
		"finishes":   func(a *asking) { a.rec.change(func(r *reconcile.Run) { r.Phase = reconcile.Finishing }) },
		"loses its agent": func(a *asking) {
			must(t, a.die())
			<-a.agent.session.Done()
		},
	} {
		a := newAsking(t, time.Hour)
		end(a)
		a.askPerson(ctx, command)
		dying[name] = a
	}
	// This one comes after them.
	withdrawn := newAsking(t, time.Hour)
	withdrawn.askPerson(ctx, command)
	withdrawn.inbox.waitFate(t, 1, reconcile.RequestWithdrawn)
	for name, a := range dying {
		if fate := a.inbox.get(1).Fate; fate != "" {
			t.Errorf("the run %s, and its request is %s", name, fate)
		}
	}
}

// Where the database takes nothing, the agent is refused, and goes on; what it was told is written down later.
func TestAskWithoutADatabase(t *testing.T) {
	a := newAsking(t, time.Hour)
	a.inbox.refuse = func(string) error { return errors.New("disk_full: no space left") }
	if got := a.askPerson(t.Context(), command); got.Approve || !strings.Contains(got.Reason, "no space left") {
		t.Errorf("the agent is told %+v", got)
	}
	if !strings.Contains(a.log.String(), "no space left") {
		t.Errorf("the log says %s", a.log)
	}
	// One that is back in a moment is no reason.
	back, adds := newAsking(t, time.Hour), 0
	back.inbox.decide = decides(reconcile.DecideApprove, reconcile.RequestAnswer{})
	back.inbox.refuse = func(doing string) error {
		if adds++; doing == "add" && adds < askTries {
			return errors.New("state_busy: another process holds it")
		}
		return nil
	}
	if got := back.askPerson(t.Context(), command); !got.Approve {
		t.Errorf("the agent is told %+v", got)
	}
	for _, how := range []string{"decided", "expired"} {
		a := newAsking(t, time.Hour)
		tries := 0
		a.inbox.refuse = func(doing string) error {
			if doing == "resolve" {
				if tries++; tries <= 2 {
					return errors.New("disk_full: no space left")
				}
			}
			return nil
		}
		want := reconcile.RequestExpired
		if how == "decided" {
			want = reconcile.RequestAnswered
			a.inbox.decide = decides(reconcile.DecideApprove, reconcile.RequestAnswer{})
		} else {
			a.Config.AnswerTimeout = time.Millisecond
		}
		if got := a.sent(t); got.Approve != (how == "decided") || got.Expired == got.Approve {
			t.Errorf("%s: the agent is told %+v", how, got)
		}
		a.inbox.waitFate(t, 1, want)
	}
}

// In a whole run: the agent whose request can't be stored is denied, and comes to its end.
func TestAskWithoutADatabaseInARun(t *testing.T) {
	r := newRig(t, "ask-command touch asked.txt\nsh touch done.txt")
	r.Config.OnApproval, r.Config.AnswerTimeout = agent.ApprovalAsk, time.Hour
	r.Requests = &inbox{refuse: func(string) error { return errors.New("disk_full: no space left") }}
	r.ends(reconcile.Succeeded, "")
	if exists(r.space("asked.txt")) || !exists(r.space("done.txt")) {
		t.Error("the command ran, or the agent did not go on")
	}
	if events := read(t, r.Dir+"/events.jsonl"); !strings.Contains(events, "approval_denied") || !strings.Contains(events, "no space left") {
		t.Errorf("the events do not tell why:\n%s", events)
	}
}

// Two requests of one run wait side by side; each gets its own answer.
func TestAskTwoAtOnce(t *testing.T) {
	a := newAsking(t, time.Hour)
	a.inbox.decide = func(r *reconcile.Request) {
		r.Decision = reconcile.DecideDeny
		if r.Detail.Command == "second" {
			r.Decision = reconcile.DecideApprove
		}
	}
	var both sync.WaitGroup
	for _, text := range []string{"first", "second"} {
		both.Go(func() {
			got := a.askPerson(t.Context(), agent.Request{Kind: agent.RequestCommand, Summary: text, Command: text})
			if got.Approve != (text == "second") {
				t.Errorf("%s: %+v", text, got)
			}
		})
	}
	both.Wait()
}

// What is stored holds no secret, is bounded, and shows a command as it is.
func TestAskedDetail(t *testing.T) {
	a := newAsking(t, time.Hour)
	long := strings.Repeat("ä", requestLimit)
	q, err := a.newQuestion(agent.Request{
		Kind: agent.RequestFileChange, Summary: "add " + testKey, Reason: testKey, Cwd: testKey, GrantRoot: testKey, Server: testKey,
		Permissions: []byte(`{"a":"` + testKey + `"}`),
		Questions:   []agent.Question{{ID: "q", Text: testKey, Header: testKey, Options: []agent.Option{{Label: "Yes", Description: testKey}}}},
		Changes:     []agent.FileChange{{Path: testKey, Kind: "add", Diff: testKey}, {Path: "big", Kind: "add", Diff: long}, {Path: "last", Kind: "add", Diff: "x"}},
	})
	must(t, err)
	if text := fmt.Sprintf("%+v %s", q.Request, q.Detail.Permissions); strings.Contains(text, testKey) {
		t.Errorf("the key is in it: %s", text[:min(len(text), 500)])
	}
	size := 0
	for _, c := range q.Detail.Changes {
		if size += len(c.Diff); !utf8.ValidString(c.Diff) {
			t.Errorf("the diff of %s was cut within a letter", c.Path)
		}
	}
	if size > requestLimit || q.Detail.Cut < len(long)-requestLimit || len(q.Detail.Changes) != 2 {
		t.Errorf("%d bytes of diffs are kept, %d cut, of %d files", size, q.Detail.Cut, len(q.Detail.Changes))
	}
	a.Redactor = agent.NewRedactor([]string{"12345678"})
	q, err = a.newQuestion(agent.Request{Kind: agent.RequestPermissions, Permissions: []byte(`{"port":12345678}`)})
	must(t, err)
	if got := string(q.Detail.Permissions); got != `"{\"port\":[redacted]}"` {
		t.Errorf("permissions are %s", got)
	}
	for _, c := range []struct{ summary, command, want string }{
		{"make  install", "make  install", "make  install"},
		{"make install …", "make install\n --all", "make install\n --all"},
		{"make install", "make\tinstall", "make\tinstall"},
		{"network access to example.org (https): curl", "curl", "network access to example.org (https): curl"},
		{"network access to example.org (https): curl a…", "curl a\nb", "network access to example.org (https): curl a…\ncurl a\nb"},
	} {
		q, err := a.newQuestion(agent.Request{Kind: agent.RequestCommand, Summary: c.summary, Command: c.command})
		must(t, err)
		if q.Summary != c.want || q.Detail.Command != c.command {
			t.Errorf("%q for %q is shown as %q", c.summary, c.command, q.Summary)
		}
	}
	// What can't be cut is not asked.
	for _, ask := range []agent.Request{
		{Kind: agent.RequestCommand, Summary: "ä…", Command: long},
		{Kind: agent.RequestQuestion, Questions: []agent.Question{{ID: "q", Text: long}}},
		{Kind: agent.RequestPermissions, Permissions: []byte(`"` + long + `"`)},
	} {
		if got := a.askPerson(t.Context(), ask); !strings.Contains(got.Reason, "more than a person would read") {
			t.Errorf("%s: %+v", ask.Kind, got)
		}
	}
}

// A secret answer can be read by the worker that asked, and by nobody else.
func TestSealedAnswer(t *testing.T) {
	a := newAsking(t, time.Hour)
	secret := agent.Request{Kind: agent.RequestQuestion, Questions: []agent.Question{{ID: "q", Text: "Word?", Secret: true}}}
	answers := map[string][]string{"q": {"hunter2"}}
	a.inbox.decide = func(r *reconcile.Request) {
		sealed, err := SealAnswers(r.Detail.SealKey, answers)
		must(t, err)
		if strings.Contains(string(sealed), "hunter2") {
			t.Error("the answer stands in it")
		}
		r.Decision, r.Answer = reconcile.DecideAnswer, reconcile.RequestAnswer{Sealed: sealed}
	}
	if got := a.askPerson(t.Context(), secret); fmt.Sprint(got.Answers) != fmt.Sprint(answers) {
		t.Errorf("the agent is told %+v", got)
	}
	other, err := a.newQuestion(secret)
	must(t, err)
	if got, err := other.answers(a.inbox.get(1).Answer); err == nil {
		t.Errorf("another one reads %v", got)
	}
	a.inbox.decide = decides(reconcile.DecideAnswer, reconcile.RequestAnswer{Sealed: []byte("broken")})
	if got := a.askPerson(t.Context(), secret); len(got.Answers) > 0 || got.Reason == "" {
		t.Errorf("the agent is told %+v", got)
	}
	if _, err := SealAnswers([]byte("no key"), answers); err == nil {
		t.Error("anything is taken for a key")
	}
}
