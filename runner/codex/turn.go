package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// thread is the session's thread, with its turns in order.
type thread struct {
	o     *agent.Options
	conn  *conn
	usage *usage
	life  context.Context // ends with the session
	// codex's unanswered requests, and how many of them wait for an operator
	pending func() (requests, asked int)

	mu      sync.Mutex
	id      string                        // "" before a thread is open
	title   string                        // of its turns
	turn    *turn                         // the running turn, or nil
	params  agent.TurnParams              // of the latest turn
	patches map[string][]agent.FileChange // unfinished file changes of the turn, by thread and item
}

// turn is a prompt and everything that follows until its end. thread.mu guards the fields after
// the channels.
type turn struct {
	*wire.TurnClock
	ctx    context.Context // for tool calls and questions during the turn
	cancel context.CancelFunc

	answered chan struct{} // closed when turn/start was answered
	failed   chan struct{} // closed when failure is set
	ended    chan struct{} // closed when status is set

	id       string
	failure  *agent.Error    // why the turn fails, regardless of the status that codex reports
	status   string          // at its end, "" before
	err      *turnError      // at its end
	commands map[string]bool // ids of command items that have started and not ended
	lastText string          // the agent's last complete message
	retry    *turnError      // the latest error since the last progress: why a turn stalls
}

// ThreadID returns the id of the thread that was started or resumed, "" before that.
func (th *thread) ThreadID() string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.id
}

// titleOfTurns returns the title of the turns according to the specification, such as "ABC-1:
// Mend the door". codex uses the name of the thread instead.
func (th *thread) titleOfTurns() string {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.title
}

// isOurs reports whether a message belongs to the session's thread: it names that thread or
// none.
func (th *thread) isOurs(o *origin) bool {
	return o.threadID() == "" || o.threadID() == th.ThreadID()
}

func (th *thread) opened(id, title string) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.id = id
	th.title = title
}

// current returns the running turn, nil if there is none.
func (th *thread) current() *turn {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.turn
}

// heard resets the clock of silence after a line of the agent.
func (th *thread) heard() {
	if t := th.current(); t != nil {
		t.SawLine()
	}
}

// progressed resets both clocks of the turn after a line that shows progress, or the end of a
// request.
func (th *thread) progressed() {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.turn != nil {
		th.turn.sawProgress()
	}
}

// sawError records an error. It explains a stall, and the end of a turn that names no error of
// its own.
func (th *thread) sawError(e *turnError) {
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.turn != nil {
		th.turn.retry = e
	}
}

type turnRequest struct {
	ThreadID       string          `json:"threadId"`
	Input          any             `json:"input"`
	Cwd            string          `json:"cwd,omitempty"`
	Title          string          `json:"title,omitempty"`
	ApprovalPolicy json.RawMessage `json:"approvalPolicy,omitempty"`
	SandboxPolicy  json.RawMessage `json:"sandboxPolicy,omitempty"`
	Permissions    string          `json:"permissions,omitempty"`
	Model          string          `json:"model,omitempty"`
	Effort         string          `json:"effort,omitempty"`
}

func (th *thread) RunTurn(ctx context.Context, p agent.TurnParams) (agent.Turn, error) {
	const method = "turn/start"
	limited := th.conn.stage() != stageCodex
	if limited && p.Permissions != "" && p.SandboxPolicy == nil {
		return agent.Turn{}, incompatible(method, "only codex knows permission profiles")
	}
	t, err := th.begin(p)
	if err != nil {
		return agent.Turn{}, err
	}
	title := ""
	if limited {
		title = th.titleOfTurns()
		p.Permissions = ""
	}
	if p.Permissions != "" {
		p.SandboxPolicy = nil // codex accepts either, not both
	}
	if len(p.Items) == 0 {
		p.Items = []agent.Input{{Type: "text", Text: p.Input}}
	}
	_, err = th.conn.Request(ctx, &wire.Call{
		Method:   method,
		Answered: func(m *wire.Message) { th.turnAnswered(t, m) },
		Params: turnRequest{
			ThreadID:       th.ThreadID(),
			Title:          title,
			Input:          p.Items,
			Model:          p.Model,
			Effort:         p.Effort,
			Cwd:            p.Cwd,
			ApprovalPolicy: p.ApprovalPolicy,
			SandboxPolicy:  p.SandboxPolicy,
			Permissions:    p.Permissions,
		},
	})
	if err != nil {
		return th.result(t, responseError(method, err))
	}
	return th.result(t, th.awaitEnd(ctx, t))
}

