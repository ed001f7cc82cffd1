package runner

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// spentGrace is how long a turn goes on that has crossed agent.max_tokens: codex counts a model call just before it ends
// the turn by it, and a turn that ends by itself is done.
const spentGrace = 500 * time.Millisecond

// errSpent: the issue has used up agent.max_tokens. It is the cause of a cancelled run.
type errSpent struct{ used, most int64 }

func (e errSpent) Error() string {
	return fmt.Sprintf("%d tokens used, agent.max_tokens is %d", e.used, e.most)
}

// heedTokens ends the run whose issue has used up its tokens, in the middle of a turn if need be: what was used before
// this run counts, and what an operator's retry has forgiven since does not. The next pass holds the issue.
func (a *attempt) heedTokens(ctx context.Context, cancel context.CancelCauseFunc) {
	most := a.Config.Policy.MaxTokens
	if most <= 0 {
		return
	}
	used, err := a.Journal.IssueTokens(context.WithoutCancel(ctx), a.run.IssueID)
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "tokens of the issue not read", slog.String("error", err.Error()))
		return // the next count looks again
	}
	if used >= most && a.spent.CompareAndSwap(false, true) {
		time.AfterFunc(spentGrace, func() { cancel(errSpent{used, most}) })
	}
}
