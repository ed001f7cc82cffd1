package project

import (
	"cmp"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

type BlockedRow struct {
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	NextTry time.Time `json:"next_try"`
}

// blockedBy names the block that matters first: without a tracker nothing can be dispatched at all.
func BlockedBy(rec reconcile.State) *BlockedRow {
	b := cmp.Or(rec.TrackerBlock, rec.HostBlock, rec.AgentBlock)
	if b == nil {
		return nil
	}
	return &BlockedRow{Since: b.Since.UTC(), Reason: b.Code, Message: b.Message, NextTry: b.NextTry.UTC()}
}

// accountBlock is what of the account stops the project, as ps shows it; nil if nothing does.
func AccountBlock(a *state.Account, now time.Time) *BlockedRow {
	s, err := a.Read(now)
	switch {
	case err != nil: // it counts for nothing, and each pass says so
		return nil
	case s.Limit != nil:
		return &BlockedRow{
			Since: s.Limit.Since.UTC(), Reason: reconcile.CodeAgentQuota, Message: s.Limit.Text(a.Home, now), NextTry: s.Limit.Until.UTC(),
		}
	case s.Block != nil:
		return &BlockedRow{Since: s.Block.Since.UTC(), Reason: s.Block.Code, Message: s.Block.Message, NextTry: s.Block.NextTry.UTC()}
	}
	return nil
}

// pastRuns is how many ended runs ps --all shows unless it is told otherwise.
const PastRuns = 20