// result returns how a turn ended. err is the reason why nobody waits for its end any more.
func (th *thread) result(t *turn, err error) (agent.Turn, error) {
	th.mu.Lock()
	out := agent.Turn{ID: t.id, Status: t.status, LastMessage: t.lastText}
	failure := t.failure
	th.mu.Unlock()
	if out.Status == "" { // the turn stays th.turn, so that Interrupt finds it
		t.cancel()
		th.conn.Emit(agent.Event{
			Name:     agent.EventTurnEndedWithError,
			ThreadID: th.ThreadID(),
			TurnID:   out.ID,
			Message:  err.Error(),
		})
	}
	th.conn.Flush()
	switch {
	case failure != nil:
		return out, failure
	case out.Status == "":
		return out, err
	case out.Status != statusCompleted:
		return out, th.endError(t)
	}
	return out, nil
}

// begin makes a turn and sets it as the running turn.
func (th *thread) begin(p agent.TurnParams) (*turn, error) {
	th.mu.Lock()
	defer th.mu.Unlock()
	switch {
	case th.id == "":
		return nil, errors.New("turn/start: no thread was started")
	case th.turn != nil:
		return nil, errors.New("turn/start: a turn is still running")
	}
	t := &turn{
		TurnClock: wire.NewTurnClock(th.o),
		answered:  make(chan struct{}),
		failed:    make(chan struct{}),
		ended:     make(chan struct{}),
		commands:  make(map[string]bool),
	}
	t.ctx, t.cancel = context.WithCancel(th.life)
	th.turn = t
	th.params = p
	th.patches = make(map[string][]agent.FileChange)
	return t, nil
}

// turnAnswered handles the answer to turn/start, which names the turn's id. The reader calls
// it.
func (th *thread) turnAnswered(t *turn, m *wire.Message) {
	defer close(t.answered)
	th.mu.Lock()
	if m.Error != nil {
		th.turn = nil
		th.mu.Unlock()
		return
	}
	t.id = wire.Read[origin](m.Result).turnID()
	thread := th.id
	id := t.id
	th.mu.Unlock()
	// The session id of specification 4.2: both ids with a hyphen.
	th.conn.Emit(agent.Event{
		Name:     agent.EventSessionStarted,
		ThreadID: thread,
		TurnID:   id,
		Message:  "session " + thread + "-" + id,
	})
}

