package reconcile

import (
	"fmt"
	"strings"
	"time"
)

// AttentionKind is the subject of a notification.
type AttentionKind string

const (
	AttentionRequest AttentionKind = "request" // an agent asks for something
	AttentionHold    AttentionKind = "hold"    // an issue is held
	// an agent needs a person, and handed its issue over
	AttentionHelp    AttentionKind = "needs_help"
	AttentionBlocked AttentionKind = "blocked" // no run can start, or none on a host
	// the workspace of a finished issue contains work that exists nowhere else
	AttentionKept     AttentionKind = "kept"
	AttentionDelivery AttentionKind = "delivery" // commits could not be pushed several times
	AttentionReady    AttentionKind = "ready"    // an agent handed its issue over to a person
)

// Attention is a notification, sent once by hooks.on_attention.
type Attention struct {
	Key string // identifies the notification, so that it is sent once
	// keys of equivalent notifications: if any of them was sent, this notification is not
	Like                []string
	Kind                AttentionKind
	IssueID, Identifier string // empty for a blocked project
	Ref                 string // the id of the request to answer; empty for other notifications
	Text                string
	At                  time.Time
}

const (
	// outagePatience is how long a fault of the tracker must last before an operator is
	// notified. Most faults are shorter.
	outagePatience = 5 * time.Minute
	// attentionTries is how many deliveries in a row fail before an operator is notified.
	attentionTries = 3
)

// issueAttention is about the state of an issue since then.
func issueAttention(kind AttentionKind, issueID, identifier string, since time.Time, text string) Attention {
	return Attention{
		Key:        fmt.Sprintf("%s:%s:%d", kind, issueID, since.UnixMilli()),
		Kind:       kind,
		IssueID:    issueID,
		Identifier: identifier,
		Text:       text,
	}
}

// Attention returns the notification of the request.
func (r Request) Attention() Attention {
	text := fmt.Sprintf("%s asks: %s", r.Identifier, r.Summary)
	if r.Outside {
		text += " (runs outside the sandbox)"
	}
	return Attention{
		Key:        fmt.Sprintf("request:%s:%d", r.RunID, r.Number),
		Kind:       AttentionRequest,
		IssueID:    r.IssueID,
		Identifier: r.Identifier,
		Ref:        r.ID(),
		Text:       text,
		At:         r.AskedAt,
	}
}

// HoldAttention returns the notification of a held claim.
func HoldAttention(c Claim) Attention {
	kind := AttentionHold
	text := c.Identifier + " is held: " + c.HoldText()
	switch c.HoldReason {
	case HoldOperator: // its text begins with "held by an operator"
		text = c.Identifier + " is " + c.HoldText()
	case HoldNeedsHelp:
		kind = AttentionHelp
		text = c.Identifier + " needs help: " + c.HoldText()
	}
	a := issueAttention(kind, c.IssueID, c.Identifier, c.HeldAt, text)
	a.At = c.HeldAt
	return a
}

// BlockAttention returns the notification of a block by the agent or this machine. A block
// with another code is notified again.
func BlockAttention(b Block) Attention { return blocked(b.Code, b.Since, b) }

// HostAttention returns the notification of a block of a host: "nothing new starts on near:
// host_unreachable: no route to host". Runs on other hosts go on.
func HostAttention(host string, b Block) Attention {
	a := blocked(b.Code+" "+host, b.Since, b)
	a.Text = fmt.Sprintf("%s: %s: %s", NothingStartsOn(host), b.Code, strings.TrimPrefix(b.Message, host+": "))
	return a
}

// KeptAttention returns the notification of a finished issue's workspace that is kept because
// of unsaved work. Its storage time begins now, however long the workspace was kept before.
func KeptAttention(w Workspace) Attention {
	text := fmt.Sprintf("the workspace of %s is %s", w.Identifier, w.KeptText())
	return issueAttention(AttentionKept, w.IssueID, w.Identifier, w.KeptSince, text)
}

// DeliveryAttention returns the notification of a delivery that fails again and again; false
// before the third failure.
func DeliveryAttention(c Claim) (Attention, bool) {
	d := c.Delivery
	text := fmt.Sprintf(
		"the work on %s was not delivered after %d tries: %s: %s; symphony retry %s tries again now",
		c.Identifier,
		d.Tries,
		d.Code,
		d.Message,
		c.Identifier,
	)
	return issueAttention(AttentionDelivery, c.IssueID, c.Identifier, d.FailedAt, text), d.Due &&
		d.Tries >= attentionTries
}

// ReadyAttention returns the notification of an issue that was handed over in a state that is
// not terminal; false for other releases, such as of an issue that was archived.
func ReadyAttention(c Claim, release Release, now time.Time) (Attention, bool) {
	text := fmt.Sprintf(
		"%s was handed over: it is in %s; symphony show %s has the details",
		c.Identifier,
		release.State,
		c.Identifier,
	)
	isReady := release.Reason == StopInactive && !release.Archived
	return issueAttention(AttentionReady, c.IssueID, c.Identifier, now, text), isReady
}

// OutageAttention returns the notification of a fault of the tracker, whatever its code; false
// before it lasted 5 minutes.
func OutageAttention(b Block, now time.Time) (Attention, bool) {
	a := blocked("tracker", b.Since, b)
	a.At = now
	return a, now.Sub(b.Since) >= outagePatience
}

// LimitAttention returns the notification of an allowance that is used up. The end that an
// agent reports for an allowance varies by some minutes, so limits whose ends are less than half an
// hour apart count as the same limit and are notified once.
func LimitAttention(l Limit, home string, now time.Time) Attention {
	endsAbout := func(t time.Time) Attention {
		return blocked(CodeAgentQuota+" "+home, t.Round(time.Hour), Block{
			Code:    CodeAgentQuota,
			Message: l.Text(home, now),
			Since:   now,
		})
	}
	a := endsAbout(l.Until)
	a.Like = []string{
		endsAbout(l.Until.Add(-30 * time.Minute)).Key,
		endsAbout(l.Until.Add(30 * time.Minute)).Key,
	}
	return a
}

// AccountAttention returns the notification of an account that can't be used; false if it can.
// instead names the agent that takes over, "" if none does: then nothing new starts.
func (p Policy) AccountAttention(a Account, instead string, now time.Time) (Attention, bool) {
	var out Attention
	var why string
	switch {
	case a.Limit != nil:
		out = LimitAttention(*a.Limit, a.Home, now)
		why = CodeAgentQuota + ": " + a.Limit.Text(a.Home, now)
	case a.Block != nil:
		out = BlockAttention(*a.Block)
		out.At = now // its storage time begins now, however old the block is
		why = a.Block.Code + ": " + a.Block.Message
	default:
		return out, false
	}
	if instead != "" {
		out.Text = instead + " works in place of " + p.AgentName(a.Agent) + ": " + why
	}
	return out, true
}

// blocked returns the notification of a block, with a key made of the name and the time.
func blocked(name string, at time.Time, b Block) Attention {
	return Attention{
		Key:  fmt.Sprintf("blocked:%s:%d", name, at.UnixMilli()),
		Kind: AttentionBlocked,
		Text: fmt.Sprintf("%s: %s: %s", NothingStarts, b.Code, b.Message),
		At:   b.Since,
	}
}
