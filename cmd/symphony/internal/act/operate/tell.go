package operate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	tellPatience = 8 * time.Second // for the worker to tell a running agent
	tellStep     = 100 * time.Millisecond
)

// ToldJSON is a message to an agent, as tell prints it with --json. While the message waits,
// told_at is left out.
type ToldJSON struct {
	Message reconcile.Message `json:"message"`
}

// Message tells the agent of an issue something.
type Message struct {
	single
	Issue string
	Text  string
}

// Name implements Command.
func (Message) Name() reconcile.Verb { return VerbTell }

// About implements Command.
func (c Message) About(name string) Command {
	c.Issue = name
	return c
}

func (c Message) do(ctx context.Context, p *wiring.Project, runPass passRunner) (Done, error) {
	var told reconcile.Message
	o := newOperation(p, reconcile.Command{Verb: VerbTell}, runPass)
	err := o.carryOut(ctx, c.Issue, func() (err error) {
		told, err = o.tell(ctx, c.Text)
		return err
	})
	return Done{o.result, ToldJSON{told}}, err
}

// tell stores a message for the agent of an issue. A running agent gets it in its turn,
// otherwise the next run does.
func (o *operation) tell(ctx context.Context, said string) (reconcile.Message, error) {
	name := o.command.Identifier
	said, err := messageText(said)
	if err != nil {
		return reconcile.Message{}, exit.Usage(
			"tell: %v; the description of the issue reaches the agent, too", err)
	}
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, o.command.IssueID)
	if err != nil {
		return reconcile.Message{}, err
	}
	if !claimed {
		if err := o.mayRun(ctx); err != nil {
			return reconcile.Message{}, err
		}
	}
	m, err := o.addMessage(ctx, name, said)
	if err != nil {
		return m, err
	}
	o.result.Applied = true
	if c.Status == reconcile.Running {
		m, err = o.waitUntilTold(ctx, m, c.RunID)
		if err != nil {
			return m, err
		}
	}
	switch {
	case !m.ToldAt.IsZero():
		o.result.Effect = []string{"told the agent of " + name}
	case c.Status == reconcile.Running:
		o.result.Effect = []string{
			"stored: the agent of " + name + " gets it as soon as it takes input, or with its next turn",
		}
	case c.NeedsHelp():
		o.result.Effect = []string{
			"stored: the next run of " + name + " gets it",
			name + " needs help: symphony send-back " + name + " TEXT, or a move to an active state, starts that run",
		}
	case c.Status == reconcile.Held:
		o.result.Effect = []string{
			"stored: the next run of " + name + " gets it",
			name + " is held: " + c.HoldEnds(),
		}
	default:
		o.result.Effect = []string{"stored: the next run of " + name + " gets it"}
	}
	return m, nil
}

// messageText returns a text for an agent without the blanks around it, and with the line ends
// of Unix. It fails if the text is empty or too long.
func messageText(said string) (string, error) {
	said = strings.TrimSpace(strings.ReplaceAll(said, "\r\n", "\n"))
	if said == "" {
		return "", errors.New("the TEXT is empty")
	}
	if len(said) > reconcile.MaxMessage {
		return "", fmt.Errorf("TEXT has %d bytes, and must have from 1 to %d", len(said), reconcile.MaxMessage)
	}
	return said, nil
}

// addMessage stores a message of this account for the next turn of the issue's agents.
func (o *operation) addMessage(ctx context.Context, identifier, said string) (reconcile.Message, error) {
	m := reconcile.Message{
		ID:         rand.Text(),
		IssueID:    o.command.IssueID,
		Identifier: identifier,
		At:         o.p.Env.Now().UTC(),
		Words:      reconcile.Words{By: Account(), Text: said},
	}
	return m, o.db.Operator.AddMessage(ctx, m)
}

// Account is the name of the operator's account, or its number if the machine knows no name for it.
func Account() string {
	u, err := user.Current()
	if err != nil {
		return strconv.Itoa(os.Getuid())
	}
	return u.Username
}

// mayRun returns an error if no run of an unclaimed issue can start.
func (o *operation) mayRun(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	issue, err := wiring.FetchIssue(ctx, o.p, o.command.IssueID)
	if err != nil {
		return err
	}
	if cfg.Policy.Active(issue.State) {
		return nil
	}
	inReview, err := isInReview(ctx, o.db, issue.ID)
	if err != nil {
		return err
	}
	refused := reconcile.NewError(
		"no_agent",
		fmt.Sprintf("no agent works on %s in the state %q", o.command.Identifier, issue.State),
		"write it in the tracker, or move the issue to "+strings.Join(cfg.Policy.ActiveStates, " or ")+" first",
	)
	if inReview {
		return refused.WithHint("%s lets an agent go on with it", sendBackWith(o.command.Identifier))
	}
	return refused
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
