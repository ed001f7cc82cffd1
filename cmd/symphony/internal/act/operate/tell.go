package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

const (
	tellPatience = 8 * time.Second // for the worker to tell a running agent
	tellStep     = 100 * time.Millisecond
)

// Tell says something to the agent of an issue. The status of the issue decides how: it answers
// its question, becomes a message to the present or next agent, or a comment with which the issue
// goes back to an agent.
type Tell struct {
	single
	Issue string // or a request, such as ABC-7.3
	// Texts or Choices answer the questions of a request in their order. Otherwise there is one text.
	Texts   []string
	Choices []int
	// FromModel: a model says it for the account, and answers no question.
	FromModel bool
	// Becomes is what the person was told that the text becomes, BecomesComment or BecomesMessage. If it
	// would become something else now, nothing is said. Empty if the person was told nothing.
	Becomes string
}

// What a text for the agent of an issue becomes.
const (
	BecomesComment = "comment" // on the issue, which goes back to an agent
	BecomesMessage = "message" // for the present or the next agent
)

// Name implements Command.
func (Tell) Name() reconcile.Verb { return VerbTell }

// About implements Command.
func (c Tell) About(name string) Command {
	c.Issue = name
	return c
}

// ToldJSON is what tell has done, as it prints it with --json. One of the fields is there.
type ToldJSON struct {
	// Answered is the request that was answered, without the answer.
	Answered *requests.Decided `json:"answered,omitempty"`
	// Message is for the present or the next agent. While it waits, told_at is left out.
	Message *reconcile.Message `json:"message,omitempty"`
	// Moved is the order with which the issue goes back to an agent.
	Moved *reconcile.MoveOrder `json:"moved,omitempty"`
}

func (c Tell) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	nothing := Done{Result: Result{Verb: VerbTell}}
	question, asked, err := Question(ctx, p, c.Issue)
	if err != nil {
		return nothing, err
	}
	isNamed := strings.EqualFold(c.Issue, question.ID())
	if asked && c.Becomes != "" && !isNamed {
		return nothing, textChanged(question.Identifier, "an answer")
	}
	if asked {
		return c.answer(ctx, p, question)
	}
	if isNamed && !question.Open() {
		return nothing, exit.From(state.RequestEnded(question)).
			WithHint("%s reaches its agent", tellWith(question.Identifier))
	}
	if len(c.Choices) > 0 {
		return nothing, exit.Usage("tell: %s asks no question, so --choice has no options", c.Issue)
	}
	issue := cmp.Or(question.Identifier, c.Issue)
	var told ToldJSON
	o := newOperation(p, reconcile.Command{Verb: VerbTell}, runPass)
	err = o.carryOut(ctx, issue, func() (err error) {
		told, err = o.tell(ctx, c)
		return err
	})
	return Done{o.result, told}, err
}

// answer answers a question.
func (c Tell) answer(ctx context.Context, p *wiring.Project, question reconcile.Request) (Done, error) {
	if err := c.CheckSecret(question); err != nil {
		return Done{Result: Result{Verb: VerbTell}}, err
	}
	if c.FromModel {
		return Done{Result: Result{Verb: VerbTell}}, reconcile.NewError("not_possible",
			question.ID()+" is an open question: decide_request answers it, if you may", "").
			WithHint("your user answers it: %s", tellWith(question.ID()))
	}
	d := Decision{
		Request:  question.ID(),
		Decision: requests.Decision{How: reconcile.DecideAnswer, Texts: c.Texts, Choices: c.Choices},
	}
	done, err := d.do(ctx, p, nil)
	done.Verb = VerbTell
	if decided, ok := done.Document.(requests.JSON); ok {
		done.Document = ToldJSON{Answered: &decided.Request}
	}
	return done, err
}

// CheckSecret refuses the answer to a secret question without the name of its request. By the name of
// the issue it could become a comment, if the question ends in between.
func (c Tell) CheckSecret(r reconcile.Request) error {
	isNamed := strings.EqualFold(c.Issue, r.ID())
	if !r.Secret() || len(c.Texts) == 0 || isNamed {
		return nil
	}
	const message = "tell: the answer to %s is secret: name that request, so that the text can become nothing else"
	return exit.Usage(message, r.ID())
}

