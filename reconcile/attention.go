package reconcile

import (
	"fmt"
	"time"
)

// AttentionKind says what a person is told of.
type AttentionKind string

// The kinds of Attention.
const (
	AttentionRequest AttentionKind = "request" // an agent asks for something
	AttentionHold    AttentionKind = "hold"    // an issue is held
	AttentionBlocked AttentionKind = "blocked" // nothing can be started
)

// Attention is something that a person is told of once, by hooks.on_attention.
type Attention struct {
	// Key is what it happens once by. Alike are keys under which the same may be known already.
	Key   string
	Alike []string
	Kind  AttentionKind
	// IssueID and Identifier are empty for a blocked project.
	IssueID    string
	Identifier string
	// Ref is what an answer names: the id of a request, empty for the others.
	Ref  string
	Text string
	At   time.Time
}

// outagePatience is how long the tracker's fault must have lasted to be worth a person's attention: most are over
// before anybody could look.
const outagePatience = 5 * time.Minute

// HoldAttention tells of a claim that has become held.
func HoldAttention(c Claim) Attention {
	return Attention{
		Key:  fmt.Sprintf("hold:%s:%d", c.IssueID, c.HeldAt.UnixMilli()),
		Kind: AttentionHold, IssueID: c.IssueID, Identifier: c.Identifier,
		Text: fmt.Sprintf("%s is held (%s): %s", c.Identifier, c.HoldReason, c.HoldText()), At: c.HeldAt,
	}
}

// BlockAttention tells of a block of the agents' or this machine's side. One that turns into another is news.
func BlockAttention(b Block) Attention { return blocked(b, b.Code) }

// OutageAttention tells of a fault of the tracker's that has lasted for a while, whatever form it takes meanwhile;
// false where it has not.
func OutageAttention(b Block, now time.Time) (Attention, bool) {
	a := blocked(b, "tracker")
	a.At = now
	return a, now.Sub(b.Since) >= outagePatience
}

// resetSlack is by how much codex's word on when an allowance comes back may differ from one report to the next.
const resetSlack = 15 * time.Minute

// LimitAttention tells of an allowance that is used up. It is the same one as long as it comes back at about the same
// time, whatever hour that is nearest to.
func LimitAttention(l Limit, home string, now time.Time) Attention {
	at := func(until time.Time) Attention {
		return blocked(Block{Code: CodeAgentQuota, Message: l.Text(home, now), Since: until.Round(time.Hour)}, CodeAgentQuota)
	}
	a := at(l.Until)
	a.At = now
	a.Alike = []string{at(l.Until.Add(-resetSlack)).Key, at(l.Until.Add(resetSlack)).Key}
	return a
}

func blocked(b Block, name string) Attention {
	return Attention{
		Key:  fmt.Sprintf("blocked:%s:%d", name, b.Since.UnixMilli()),
		Kind: AttentionBlocked, Text: fmt.Sprintf("nothing is started: %s: %s", b.Code, b.Message), At: b.Since,
	}
}
