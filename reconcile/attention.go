package reconcile

import (
	"fmt"
	"time"
)

// AttentionKind says what a notification is about.
type AttentionKind string

// The kinds of Attention.
const (
	AttentionRequest AttentionKind = "request" // an agent asks for something
	AttentionHold    AttentionKind = "hold"    // an issue is held
	AttentionBlocked AttentionKind = "blocked" // nothing can be started
)

// Attention is a notification, sent once by hooks.on_attention.
type Attention struct {
	Key  string   // identifies it, so that it is sent once
	Like []string // keys of notifications that say the same; after one of them it is not sent
	Kind AttentionKind
	// IssueID and Identifier are empty for a blocked project.
	IssueID, Identifier string
	Ref                 string // what an answer names: the id of a request, empty for the others
	Text                string
	At                  time.Time
}

// outagePatience is how long a fault of the tracker must last before it is notified: most are shorter.
const outagePatience = 5 * time.Minute

// HoldAttention is the notification of a held claim.
func HoldAttention(c Claim) Attention {
	return Attention{
		Key:  fmt.Sprintf("hold:%s:%d", c.IssueID, c.HeldAt.UnixMilli()),
		Kind: AttentionHold, IssueID: c.IssueID, Identifier: c.Identifier,
		Text: fmt.Sprintf("%s is held (%s): %s", c.Identifier, c.HoldReason, c.HoldText()), At: c.HeldAt,
	}
}

// BlockAttention is the notification of a block by the agent or this machine. A block with another code is another one.
func BlockAttention(b Block) Attention { return blocked(b, b.Code) }

// OutageAttention is the notification of a fault of the tracker, whatever its code; false until it has lasted for a while.
func OutageAttention(b Block, now time.Time) (Attention, bool) {
	a := blocked(b, "tracker")
	a.At = now
	return a, now.Sub(b.Since) >= outagePatience
}

// LimitAttention is the notification of an allowance that is used up. Limits that end within half an hour are the same:
// codex's word on when an allowance comes back differs a little from one report to the next.
func LimitAttention(l Limit, home string, now time.Time) Attention {
	endingAt := func(t time.Time) Attention {
		return blocked(Block{Code: CodeAgentQuota, Message: l.Text(home, now), Since: t.Round(time.Hour)}, CodeAgentQuota)
	}
	a := endingAt(l.Until)
	a.At = now
	for _, apart := range []time.Duration{-30 * time.Minute, 30 * time.Minute} {
		a.Like = append(a.Like, endingAt(l.Until.Add(apart)).Key)
	}
	return a
}

func blocked(b Block, name string) Attention {
	return Attention{
		Key:  fmt.Sprintf("blocked:%s:%d", name, b.Since.UnixMilli()),
		Kind: AttentionBlocked, Text: fmt.Sprintf("nothing is started: %s: %s", b.Code, b.Message), At: b.Since,
	}
}
