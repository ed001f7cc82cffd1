// Package words explains each reason: why an issue waits, stopped or was released, and the
// next step. Every command, view and page takes its words from here.
package words

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// Releases explain why an issue was released, or why its run is stopped, by the code of the
// reason. The clause is about the issue.
var Releases = map[string]string{
	reconcile.StopMissing:   "the tracker no longer returns it",
	reconcile.StopMoved:     "it is in another project or team of the tracker",
	reconcile.StopLabel:     "it lost a required label",
	reconcile.StopAssignee:  "it is no longer assigned as tracker.assignee asks",
	reconcile.StopProject:   "the workflow names another project",
	reconcile.StopClaim:     "another machine has taken it",
	reconcile.StopStates:    "its state is no longer in tracker.active_states: WORKFLOW.md has changed",
	reconcile.StopOperator:  "an operator holds it",
	reconcile.StopAll:       "it starts again after symphony resume",
	reconcile.SkipBlockedBy: "another issue blocks it",

	reconcile.SkipUnknownState: "WORKFLOW.md does not name its state",

	reconcile.ReleasedByPerson: "a person moved it on, and no agent had handed it over",
}

// Stopped says why a run was stopped that ended for no other reason.
func Stopped(by string) string {
	switch by {
	case reconcile.StopOperator, reconcile.StopAll:
		return "stopped by an operator"
	case reconcile.StopInactive, reconcile.StopTerminal:
		return "stopped: the issue left the active states"
	}
	return "stopped: " + cmp.Or(Releases[by], by)
}

// Wait is why a claim waits for its next run.
type Wait struct {
	Why   string // a clause about the issue
	Short string // in a row of a list that shows no error; empty if there is always an error
	Fails bool   // the error of the last run follows Why
}

// Waits are the kinds of waiting claims.
var Waits = map[reconcile.RetryKind]Wait{
	reconcile.Continuation: {
		"its last run has ended, and the issue is still active",
		"continues: the issue is still active",
		false,
	},
	reconcile.Backoff: {"its last run failed", "", true},
	reconcile.Interrupted: {
		"its last run was ended from outside",
		"its last run was ended from outside",
		true,
	},
	reconcile.Blocked: {
		"its last run met a fault of the machine, the tracker or the account",
		"",
		true,
	},
	reconcile.NoSlot: {"no slot was free at the last pass", "no slot is free", false},
	reconcile.Requested: {
		"an operator asked for another run",
		"an operator asked for another run",
		false,
	},
	reconcile.Delivering: {
		"the commits of its last run have not been delivered yet",
		"its commits are delivered next",
		false,
	},
	reconcile.DeliveryFailed: {"its work could not be delivered", "", true},
}

// Once is the condition on which a pass starts an issue, by the reason for which it waits: "a
// pass starts it …".
var Once = map[string]string{
	reconcile.SkipBlockedBy:  "once those issues are done",
	reconcile.SkipElsewhere:  "once that one has released it",
	reconcile.SkipLabel:      "once it has the label",
	reconcile.SkipAssignee:   "once it is assigned so",
	reconcile.SkipPaused:     "after symphony resume",
	reconcile.SkipUnverified: "once that host has confirmed the end of the run",
	reconcile.SkipDiskLow:    "once there is space; symphony prune empties the trash",
}

// DiskLowHint is the next step while too little space is free for workspaces, with commands and
// keys between backquotes.
const DiskLowHint = "free space there, for instance with `symphony prune`, which empties the trash; or lower " +
	"`workspace.min_free_bytes`"

// Phase describes the activity of a run before its agent says or does anything.
func Phase(p reconcile.Phase) string {
	if p == reconcile.StreamingTurn {
		return "works; its agent has said nothing yet"
	}
	return strings.ReplaceAll(string(p), "_", " ")
}

// Endings describe how a run ended, after its subject.
var Endings = map[reconcile.Outcome]string{
	reconcile.Succeeded:      "succeeded",
	reconcile.EndedRun:       "ended",
	reconcile.Failed:         "failed",
	reconcile.TimedOut:       "took too long",
	reconcile.Canceled:       "was stopped",
	reconcile.Stalled:        "was stopped, because its agent was silent for too long",
	reconcile.InterruptedRun: "was interrupted",
	reconcile.Lost:           "was lost",
}

// Git describes how the branch of a workspace compares with its base and with the remote
// branch, and the uncommitted changes.
func Git(g *host.GitStatus) (list []string) {
	if g.Base != nil && g.Ahead != nil {
		list = append(list, text.Plural(*g.Ahead, "commit")+" ahead of "+*g.Base)
	}
	switch {
	case g.Unpushed == nil, g.Base != nil && g.Remote != nil && *g.Base == *g.Remote:
		// the number of commits ahead is the same
	case *g.Unpushed == 0:
		list = append(list, "pushed")
	default:
		list = append(list, fmt.Sprintf("%d not pushed", *g.Unpushed))
	}
	if g.Count == 0 {
		return append(list, "nothing uncommitted")
	}
	return append(list, text.Plural(g.Count, "file")+" changed")
}