// Question returns the question that a reference to a request or to an issue means. asked is false
// if it means none; then r is the request for an approval that it names, if it names one. Error:
// usage if an issue has several open questions, which it lists.
func Question(ctx context.Context, p *wiring.Project, ref string) (r reconcile.Request, asked bool, err error) {
	if !p.HasState() {
		return r, false, nil
	}
	db, err := requests.Open(ctx, p)
	if err != nil {
		return r, false, err
	}
	defer db.Close()
	_, name, known, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return r, false, err
	}
	identifier, number := reconcile.RequestRef(ref)
	if !known && number > 0 {
		r, err = db.Views.FindRequest(ctx, identifier, number)
		if err == nil || !errors.Is(err, state.ErrNotFound) {
			return r, r.Kind == reconcile.QuestionRequest, err
		}
	}
	open, err := view.OpenRequests(ctx, p, db)
	if err != nil {
		return r, false, err
	}
	open = text.Filter(open, func(r reconcile.Request) bool {
		return known && r.Identifier == name && r.Kind == reconcile.QuestionRequest
	})
	switch len(open) {
	case 0:
		return reconcile.Request{}, false, nil
	case 1:
		return open[0], true, nil
	}
	names := text.Map(open, func(r reconcile.Request) string { return r.ID() + " (" + text.OneLine(r.Summary) + ")" })
	return r, false, exit.Usage("tell: %s asks several questions; name one: %s", name, strings.Join(names, ", "))
}

// tell says something to the agent of an issue that asks nothing.
func (o *operation) tell(ctx context.Context, order Tell) (told ToldJSON, err error) {
	said, err := messageText(strings.Join(order.Texts, "\n\n"))
	if err != nil {
		return told, exit.Usage("tell: %v", err)
	}
	words := reconcile.Words{By: order.by(o.p.Env), Text: said}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil {
		return told, err
	}
	inReview, err := isInReview(ctx, o.db, o.command.IssueID)
	if err != nil {
		return told, err
	}
	becomes := BecomesMessage
	if claimed && goesBack(c) || !claimed && inReview {
		becomes = BecomesComment
	}
	switch {
	case order.Becomes != "" && order.Becomes != becomes:
		return told, textChanged(o.command.Identifier, "a "+becomes)
	case becomes == BecomesComment:
		return o.sendBack(ctx, c, words)
	case !claimed:
		if err := o.mayRun(ctx); err != nil {
			return told, err
		}
	}
	if err := o.readWait(ctx); err != nil {
		return told, err
	}
	m, err := o.addMessage(ctx, o.command.Identifier, words)
	if err != nil {
		return told, err
	}
	o.result.Applied = true
	if c.Status != reconcile.Running {
		o.result.Effect = []string{o.kept(c, m)}
		return ToldJSON{Message: &m}, nil
	}
	m, err = o.waitUntilTold(ctx, m, c.RunID)
	if err != nil {
		return told, err
	}
	effect := o.kept(c, m)
	asked, err := o.asked(ctx, c.RunID)
	if err == nil && asked.RunID != "" && !order.FromModel { // a text decides no approval
		effect += "; it still waits for you: " + view.HowToAnswer(asked)
	}
	o.result.Effect = []string{effect}
	return ToldJSON{Message: &m}, nil // it is stored, whatever else can't be read
}

// by is who says it, as the agent and the readers of a comment see it.
func (c Tell) by(env *environ.Env) string {
	if c.FromModel {
		return "a model, for " + Account(env)
	}
	return Account(env)
}

// textChanged is the error for a text that would not become what the person was told.
func textChanged(name, becomes string) error {
	return reconcile.NewError("status_changed",
		"the status of "+name+" has changed meanwhile: the text would become "+becomes+", and was not written", "").
		WithHint("%s shows where it is; then repeat the command", reconcile.CommandFor("show", name))
}

// TellRow returns the row of an issue. Its method Becomes says what a text for the agent becomes.
func TellRow(ctx context.Context, p *wiring.Project, ref string) (row Row, identifier string, err error) {
	v, err := detail.Read(ctx, p, ref, detail.Options{Offline: true, Brief: true})
	if err != nil {
		return row, "", err
	}
	return RowOfIssue(v), v.Issue.Identifier, nil
}

// goesBack reports whether a text for the agent of a claim becomes a comment, with which the issue
// goes back to it: the issue is held, and not by an operator, who knows why.
func goesBack(c reconcile.Claim) bool {
	return c.Status == reconcile.Held && c.HoldReason != reconcile.HoldOperator
}

// readWait reads why the next run of the issue may have to wait.
func (o *operation) readWait(ctx context.Context) error {
	now, err := o.db.Views.StateOf(ctx, o.command.IssueID)
	if err != nil {
		return err
	}
	o.isPaused = now.Paused
	skip, _, err := o.db.Views.SkipOf(ctx, o.command.IssueID)
	o.skip = skip.Skip
	return err
}

// kept says who gets a message, and when.
func (o *operation) kept(c reconcile.Claim, m reconcile.Message) string {
	name := m.Identifier
	next := "kept: the next run of " + name + " gets it"
	switch {
	case !m.ToldAt.IsZero():
		return "told the agent of " + name
	case c.Status == reconcile.Running:
		return "kept: the agent of " + name + " gets it as soon as it takes input, or with its next turn"
	case c.Status == reconcile.Held:
		return next + "; " + c.HoldText()
	}
	if o.isPaused {
		return next + "; the project is paused: symphony resume ends that"
	}
	if c.ErrorCode != "" || c.Delivery.Code != "" {
		code, message := c.Fault()
		return next + "; it waits because of " + code + ": " + text.OneLine(message)
	}
	if o.skip.Message != "" {
		return next + "; it waits: " + o.skip.Message
	}
	return next
}