// awaitEnd waits for the end of a turn. An error is the reason why it stopped waiting.
func (th *thread) awaitEnd(ctx context.Context, t *turn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, late := th.check(t)
		if late != nil {
			return late
		}
		timer.Reset(next)
		select {
		case <-t.ended:
			return nil
		case <-t.failed:
			// codex got its answer, but the model would go on.
			return th.Interrupt(ctx)
		case <-th.conn.Ended:
			return th.conn.Failure()
		case <-ctx.Done():
			return fmt.Errorf("turn: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// fail makes the running turn end with an error, regardless of the status that codex reports.
// Only the first error is kept.
func (th *thread) fail(code agent.Code, text string) {
	th.mu.Lock()
	defer th.mu.Unlock()
	if t := th.turn; t != nil && t.failure == nil {
		t.failure = &agent.Error{Code: code, Message: wire.Short(text, wire.ErrorLength)}
		close(t.failed)
	}
}

// endError returns the error of a turn that ended without success.
func (th *thread) endError(t *turn) error {
	cause := cmp.Or(t.err, t.retry, &turnError{})
	if t.status == statusInterrupted {
		return &agent.Error{
			Code:    agent.CodeTurnCancelled,
			Message: wire.Short(wire.Join("the turn was interrupted", errorText(cause)), wire.ErrorLength),
		}
	}
	text := cmp.Or(wire.Short(errorText(cause), wire.ErrorLength), "the turn ended as "+wire.Short(t.status, 40))
	return &agent.Error{Code: cmp.Or(cause.class(), agent.CodeTurnFailed), Message: text}
}

func (th *thread) Steer(ctx context.Context, input []agent.Input) error {
	t := th.current()
	if t == nil {
		return agent.ErrNoTurn
	}
	const method = "turn/steer"
	select {
	case <-t.answered: // before, the id is not known
	case <-t.ended:
		return agent.ErrNoTurn
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
	th.mu.Lock()
	params := object{"threadId": th.id, "expectedTurnId": t.id, "input": input}
	th.mu.Unlock()
	_, err := th.conn.Request(ctx, &wire.Call{Method: method, Params: params})
	if err != nil && th.current() != t {
		return agent.ErrNoTurn
	}
	return responseError(method, err)
}

// Interrupt implements agent.Session. A running shell command goes on until codex exits.
func (th *thread) Interrupt(ctx context.Context) error {
	const method = "turn/interrupt"
	t := th.current()
	if t == nil {
		return nil
	}
	_ = th.await(ctx, t, t.answered) // if there is no answer, the id may be known from turn/started
	th.mu.Lock()
	params := object{"threadId": th.id, "turnId": t.id}
	th.mu.Unlock()
	_, err := th.conn.Request(ctx, &wire.Call{Method: method, Params: params})
	if err != nil {
		err = responseError(method, err)
	} else {
		err = th.await(ctx, t, t.ended)
	}
	if th.current() != t { // the turn ended
		th.conn.Flush()
		return nil
	}
	return err
}

// await waits until the channel is closed, or the turn ends.
func (th *thread) await(ctx context.Context, t *turn, what <-chan struct{}) error {
	select {
	case <-what:
	case <-t.ended:
	case <-th.conn.Ended:
		return th.conn.Failure()
	case <-ctx.Done():
		return fmt.Errorf("turn/interrupt: %w", ctx.Err())
	case <-time.After(th.o.ReadTimeout):
		text := fmt.Sprintf("the turn did not end within %v of turn/interrupt", th.o.ReadTimeout)
		return &agent.Error{Code: agent.CodeResponseTimeout, Message: text}
	}
	return nil
}

// is reports whether a message can belong to the turn: it names that turn or none, or the
// turn's id is not known yet.
func (t *turn) is(o *origin) bool { return o.turnID() == "" || t.id == "" || o.turnID() == t.id }

// turnStarted sets the id of the running turn if the answer to turn/start did not name it.
func (th *thread) turnStarted(o *origin) {
	ours := th.isOurs(o)
	th.mu.Lock()
	defer th.mu.Unlock()
	if th.turn != nil && ours {
		th.turn.id = cmp.Or(th.turn.id, o.turnID())
	}
}

// turnEnded handles the end of a turn. It ends the running turn only if that is the turn. The
// event is delivered before RunTurn returns.
func (th *thread) turnEnded(method string, p *turnEnded, e agent.Event) {
	ours := th.isOurs(p.from())
	th.mu.Lock()
	t := th.turn
	ours = ours && t != nil && t.is(p.from())
	th.mu.Unlock()
	if !ours {
		th.conn.Emit(e)
		return
	}
	status, err := p.ending(method)
	names := map[string]string{
		statusCompleted:   agent.EventTurnCompleted,
		statusFailed:      agent.EventTurnFailed,
		statusInterrupted: agent.EventTurnCancelled,
	}
	used := th.usage.Usage()
	e.Name = cmp.Or(names[status], agent.EventTurnEndedWithError)
	e.Usage = &used
	th.conn.Emit(e)
	th.mu.Lock()
	defer th.mu.Unlock()
	t.status = status
	t.err = err
	t.id = cmp.Or(t.id, p.turnID())
	for _, item := range p.Turn.Items {
		if item.Type == "agentMessage" && item.Text != "" {
			t.lastText = item.Text
		}
	}
	th.turn = nil
	t.cancel()
	close(t.ended)
}

// sawItem records the start or end of an item. Items of sub-agents belong to the running turn;
// a command that an earlier turn left behind does not.
func (th *thread) sawItem(o *origin, i *agent.Item) {
	var pending []agent.FileChange
	if i.Kind == agent.ItemFileChange && !i.Ended {
		pending = i.Changes
	}
	th.sawPatch(o, i.ID, pending)
	ours := th.isOurs(o)
	th.mu.Lock()
	defer th.mu.Unlock()
	t := th.turn
	if t == nil || ours && !t.is(o) {
		return
	}
	if i.Kind == agent.ItemCommand && !i.Ended {
		t.commands[i.ID] = true
	} else {
		delete(t.commands, i.ID)
	}
	if i.Kind == agent.ItemMessage && i.Ended && i.Text != "" && ours {
		t.lastText = i.Text
	}
}

// sawPatch records the changes that an item is about to make, nil when it ended.
func (th *thread) sawPatch(o *origin, item string, changes []agent.FileChange) {
	th.mu.Lock()
	defer th.mu.Unlock()
	key := o.threadID() + "/" + item
	if changes == nil {
		delete(th.patches, key)
		return
	}
	th.patches[key] = changes
}

// patch returns the file changes that the item of a request is about to make.
func (th *thread) patch(o *origin) []agent.FileChange {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.patches[o.threadID()+"/"+o.itemID()]
}

// workplace returns where the latest turn works.
func (th *thread) workplace() workplace {
	th.mu.Lock()
	turn := th.params
	th.mu.Unlock()
	return newWorkplace(turn)
}
