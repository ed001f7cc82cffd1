package operate

import (
	"context"
	"crypto/rand"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	tellPatience = 3 * time.Second // for the worker to tell a running agent
	tellStep     = 100 * time.Millisecond
)

// ToldJSON is a message to an agent, as tell prints it with --json. It has no told_at while it
// waits.
type ToldJSON struct {
	Message reconcile.Message `json:"message"`
}

// tell stores a message for the agent of an issue. A running agent gets it in its turn,
// otherwise the next run does.
func (o *operation) tell(ctx context.Context) error {
	name := o.cmd.Identifier
	said := strings.TrimSpace(strings.ReplaceAll(o.asked.Text, "\r\n", "\n"))
	if said == "" || len(said) > reconcile.MaxMessage {
		return exit.Usage(
			"tell: TEXT has %d bytes, and must have from 1 to %d; the description of the issue reaches the agent, too",
			len(said),
			reconcile.MaxMessage,
		)
	}
	m := reconcile.Message{
		ID:         rand.Text(),
		IssueID:    o.cmd.IssueID,
		Identifier: name,
		At:         o.p.Env.Now().UTC(),
	}
	m.Text = said
	c, claimed, err := o.db.Views.ClaimByIssue(ctx, m.IssueID)
	if err == nil && !claimed {
		err = o.mayRun(ctx)
	}
	if err == nil {
		m.By, err = Account()
	}
	if err == nil {
		err = o.db.Operator.AddMessage(ctx, m)
	}
	if err == nil && c.Status == reconcile.Running {
		m, err = o.waitUntilTold(ctx, m, c.RunID)
	}
	o.result.Applied = true
	o.result.Told = &ToldJSON{m}
	switch {
	case !m.ToldAt.IsZero():
		o.result.Effect = []string{"told the agent of " + name}
	case c.Status == reconcile.Running:
		o.result.Effect = []string{
			"stored: the agent of " + name + " gets it as soon as it takes input, or with its next turn",
		}
	default:
		o.result.Effect = []string{"stored: the next run of " + name + " gets it"}
		if c.Status == reconcile.Held {
			o.result.Effect = append(
				o.result.Effect,
				name+" is held: symphony retry "+name+" starts that run",
			)
		}
	}
	return err
}

// Account is the name of the operator's account.
func Account() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("the name of this account: %w", err)
	}
	return u.Username, nil
}

// mayRun returns an error if no run of an unclaimed issue can start.
func (o *operation) mayRun(ctx context.Context) error {
	cfg, err := o.p.ConfigWithoutKey()
	if err != nil {
		return err
	}
	issue, err := wiring.FetchIssue(ctx, o.p, o.cmd.IssueID)
	if err != nil || cfg.Policy.Active(issue.State) {
		return err
	}
	return reconcile.NewError(
		"no_agent",
		fmt.Sprintf("no agent works on %s in the state %q", o.cmd.Identifier, issue.State),
		"write it in the tracker, or move the issue to "+strings.Join(
			cfg.Policy.ActiveStates,
			" or ",
		)+" first",
	)
}

// waitUntilTold waits a little until the agent of a run has got a message.
func (o *operation) waitUntilTold(
	ctx context.Context,
	m reconcile.Message,
	runID string,
) (reconcile.Message, error) {
	for end := o.p.Env.Now().Add(tellPatience); ; {
		// checked first: it may tell and end before the next line
		alive := wiring.Alive(o.p.StateDir, runID)
		list, err := o.db.Views.MessagesOf(ctx, m.IssueID, false, reconcile.MaxMessages)
		is := text.First(list, func(one reconcile.Message) bool { return one.ID == m.ID })
		m.RunID = is.RunID
		m.ToldAt = is.ToldAt
		if err != nil || !m.ToldAt.IsZero() || !alive || o.p.Env.Now().After(end) ||
			!wiring.Sleep(ctx, tellStep) {
			return m, err
		}
	}
}