// sendBack sends an issue back to an agent, with a text that becomes a comment on it. The claim is
// empty if there is none.
func (o *operation) sendBack(ctx context.Context, c reconcile.Claim, words reconcile.Words) (told ToldJSON, err error) {
	t, err := o.askTracker(ctx)
	if err != nil {
		return told, err
	}
	if c.IssueID == "" && t.policy.Active(t.issue.State) { // someone has moved it back already
		m, err := o.addMessage(ctx, o.command.Identifier, words)
		o.result.Applied = err == nil
		o.result.Effect = []string{o.kept(c, m)}
		return ToldJSON{Message: &m}, err
	}
	if t.policy.Terminal(t.issue.State) {
		return told, t.inactive()
	}
	back := t.issue.State
	if !t.policy.Active(back) {
		back = t.policy.BackState(t.cfg.Feedback)
		if err := t.mustMove(back, "not_possible"); err != nil {
			return told, err
		}
	}
	if err := t.mayWork(back); err != nil {
		return told, err
	}
	order, err := o.newMove(ctx, t.issue, back, words)
	if err != nil {
		return told, err
	}
	order.NoComment = t.tracker.Post == nil
	if err := o.move(ctx, order); err != nil {
		return told, err
	}
	alive, err := wiring.ScheduleAlive(ctx, o.db, o.p.Env.Now())
	o.result.Unscheduled = !alive && !wiring.Looping(o.p.StateDir)
	order.Moved = o.result.Applied
	return ToldJSON{Moved: &order}, err
}

// messageText returns a text for an agent without the blanks around it, and with the line ends
// of Unix. It fails if the text is empty or too long.
func messageText(said string) (string, error) {
	said = strings.TrimSpace(strings.ReplaceAll(said, "\r\n", "\n"))
	if said == "" {
		return "", errors.New("the TEXT is empty")
	}
	if len(said) > reconcile.MaxMessage {
		return "", fmt.Errorf("TEXT has %d bytes, and may have %d; the description of the issue reaches the agent, too",
			len(said), reconcile.MaxMessage)
	}
	return said, nil
}

// addMessage stores a message of this account for the next turn of the issue's agents.
func (o *operation) addMessage(ctx context.Context, identifier string, words reconcile.Words) (reconcile.Message, error) {
	m := reconcile.Message{
		ID:         rand.Text(),
		IssueID:    o.command.IssueID,
		Identifier: identifier,
		At:         o.p.Env.Now().UTC(),
		Words:      words,
	}
	return m, o.db.Operator.AddMessage(ctx, m)
}

// Account names the operator: "Ann Miller (ann)", or ann if the machine knows no other name. With sudo that is
// who has called it, and not the account of symphony.
func Account(env *environ.Env) string {
	if u, err := user.Lookup(env.Getenv("SUDO_USER")); err == nil && u.Uid != "0" {
		return personOf(u)
	}
	u, err := user.Current()
	if err != nil {
		return strconv.Itoa(os.Getuid())
	}
	return personOf(u)
}

func personOf(u *user.User) string {
	if u.Name == "" || u.Name == u.Username {
		return u.Username
	}
	return text.Visible(u.Name) + " (" + u.Username + ")"
}

// mayRun returns an error if no run of an unclaimed issue can start.
func (o *operation) mayRun(ctx context.Context) error {
	t, err := o.askTracker(ctx)
	if err != nil {
		return err
	}
	if t.policy.Active(t.issue.State) {
		return t.mayWork(t.issue.State)
	}
	return t.inactive()
}

// waitUntilTold waits a little until the agent of a run gets a message.
func (o *operation) waitUntilTold(
	ctx context.Context,
	m reconcile.Message,
	runID string,
) (reconcile.Message, error) {
	for end := o.p.Env.Now().Add(tellPatience); ; {
		// checked first: it may tell and end before the next line
		alive := wiring.Alive(o.p.StateDir, runID)
		list, err := o.db.Views.Messages(ctx, m.IssueID, reconcile.MaxMessages)
		if err != nil {
			return m, err
		}
		is := text.First(list, func(one reconcile.Message) bool { return one.ID == m.ID })
		m.RunID = is.RunID
		m.ToldAt = is.ToldAt
		if !m.ToldAt.IsZero() || !alive || o.p.Env.Now().After(end) {
			return m, nil
		}
		if !wiring.Sleep(ctx, tellStep) {
			return m, nil
		}
	}
}
